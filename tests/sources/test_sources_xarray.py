"""Datasets and DataArrays of xarray, in memory and in files."""

from __future__ import annotations

import pickle
import warnings

import h5py
import numpy as np
import pytest
import xarray
from support.source_conformance import SourceConformance, assert_same

import headrace
from headrace import Batch, BlockShuffle, DataLoader, IndexSampler, MemorySource, XarraySource
from headrace.errors import LengthsError, NoRecordsError, SourceError
from headrace.sources import as_source

COUNT = 40


def dataset(count=COUNT):
    """Variables along time, in two orders of dimensions; one without time, and one of a single
    value.
    """
    times = np.datetime64("2020-01-01", "ns") + np.arange(count) * np.timedelta64(1, "D")
    return xarray.Dataset(
        {
            "field": (("time", "y"), np.arange(count * 3, dtype=np.float32).reshape(count, 3)),
            "turned": (("y", "x", "time"), np.arange(count * 6).reshape(3, 2, count)),
            "name": ("time", [f"é {key}" for key in range(count)]),
            "height": ("y", np.arange(3.0)),
            "one": 7,
        },
        coords={"time": times, "y": [10, 20, 30]},
    )


def row(key, count=COUNT):
    """The record of a key, from the arrays themselves."""
    data = dataset(count)
    return {
        "field": data.field.values[key],
        "turned": data.turned.values[..., key],
        "name": f"é {key}",
    }


def write(folder, count=COUNT):
    """A NetCDF file whose field is packed into chunks of ten integers with a scale factor."""
    packed = {
        "chunksizes": (min(10, count), 3),
        "zlib": True,
        "dtype": "int16",
        "scale_factor": np.float32(1),
        "_FillValue": -1,
    }
    dataset(count).to_netcdf(folder / "a.nc", engine="h5netcdf", encoding={"field": packed})
    return folder / "a.nc"


class TestXarrayInAFile(SourceConformance):
    """Each process opens the file."""

    on_files = True

    def write(self, folder, count):
        write(folder, count)

    def open(self, folder, count):
        return XarraySource(xarray.open_dataset(folder / "a.nc"), ["name", "field"])

    def expected_record(self, key):
        found = row(key, self.count)
        return {"name": found["name"], "field": found["field"]}


class TestXarrayInZarr(SourceConformance):
    """Along another dimension than the first."""

    count = 9

    def write(self, folder, count):
        data = xarray.Dataset({"a": (("x", "time"), np.arange(2 * count).reshape(2, count))})
        data.to_zarr(folder / "a.zarr", consolidated=False, encoding={"a": {"chunks": (2, 4)}})

    def open(self, folder, count):
        return XarraySource(
            xarray.open_zarr(folder / "a.zarr", chunks=None, consolidated=False), dim="time"
        )

    def expected_record(self, key):
        return {"a": np.array([key, self.count + key])}


class TestXarrayInMemory(SourceConformance):
    """Arrays, as any others."""

    def open(self, folder, count):
        return as_source(dataset(count))

    def expected_record(self, key):
        found = row(key, self.count)
        return {**found, "name": np.str_(found["name"])}


class TestDataArray(SourceConformance):
    """Its slices are the records."""

    def write(self, folder, count):
        write(folder, count)

    def open(self, folder, count):
        return XarraySource(xarray.open_dataset(folder / "a.nc")["turned"], dim="time")

    def expected_record(self, key):
        return row(key, self.count)["turned"]


def test_datasets_and_data_arrays_are_sources(tmp_path):
    """In memory, their arrays are read as others; from a file, slice by slice."""
    data = dataset()
    assert type(as_source(data)) is type(as_source(data["field"])) is MemorySource
    assert_same(as_source(data["field"])[3], row(3)["field"])
    with xarray.open_dataset(write(tmp_path)) as opened:
        assert type(as_source(opened)) is type(as_source(opened["turned"])) is XarraySource
        assert as_source(opened["turned"])[1].shape == (2, COUNT)
        assert_same(headrace.MapDataset.source(opened)[5], row(5))
        assert len(as_source(opened.load())) == COUNT


def test_a_shuffle_of_blocks_reads_each_chunk_of_a_variable_once(tmp_path, monkeypatch):
    """A row of a chunk is read with the others."""
    reads = []
    read = h5py.Dataset.__getitem__
    monkeypatch.setattr(
        h5py.Dataset, "__getitem__", lambda self, *at: reads.append(self.name) or read(self, *at)
    )
    with xarray.open_dataset(write(tmp_path)) as opened:
        source = XarraySource(opened, ["field"])
        assert source.facts.records_together() == 10
        reads.clear()
        sampler = IndexSampler(
            COUNT, shuffle=BlockShuffle(block=10, window=2), seed=0, num_epochs=1
        )
        batches = list(DataLoader(data_source=source, sampler=sampler, operations=[Batch(10)]))
    assert sorted(value for batch in batches for value in batch["field"][:, 0].tolist()) == list(
        range(0, 3 * COUNT, 3)
    )
    assert reads.count("/field") == 4


