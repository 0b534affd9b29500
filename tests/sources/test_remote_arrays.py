"""HDF5 and `.npz` files in stores: the rows of local files, by few requests, and errors that name
the file.
"""

from __future__ import annotations

import pickle

import h5py
import numpy as np
import pytest
from support.memory_store import uploaded
from support.plain_http import plain_server
from support.remote_store import BUCKET, Faults, moto_server, options, proxy_to, put
from support.source_conformance import SourceConformance, assert_same

from headrace import HDF5Source, NpzSource
from headrace.errors import SourceError, SourceNotFoundError

COUNT = 97


def _columns(count=COUNT):
    numbers = np.arange(count)
    return {
        "image": (numbers[:, None, None] * np.ones((1, 3, 2))).astype(np.uint8),
        "label": numbers,
        "weight": (numbers / 2).astype(np.float32),
    }


def _hdf5(path, columns, **chunks):
    with h5py.File(path, "w") as file:
        for name, column in columns.items():
            file.create_dataset(
                name,
                data=column,
                **({"chunks": (10, *column.shape[1:])} | chunks if chunks else {}),
            )


KINDS = {
    "chunks.h5": (HDF5Source, lambda path, columns: _hdf5(path, columns, compression="gzip")),
    "rows.h5": (
        HDF5Source,
        lambda path, columns: _hdf5(path, {"image": columns["image"]}, chunks=(1, 2, 2)),
    ),
    "piece.h5": (HDF5Source, _hdf5),
    "stored.npz": (NpzSource, lambda path, columns: np.savez(path, **columns)),
    "packed.npz": (NpzSource, lambda path, columns: np.savez_compressed(path, **columns)),
    "fortran.npz": (
        NpzSource,
        lambda path, columns: np.savez(path, **{n: c.copy("F") for n, c in columns.items()}),
    ),
    "texts.npz": (
        NpzSource,
        lambda path, columns: np.savez(path, text=[f"é {key}" for key in columns["label"]]),
    ),
}


class InMemory(SourceConformance):
    on_files = True
    name = "chunks.h5"

    def write(self, folder, count):
        KINDS[self.name][1](folder / self.name, _columns(count))

    def open(self, folder, count):
        cache = {"cache_dir": str(folder.parent / "cache")}
        return KINDS[self.name][0](
            uploaded(folder / self.name), ["image", "label", "weight"], storage_options=cache
        )

    def expected_record(self, key):
        return {name: column[key] for name, column in _columns().items()}


class TestHDF5InAStore(InMemory):
    pass


class TestHDF5InOnePieceInAStore(InMemory):
    name = "piece.h5"


class TestNpzInAStore(InMemory):
    name = "stored.npz"


class TestCompressedNpzInAStore(InMemory):
    name = "packed.npz"


@pytest.fixture(scope="module")
def upstream(tmp_path_factory):
    """A store that has a file of each kind; and their folder, here."""
    folder = tmp_path_factory.mktemp("stored")
    with moto_server() as address:
        put(address, "", b"")
        for name, (_, write) in KINDS.items():
            write(folder / name, _columns())
            put(address, name, (folder / name).read_bytes())
        with proxy_to(address) as proxy:  # what the library opens once in a process is open now
            NpzSource(f"s3://{BUCKET}/stored.npz", storage_options=options(proxy, cache_bytes=0))[0]
        yield address, folder


@pytest.fixture
def store(upstream):
    """A proxy before it, which counts requests."""
    with proxy_to(upstream[0]) as proxy:
        yield proxy


@pytest.fixture
def to_store(store, tmp_path):
    """Options that lead there, with a cache of their own."""
    return options(store, cache_dir=str(tmp_path / "cache"), cache_bytes=2**26, timeout=5, tries=4)


