"""Sources on files in a store: the stream is that of local files, whatever happens on the way, and
a window is few requests.
"""

from __future__ import annotations

import gzip
import json
import os
import pickle
import shutil
import struct
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from array_record.python import array_record_module
from support import indexed_files as files
from support import write_litdata, write_mds
from support.remote_store import BUCKET, Faults, moto_server, options, proxy_to, put
from support.source_conformance import assert_same

from headrace import (
    ArrayRecordDataSource,
    Batch,
    BlockShuffle,
    DataLoader,
    IndexSampler,
    LitDataSource,
    MdsSource,
    MegatronSource,
    MixedSource,
    ParquetDataSource,
    ShardOptions,
    TokenSource,
    TokenWriter,
)
from headrace.errors import HeadraceError, SourceError
from headrace.files.remote.store import close_stores
from headrace.files.streams import open_stream
from headrace.sources import (
    JsonLinesDataSource,
    TarDataSource,
    TextLinesSource,
    TFRecordDataSource,
    fingerprint_of,
)
from headrace.sources.facts import facts_of

COUNT = 120


def array_records(path, records):
    """Writes one file."""
    writer = array_record_module.ArrayRecordWriter(str(path), "group_size:1")
    for record in records:
        writer.write(record)
    writer.close()


def parquet(folder):
    """Two files of two row groups, with a column that is not read."""
    for number, keys in enumerate(np.array_split(np.arange(COUNT), 2)):
        table = pa.table({"key": keys, "other": keys * 2, "text": [f"text {key}" for key in keys]})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=30)


def parquet_folders(folder):
    """Files in folders that name a field; the types of a column differ."""
    for number, keys in enumerate(np.array_split(np.arange(COUNT), 3)):
        (folder / f"part={number}" / "deep").mkdir(parents=True)
        columns = {"other": keys, "key": keys.astype((np.int8, np.int16, np.int64)[number])}
        pq.write_table(
            pa.table(columns), folder / f"part={number}" / "deep" / "x.parquet", row_group_size=15
        )


def tokens(folder):
    """Documents of unequal length, in two files."""
    for name, keys in zip("xy", np.array_split(np.arange(COUNT), 2)):
        with TokenWriter(folder / f"{name}.npy", np.uint16) as writer:
            writer.extend(np.arange(key % 9) for key in keys)


def text_lines(folder):
    """Lines of which some are blank."""
    (folder / "x.txt").write_text("".join(f"{'é' * (key % 3)}\n" for key in range(COUNT)))


def megatron(folder):
    """Documents of one sequence each."""
    counts = np.arange(COUNT, dtype="<i4") % 9
    places = (2 * (np.cumsum(counts) - counts)).astype("<i8")
    head = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, COUNT, COUNT + 1)
    (folder / "x.idx").write_bytes(
        head + counts.tobytes() + places.tobytes() + np.arange(COUNT + 1, dtype="<i8").tobytes()
    )
    np.arange(counts.sum(), dtype="<u2").tofile(folder / "x.bin")


def copied(stored, folder):
    """Shards that another library has written."""
    shutil.copytree(stored, folder, dirs_exist_ok=True)


KINDS = {
    "array_record": (
        lambda folder: [
            array_records(
                folder / f"{name}.array_record", map(files.content, range(first, first + 60))
            )
            for name, first in (("a", 0), ("b", 60))
        ],
        ArrayRecordDataSource,
    ),
    "parquet": (
        parquet,
        lambda path, **more: ParquetDataSource(path, columns=["key", "text"], **more),
    ),
    "parquet_folders": (
        parquet_folders,
        lambda path, **more: ParquetDataSource(
            path, schema=pa.schema({"key": pa.int64(), "part": pa.int8()}), **more
        ),
    ),
    "tokens": (tokens, TokenSource),
    "fixed_tokens": (
        tokens,
        lambda path, **more: TokenSource(f"{path}/x*", document_length=4, **more),
    ),
    "marked_tokens": (
        tokens,
        lambda path, **more: TokenSource(f"{path}/x.npy", end_of_text=3, **more),
    ),
    "megatron": (megatron, MegatronSource),
    "tfrecord": (
        lambda folder: files.in_three(folder, ".tfrecord", COUNT, files.tfrecords),
        TFRecordDataSource,
    ),
    "tar": (lambda folder: files.in_three(folder, ".tar", COUNT, files.tar), TarDataSource),
    "json_lines": (
        lambda folder: files.in_three(folder, ".jsonl", COUNT, files.json_lines),
        JsonLinesDataSource,
    ),
    "text_lines": (text_lines, TextLinesSource),
    "mds": (lambda folder: copied(write_mds.FOLDER / "none", folder), MdsSource),
    "mds_zstd": (lambda folder: copied(write_mds.FOLDER / "zstd", folder), MdsSource),
    "litdata": (lambda folder: copied(write_litdata.FOLDER / "mixed", folder), LitDataSource),
    "litdata_chunk": (
        lambda folder: copied(write_litdata.FOLDER / "mixed_chunk", folder),
        LitDataSource,
    ),
    "litdata_batch": (
        lambda folder: copied(write_litdata.FOLDER / "mixed_batch", folder),
        LitDataSource,
    ),
    "litdata_sample": (
        lambda folder: copied(write_litdata.FOLDER / "mixed_sample", folder),
        LitDataSource,
    ),
    "litdata_table": (lambda folder: copied(write_litdata.FOLDER / "plain", folder), LitDataSource),
    "litdata_tokens": (
        lambda folder: copied(write_litdata.FOLDER / "tokens", folder),
        lambda path, **more: LitDataSource(path, block_size=4, **more),
    ),
}


