"""Arrays in `.npz` files."""

from __future__ import annotations

import os
import zipfile

import numpy as np
import pytest
from support.source_conformance import SourceConformance, exit_code

from headrace import NpzSource
from headrace.errors import SourceError


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


class TestNpz(OfDicts):
    def write(self, folder, count):
        np.savez(folder / "a.npz", **_columns(count))

    def open(self, folder, count):
        return NpzSource(folder / "a.npz")


class TestCompressedNpz(OfDicts):
    def write(self, folder, count):
        np.savez_compressed(folder / "a.npz", **_columns(count))

    def open(self, folder, count):
        return NpzSource(folder / "a.npz")


def test_python_objects_in_an_npz_file_are_refused(tmp_path):
    """Python objects in an `.npz` file are refused."""
    np.savez(tmp_path / "a.npz", x=np.array([{}, None], dtype=object))
    with pytest.raises(SourceError, match=r"Python objects"):
        NpzSource(tmp_path / "a.npz")


@pytest.mark.filterwarnings("ignore:Stored array in format 3.0")
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_names_of_fields_in_an_npz_file_may_have_any_characters(save, tmp_path):
    """NumPy then writes version 3 of the format."""
    rows = np.zeros(3, [("größe", "<f4", (2,)), ("文字", "<i8")])
    rows["文字"], rows["größe"] = np.arange(3), [[0, 1], [2, 3], [4, 5]]
    save(tmp_path / "a.npz", x=rows, y=np.arange(3))
    source = NpzSource(tmp_path / "a.npz")
    assert source[2]["x"].dtype == rows.dtype
    assert [record["x"].tobytes() for record in source.__getitems__([2, 0])] == [
        rows[2].tobytes(),
        rows[0].tobytes(),
    ]
    assert source[1]["x"]["文字"] == 1


@pytest.mark.parametrize(
    ("version", "header", "words"),
    [
        (
            3,
            b"{'descr': '<f4', 'fortran_order': False, 'shape': (3",
            "the header is damaged: SyntaxError",
        ),
        (3, b"{'descr': '<f4', 'fortran_order': False, 'shape': (3.5,)}", "the header is damaged"),
        (3, b"{'descr': '<f4', 'shape': (3,)}", "the header is damaged: KeyError"),
        (3, b"\xff", "the header is damaged: UnicodeDecodeError"),
        (3, b"(" * 9999, "the header is damaged"),
        (3, b" " * 10_001, "the header may have at most 10,000 bytes, but it has 10,001"),
        (4, b"", r"version 4\.0 of the \.npy format is unknown"),
    ],
    ids=["cut", "shape", "key", "text", "brackets", "long", "version"],
)
def test_a_damaged_header_in_an_npz_file_is_an_error(version, header, words, tmp_path):
    """It names the file and what is wrong."""
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr(
            "x.npy", b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(4, "little") + header
        )
    with pytest.raises(SourceError, match=rf"a\.npz cannot be read as an \.npz file: {words}"):
        NpzSource(tmp_path / "a.npz")


def test_a_file_that_was_replaced_is_an_error(tmp_path):
    """It would give other records than before."""
    np.savez(tmp_path / "a.npz", x=np.arange(9))
    source = NpzSource(tmp_path / "a.npz", "x")
    source.close()
    np.savez(tmp_path / "a.npz", x=np.arange(3))
    with pytest.raises(SourceError, match=r"was changed: array 'x'"):
        source[7]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning", "ignore:.*fork.*:RuntimeWarning")
def test_a_process_that_is_forked_while_a_thread_reads_can_read(tmp_path):
    """The lock of the thread does not exist in the child."""
    np.savez_compressed(tmp_path / "a.npz", x=np.arange(9))
    source = NpzSource(tmp_path / "a.npz", "x")
    with source._lock:
        child = os.fork()
        if not child:
            os._exit(0 if source[5] == 5 else 1)
    assert exit_code(child) == 0
