"""The remedy in a message is one for the cause at hand, where several causes lead to the same
error.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import h5py
import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

import headrace
from headrace.common.lazy_exports import optional_library
from headrace.common.messages import remedy_for
from headrace.errors import MissingExtraError, NoRecordsError, SourceError, SourceNotFoundError
from headrace.files.opened import LocalFile
from headrace.files.stamps import Stamp, check_unchanged
from headrace.files.storage_options import storage_options_of
from headrace.sources.arrow import inspection


def failing(error):
    """A function that raises this error."""

    def fail(*_, **__):
        raise error

    return fail


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.EMFILE, "raise the limit on open files"),
        (errno.ENOSPC, "Free some space"),
        (errno.EIO, "Check the disk"),
        (errno.EACCES, "Check the path and its permissions"),
    ],
)
def test_a_file_that_cannot_be_opened_has_the_remedy_of_its_cause(
    tmp_path, monkeypatch, number, remedy
):
    """Permissions are of no use if too many files are open."""
    (tmp_path / "a").write_bytes(b"a")
    with monkeypatch.context() as patch:
        patch.setattr("os.open", failing(OSError(number, os.strerror(number))))
        with pytest.raises(SourceError, match=f"cannot be opened: .*{remedy}"):
            LocalFile(str(tmp_path / "a"))


def test_an_error_without_a_number_has_the_other_remedy():
    """Libraries raise such errors."""
    assert remedy_for(OSError("damaged"), "Write it again") == "Write it again"


def test_a_module_that_fails_when_it_is_imported_is_not_called_missing(tmp_path, monkeypatch):
    """To install it again with the same command would change nothing."""
    (tmp_path / "fails_on_import.py").write_text(
        "raise ImportError('libx.so: cannot open shared object file')"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        MissingExtraError,
        match=r"fails_on_import is installed, but cannot be imported: libx\.so.*again",
    ):
        optional_library("fails_on_import", "tests need it", "tests")
    with pytest.raises(MissingExtraError, match=r'tests need it: pip install "headrace\[tests\]"'):
        optional_library("no_such_module_at_all", "tests need it", "tests")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no pipes")
def test_a_pipe_and_a_broken_link_are_not_called_missing(tmp_path):
    """Somebody who looks for the path finds it."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    for name in ("pipe", "link"):
        with pytest.raises(SourceNotFoundError, match=f"{name}' is neither a file nor a directory"):
            headrace.JsonLinesDataSource(tmp_path / name)


def test_a_remote_file_that_changed_has_another_version_and_no_time(tmp_path):
    """Stores tell versions; local files have times of change."""
    with pytest.raises(SourceError, match="same size, another version"):
        check_unchanged("s3://a/b", Stamp(1, "x"), Stamp(1, "y"))
    with pytest.raises(SourceError, match="same size, another time of change"):
        check_unchanged("a/b", Stamp(1, 2), Stamp(1, 3))


def test_a_wrong_number_in_the_environment_is_named_as_such(monkeypatch):
    """It is not the option of this name, which nobody passed."""
    monkeypatch.setenv("HEADRACE_CACHE_BYTES", "-5")
    with pytest.raises(ValueError, match="HEADRACE_CACHE_BYTES=-5 must be at least 0"):
        storage_options_of(None)


def test_a_parquet_file_that_cannot_be_read_is_not_called_damaged(tmp_path, monkeypatch):
    """An error of the system has a number; errors about the content have none."""
    parquet.write_table(pyarrow.table({"x": [1]}), tmp_path / "a.parquet")
    monkeypatch.setattr(
        inspection, "open_handle", failing(PermissionError(errno.EACCES, "Permission denied"))
    )
    with pytest.raises(
        SourceError,
        match=r"a\.parquet cannot be read: .*Permission denied\. Check the path and its",
    ):
        headrace.ParquetDataSource(tmp_path / "a.parquet")


