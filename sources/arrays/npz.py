"""Source of the rows of the arrays in an `.npz` file of NumPy."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from ...common.messages import remedy_for, short_repr, shorten
from ...errors import SourceError, SourceNotFoundError
from ...files.paths import PathLike, text_of
from ...formats.npy import Header, read_header
from .chunked import Array, ChunkedSource

_HEADER_BYTES = 30
"""Bytes of the header before a member of a ZIP file, without the member's name and extra field."""


class NpzSource(ChunkedSource):
    """Rows of one or several arrays of an `.npz` file, which `np.savez` or `np.savez_compressed` has written.

    Thread-safe, picklable, safe to fork. Arrays that are not compressed are mapped into memory. Each process decompresses a
    compressed array as a whole when it reads the first row of it, and keeps it until `close`.

    Args:
        path: path of a local file.
        arrays: name of an array: its rows are the records. Or a list of names of arrays of equal length: a record is a dict
            with the row of each. None (default): a dict of all arrays in the file.

    Raises:
        SourceNotFoundError: the file does not exist.
        SourceError: it is not an `.npz` file, or one of the arrays to read has Python objects.
        NoRecordsError: there are no rows.
        ValueError: a name is not an array of the file, the list of names is empty, an array is a single value, or the
            arrays have unequal lengths.
        TypeError: `path` is not a path.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/train.npz", image=np.zeros((6, 2, 2), np.uint8), label=np.arange(6))
    ...     record = NpzSource(f"{folder}/train.npz")[4]
    >>> record["image"].shape, int(record["label"])
    ((2, 2), 4)
    """

    def __init__(self, path: PathLike, arrays: str | Sequence[str] | None = None) -> None:
        super().__init__(text_of(path), arrays)

    def _opened(self) -> Mapping[str, Any]:
        if not os.path.exists(self._path):
            raise SourceNotFoundError(
                f"{shorten(self._path)} does not exist on this machine. Check the path of the .npz file, and "
                "copy remote files first."
            )
        try:
            with zipfile.ZipFile(self._path) as file:
                members = [info for info in file.infolist() if info.filename.endswith(".npy")]
                found = {info.filename.removesuffix(".npy"): _Member.of(self._path, file, info) for info in members}
        except (OSError, ValueError, RuntimeError, EOFError, zlib.error, zipfile.BadZipFile) as error:
            again = "Check that it is a file, and its permissions, or write it again with np.savez"
            raise SourceError(
                f"{shorten(self._path)} cannot be read as an .npz file: {shorten(error)}. "
                f"{remedy_for(error, again) if isinstance(error, OSError) else again}."
            ) from error
        objects = [name for name in self._asked or found if name in found and found[name].dtype.hasobject]
        if objects:
            raise SourceError(
                f"{shorten(self._path)}: array {short_repr(objects[0])} has Python objects, which can run code when they are "
                "read. Name arrays without objects in arrays=, or write this one with a dtype of numbers or texts."
            )
        return found

    def _content(self) -> Any:
        with zipfile.ZipFile(self._path) as file:
            return [(info.filename, info.CRC) for info in file.infolist()]


class _Member:
    """One array of the file: dtype and shape at once, the values when they are needed.

    Args:
        path: path of the file.
        name: name of the member in the ZIP file.
        header: shape, whether axes are in Fortran's order, and dtype.
        offset: place of the values in the file; None if they are compressed.
    """

    chunks = None

    def __init__(self, path: str, name: str, header: Header, offset: int | None) -> None:
        self._path, self._name, self._offset = path, name, offset
        self.shape, self._fortran, self.dtype = header

    @classmethod
    def of(cls, path: str, file: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Member:
        with file.open(info) as member:
            header = read_header(member)
            length = member.tell()
        if info.compress_type != zipfile.ZIP_STORED:
            return cls(path, info.filename, header, None)
        with open(path, "rb") as raw:  # the local header, whose extra field may differ from that of the directory
            raw.seek(info.header_offset)
            local = raw.read(_HEADER_BYTES)
        names = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
        return cls(path, info.filename, header, info.header_offset + _HEADER_BYTES + names + length)

    @cached_property
    def _values(self) -> Array:
        order: Any = "F" if self._fortran else "C"
        if self._offset is not None and np.prod(self.shape):
            return np.memmap(self._path, self.dtype, "r", self._offset, self.shape, order).view(np.ndarray)
        with zipfile.ZipFile(self._path) as file, file.open(self._name) as member:
            return np.asarray(npy_format.read_array(member))

    def __getitem__(self, rows: slice) -> Array:
        return self._values[rows]
