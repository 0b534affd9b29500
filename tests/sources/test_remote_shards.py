"""MDS shards and LitData chunks in stores: few requests, and errors that name the file."""

from __future__ import annotations

import json
import pickle
import shutil

import numpy as np
import pytest
from support import write_litdata, write_mds
from support.memory_store import uploaded
from support.remote_store import BUCKET, moto_server, options, proxy_to, put
from support.source_conformance import SourceConformance, assert_same

from headrace import LitDataSource, MdsSource
from headrace.errors import SourceError, SourceNotFoundError

KINDS = {"mds": (MdsSource, write_mds, "none"), "litdata": (LitDataSource, write_litdata, "mixed")}


class InMemory(SourceConformance):
    """Shards in a store, without the last one where fewer records are wanted."""

    count = write_mds.COUNT
    kind, name, listed = MdsSource, "none", "shards"

    @property
    def stored(self):
        return write_mds.FOLDER / self.name

    def write(self, folder, count):
        shutil.copytree(self.stored, folder, dirs_exist_ok=True)
        index = json.loads((folder / "index.json").read_text())
        index[self.listed] = index[self.listed][: None if count == self.count else -1]
        (folder / "index.json").write_text(json.dumps(index))

    def open(self, folder, count):
        return self.kind(
            uploaded(folder), storage_options={"cache_dir": str(folder.parent / "cache")}
        )

    def expected_record(self, key):
        return write_mds.row(key)


class TestMdsInAStore(InMemory):
    on_files = True


class TestCompressedMdsInAStore(InMemory):
    name = "gz"


class TestLitDataInAStore(InMemory):
    kind, name, listed = LitDataSource, "mixed", "chunks"
    on_files = True
    count = write_litdata.COUNT

    @property
    def stored(self):
        return write_litdata.FOLDER / self.name

    def expected_record(self, key):
        return write_litdata.SAMPLES[self.name](int(key))


class TestLitDataFramesInAStore(TestLitDataInAStore):
    name = "mixed_batch"


class TestLitDataTablesInAStore(TestLitDataInAStore):
    name = "plain"


@pytest.fixture(scope="module")
def upstream(tmp_path_factory):
    """A store; what its library opens once in a process is open."""
    with moto_server() as address:
        put(address, "", b"")
        _put_all(address, write_mds.FOLDER / "none", "opened")
        with proxy_to(address) as proxy:
            MdsSource(f"s3://{BUCKET}/opened", storage_options=options(proxy, cache_bytes=0))[0]
        yield address


@pytest.fixture
def store(upstream):
    """A proxy before it, which counts requests."""
    with proxy_to(upstream) as proxy:
        yield proxy


@pytest.fixture
def to_store(store, tmp_path):
    """Options that lead there, with a cache of their own."""
    return options(store, cache_dir=str(tmp_path / "cache"), cache_bytes=2**26, timeout=5, tries=2)


def _put_all(address, folder, name):
    for path in folder.iterdir():
        put(address, f"{name}/{path.name}", path.read_bytes())


def _content(key):
    return bytes([key % 251]) * 1000


def _put_large(address, name, shards=2, samples=600):
    """Put shards of samples of 1,000 bytes."""
    told = {
        "column_names": ["x"],
        "column_encodings": ["bytes"],
        "column_sizes": [None],
        "format": "mds",
        "version": 2,
    }
    listed = []
    for number in range(shards):
        contents = [_content(number * samples + key) for key in range(samples)]
        begins = 4 * (samples + 2) + 1004 * np.arange(samples + 1)
        head = np.concatenate([[samples], begins]).astype("<u4").tobytes()
        data = head + b"".join(len(each).to_bytes(4, "little") + each for each in contents)
        put(address, f"{name}/{number}.mds", data)
        file = {"basename": f"{number}.mds", "bytes": len(data)}
        listed.append({**told, "samples": samples, "raw_data": file, "zip_data": None})
    put(address, f"{name}/index.json", json.dumps({"shards": listed, "version": 2}).encode())


@pytest.mark.parametrize("cache_bytes", [0, 2**26])
def test_neighbouring_samples_are_one_request(upstream, store, to_store, cache_bytes):
    """With and without a cache. The offsets of a shard are one more request, once."""
    _put_large(upstream, "large")
    source = MdsSource(
        f"s3://{BUCKET}/large", storage_options={**to_store, "cache_bytes": cache_bytes}
    )
    assert len(store.asked) == 4  # two for the index, and one for each shard
    keys = np.arange(500, 800)
    assert [record["x"] for record in source.__getitems__(keys)] == [_content(key) for key in keys]
    before = store.reads
    assert before <= 1 + 2 * 2
    assert [record["x"] for record in source.__getitems__(np.arange(400))] == [
        _content(key) for key in range(400)
    ]
    assert store.reads - before <= 1
    assert len(source._stored._blocks) == 2
    source.close()
    assert not source._stored._blocks


def test_only_the_samples_that_are_read_are_fetched(upstream, store, to_store):
    """Of a shard of 600 KB, without a cache, the offsets and one sample."""
    _put_large(upstream, "large", shards=1)
    source = MdsSource(f"s3://{BUCKET}/large", storage_options={**to_store, "cache_bytes": 0})
    before = store.bytes_asked
    assert source[300]["x"] == _content(300)
    assert store.bytes_asked - before == 4 * 602 + 1004


