"""Arrays in files: HDF5, Zarr and `.npz`."""

from __future__ import annotations

import pickle
import tempfile

import h5py
import numpy as np
import pytest
import zarr
from support.source_conformance import SourceConformance

from headrace import (
    Batch,
    BlockShuffle,
    DataLoader,
    HDF5Source,
    IndexSampler,
    NpzSource,
    ZarrSource,
)
from headrace.errors import LengthsError, SourceError, SourceNotFoundError
from headrace.sources import as_source

# Zarr starts threads, which live as long as the process.
zarr.config.set({"threading.max_workers": 1, "async.concurrency": 1})
with tempfile.TemporaryDirectory() as _folder:
    zarr.save_array(f"{_folder}/a.zarr", np.arange(3))
    zarr.open_array(f"{_folder}/a.zarr", mode="r")[:]


def _columns(count):
    numbers = np.arange(count)
    return {
        "image": (numbers[:, None, None] * np.ones((1, 3, 2))).astype(np.uint8),
        "label": numbers,
        "weight": (numbers / 2).astype(np.float32),
    }


def _row(key):
    return {name: column[key] for name, column in _columns(key + 1).items()}


class OfDicts(SourceConformance):
    on_files = True

    def expected_record(self, key):
        return _row(key)


class TestHDF5(OfDicts):
    """In compressed chunks."""

    def write(self, folder, count):
        with h5py.File(folder / "a.h5", "w") as file:
            for name, column in _columns(count).items():
                file.create_dataset(
                    name, data=column, chunks=(10, *column.shape[1:]), compression="gzip"
                )

    def open(self, folder, count):
        return HDF5Source(folder / "a.h5", ["image", "label", "weight"])


class TestHDF5InOnePiece(OfDicts):
    def write(self, folder, count):
        with h5py.File(folder / "a.h5", "w") as file:
            file.update(_columns(count))

    def open(self, folder, count):
        return HDF5Source(folder / "a.h5")


class TestOneDataset(SourceConformance):
    """Its rows are the records."""

    on_files = True

    def write(self, folder, count):
        with h5py.File(folder / "a.h5", "w") as file:
            file["deep/er/image"] = _columns(count)["image"]

    def open(self, folder, count):
        return HDF5Source(folder / "a.h5", "deep/er/image")

    def expected_record(self, key):
        return _row(key)["image"]


class TestTexts(SourceConformance):
    on_files = True

    def write(self, folder, count):
        with h5py.File(folder / "a.h5", "w") as file:
            file["text"] = [f"é {key}" for key in range(count)]

    def open(self, folder, count):
        return HDF5Source(folder / "a.h5", "text")

    def expected_record(self, key):
        return f"é {key}"


class TestRagged(SourceConformance):
    """Arrays of unequal length."""

    on_files = True

    def write(self, folder, count):
        with h5py.File(folder / "a.h5", "w") as file:
            rows = file.create_dataset("tokens", (count,), dtype=h5py.vlen_dtype(np.int32))
            for key in range(count):
                rows[key] = np.arange(key % 5, dtype=np.int32)

    def open(self, folder, count):
        return HDF5Source(folder / "a.h5", "tokens")

    def expected_record(self, key):
        return np.arange(key % 5, dtype=np.int32)


class OfZarr(OfDicts):
    zarr_format = 3

    def write(self, folder, count):
        group = zarr.open_group(str(folder / "a.zarr"), mode="w", zarr_format=self.zarr_format)
        for name, column in _columns(count).items():
            made = group.create_array(
                name, shape=column.shape, chunks=(10, *column.shape[1:]), dtype=column.dtype
            )
            made[:] = column

    def open(self, folder, count):
        return ZarrSource(folder / "a.zarr")


class TestZarr3(OfZarr):
    pass


class TestZarr2(OfZarr):
    zarr_format = 2


class TestOneZarrArray(SourceConformance):
    on_files = True

    def write(self, folder, count):
        zarr.save_array(str(folder / "a.zarr"), _columns(count)["label"])

    def open(self, folder, count):
        return ZarrSource(folder / "a.zarr")

    def expected_record(self, key):
        return np.int64(key)


