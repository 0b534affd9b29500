"""Rows of arrays in a file: the base of HDF5, npz, xarray and Zarr sources."""

from __future__ import annotations

import os
import threading
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from operator import itemgetter
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from ...common.costs import length_of_value
from ...common.messages import first_few, remedy_for, short_repr, shorten
from ...common.validation import whole_number
from ...errors import LengthsError, SourceError
from ...files.opened import OpenFile, open_file
from ...files.stamps import Stamp
from ...files.storage_options import StorageOptionsLike, storage_options_of
from ...files.urls import is_remote
from ..facts import SourceFacts
from ..file_source import hex_digest
from ..keys import Keys, check_key, check_keys
from ..provenance import FilePlace
from .chosen import chosen_names, common_length, names_of
from .opened_array import OpenedArray, bytes_of, read_row, row_bytes_of
from .runs import Run, runs_of
from .stored import Range, StoredFile

Array = npt.NDArray[Any]
Int64s = npt.NDArray[np.int64]

RUNS_AT_ONCE = 32
"""Number of runs of rows that are fetched from a store at the same time."""


class ChunkedSource:
    """Base class of sources whose records are the rows of arrays in a file.

    A subclass defines `_opened` and `_content`; and `_closed`, if `_opened` leaves something open.

    Args:
        path: path of the file or folder.
        names: name of an array, whose rows are the records; or names of several arrays of equal
            length, whose rows are the values of dicts. None: all arrays.
        cache_bytes: maximum size of the chunks that a process keeps in memory, in bytes.
        storage_options: how a file in a store is reached, for subclasses that open it with
            `_opened_file`.
    """

    _kind = "array"
    _stamp: Stamp | None = None
    """Stamp of a file in a store when the source was made."""

    def __init__(
        self,
        path: str,
        names: str | Sequence[str] | None,
        cache_bytes: int = 1,
        storage_options: StorageOptionsLike = None,
    ) -> None:
        self._path = path
        self._storage_options = storage_options_of(storage_options) if is_remote(path) else None
        self._cache_bytes = whole_number("cache_bytes", cache_bytes, 1, None, "a number of bytes")
        self._prepare()
        self._asked = names_of(names)
        opened = self._open()
        self._one = names if isinstance(names, str) else None
        self._names = chosen_names(self._asked, opened, path)
        arrays = {name: opened[name] for name in self._names}
        self._layout = [
            (name, str(array.dtype), tuple(map(int, array.shape))) for name, array in arrays.items()
        ]
        self._count = common_length(self._layout, path)
        self._identity = hex_digest(repr((self._one is None, self._layout, self._content())))

    def _prepare(self) -> None:
        self._arrays: Mapping[str, Any] | None = None
        self._stored: StoredFile | None = None
        self._process: int | None = None
        # By process: a lock that is held during a fork stays held in the child.
        self._locks: dict[int, threading.RLock] = {}
        self._kept: OrderedDict[tuple[str, int], Array] = OrderedDict()
        self._sizes: dict[tuple[str, int], int] = {}
        self._kept_bytes = 0
        self._opened_arrays: dict[str, OpenedArray] = {}

    def _opened_file(self) -> OpenFile:
        """Open the file. One in a store must have the version that it had when the source was made.

        Raises:
            SourceNotFoundError: it does not exist.
            SourceError: it cannot be opened.
        """
        file = open_file(self._path, self._storage_options, self._stamp)
        if is_remote(self._path):
            self._stamp = file.stamp
        return file

    def _ranges(self, array: Any, start: int, stop: int) -> Iterable[Range]:
        """Return the known ranges of a file in a store with rows `[start, stop)` of an array."""
        return ()

    def _fetch(self, name: str, array: Any, runs: Sequence[Run]) -> None:
        """Fetch runs of rows from a store, except chunks that are kept; not from a local file."""
        if self._stored is not None:
            missing = [run[:2] for run in runs if (name, run[0]) not in self._kept]
            self._stored.fetch(each for run in missing for each in self._ranges(array, *run))

    def _opened(self) -> Mapping[str, Any]:
        """Open the file, and return all arrays by name."""
        raise NotImplementedError

    def _closed(self) -> None:
        """Close what `_opened` has opened."""

    def _content(self) -> Any:
        """Return what identifies the content of the file beside names, dtypes and shapes."""
        raise NotImplementedError

    def _decoded(self, array: Any, rows: Array) -> Array:
        """Return rows that were read from an array, with bytes decoded where the array has text."""
        return rows

    def _chunk_rows(self, array: Any) -> int | None:
        """Return the number of rows in a chunk of an array; None if it is stored in one piece."""
        return int(array.chunks[0]) if array.chunks else None

    def _row_reader(self, array: Any) -> Callable[[int], Array]:
        """Return a function that reads a row of an array of numbers whose chunks are rows."""
        return partial(read_row, array)

    @property
    def _lock(self) -> threading.RLock:
        return self._locks.setdefault(os.getpid(), threading.RLock())

    def _open(self) -> Mapping[str, Any]:
        with self._lock:
            # a forked process shares no place in a file
            if self._arrays is None or self._process != os.getpid():
                self._kept, self._sizes, self._kept_bytes = OrderedDict(), {}, 0
                self._opened_arrays = {}
                self._arrays, self._process = self._opened(), os.getpid()
                self._check_same(self._arrays)
            return self._arrays

    def _check_same(self, arrays: Mapping[str, Any]) -> None:
        """Check that a file that is opened again has the same arrays.

        Raises:
            SourceError: an array is missing, or has another dtype or shape.
        """
        for name, dtype, shape in vars(self).get("_layout", ()):
            if name not in arrays or (
                str(arrays[name].dtype),
                tuple(map(int, arrays[name].shape)),
            ) != (dtype, shape):
                raise SourceError(
                    f"{shorten(self._path)} was changed: {self._kind} {short_repr(name)} is "
                    "missing, or has another dtype or shape. Make the source again."
                )

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, key: SupportsIndex) -> Any:
        return self._read(np.array([check_key(key, self._count, type(self).__name__)], np.int64))[0]

    def __getitems__(self, keys: Keys) -> list[Any]:
        """Return the records of `keys`, in order.

        Each chunk that has some of them is read at most once.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
            SourceError: the file cannot be read.
        """
        checked = check_keys(keys, self._count, type(self).__name__)
        return self._read(checked) if len(checked) else []

    def _read(self, keys: Int64s) -> list[Any]:
        columns = {name: self._rows(name, keys) for name in self._names}
        if self._one is not None:
            return columns[self._one]
        return [dict(zip(columns, values)) for values in zip(*columns.values())]

    def _rows(self, name: str, keys: Int64s) -> list[Any]:
        found: list[Any] = [None] * len(keys)
        try:
            # for HDF5, which reads on one thread at a time anyway, and for `close`
            with self._lock:
                opened = self._array(name)
                if opened.read_row is not None:
                    return self._whole_chunks(name, opened.read_row, opened.row_bytes, keys)
                runs = list(runs_of(keys, opened.chunk_rows, opened.row_bytes))
                for number, (start, stop, wanted, places) in enumerate(runs):
                    if number % RUNS_AT_ONCE == 0:
                        self._fetch(name, opened.array, runs[number : number + RUNS_AT_ONCE])
                    rows = self._run(name, opened, start, min(stop, self._count))
                    # a row that is a view keeps the whole run in memory
                    copies = 2 * len(places) < stop - start
                    for key, place in zip(wanted, places):
                        row = rows[key - start]
                        found[place] = (
                            row.copy() if copies and isinstance(row, np.ndarray | np.void) else row
                        )
                self._fetch(name, opened.array, ())  # nothing that was fetched stays in memory
        except SourceError:  # the file cannot be opened again
            raise
        except (
            OSError,
            ValueError,
            RuntimeError,
            LookupError,
            EOFError,
            zlib.error,
            zipfile.BadZipFile,
        ) as error:
            otherwise = "Check the file, or write it again"
            raise SourceError(
                f"{shorten(self._path)}: {self._kind} {short_repr(name)} cannot be read at record "
                f"key {keys[0]}, or at a record that was read with it: {shorten(error)}. "
                f"{remedy_for(error, otherwise) if isinstance(error, OSError) else otherwise}."
            ) from error
        return found

    def _array(self, name: str) -> OpenedArray:
        array = self._open()[name]
        if name not in self._opened_arrays:
            is_plain, chunk_rows = array.dtype.kind in "biufc", self._chunk_rows(array)
            by_row = is_plain and chunk_rows == 1 and len(array.shape) > 1 and self._stored is None
            read_row = self._row_reader(array) if by_row else None
            self._opened_arrays[name] = OpenedArray(
                array, chunk_rows, row_bytes_of(array), is_plain, read_row
            )
        return self._opened_arrays[name]

    def _run(self, name: str, opened: OpenedArray, start: int, stop: int) -> Array:
        """Return consecutive rows of an array, read-only.

        A chunk is kept, unless it exceeds `cache_bytes`.
        """
        if (rows := self._kept.get((name, start))) is not None:
            self._kept.move_to_end((name, start))
            return rows
        array = opened.array
        # h5py reads one row several times as fast as a slice of one row
        if opened.is_plain and stop - start == 1:
            rows = np.asarray(array[start])[None]
        elif opened.is_plain:
            rows = np.asarray(array[start:stop]).view()
        else:
            rows = self._decoded(array, np.asarray(array[start:stop])).view()
        rows.flags.writeable = False
        if not opened.is_plain and rows.dtype.hasobject:
            for value in rows.flat:
                if isinstance(value, np.ndarray):
                    value.flags.writeable = False
        if opened.chunk_rows is not None:
            self._keep((name, start), rows, rows.nbytes if opened.is_plain else bytes_of(rows))
        return rows

    def _whole_chunks(
        self, name: str, read: Callable[[int], Array], size: int, keys: Int64s
    ) -> list[Any]:
        """Return rows of `size` bytes of an array each of whose chunks is one row.

        `read` reads one.
        """
        # Less work for each row than a run takes, which would be more than that of h5py.
        found: list[Any] = [None] * len(keys)
        kept, keeps, before, row = self._kept, size <= self._cache_bytes, -1, None
        for place, key in sorted(enumerate(keys.tolist()), key=itemgetter(1)):
            if key != before:
                if not keeps:
                    row = read(key)
                elif (row := kept.get((name, key))) is not None:
                    kept.move_to_end((name, key))
                else:
                    row = read(key)
                    self._keep((name, key), row, size)
                before = key
            found[place] = row
        return found

    def _keep(self, place: tuple[str, int], rows: Array, size: int) -> None:
        """Keep a chunk of `size` bytes, unless it exceeds `cache_bytes`.

        Chunks that were used longest ago are dropped.
        """
        if size > self._cache_bytes:
            return
        self._kept[place], self._sizes[place] = rows, size
        self._kept_bytes += size
        while self._kept_bytes > self._cache_bytes:
            oldest, _ = self._kept.popitem(last=False)
            self._kept_bytes -= self._sizes.pop(oldest)

    @property
    def facts(self) -> SourceFacts:
        return SourceFacts(
            array_keys=True,
            checks_keys=True,
            reads_ahead=1,
            lengths_by=self.lengths_by,
            file_place=self.file_place,
            file_count=lambda: 1,
            records_together=lambda: self._together,
        )

    @cached_property
    def _together(self) -> int:
        arrays = self._open()
        return max(self._chunk_rows(arrays[name]) or 1 for name in self._names)

    def lengths_by(self, name: str) -> Int64s:
        """Return the length of each row of an array, `int64[records]`.

        A row that is an integer is a length itself. A text has its number of bytes in UTF-8.

        Args:
            name: name of the array.

        Raises:
            LengthsError: there is no such array, or its rows have no length.
        """
        shapes = {own: shape for own, _, shape in self._layout}
        if name not in shapes:
            remedy = (
                "Pass lengths= as a function of a record"
                if "" in shapes
                else f"Name one of {first_few(shapes, 8)}"
            )
            raise LengthsError(
                f"{shorten(self._path)} has no {self._kind} {short_repr(name)} among those that "
                f"are read. {remedy}."
            )
        if len(shapes[name]) > 1:
            return np.full(self._count, shapes[name][1], np.int64)
        values = self._rows(name, np.arange(self._count))
        try:
            return np.fromiter(
                map(length_of_value, values, range(self._count)), np.int64, self._count
            )
        except LengthsError:
            raise LengthsError(
                f"{shorten(self._path)}: not all rows of {self._kind} {short_repr(name)} have a "
                "length. Name an array whose rows are whole numbers of at least 0, texts or arrays."
            ) from None

    def file_place(self, key: int) -> FilePlace:
        return FilePlace(self._path, check_key(key, self._count, type(self).__name__))

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Class, number of records, and digest of names, dtypes, shapes and `_content()`.

        It does not depend on the folder.
        """
        return {"kind": type(self).__name__, "records": self._count, "files": self._identity}

    def close(self) -> None:
        """Close the file. The source stays usable: the next read opens the file again."""
        with self._lock:
            if self._arrays is not None and self._process == os.getpid():
                self._closed()
            self._arrays = self._stored = None
            self._opened_arrays.clear()
            self._kept.clear()
            self._sizes.clear()

    def __getstate__(self) -> dict[str, Any]:
        left_out = {
            "_arrays",
            "_opened_arrays",
            "_process",
            "_stored",
            "_locks",
            "_kept",
            "_sizes",
            "_file",
            "_together",
        }
        return {name: value for name, value in vars(self).items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self._count} rows of {first_few(self._names, 8)} in "
            f"{shorten(self._path)})"
        )