def test_chunks_of_one_row_are_read(tmp_path):
    """Each row of a variable of several dimensions is a chunk of its own."""
    written = xarray.Dataset({"a": (("time", "y"), np.arange(12).reshape(4, 3))})
    written.to_zarr(tmp_path / "a.zarr", consolidated=False, encoding={"a": {"chunks": (1, 3)}})
    opened = xarray.open_zarr(tmp_path / "a.zarr", chunks=None, consolidated=False)
    source = XarraySource(opened, dim="time")
    assert source[2]["a"].tolist() == [6, 7, 8]
    assert [each["a"].tolist() for each in source.__getitems__([3, 0])] == [[9, 10, 11], [0, 1, 2]]


def test_selections_are_read_lazily_and_are_other_data(tmp_path):
    """Those of other places have another fingerprint."""
    with xarray.open_dataset(write(tmp_path)) as opened:
        parts = [XarraySource(opened.isel(time=slice(start, start + 20))) for start in (0, 20)]
        assert_same(pickle.loads(pickle.dumps(parts[1]))[3], row(23))
        assert parts[0].fingerprint != parts[1].fingerprint
        assert parts[0].fingerprint == XarraySource(opened.isel(time=slice(20))).fingerprint


@pytest.mark.parametrize("kind", ["times", "texts", "numbers"])
def test_selections_of_the_same_ends_and_length_are_other_data(kind):
    """All coordinates along the dimension count, of whatever kind they are."""
    data = dataset().drop_vars("turned")
    coordinates = {
        "texts": data.name.values,
        "numbers": np.arange(COUNT) / 3,
        "times": data.time.values,
    }
    data = data.assign_coords(time=("time", coordinates[kind]))
    first, second = (XarraySource(data.isel(time=[0, place, 9])) for place in (3, 4))
    assert first.fingerprint != second.fingerprint
    assert first.fingerprint == XarraySource(data.isel(time=[0, 3, 9])).fingerprint


def test_variables_and_coordinates_are_chosen():
    """Without names, all data variables that have the dimension."""
    data = dataset()
    assert_same(
        XarraySource(data, ["time", "name"])[3], {"time": data.time.values[3], "name": "é 3"}
    )
    assert list(XarraySource(data, dim="y")[2]) == ["field", "turned", "height"]
    assert XarraySource(data, "height", dim="y")[2] == {"height": 2.0}
    assert XarraySource(data).lengths_by("field").tolist() == [3] * COUNT
    assert XarraySource(data).file_place is not None
    assert XarraySource(data).facts.file_place(3) is None
    with pytest.raises(LengthsError, match="has no variable 'height'"):
        XarraySource(data).lengths_by("height")


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (
            lambda data: XarraySource(data, ["nothing"]),
            ValueError,
            r"has no variable 'nothing'. Name some of its",
        ),
        (
            lambda data: XarraySource(data, ["height"]),
            ValueError,
            r"variable 'height' has the dimensions y, but not 'time'",
        ),
        (
            lambda data: XarraySource(data.coords.to_dataset()),
            ValueError,
            r"has no data variable with the dimension",
        ),
        (lambda data: XarraySource(data, []), ValueError, r"the list of names is empty"),
        (
            lambda data: XarraySource(data, dim="z"),
            ValueError,
            r"dim='z' is not a dimension of the Dataset. Pass one of",
        ),
        (
            lambda data: XarraySource(data["one"]),
            ValueError,
            r"the DataArray has no dimension to count records",
        ),
        (
            lambda data: XarraySource(data["field"], ["a"]),
            ValueError,
            r"variables=\['a'\] is for Datasets",
        ),
        (lambda data: XarraySource(data.isel(time=slice(0))), NoRecordsError, r"there are 0 rows"),
        (
            lambda data: XarraySource(np.arange(3)),
            TypeError,
            r"takes an xarray Dataset or DataArray, not a ndarray",
        ),
    ],
)
def test_data_that_cannot_be_read_is_named(make, error, words):
    """With what to pass."""
    with pytest.raises(error, match=words):
        make(dataset())


def test_a_file_that_is_gone_is_an_error(tmp_path):
    """It names the file."""
    with xarray.open_dataset(write(tmp_path)) as opened:
        source = pickle.loads(pickle.dumps(XarraySource(opened)))
    (tmp_path / "a.nc").unlink()
    with pytest.raises(SourceError, match=r"a\.nc"):
        source[3]


# Zarr starts threads, which live as long as the process
with warnings.catch_warnings(action="ignore"):
    import tempfile

    import zarr

    zarr.config.set({"threading.max_workers": 1, "async.concurrency": 1})
    with tempfile.TemporaryDirectory() as _folder:
        zarr.save_array(f"{_folder}/a.zarr", np.arange(3))
        zarr.open_array(f"{_folder}/a.zarr", mode="r")[:]