@pytest.mark.parametrize("cache_bytes", [0, 2**26])
@pytest.mark.parametrize("name", KINDS)
def test_rows_are_those_of_local_files_under_faults(upstream, store, to_store, name, cache_bytes):
    """In any order, with and without a cache, in a copy that came by pickle; and so is the
    fingerprint.
    """
    store.faults = Faults(error=20, truncate=7)
    make = KINDS[name][0]
    local = make(upstream[1] / name)
    remote = make(f"s3://{BUCKET}/{name}", storage_options={**to_store, "cache_bytes": cache_bytes})
    assert remote.fingerprint == local.fingerprint
    keys = np.random.default_rng(0).integers(0, COUNT, 150)
    expected = local.__getitems__(keys)
    assert_same(remote.__getitems__(keys), expected)
    remote.close()
    assert_same(remote.__getitems__(keys[:3]), expected[:3])
    assert_same(pickle.loads(pickle.dumps(remote))[int(keys[4])], expected[4])


@pytest.mark.parametrize("name", ["large.h5", "chunks_of_one.h5", "large.npz"])
@pytest.mark.parametrize("cache_bytes", [0, 2**26])
def test_the_rows_of_a_batch_are_fetched_by_few_requests(
    upstream, store, to_store, tmp_path, name, cache_bytes
):
    """300 neighbours, and then the first row in each of 10 distant places, are at most one request
    for each place.
    """
    rows = np.random.default_rng(0).integers(0, 255, (4000, 1000), dtype=np.uint8)
    if name == "large.npz":
        np.savez(tmp_path / name, x=rows)
    else:
        _hdf5(
            tmp_path / name,
            {"x": rows},
            **({"chunks": (1, 1000)} if name == "chunks_of_one.h5" else {}),
        )
    put(upstream[0], name, (tmp_path / name).read_bytes())
    make = NpzSource if name == "large.npz" else HDF5Source
    source = make(
        f"s3://{BUCKET}/{name}", "x", storage_options={**to_store, "cache_bytes": cache_bytes}
    )
    for key in (999, 3999):  # the index of chunks is read
        source[key]
    for keys, most in ((np.arange(1000, 1300), 12), (np.arange(0, 4000, 400), 25)):
        before = store.reads
        assert np.array_equal(source.__getitems__(keys), rows[keys])
        assert store.reads - before <= most


@pytest.mark.parametrize(("most", "requests"), [(40, 1), (39, 20)])
def test_chunks_are_fetched_one_by_one_if_they_are_too_many_to_list(
    upstream, store, to_store, tmp_path, monkeypatch, most, requests
):
    """A batch has the same rows. Of 40 chunks, 20 that are neighbours are one request if their
    places are listed.
    """
    monkeypatch.setattr("headrace.sources.arrays.hdf5._MOST_CHUNKS", most)
    rows = np.arange(400_000).reshape(40, 10_000)
    _hdf5(tmp_path / "many.h5", {"x": rows}, chunks=(1, 10_000))
    put(upstream[0], "many.h5", (tmp_path / "many.h5").read_bytes())
    source = HDF5Source(
        f"s3://{BUCKET}/many.h5", "x", storage_options={**to_store, "cache_bytes": 0}
    )
    source[39]  # the index of chunks is read
    before = store.reads
    assert np.array_equal(source.__getitems__(np.arange(20)), rows[:20])
    assert store.reads - before == requests


