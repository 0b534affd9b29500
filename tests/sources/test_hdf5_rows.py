"""Rows of HDF5 datasets whose chunks are one row each are those that h5py gives, however they are
stored.
"""

import h5py
import numpy as np
import pytest

from headrace import HDF5Source

COUNT = 20
ROWS = np.arange(COUNT * 6).reshape(COUNT, 2, 3) % 5
OPTIONS = {
    "gzip": {"compression": "gzip"},
    "lzf": {"compression": "lzf"},
    "shuffled bytes": {"shuffle": True},
    "checksums": {"fletcher32": True},
    "larger chunks than rows": {"chunks": (1, 4, 3), "maxshape": (None, 8, 3)},
    "several chunks a row": {"chunks": (1, 1, 3)},
}


def same_as_h5py(path):
    """Check all rows, some of them twice, in an order that is none of the file."""
    keys = np.random.default_rng(0).integers(0, COUNT, 2 * COUNT)
    source = HDF5Source(path, "x")
    with h5py.File(path) as file:
        for row, key in zip(source.__getitems__(keys), keys.tolist()):
            stored = file["x"][key]
            assert (row.dtype, row.shape, row.flags.writeable) == (
                stored.dtype,
                stored.shape,
                False,
            )
            np.testing.assert_array_equal(row, stored)
    source.close()


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "f2", "f8", "i1", "<i2", ">u8", "?", "c8", ">c16"])
def test_rows_of_each_dtype_are_those_of_h5py(dtype, tmp_path):
    """Both byte orders, truth values and complex numbers."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=ROWS.astype(dtype), chunks=(1, 2, 3))
    same_as_h5py(tmp_path / "x.h5")


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_rows_of_each_layout_are_those_of_h5py(options, tmp_path):
    """Compressed and checked chunks, and chunks that are more or less than a row."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=ROWS, **{"chunks": (1, 2, 3)} | options)
    same_as_h5py(tmp_path / "x.h5")


def test_rows_that_were_never_written_have_the_fill_value(tmp_path):
    """A chunk without a place in the file."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", (COUNT, 2, 3), "i4", chunks=(1, 2, 3), fillvalue=7)[3] = 1
    same_as_h5py(tmp_path / "x.h5")


def test_integers_of_fewer_bits_than_their_dtype_are_converted(tmp_path):
    """24 bits, beginning at the ninth of 32: the bytes of the file are not those of the NumPy
    dtype.
    """
    stored = h5py.h5t.STD_I32LE.copy()
    stored.set_precision(24)
    stored.set_offset(8)
    chunked = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    chunked.set_chunk((1, 2, 3))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        space = h5py.h5s.create_simple(ROWS.shape)
        h5py.Dataset(h5py.h5d.create(file.id, b"x", stored, space, chunked))[:] = ROWS
    same_as_h5py(tmp_path / "x.h5")
    assert HDF5Source(tmp_path / "x.h5", "x")[1].tolist() == ROWS[1].tolist()
