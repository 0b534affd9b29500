"""Read files in a store that is 50 ms away, and compare with local files: speed, requests, and size of the cache.

    python bench/speed.py remote [--records N] [--workers N] [--delay SECONDS]

A small HTTP server with a delay, in its own process, serves TFRecord files of 1 KB records. Two
pipelines read them with `BlockShuffle(1024, 16)`, from the store and from the disk in turns. Each has an
empty cache, half as large as the data. `bytes` only batches records; `work` also decompresses each of
them, which takes some 20 µs. The number of requests of a full shuffle without a cache is printed, too.
Takes half a minute.
"""

from __future__ import annotations

import argparse
import email.utils
import multiprocessing
import os
import re
import statistics
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from headrace import Batch, BlockShuffle, DataLoader, IndexSampler, MapTransform, TFRecordDataSource
from headrace.formats.tfrecord import framed

FILES, BATCH, RECORD_BYTES = 8, 256, 1000
BLOCK, WINDOW = 1024, 16


class Unpacked(MapTransform):
    """The record's numbers, unpacked and looked at."""

    def map(self, element: bytes) -> Any:
        return np.frombuffer(zlib.decompress(element), np.uint8)[:256].astype(np.float32)


class Bytes(MapTransform):
    """The record's bytes as numbers."""

    def map(self, element: bytes) -> Any:
        return np.frombuffer(element, np.uint8, 256)


PIPELINES = {"bytes": Bytes(), "work": Unpacked()}


def write(folder: Path, records: int) -> None:
    """Records that can be unpacked, of about a KB each."""
    random = np.random.default_rng(0)
    some = [zlib.compress(random.integers(0, 16, 2 * RECORD_BYTES, np.uint8).tobytes()) for _ in range(256)]
    for number in range(FILES):
        with open(folder / f"{number}.tfrecord", "wb") as file:
            for first in range(0, records // FILES, len(some)):
                file.write(b"".join(map(framed, some[: records // FILES - first])))


def serve(folder: str, delay: float, port: Any, asked: Any) -> None:
    """Answer requests for ranges of files, each after a delay."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            path = folder + self.path
            found = os.stat(path)
            wanted = re.match(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            first, last = (int(wanted[1]), min(int(wanted[2]), found.st_size - 1)) if wanted else (0, found.st_size - 1)
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
def store(folder: Path, delay: float) -> Iterator[tuple[str, Any]]:
    """The URL of a store, and how many ranges it was asked for."""
    context = multiprocessing.get_context("spawn")
    port, asked = context.Value("i", 0), context.Value("q", 0)
    process = context.Process(target=serve, args=(str(folder), delay, port, asked), daemon=True)
    process.start()
    while not port.value:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port.value}", asked
    finally:
        process.kill()
        process.join()


def records_per_second(
    source: Any, shuffle: Any, operation: MapTransform, workers: int, on_batch: Callable[[], None]
) -> float:
    """After the first window, until the end of an epoch."""
    sampler = IndexSampler(len(source), shuffle=shuffle, seed=1, num_epochs=1)
    loader = DataLoader(data_source=source, sampler=sampler, operations=[operation, Batch(BATCH)], worker_count=workers)
    first = BLOCK * WINDOW // BATCH
    with iter(loader) as batches:
        for _ in range(first):
            next(batches)
        start, count = time.perf_counter(), 0
        for number, batch in enumerate(batches):
            count += len(batch)
            if number % 16 == 0:
                on_batch()
        return count / (time.perf_counter() - start)


def bytes_in(folder: str) -> int:
    """The size of a cache."""
    total = 0
    for path in Path(folder).glob("*/*"):
        with suppress(FileNotFoundError):  # it is in use
            total += path.stat().st_size
    return total


def urls_in(folder: Path, url: str) -> list[str]:
    """The files, in the store."""
    return [f"{url}/{path.name}" for path in sorted(folder.glob("*.tfrecord"))]


def compare(name: str, folder: Path, url: str, asked: Any, workers: int, rounds: int) -> None:
    """Speeds in turns, requests and the cache of one pipeline."""
    operation, shuffle = PIPELINES[name], BlockShuffle(BLOCK, WINDOW)
    budget = sum(path.stat().st_size for path in folder.glob("*.tfrecord")) // 2
    local, remote, requests, held = [], [], 0, [0]
    for _ in range(rounds):
        source = TFRecordDataSource(folder, index_dir=folder / "indices")
        local.append(records_per_second(source, shuffle, operation, workers, lambda: None))
        with tempfile.TemporaryDirectory() as cache:
            options = {"cache_dir": cache, "cache_bytes": budget}
            source = TFRecordDataSource(urls_in(folder, url), index_dir=folder / "indices", storage_options=options)
            before = asked.value
            remote.append(records_per_second(source, shuffle, operation, workers, lambda: held.append(bytes_in(cache))))
            requests = asked.value - before
    ratio = statistics.median(b / a for a, b in zip(local, remote))
    print(
        f"{name}: local {statistics.median(local):,.0f} records/s, remote {statistics.median(remote):,.0f}, {ratio:.2f} ×"
    )
    print(f"  {requests} requests for {len(source):,} records: {requests / len(source):.2%} of one for each record")
    print(f"  cache: at most {max(held) / budget:.1%} of its budget, at the end {held[-1] / budget:.1%}")


def full_shuffle(folder: Path, url: str, asked: Any) -> None:
    """Print the number of requests that a full shuffle takes for some batches."""
    source = TFRecordDataSource(urls_in(folder, url), index_dir=folder / "indices", storage_options={"cache_bytes": 0})
    sampler = IndexSampler(len(source), shuffle=True, seed=1)
    before, batches = asked.value, 4
    for positions in np.split(np.arange(batches * BATCH), batches):
        source.__getitems__(sampler.record_keys(positions))
    count = asked.value - before
    print(f"full shuffle: {count} requests for {batches * BATCH} records: {count / batches / BATCH:.2%}")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--records", type=int, default=1 << 17)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--delay", type=float, default=0.05)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pipelines", nargs="+", default=list(PIPELINES), choices=PIPELINES)


def main(options: argparse.Namespace) -> None:
    """Print what the command line asks for."""
    with tempfile.TemporaryDirectory() as folder, store(Path(folder), options.delay) as (url, asked):
        write(Path(folder), options.records)
        for name in options.pipelines:
            compare(name, Path(folder), url, asked, options.workers, options.rounds)
        full_shuffle(Path(folder), url, asked)