@pytest.mark.parametrize("kind", [HDF5Source, NpzSource])
def test_a_file_that_is_missing_or_no_such_file_is_named(upstream, store, to_store, kind):
    """By its URL, without what gives access."""
    with pytest.raises(SourceNotFoundError, match=rf"there is no file 's3://{BUCKET}/none'"):
        kind(f"s3://{BUCKET}/none", storage_options=to_store)
    put(upstream[0], "text", b"no data" * 1000)
    with pytest.raises(SourceError, match=rf"s3://{BUCKET}/text cannot be"):
        kind(f"s3://{BUCKET}/text", storage_options=to_store)
    with plain_server() as server:
        with pytest.raises(SourceNotFoundError, match=r"/none'") as caught:
            kind(
                f"{server.url}/none?X-Amz-Signature=secret",
                storage_options={**to_store, "tries": 1},
            )
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["chunks.h5", "piece.h5", "stored.npz", "packed.npz"])
def test_a_file_that_is_replaced_is_an_error(upstream, store, to_store, name):
    """Its version is that from when the source was made, also in a worker."""
    data = (upstream[1] / name).read_bytes()
    put(upstream[0], f"replaced_{name}", data)
    source = KINDS[name][0](
        f"s3://{BUCKET}/replaced_{name}", storage_options={**to_store, "cache_bytes": 0}
    )
    put(upstream[0], f"replaced_{name}", data[:-1] + b"x")
    for each in (source, pickle.loads(pickle.dumps(source))):
        with pytest.raises(
            SourceError, match=rf"replaced_{name}: the file changed after the source was made"
        ):
            each.__getitems__([1, 50])


OUTSIDE = {
    "linked": lambda file: file.__setitem__("linked", h5py.ExternalLink("other.h5", "/label")),
    "soft": lambda file: file.update(
        {"there": h5py.ExternalLink("other.h5", "/"), "soft": h5py.SoftLink("/there/label")}
    ),
    "missing": lambda file: file.__setitem__("missing", h5py.ExternalLink("other.h5", "/other")),
    "group/linked": lambda file: file.__setitem__(
        "group/linked", h5py.ExternalLink("other.h5", "/label")
    ),
    "there/label": lambda file: file.__setitem__("there", h5py.ExternalLink("other.h5", "/")),
    "virtual": lambda file: _virtual(file, "virtual", "other.h5", "label"),
    "twice": lambda file: (
        file.__setitem__("there", h5py.ExternalLink("other.h5", "/")),
        _virtual(file, "twice", ".", "there/label"),
    ),
    "raw": lambda file: file.create_dataset("raw", (3,), "i8", external=[("other.h5", 0, 24)]),
}


def _virtual(file, name, source, dataset):
    layout = h5py.VirtualLayout((3,), "i8")
    layout[:] = h5py.VirtualSource(source, dataset, (3,))
    file.create_virtual_dataset(name, layout)


@pytest.mark.parametrize("name", OUTSIDE)
def test_values_in_another_file_are_refused_in_a_store(tmp_path, name):
    """HDF5 would look for them in the same file, and find others of the same name there, or in a
    file on this machine.
    """
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["label"] = [7, 8, 9]
    with h5py.File(tmp_path / "train.h5", "w") as file:
        file["label"] = [1, 2, 3]
        OUTSIDE[name](file)
    url, cache = uploaded(tmp_path / "train.h5"), {"cache_dir": str(tmp_path / "cache")}
    with pytest.raises(
        SourceError,
        match=rf"'{name}' has values in another file, 'other\.h5'\. From an object store, only",
    ):
        HDF5Source(url, name, storage_options=cache)
    assert HDF5Source(url, "label", storage_options=cache)[1] == 2


def test_links_and_virtual_datasets_of_one_file_are_read_in_a_store(tmp_path):
    """By the names of the links, also one that begins where another ends; and a virtual dataset
    that names its own file.
    """
    with h5py.File(tmp_path / "train.h5", "w") as file:
        file["inner/label"] = [1, 2, 3]
        file["inner/near"] = h5py.SoftLink("label")
        file["far"] = h5py.SoftLink("/inner/near")
        _virtual(file, "own", ".", "far")
        _virtual(file, "named", "train.h5", "/inner/label")
    url = uploaded(tmp_path / "train.h5")
    for name in ("inner/label", "inner/near", "far", "/far", "own", "named"):
        source = HDF5Source(url, name, storage_options={"cache_dir": str(tmp_path / "cache")})
        assert list(source.__getitems__([2, 0])) == [3, 1]