@pytest.fixture
def hdf5(tmp_path):
    """A file of 100 rows in chunks of 10, and a single value."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.arange(100), chunks=(10,))
        file["other/y"] = np.zeros(7)
        file["single"] = 3
    return tmp_path / "a.h5"


@pytest.fixture
def counted(monkeypatch):
    """Numbers of the first rows of all reads."""
    reads = []
    read = h5py.Dataset.__getitem__
    monkeypatch.setattr(
        h5py.Dataset,
        "__getitem__",
        lambda self, rows, *more: reads.append(rows.start) or read(self, rows, *more),
    )
    return reads


def test_a_shuffle_of_blocks_reads_each_chunk_once(hdf5, counted):
    """A shuffle of blocks reads each chunk once."""
    sampler = IndexSampler(100, shuffle=BlockShuffle(block=10, window=2), seed=0, num_epochs=1)
    loader = DataLoader(data_source=HDF5Source(hdf5, "x"), sampler=sampler, operations=[Batch(10)])
    assert sorted(np.concatenate(list(loader)).tolist()) == list(range(100))
    assert len(counted) == 10


@pytest.mark.parametrize("kind", ["hdf5", "zarr"])
def test_chunks_of_one_row_are_kept_up_to_the_bytes_of_the_cache(kind, tmp_path):
    """A row that is wanted twice is read once, and again where it was dropped; rows are
    read-only.
    """
    rows, path = np.arange(60, dtype=np.float32).reshape(20, 3), str(tmp_path / "a")
    if kind == "hdf5":
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=rows, chunks=(1, 3))
    else:
        zarr.create_group(path).create_array("x", data=rows, chunks=(1, 3))
    make = HDF5Source if kind == "hdf5" else ZarrSource
    two_rows, none = make(path, "x", cache_bytes=24), make(path, "x", cache_bytes=1)
    for source, keeps in ((two_rows, True), (none, False)):
        found = [source.__getitems__(keys) for keys in ([9, 3, 9], [3], [4], [9])]
        assert [row.tolist() for read in found for row in read] == rows[[9, 3, 9, 3, 4, 9]].tolist()
        assert not any(row.flags.writeable for read in found for row in read)
        (nine, three, same), (again,), _, (dropped,) = found
        assert nine is same
        assert (
            three is again
        ) == keeps  # the row of a further read from the file is another object
        assert dropped is not nine
        source.close()


def test_open_objects_are_sources(hdf5, tmp_path):
    """Open objects are sources."""
    with h5py.File(hdf5) as file:
        assert as_source(file["x"])[3] == 3
        assert len(as_source(file["other"])) == 7
    zarr.save_group(str(tmp_path / "b.zarr"), x=np.arange(5))
    group = zarr.open_group(str(tmp_path / "b.zarr"), mode="r")
    assert as_source(group["x"])[4] == 4
    assert as_source(group)[4] == {"x": 4}
    with pytest.raises(ValueError, match="a single array without a name: leave the names out"):
        ZarrSource(tmp_path / "b.zarr" / "x", "x")
    with pytest.raises(
        TypeError,
        match=r"cannot be passed, because workers.* Pass headrace.ZarrSource with its folder",
    ):
        as_source(zarr.array(np.arange(3)))


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("z",), ValueError, "no array 'z'. Name some of its arrays: .*x"),
        (([],), ValueError, "the list of names is empty"),
        (("single",), ValueError, "'single' is a single value"),
        ((["x", "other/y"],), ValueError, "unequal numbers of rows .*x: 100.*other/y: 7"),
        ((None,), ValueError, "single"),
    ],
)
def test_what_cannot_be_read_is_named_with_a_remedy(hdf5, arguments, error, words):
    """What cannot be read is named with a remedy."""
    with pytest.raises(error, match=words):
        HDF5Source(hdf5, *arguments)


@pytest.mark.parametrize("kind", [HDF5Source, ZarrSource, NpzSource])
def test_a_path_without_data_is_an_error(kind, tmp_path):
    """A path without data is an error."""
    with pytest.raises(SourceNotFoundError, match=r"Check the path"):
        kind(tmp_path / "none")
    (tmp_path / "text").write_text("no data")
    with pytest.raises(SourceError, match=r"again|np.savez|Check the path"):
        kind(tmp_path / "text")


def test_lengths_are_those_of_rows(tmp_path):
    """The second side of arrays, integers themselves, and the bytes of texts, as for
    all sources.
    """
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["text"], file["length"], file["image"] = ["a", "bcé"], [5, 6], np.zeros((2, 4, 3))
        file["weight"] = [0.5, 1.5]
    source = pickle.loads(pickle.dumps(HDF5Source(tmp_path / "a.h5")))
    assert [source.lengths_by(name).tolist() for name in ("text", "length", "image")] == [
        [1, 4],
        [5, 6],
        [4, 4],
    ]
    with pytest.raises(LengthsError, match=r"not all rows of dataset 'weight' have a length"):
        source.lengths_by("weight")
    with pytest.raises(LengthsError, match=r"no dataset 'other'"):
        source.lengths_by("other")


def test_a_damaged_chunk_names_the_file_and_the_record(tmp_path):
    """A damaged chunk names the file and the record."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        rows = file.create_dataset(
            "x", data=np.arange(1000), chunks=(500,), compression="gzip", fletcher32=True
        )
        offset = rows.id.get_chunk_info(1).byte_offset
    data = bytearray((tmp_path / "a.h5").read_bytes())
    data[offset + 20] ^= 0xFF
    (tmp_path / "a.h5").write_bytes(data)
    source = HDF5Source(tmp_path / "a.h5", "x")
    assert source[3] == 3
    with pytest.raises(SourceError, match=r"a.h5: dataset 'x' cannot be read at record key 600"):
        source[600]


