"""Source of the rows of the arrays in an `.npz` file of NumPy."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from ...common.messages import remedy_for, short_repr, shorten
from ...errors import SourceError
from ...files.opened import OpenFile, open_file
from ...files.paths import PathLike, text_of
from ...files.storage_options import StorageOptionsLike
from ...files.streams import RawFile
from ...files.urls import is_remote
from ...formats.npy import Header, read_header
from .chunked import Array, ChunkedSource
from .stored import Range, StoredFile

_BUFFER_BYTES = 8 << 20
"""Number of bytes of a compressed array that are read at a time."""

_HEADER_BYTES = 30
"""Bytes of the header before a member of a ZIP file, without the member's name and extra field."""


class NpzSource(ChunkedSource):
    """Rows of one or several arrays of an `.npz` file, from `np.savez` or `np.savez_compressed`.

    Thread-safe, picklable, safe to fork. Arrays that are not compressed are mapped into memory; of
    those in a store, the rows that are read are fetched. Each process decompresses a compressed
    array as a whole when it reads the first row of it, and keeps it until `close`. The same is done
    in a store with an array in Fortran's order.

    Args:
        path: path or URL (`s3://…`) of a file.
        arrays: name of an array: its rows are the records. Or a list of names of arrays of equal
            length: a record is a dict with the row of each. None (default): a dict of all arrays in
            the file.
        storage_options: how a file in a store is reached and cached; see
            `docs/how-to/remote-files.md`.

    Raises:
        SourceNotFoundError: the file does not exist.
        SourceError: it is not an `.npz` file, or one of the arrays to read has Python objects.
        NoRecordsError: there are no rows.
        ValueError: a name is not an array of the file, the list of names is empty, an array is a
            single value, or the arrays have unequal lengths.
        TypeError: `path` is not a path.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/train.npz", image=np.zeros((6, 2, 2), np.uint8), label=np.arange(6))
    ...     record = NpzSource(f"{folder}/train.npz")[4]
    >>> record["image"].shape, int(record["label"])
    ((2, 2), 4)
    >>> import fsspec
    >>> url = "memory://train.npz"
    >>> with fsspec.open(url, "wb") as file:
    ...     np.savez(file, label=np.arange(6))
    >>> with tempfile.TemporaryDirectory() as cache:
    ...     int(NpzSource(url, "label", storage_options={"cache_dir": cache})[4])
    4
    """

    def __init__(
        self,
        path: PathLike,
        arrays: str | Sequence[str] | None = None,
        *,
        storage_options: StorageOptionsLike = None,
    ) -> None:
        super().__init__(text_of(path), arrays, storage_options=storage_options)

    def _opened(self) -> Mapping[str, Any]:
        raw = self._opened_file()
        self._stored = StoredFile(raw) if is_remote(self._path) else None
        try:
            with closing(raw), _zip_of(raw) as file:
                members = [info for info in file.infolist() if info.filename.endswith(".npy")]
                found = {
                    info.filename.removesuffix(".npy"): _Member.of(raw, self._stored, file, info)
                    for info in members
                }
        except (
            OSError,
            ValueError,
            RuntimeError,
            EOFError,
            zlib.error,
            zipfile.BadZipFile,
        ) as error:
            again = "Check that it is a file, and its permissions, or write it again with np.savez"
            raise SourceError(
                f"{shorten(self._path)} cannot be read as an .npz file: {shorten(error)}. "
                f"{remedy_for(error, again) if isinstance(error, OSError) else again}."
            ) from error
        objects = [
            name for name in self._asked or found if name in found and found[name].dtype.hasobject
        ]
        if objects:
            raise SourceError(
                f"{shorten(self._path)}: array {short_repr(objects[0])} has Python objects, which "
                "can run code when they are read. Name arrays without objects in arrays=, or write "
                "this one with a dtype of numbers or texts."
            )
        return found

    def _content(self) -> Any:
        with closing(self._opened_file()) as raw, _zip_of(raw) as file:
            return [(info.filename, info.CRC) for info in file.infolist()]

    def _ranges(self, array: _Member, start: int, stop: int) -> Iterable[Range]:
        size = array.stored_row_bytes
        return [] if size is None else [(array.place_of(start), (stop - start) * size)]


@contextmanager
def _zip_of(raw: OpenFile, buffer_bytes: int = 1 << 16) -> Iterator[zipfile.ZipFile]:
    with io.BufferedReader(RawFile(raw), buffer_bytes) as stream, zipfile.ZipFile(stream) as file:
        yield file


class _Member:
    """One array of the file: dtype and shape at once, the values when they are needed.

    Args:
        file: the file, which need not stay open if it is local.
        stored: the same file, if it is in a store; else None.
        name: name of the member in the ZIP file.
        header: shape, whether axes are in Fortran's order, and dtype.
        offset: place of the values in the file; None if they are compressed.
    """

    chunks = None

    def __init__(
        self,
        file: OpenFile,
        stored: StoredFile | None,
        name: str,
        header: Header,
        offset: int | None,
    ) -> None:
        self._file, self._stored, self._name, self._offset = file, stored, name, offset
        self.shape, self._fortran, self.dtype = header

    @classmethod
    def of(
        cls, raw: OpenFile, stored: StoredFile | None, file: zipfile.ZipFile, info: zipfile.ZipInfo
    ) -> _Member:
        with file.open(info) as member:
            header = read_header(member)
            length = member.tell()
        if info.compress_type != zipfile.ZIP_STORED:
            return cls(raw, stored, info.filename, header, None)
        # Before the member, whose extra field may differ from that of the directory.
        local = raw.read(info.header_offset, _HEADER_BYTES)
        names = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
        return cls(
            raw, stored, info.filename, header, info.header_offset + _HEADER_BYTES + names + length
        )

    @cached_property
    def _values(self) -> Array:
        order: Any = "F" if self._fortran else "C"
        if self._offset is not None and np.prod(self.shape) and self._stored is None:
            return np.memmap(
                self._file.path, self.dtype, "r", self._offset, self.shape, order
            ).view(np.ndarray)
        raw = open_file(self._file.path) if self._stored is None else self._file
        with closing(raw), _zip_of(raw, _BUFFER_BYTES) as file, file.open(self._name) as member:
            return np.asarray(npy_format.read_array(member))

    @property
    def stored_row_bytes(self) -> int | None:
        """Bytes of a row that is fetched from a store; None if all are in memory, or mapped."""
        if self._offset is None or self._fortran or self._stored is None:
            return None
        return int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize

    def place_of(self, row: int) -> int:
        """Return the place of a row in a store."""
        return (self._offset or 0) + row * (self.stored_row_bytes or 0)

    def __getitem__(self, rows: slice | int) -> Array:
        size = self.stored_row_bytes
        if self._stored is None or not size:
            return self._values[rows]
        first, count = (rows, 1) if isinstance(rows, int) else (rows.start, rows.stop - rows.start)
        data = self._stored.read_at(count * size, self.place_of(first))
        found = np.frombuffer(data, self.dtype).reshape(count, *self.shape[1:])
        return found[0] if isinstance(rows, int) else found