@pytest.mark.parametrize(
    ("name", "options_of", "requests"),
    [
        ("mixed", {}, 1),
        ("tokens", {}, 1),
        ("tokens", {"block_size": 4}, 1),
        ("mixed_batch", {}, 0),
        ("plain", {}, 0),
    ],
)
def test_the_layout_of_a_chunk_is_looked_up_once(
    upstream, store, to_store, name, options_of, requests
):
    """Without a cache on disk, a later batch is one request; none, if its samples were decompressed
    or decoded before.
    """
    _put_all(upstream, write_litdata.FOLDER / name, name)
    url = f"s3://{BUCKET}/{name}"
    source = LitDataSource(url, storage_options={**to_store, "cache_bytes": 0}, **options_of)
    records = source.__getitems__(range(4))
    before = store.reads
    assert_same(source.__getitems__(range(4)), records)
    assert store.reads - before == requests


def test_offsets_that_exceed_the_cache_in_memory_are_dropped(upstream, store, to_store):
    """Those of the shard that was read last are kept."""
    _put_large(upstream, "large")
    source = MdsSource(f"s3://{BUCKET}/large", cache_bytes=1, storage_options=to_store)
    assert [record["x"] for record in source.__getitems__([3, 900, 4])] == [
        _content(key) for key in (3, 900, 4)
    ]
    assert len(source._stored._blocks) == 1


def test_a_shard_is_also_found_as_the_file_that_is_not_compressed(upstream, store, to_store):
    """As on this machine, if the compressed file is missing."""
    folder = write_mds.FOLDER / "gz"
    put(upstream, "unpacked/index.json", (folder / "index.json").read_bytes())
    for number in range(2):
        name = f"shard.0000{number}.mds"
        put(upstream, f"unpacked/{name}", (write_mds.FOLDER / "none" / name).read_bytes())
    source = MdsSource(f"s3://{BUCKET}/unpacked", storage_options=to_store)
    assert_same(source[20], write_mds.row(20))
    assert source.fingerprint == MdsSource(write_mds.FOLDER / "none").fingerprint


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_missing_is_named(upstream, store, to_store, kind):
    """The index, or a shard, by its URL, and when the source is made."""
    make, written, name = KINDS[kind]
    url = f"s3://{BUCKET}/missing_{kind}"
    with pytest.raises(
        SourceNotFoundError, match=rf"{url}/index\.json does not exist\. Pass a folder"
    ):
        make(url, storage_options=to_store)
    for path in list((written.FOLDER / name).iterdir())[:-1]:
        put(upstream, f"missing_{kind}/{path.name}", path.read_bytes())
    missing = list((written.FOLDER / name).iterdir())[-1].name
    with pytest.raises(
        SourceNotFoundError,
        match=rf"{url}/{missing} does not exist\. Pass a folder with an index\.json",
    ):
        make(url, storage_options=to_store)


@pytest.mark.parametrize("kind", KINDS)
def test_a_broken_index_or_shard_in_a_store_is_named(upstream, store, to_store, kind):
    """As one on this machine: by what is wrong with it."""
    make, written, name = KINDS[kind]
    url = f"s3://{BUCKET}/broken_{kind}"
    put(upstream, f"broken_{kind}/index.json", b"{")
    with pytest.raises(SourceError, match=rf"{url}/index\.json is not the index of"):
        make(url, storage_options=to_store)
    _put_all(upstream, written.FOLDER / name, f"broken_{kind}")
    path = min(path for path in (written.FOLDER / name).iterdir() if path.name != "index.json")
    data = path.read_bytes()
    put(upstream, f"broken_{kind}/{path.name}", b"\xff" + data[1:])
    with pytest.raises(
        SourceError,
        match=rf"{path.name} cannot be read: the shard has [0-9,]+ samples, but the index",
    ):
        make(url, storage_options=to_store)[0]
    put(upstream, f"broken_{kind}/{path.name}", data[:8] + b"\xff" * 4 + data[12:])
    with pytest.raises(
        SourceError,
        match=rf"{path.name} cannot be read at record key 0: sample 0 lies at [0-9]+ to",
    ):
        make(url, storage_options=to_store).__getitems__([0, 1])
    put(upstream, f"broken_{kind}/{path.name}", data[:-1])
    with pytest.raises(SourceError, match=rf"{path.name} has [0-9,]+ bytes, but index\.json says"):
        make(url, storage_options=to_store)


def test_a_shard_that_is_replaced_is_an_error(upstream, store, to_store):
    """Its version is that from when the source was made, also in a worker."""
    _put_all(upstream, write_mds.FOLDER / "none", "replaced")
    source = pickle.loads(
        pickle.dumps(MdsSource(f"s3://{BUCKET}/replaced", storage_options=to_store))
    )
    path = write_mds.FOLDER / "none" / "shard.00000.mds"
    put(upstream, "replaced/shard.00000.mds", path.read_bytes()[:-1] + b"x")
    with pytest.raises(
        SourceError, match=r"replaced/shard\.00000\.mds: the file changed after the source was made"
    ):
        source[1]


def test_an_index_that_leads_out_of_its_folder_is_refused(tmp_path):
    """A file of another folder in the store is not read."""
    shutil.copytree(write_mds.FOLDER / "none", tmp_path / "mds")
    index = tmp_path / "mds" / "index.json"
    index.write_text(index.read_text().replace("shard.00001", "../shard.00001"))
    with pytest.raises(
        SourceError, match=r"it names the file '\.\./shard\.00001\.mds', which is not in its folder"
    ):
        MdsSource(uploaded(tmp_path / "mds"), storage_options={"cache_dir": str(tmp_path)})
