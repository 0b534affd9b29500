"""Read files in a store that is 50 ms away, and compare with local files: speed, requests, and size
of the cache.

    python bench/speed.py remote [--rounds 3] [--records N] [--workers N] [--delay S] [TABLE …]

A small HTTP server with a delay, in its own process, serves TFRecord files of 1 KB records. Two
pipelines read them with `BlockShuffle(1024, 16)`, from the store and from the disk in turns. Each
has an empty cache, half as large as the data. `bytes` only batches records; `work` also
decompresses each of them, which takes some 20 µs. The number of requests of a full shuffle without
a cache is printed, too. Takes half a minute.
"""

from __future__ import annotations

import email.utils
import multiprocessing
import os
import re
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from loaders.files import write_tfrecord
from measurement import Table

from headrace import Batch, BlockShuffle, DataLoader, IndexSampler, TFRecordDataSource

OPTIONS = {"rounds": 3, "records": 1 << 17, "workers": 2, "delay": 0.05}
FILES, BATCH, RECORD_BYTES = 8, 256, 1000
BLOCK, WINDOW = 1024, 16


def unpacked(element: bytes) -> Any:
    """The record's numbers, unpacked and looked at."""
    return np.frombuffer(zlib.decompress(element), np.uint8)[:256].astype(np.float32)


def serve(folder: str, delay: float, port: Any, asked: Any) -> None:
    """Answer requests for ranges of files, each after a delay."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            path = folder + self.path
            found = os.stat(path)
            wanted = re.match(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            first, last = map(int, wanted.groups()) if wanted else (0, found.st_size)
            last = min(last, found.st_size - 1)
            time.sleep(delay)
            self.send_response(206 if wanted else 200)
            if wanted:
                self.send_header("Content-Range", f"bytes {first}-{last}/{found.st_size}")
                with asked.get_lock():
                    asked.value += 1
            self.send_header("Content-Length", str(last + 1 - first))
            self.send_header("ETag", f'"{found.st_mtime_ns}"')
            self.send_header("Last-Modified", email.utils.formatdate(found.st_mtime, usegmt=True))
            self.end_headers()
            if self.command == "GET":
                with open(path, "rb") as file:
                    os.sendfile(self.connection.fileno(), file.fileno(), first, last + 1 - first)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    port.value = server.server_address[1]
    server.serve_forever()


@contextmanager
def store(options: Any) -> Iterator[tuple[Path, list[str], Any]]:
    """A folder of files of records, their URLs in a store, and how many ranges it was asked for."""
    some = np.random.default_rng(0).integers(0, 16, (256, 2 * RECORD_BYTES), np.uint8)
    rows = cycle([zlib.compress(row.tobytes()) for row in some])
    context = multiprocessing.get_context("spawn")
    port, asked = context.Value("i", 0), context.Value("q", 0)
    with tempfile.TemporaryDirectory() as folder:
        names = [f"{number}.tfrecord" for number in range(FILES)]
        for name in names:
            write_tfrecord(islice(rows, options.records // FILES), Path(folder, name))
        told = (folder, options.delay, port, asked)
        process = context.Process(target=serve, args=told, daemon=True)
        process.start()
        while not port.value:
            time.sleep(0.01)
        try:
            yield Path(folder), [f"http://127.0.0.1:{port.value}/{name}" for name in names], asked
        finally:
            process.kill()
            process.join()


def rate_of(source: Any, operation: Any, workers: int, on_batch: Callable[[], Any]) -> float:
    """Records per second after the first window, until the end of an epoch."""
    sampler = IndexSampler(len(source), shuffle=BlockShuffle(BLOCK, WINDOW), seed=1, num_epochs=1)
    work = {"operations": [operation, Batch(BATCH)], "worker_count": workers}
    with iter(DataLoader(data_source=source, sampler=sampler, **work)) as batches:
        for _ in range(BLOCK * WINDOW // BATCH):
            next(batches)
        start, count = time.perf_counter(), 0
        for number, batch in enumerate(batches):
            count += len(batch)
            if number % 16 == 0:
                on_batch()
        return count / (time.perf_counter() - start)


def _note(cache: str, sizes: list[int]) -> None:
    """Note the size of a cache."""
    sizes.append(0)
    for path in Path(cache).glob("*/*"):
        with suppress(FileNotFoundError):  # it is in use
            sizes[-1] += path.stat().st_size


def opened(folder: Path, urls: list[str], **settings: Any) -> TFRecordDataSource:
    """The files in the store."""
    return TFRecordDataSource(urls, index_dir=folder / "indices", storage_options=settings)


def pipeline(name: str, operation: Any, options: Any) -> Iterator[Table]:
    """Speeds in turns; then requests, and the cache."""
    requests: list[float] = []
    held: list[list[float]] = []
    with store(options) as (folder, urls, asked):
        budget = sum(path.stat().st_size for path in folder.glob("*.tfrecord")) // 2

        def local() -> float:
            source = TFRecordDataSource(folder, index_dir=folder / "indices")
            return rate_of(source, operation, options.workers, lambda: None)

        def remote() -> float:
            with tempfile.TemporaryDirectory() as cache:
                source = opened(folder, urls, cache_dir=cache, cache_bytes=budget)
                before, sizes = asked.value, []
                note = partial(_note, cache, sizes)
                rate = rate_of(source, operation, options.workers, note)
            requests.append(100 * (asked.value - before) / len(source))
            held.append([100 * size / budget for size in sizes])
            return rate

        yield Table(f"{name} (records/s)", {"local": local, "remote": remote}, "more")
    told = {
        "requests, of one for each record": requests,
        "cache, at most": [max(sizes) for sizes in held],
        "cache, at the end": [sizes[-1] for sizes in held],
    }
    yield Table(f"{name}: requests, and the cache relative to its budget (%)", told)


def full_shuffle(options: Any) -> Iterator[Table]:
    """The requests that a full shuffle without a cache takes for some batches."""
    with store(options) as (folder, urls, asked):
        source = opened(folder, urls, cache_bytes=0)
        sampler, before, batches = IndexSampler(len(source), shuffle=True, seed=1), asked.value, 4
        for positions in np.split(np.arange(batches * BATCH), batches):
            source.__getitems__(sampler.record_keys(positions))
        share = 100 * (asked.value - before) / batches / BATCH
    yield Table("requests, of one for each record (%)", {"full shuffle without a cache": share})


TABLES = {
    "bytes": partial(pipeline, "bytes", partial(np.frombuffer, dtype=np.uint8, count=256)),
    "work": partial(pipeline, "work", unpacked),
    "full_shuffle": full_shuffle,
}