def test_a_file_of_arrays_that_vanished_is_an_error_of_its_own(tmp_path):
    """It says that the file does not exist, not that a row of it cannot be read."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(3)
    source = headrace.HDF5Source(tmp_path / "a.h5")
    source.close()
    Path(tmp_path / "a.h5").unlink()
    with pytest.raises(SourceNotFoundError, match=r"a\.h5 does not exist\. Check the path"):
        source[0]


def test_a_scalar_in_a_file_of_tokens_is_named_by_its_shape(tmp_path):
    """It has no first side that could be too long for the file."""
    np.save(tmp_path / "a.npy", np.array(3))
    with pytest.raises(
        SourceError, match=r"contains an array of shape \(\), but must have one axis"
    ):
        headrace.TokenSource(tmp_path / "a.npy", document_length=1)


def test_an_empty_range_of_a_file_with_records_is_named(tmp_path):
    """The file itself has some."""
    headrace.convert([b"a", b"b"], tmp_path, workers=0, progress=False)
    (path,) = tmp_path.glob("*.array_record*")
    with pytest.raises(
        NoRecordsError, match="or the ranges of them that were passed, contain no records"
    ):
        headrace.ArrayRecordDataSource(f"{path}[1:1]")


def test_records_that_are_lists_cannot_be_cut_into_windows():
    """A list has no axis of frames; the remedy is to make it an array."""
    with pytest.raises(
        headrace.errors.LengthsError,
        match="record 0 has no NumPy array whose first axis counts frames",
    ):
        headrace.Windows([[1, 2, 3]], length=2, lengths=[3])[0]
    assert headrace.Windows([np.arange(3)], length=2, lengths=[3])[0].tolist() == [0, 1]


def test_a_masked_array_is_named(tmp_path):
    """To make an array of it would drop its mask in silence."""
    with pytest.raises(TypeError, match=r"data\['a'\] is a masked array.*Pass array\.filled"):
        headrace.load({"a": np.ma.array([1, 2], mask=[0, 1])})


@pytest.mark.parametrize(
    ("data", "remedy"),
    [
        (iter([1]), r"Pass list\(data\) if it ends"),
        (5, "Pass a list or an array, or an object"),
        (None, "Pass a list"),
    ],
)
def test_a_list_is_made_only_of_what_can_be_iterated(data, remedy):
    """`list(5)` is the next error."""
    with pytest.raises(
        TypeError, match=f"a data source needs __len__ and __getitem__, but .*{remedy}"
    ):
        headrace.load(data)


def test_a_file_that_changes_during_its_conversion_is_an_error_with_a_remedy_that_works(tmp_path):
    """Nobody made a source there. To convert again needs another folder."""
    inside, out = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    for name in ("a", "b"):
        (inside / f"{name}.jsonl").write_text('{"x": 1}\n' * 9)

    def encode(record):
        if len((inside / "b.jsonl").read_text()) > 9:
            (inside / "b.jsonl").write_text('{"x": 1}\n')
        return b"1"

    def convert():
        return headrace.convert(str(inside), str(out), workers=0, progress=False, encode=encode)

    text = (
        r"b\.jsonl: the file changed after the conversion began .*remove the output folder, and "
        r"convert again"
    )
    with pytest.raises(SourceError, match=text):
        convert()
    shutil.rmtree(out)
    assert convert().records == 10


def test_an_archive_that_is_encrypted_or_damaged_is_an_error_of_the_source(tmp_path):
    """Python's library raises RuntimeError, and errors of its decompressor."""
    np.savez_compressed(tmp_path / "a.npz", x=np.arange(1000))
    whole = (tmp_path / "a.npz").read_bytes()
    flags, content = whole.index(b"PK\x01\x02") + 8, whole.index(b"x.npy") + 30
    for place, count in ((flags, 1), (content, 4)):
        (tmp_path / "a.npz").write_bytes(
            whole[:place] + bytes([whole[place] ^ 1]) * count + whole[place + count :]
        )
        with pytest.raises(
            SourceError, match=r"a\.npz cannot be read as an \.npz file: .*np\.savez"
        ):
            headrace.NpzSource(tmp_path / "a.npz")
