"""Source of the rows of datasets in an HDF5 file.

Format: https://www.hdfgroup.org/solutions/hdf5/.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ...common.lazy_exports import optional_library
from ...common.messages import remedy_for, short_repr, shorten
from ...errors import NoRecordsError, SourceError, SourceNotFoundError
from ...files.paths import PathLike, text_of
from ...files.storage_options import StorageOptionsLike
from ...files.urls import is_remote, name_of
from .chunked import Array, ChunkedSource
from .opened_array import read_row, row_bytes_of
from .other_files import other_file_of
from .stored import Range, StoredFile

_MOST_CHUNKS = 1 << 18
"""Number of chunks of an array in a store whose places are listed once.

Of larger arrays, chunks are fetched one by one.
"""

_LEAST_BYTES = 1 << 16
"""Minimum number of bytes that HDF5 reads at a time of an array stored in one piece.

A smaller array is read as a whole.
"""


class HDF5Source(ChunkedSource):
    """Rows of one or several datasets of an HDF5 file.

    Thread-safe, picklable; safe to fork while no thread reads.

    Row k of a dataset of shape `(n, …)` is a NumPy array, a scalar, `str` for text, or an array for
    a dataset of arrays of unequal length. Each process opens the file for itself. One call of
    `__getitems__`, mostly for a batch, reads each chunk at most once. With `BlockShuffle(block=…)`,
    blocks of whole chunks, and windows of blocks that fit into `cache_bytes`, a process reads each
    chunk at most once in an epoch.

    Args:
        path: path or URL (`s3://…`) of a file. Rows in a store are fetched by ranges, those of a
            batch together. There, all values must be in this file, not in others to which links or
            virtual datasets lead.
        datasets: name of a dataset, such as "train/images": its rows are the records. Or a list of
            names of datasets of equal length: a record is a dict with the row of each. None
            (default): a dict of all datasets in the file.
        cache_bytes: maximum size of the chunks that a process keeps in memory, in bytes (default 64
            MiB).
        storage_options: how a file in a store is reached and cached; see
            `docs/how-to/remote-files.md`.

    Raises:
        SourceNotFoundError: the file does not exist.
        SourceError: it is not an HDF5 file, or cannot be read; or it is in a store, and has values
            in other files.
        NoRecordsError: there are no rows.
        ValueError: a name is not a dataset of the file, the list of names is empty, a dataset is a
            single value, the datasets have unequal lengths, or `cache_bytes` is less than 1.
        TypeError: `path` is not a path.
        MissingExtraError: h5py is not installed.

    >>> import h5py, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with h5py.File(f"{folder.name}/train.h5", "w") as file:
    ...     file["image"], file["label"] = np.zeros((6, 2, 2), np.uint8), np.arange(6)
    >>> source = HDF5Source(f"{folder.name}/train.h5")
    >>> source[4]["image"].shape, int(source[4]["label"])
    ((2, 2), 4)
    >>> source.close()
    >>> folder.cleanup()
    """

    _kind = "dataset"

    def __init__(
        self,
        path: PathLike,
        datasets: str | Sequence[str] | None = None,
        *,
        cache_bytes: int = 64 << 20,
        storage_options: StorageOptionsLike = None,
    ) -> None:
        super().__init__(text_of(path), datasets, cache_bytes, storage_options)

    @classmethod
    def of(cls, opened: Any) -> HDF5Source:
        """Return the source of an open h5py dataset, group or file. It opens the file again.

        Raises:
            TypeError: the object is closed, or is not in a file on disk.
        """
        import h5py

        if not opened:
            raise TypeError(
                "the h5py object is closed. Pass an open one, or headrace.HDF5Source(path, name)."
            )
        path, inside = os.fsdecode(opened.file.filename), (opened.name or "").strip("/")
        if not os.path.exists(path):
            raise TypeError(
                f"{short_repr(opened)}: workers must open its file again, but there is no file "
                f"{short_repr(path)}. Write the data to a file and pass headrace.HDF5Source(path), "
                "or pass arrays in memory, such as dataset[:]."
            )
        if isinstance(opened, h5py.Dataset):
            return cls(path, inside)
        found: list[str] = []
        opened.visititems(lambda name, item: found.append(name) if _has_rows(item, h5py) else None)
        if not found:
            raise NoRecordsError(
                f"group {short_repr(inside or '/')} of {shorten(path)} has no datasets. Pass a "
                "group that has some."
            )
        return cls(path, [f"{inside}/{name}" if inside else name for name in found])

    def _opened(self) -> Mapping[str, Any]:
        h5py = optional_library("h5py", "HDF5Source needs h5py", "hdf5")
        is_local = not is_remote(self._path)
        if is_local and not os.path.exists(self._path):
            raise SourceNotFoundError(
                f"{shorten(self._path)} does not exist. Check the path of the HDF5 file."
            )
        self._stored = None if is_local else StoredFile(self._opened_file())
        try:
            try:
                self._file = h5py.File(self._path if is_local else self._stored, "r")
            except BlockingIOError:  # of a writer, or of a file system that knows no locks
                self._file = h5py.File(self._path, "r", locking=False)
        except OSError as error:
            remedy = "Check the path and its permissions, or write the file again"
            raise SourceError(
                f"{shorten(self._path)} cannot be opened as an HDF5 file: {shorten(error)}. "
                f"{remedy_for(error, remedy)}."
            ) from error
        found: dict[str, Any] = {}
        self._file.visititems(
            lambda name, item: found.update({name: item} if _has_rows(item, h5py) else {})
        )
        for name in self._asked or ():  # a link, or an absolute name
            if name not in found and name in self._file:
                item = self._linked(name)
                found.update({name: item} if _has_rows(item, h5py) else {})
        if self._stored is not None:
            for name in self._asked or found:
                if name in found:
                    self._check_inside(name)
        return found

    def _check_inside(self, name: str) -> None:
        """Check that all values of a dataset are in this file.

        In a store, HDF5 would look for all of them in this one.
        """
        other = other_file_of(self._file, name, name_of(self._path))
        if other is not None:
            raise SourceError(
                f"{shorten(self._path)}: {self._kind} {short_repr(name)} has values in another "
                f"file, {short_repr(other)}. From an object store, only values in the file itself "
                "are read. Copy the values into this file, or copy both files to this machine."
            )

    def _linked(self, name: str) -> Any:
        try:
            if self._stored is not None:
                self._check_inside(name)
            return self._file[name]
        except (KeyError, OSError) as error:
            raise SourceError(
                f"{shorten(self._path)}: {short_repr(name)} is a link to something that cannot be "
                f"read: {shorten(error)}. Put the file to which it links in its place, or name "
                "other datasets."
            ) from error

    def _closed(self) -> None:
        self._file.close()

    def _content(self) -> Any:
        return os.path.getsize(self._path) if self._stored is None else self._stored.size

    def _ranges(self, array: Any, start: int, stop: int) -> Iterable[Range]:
        if array.chunks is None:
            first, size = array.id.get_offset(), row_bytes_of(array)
            return (
                []
                if first is None
                else [(first + start * size, max((stop - start) * size, _LEAST_BYTES))]
            )
        assert self._stored is not None
        places = self._stored.known.get(array.name)
        if places is None:
            places = self._stored.known[array.name] = _chunk_places(array)
        each_run = len(places) // -(-array.shape[0] // array.chunks[0])
        first = start // array.chunks[0] * each_run
        return [
            (offset, size) for offset, size in places[first : first + each_run].tolist() if size
        ]

    def _row_reader(self, array: Any) -> Callable[[int], Array]:
        shape, dtype, place = array.shape[1:], array.dtype, (0,) * (array.ndim - 1)
        if array.chunks != (1, *shape) or not _is_stored_as_is(array):
            return partial(read_row, array)
        read_chunk = array.id.read_direct_chunk

        def read_directly(row: int) -> Array:
            try:
                return np.ndarray(shape, dtype, read_chunk((row, *place))[1])
            except (OSError, RuntimeError):  # the chunk was never written, or cannot be read
                return read_row(array, row)

        return read_directly

    def _decoded(self, array: Any, rows: Array) -> Array:
        import h5py

        if h5py.check_string_dtype(array.dtype) is None:
            return rows
        texts = [
            value.decode() if isinstance(value, bytes) else value for value in rows.ravel().tolist()
        ]
        decoded = np.empty(len(texts), object)
        decoded[:] = texts
        return decoded.reshape(rows.shape)


def _is_stored_as_is(array: Any) -> bool:
    """Return True if an array's chunks are not compressed and have its NumPy dtype's layout."""
    import h5py

    # h5py describes a type that NumPy lacks, such as 24-bit integers, by the dtype to which HDF5
    # converts it.
    same = bool(array.id.get_type() == h5py.h5t.py_create(array.dtype))
    return same and array.id.get_create_plist().get_nfilters() == 0


def _chunk_places(array: Any) -> npt.NDArray[np.int64]:
    """Return the offset and size of each chunk of an array, `int64[chunks, 2]`.

    Return no chunks if they are too many.

    A chunk that was never written has the size 0.
    """
    grid = [-(-side // step) for side, step in zip(array.shape, array.chunks)]
    steps, count = array.chunks, math.prod(grid)
    if count > _MOST_CHUNKS or not hasattr(array.id, "chunk_iter"):
        return np.empty((0, 2), np.int64)
    places = np.zeros((count, 2), np.int64)

    def note(chunk: Any) -> None:
        number = 0
        for first, step, side in zip(chunk.chunk_offset, steps, grid):
            number = number * side + first // step
        places[number] = chunk.byte_offset, chunk.size

    array.id.chunk_iter(note)  # to ask for one chunk takes HDF5 as long as for all before it
    return places


def _has_rows(item: Any, h5py: Any) -> bool:
    """Return True for a dataset that is not null."""
    return isinstance(item, h5py.Dataset) and item.shape is not None