def test_rows_of_unequal_length_cannot_be_changed_in_place(tmp_path):
    """They are shared with the chunks that are kept."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        rows = file.create_dataset("x", (4,), dtype=h5py.vlen_dtype(np.int64), chunks=(4,))
        rows[2] = np.arange(3)
    with pytest.raises(ValueError, match="read-only"):
        HDF5Source(tmp_path / "a.h5", "x").__getitems__([1, 2, 3])[1][:] = -1


def test_links_and_absolute_names_are_datasets_and_null_ones_are_left_out(hdf5):
    """As h5py itself opens them."""
    with h5py.File(hdf5, "a") as file:
        del file["single"]
        file["link"], file["null"] = h5py.SoftLink("/other/y"), h5py.Empty("f")
    assert len(HDF5Source(hdf5, "link")) == len(HDF5Source(hdf5, "/other/y")) == 7
    with pytest.raises(ValueError, match=r"unequal numbers of rows"):
        HDF5Source(hdf5)


@pytest.mark.parametrize(
    "link",
    [h5py.SoftLink("/nothing"), h5py.ExternalLink("missing.h5", "/x")],
    ids=["soft", "external"],
)
def test_a_link_that_leads_nowhere_is_named(hdf5, link):
    """With its file."""
    with h5py.File(hdf5, "a") as file:
        file["broken"] = link
    with pytest.raises(
        SourceError, match=r"\.h5: 'broken' is a link to something that cannot be read.*name other"
    ):
        HDF5Source(hdf5, "broken")


def test_a_zarr_group_in_a_zip_file_is_read(tmp_path):
    """As `zarr.storage.ZipStore` writes it."""
    with zarr.storage.ZipStore(tmp_path / "a.zip", mode="w") as store:
        zarr.group(store=store).create_array("x", shape=(4,), dtype="i8")[:] = np.arange(4)
    source = ZarrSource(tmp_path / "a.zip")
    assert source[3] == {"x": 3}
    source.close()


def test_names_that_are_no_names_are_refused(hdf5):
    """With what to pass."""
    with pytest.raises(TypeError, match=r"5 does not name arrays. Pass the name"):
        HDF5Source(hdf5, 5)


def test_a_dataset_without_values_is_not_an_array(tmp_path):
    """One of HDF5 that has a type alone, by name: the others are named."""
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["empty"], file["full"] = h5py.Empty("f4"), np.arange(3)
    with pytest.raises(ValueError, match=r"has no array 'empty'\. Name some of its arrays: full"):
        HDF5Source(tmp_path / "data.h5", "empty")