@pytest.fixture(scope="module")
def upstream(tmp_path_factory):
    """A store that has files of each kind in a folder of its name; and the folders, here."""
    root = tmp_path_factory.mktemp("stored")
    with moto_server() as address:
        put(address, "", b"")
        for name, (write, _) in KINDS.items():
            (root / name).mkdir()
            write(root / name)
            for path in filter(Path.is_file, (root / name).rglob("*")):
                put(address, str(path.relative_to(root)), path.read_bytes())
        with proxy_to(address) as proxy:  # what the library opens once in a process is open now
            TokenSource(
                f"s3://{BUCKET}/tokens/x.npy",
                storage_options=options(proxy, cache_dir=str(root / "cache")),
            )
        yield address, root


@pytest.fixture
def store(upstream, monkeypatch, tmp_path):
    """A proxy before it; indices are kept in a folder of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    with proxy_to(upstream[0]) as proxy:
        yield proxy


@pytest.fixture
def to_store(store, tmp_path):
    """Options that lead there, with a cache of their own."""
    return options(
        store, cache_dir=str(tmp_path / "cache"), cache_bytes=2**26, timeout=0.5, tries=5
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "faults",
    [
        Faults(error=20, truncate=7),
        pytest.param(Faults(delay=0.05, error=20), marks=pytest.mark.long),
        pytest.param(Faults(stall=9), marks=pytest.mark.long),
        pytest.param(Faults(truncate=3), marks=pytest.mark.long),
    ],
    ids=["some", "delay", "stalls", "truncated"],
)
@pytest.mark.one_in(3)
def test_records_are_those_of_local_files_under_faults(upstream, store, to_store, kind, faults):
    """In any order, in a copy too that came by pickle; and so is the fingerprint."""
    store.faults = faults
    make = KINDS[kind][1]
    remote, local = (
        make(f"s3://{BUCKET}/{kind}", storage_options=to_store),
        make(str(upstream[1] / kind)),
    )
    assert fingerprint_of(remote) == fingerprint_of(local)
    keys = np.random.default_rng(0).permutation(len(local))
    expected = local.__getitems__(keys)
    assert_same(list(remote.__getitems__(keys)), list(expected))
    assert_same(pickle.loads(pickle.dumps(remote))[3], local[3])
    for source in (remote, local):
        if hasattr(source, "close"):
            source.close()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_announced_is_not_asked_for_again(upstream, store, to_store, kind):
    """When it has been brought, a source reads without asking the store; a mix tells its parts."""
    source = MixedSource([KINDS[kind][1](f"s3://{BUCKET}/{kind}", storage_options=to_store)])
    keys = np.random.default_rng(0).permutation(len(source))
    facts_of(source).announce(keys)
    while any(one.name == "headrace-prefetch" for one in threading.enumerate()):
        time.sleep(0.01)
    asked = len(store.asked)
    assert_same(
        list(source.__getitems__(keys)),
        list(KINDS[kind][1](str(upstream[1] / kind)).__getitems__(keys)),
    )
    assert len(store.asked) == asked


def test_a_file_in_a_store_that_is_no_such_file_is_an_error(upstream, store, to_store):
    """As of a local one: it names the URL."""
    put(upstream[0], "bad/x.bin", b"not a file of records" * 10000)
    put(upstream[0], "bad/empty.bin", b"")
    for name in ("x", "empty"):
        url = f"s3://{BUCKET}/bad/{name}.bin"
        for make in (ArrayRecordDataSource, ParquetDataSource, TokenSource, TFRecordDataSource):
            with pytest.raises(HeadraceError, match=f"bad/{name}.bin"):
                make(url, storage_options=to_store)


def test_a_window_of_blocks_is_few_requests(upstream, store, to_store, tmp_path):
    """At most 3 % of what a full shuffle takes, which asks for each record; the cache holds less
    than half of the file.
    """
    count, size = 6_000, 900
    random = np.random.default_rng(0)
    put(
        upstream[0],
        "large.tfrecord",
        b"".join(map(files.framed, (random.bytes(size) for _ in range(count)))),
    )
    url = f"s3://{BUCKET}/large.tfrecord"
    source = TFRecordDataSource(url, storage_options={**to_store, "cache_bytes": 0})
    before = store.reads
    source.__getitems__(IndexSampler(count, shuffle=True, seed=1).record_keys(np.arange(100)))
    each = (store.reads - before) / 100
    source = TFRecordDataSource(url, storage_options={**to_store, "cache_bytes": 5 << 19})
    sampler = IndexSampler(count, shuffle=BlockShuffle(256, 4), seed=1, num_epochs=1)
    before = store.reads
    with iter(
        DataLoader(data_source=source, sampler=sampler, operations=[Batch(100, batch_fn=len)])
    ) as batches:
        assert sum(batches) == count
    assert (store.reads - before) / count <= 0.03 * each


def test_options_come_from_the_environment_too(upstream, store, to_store, monkeypatch, tmp_path):
    """Those of the store by its own names, and ours."""
    known = {
        "AWS_ENDPOINT_URL": store.url,
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_REGION": "us-east-1",
    }
    for name, value in {
        **known,
        "HEADRACE_CACHE_DIR": str(tmp_path / "own"),
        "HEADRACE_CACHE_BYTES": "2000000",
    }.items():
        monkeypatch.setenv(name, value)
    source = JsonLinesDataSource(f"s3://{BUCKET}/json_lines")
    assert source[5] == json.loads(json.dumps({"key": 5, "text": "é" * 5}))
    source.close()
    assert 0 < sum(path.stat().st_size for path in Path(tmp_path, "own").glob("*/*")) <= 2_000_000
    assert not os.path.exists(to_store["cache_dir"])


@contextmanager
def signed_files(folder):
    """The URL of a server that gives a folder's files to who asks with GET and a signature, as S3
    does; and what was asked.
    """
    asked = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            path, _, query = self.path.partition("?")
            first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
            asked.append((first, last))
            data = (folder / unquote(path[1:])).read_bytes()
            signed = query.startswith("X-Amz-Signature=good")
            body = data[first : last + 1] if signed else b""
            self.send_response(206 if signed else 403)
            self.send_header("Content-Range", f"bytes {first}-{first + len(body) - 1}/{len(data)}")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", f'"{len(data)}"')
            self.send_header("Last-Modified", "Sun, 22 Nov 2026 12:00:00 GMT")
            self.end_headers()
            self.wfile.write(body)

        def do_HEAD(self):
            self.send_response(403)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            close_stores()
            server.shutdown()
            thread.join()


def test_signed_urls_are_files_by_what_stands_before_the_signature(upstream, tmp_path):
    """Their suffix, fingerprint, index and cache know nothing of it: one signed anew is the same
    file. Nor do errors.
    """
    (tmp_path / "a b.jsonl").write_bytes(b'{"x": 1}\n{"x": 2}\n')
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(b"one\n"))
    kept = {
        "index_dir": tmp_path / "indices",
        "storage_options": {"cache_dir": str(tmp_path / "cache"), "tries": 1},
    }
    with signed_files(tmp_path) as (url, asked):
        # the first byte of the file, twice; and its content, once
        for signature, requests in (("good1", 3), ("good2", 2)):
            source = JsonLinesDataSource(f"{url}/a%20b.jsonl?X-Amz-Signature={signature}", **kept)
            assert list(source) == [{"x": 1}, {"x": 2}]
            assert len(asked) == requests
            asked.clear()
        local = JsonLinesDataSource(tmp_path / "a b.jsonl", index_dir=tmp_path / "indices")
        assert fingerprint_of(source)["index"] == fingerprint_of(local)["index"]
        assert fingerprint_of(source) == fingerprint_of(local)
        with open_stream(
            f"{url}/c.jsonl.gz?X-Amz-Signature=good", "auto", kept["storage_options"]
        ) as stream:
            assert stream.read() == b"one\n"
        with pytest.raises(SourceError, match="pass a URL with a new signature") as caught:
            JsonLinesDataSource(f"{url}/a%20b.jsonl?X-Amz-Signature=bad", **kept)
        assert "=bad" not in str(caught.value)


def test_shards_that_share_blocks_of_a_store_are_warned(tmp_path):
    """Where the shard count does not divide the lanes, each block is brought several times; of
    local files no matter.
    """
    fsspec.filesystem("memory").pipe("/lanes/a.jsonl", b'{"x": 1}\n' * 100)
    (tmp_path / "a.jsonl").write_bytes(b'{"x": 1}\n' * 100)
    kept = {"index_dir": tmp_path, "storage_options": {"cache_dir": str(tmp_path / "cache")}}
    remote, local = (
        JsonLinesDataSource(path, **kept)
        for path in ("memory://lanes/a.jsonl", tmp_path / "a.jsonl")
    )

    def loader(source, lanes, shards):
        sampler = IndexSampler(
            100, ShardOptions(0, shards), shuffle=BlockShuffle(4, 2, lanes), seed=0
        )
        return DataLoader(data_source=source, sampler=sampler)

    loader(local, 4, 6), loader(remote, 4, 1), loader(remote, 4, 2)
    with pytest.warns(
        UserWarning, match=r"shard_count=6 does not divide lanes=4 .* 3 shards fetch .* lanes=12\)"
    ):
        loader(remote, 4, 6)
