"""In: record keys. Out: `bytes`, the records of ArrayRecord files, many per call of the library's own batched read.

The files are opened once at construction, to count their records, and closed again; the process that reads opens them
anew, when it first needs them. File format: https://github.com/google/array_record.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ...common.messages import first_few, short_repr, shorten
from ...common.validation import whole_number
from ...errors import NoRecordsError, SourceError
from ...files.opened import check_open_file, copy_ahead
from ...files.paths import path_list
from ...files.reader_pool import ReaderPool, open_file_limit
from ...files.stamps import Stamp
from ...files.storage_options import StorageOptions, StorageOptionsLike, storage_options_of
from ...files.urls import is_remote, name_of
from ..file_source import FileSource
from ..parts import by_part, of_each, part_of
from ..provenance import FilePlace
from .files import ArrayRecordPath, FileRange, bounded, one_or_many, parts_of
from .reader import RANDOM_ACCESS, Content, array_record_library, group_size_of, inspected, open_number, read_positions


class ArrayRecordDataSource(FileSource[bytes]):
    """The records of ArrayRecord files, in the order of the files. Thread-safe, picklable, safe to fork.

    Args:
        paths: a path, a glob, a directory (its `*.array_record*` files), `"path[start:end]"` for the records
            `[start, end)` of one file (`[start:]`: up to its end, `[:end]`: from its beginning), a file instruction
            with `filename`, `skip`, `take` (as TFDS gives it), or a list of any of these. A glob and a directory are
            sorted by name; a list keeps its order.
        reader_options: options of the library's reader that go over ours (`readahead_buffer_size:0`,
            `max_parallelism:0`, which suit random access).
        max_open_files: how many files stay open at most, default a quarter of what the process may open (16 to 1024).
        storage_options: how files in stores are reached and kept (docs/how-to/remote-files.md). They are brought whole into the
            cache.

    Raises:
        SourceNotFoundError: nothing is found under a path.
        SourceError: a file is empty, truncated or not ArrayRecord; a range goes past a file's end; no records at all.
        ValueError: `paths` is an empty list, a range is ill-formed, the library does not know a reader option, or
            `max_open_files` is less than 1.
        TypeError: a path is no path, or `max_open_files` is no integer.
        MissingExtraError: the library array_record is not installed.

    Example (needs a file):
        `ArrayRecordDataSource("train*.array_record")[0]` is a `bytes` object.
    """

    reads_ahead: ClassVar[int] = 2  # the reader's own threads serve one call; a second keeps them busy in between

    _parts: tuple[FileRange, ...]
    _options: str
    _storage: StorageOptions
    _max_open_files: int | None
    _starts: npt.NDArray[np.int64]
    """`int64[parts]`: what to subtract from a key to get the position in the part's file."""
    _stamps: dict[str, Stamp]
    _digest: str
    _index: str

    def __init__(
        self,
        paths: ArrayRecordPath | Sequence[ArrayRecordPath],
        reader_options: Mapping[str, Any] | None = None,
        *,
        max_open_files: int | None = None,
        storage_options: StorageOptionsLike = None,
    ) -> None:
        array_record_library()
        self._storage = storage_options_of(storage_options)
        if reader_options is not None and not isinstance(reader_options, Mapping):
            raise TypeError(f"reader_options={short_repr(reader_options)} must be a dict, {{name: value}}.")
        options = {**RANDOM_ACCESS, **{str(name): str(value) for name, value in (reader_options or {}).items()}}
        self._options = ",".join(f"{name}:{value}" for name, value in options.items())
        if max_open_files is not None:
            max_open_files = whole_number("max_open_files", max_open_files, 1, None, "a number of files, such as 64")
        self._max_open_files = max_open_files
        wanted = [part for path in path_list(one_or_many(paths)) for part in parts_of(path, self._storage)]
        named = [part.path for part in wanted]
        inspect = functools.partial(inspected, options=self._options, storage=self._storage)
        contents = dict(zip(named, of_each(inspect, named)))
        self._parts = tuple(bounded(part, contents[part.path].count) for part in wanted)
        self._stamps = {path: content.stamp for path, content in contents.items()}
        self._digest, self._index = _digests(self._parts, contents)
        self._prepare()
        if not len(self):
            raise NoRecordsError(f"no records in {first_few(named)}")

    def _prepare(self) -> None:
        lengths = [(part.stop or 0) - part.start for part in self._parts]
        self._ends = np.cumsum(lengths, dtype=np.int64)
        self._starts = self._ends - np.array([part.stop or 0 for part in self._parts], np.int64)
        # Parts of one file share its reader. The pool holds no reference to this object, so that both die at once.
        paths = list(dict.fromkeys(part.path for part in self._parts))
        number = {path: index for index, path in enumerate(paths)}
        self._file_of_part = [number[part.path] for part in self._parts]
        stamped = tuple((path, self._stamps[path]) for path in paths)
        opener = functools.partial(open_number, stamped, self._options, self._storage)
        self._pool: ReaderPool[Any] = ReaderPool(opener, self._max_open_files or open_file_limit())

    @property
    def file_count(self) -> int:
        return len(set(self._file_of_part))

    @property
    def records_together(self) -> int:
        """The number of records decompressed to read one: the first file's `group_size`."""
        with self._pool.lend(self._file_of_part[0]) as reader:
            return group_size_of(reader)

    def _read_part(self, part: int, keys: npt.NDArray[np.int64]) -> list[bytes]:
        positions = (keys - self._starts[part]).tolist()
        with self._pool.lend(self._file_of_part[part]) as reader:
            try:
                records = read_positions(reader, positions)
            except RuntimeError as error:
                raise self._unreadable(part, reader, keys, error) from error
        # After it: where a file was cut off the library gives empty records, where it was written anew others, and no error.
        self._check_unchanged(part)
        return records

    def file_place(self, key: int) -> FilePlace:
        part, _ = part_of(key, self._ends)
        return FilePlace(self._parts[part].path, key - int(self._starts[part]))

    def _is_in_store(self) -> bool:
        return any(is_remote(part.path) for part in self._parts)

    def _announce(self, keys: npt.NDArray[np.int64]) -> None:
        paths = list(dict.fromkeys(self._parts[number].path for number, _ in by_part(keys, self._ends)))
        if sum(self._stamps[path].size for path in paths) <= self._storage.cache_bytes // 2:
            copy_ahead([(path, self._stamps[path]) for path in paths if is_remote(path)], self._storage)

    def _check_unchanged(self, part: int) -> None:
        path = self._parts[part].path
        check_open_file(path, self._stamps[path])

    def _unreadable(self, part: int, reader: Any, keys: npt.NDArray[np.int64], error: Exception) -> SourceError:
        self._check_unchanged(part)
        path = self._parts[part].path
        for key in keys.tolist():
            position = key - int(self._starts[part])
            try:
                read_positions(reader, [position])
            except RuntimeError as single:
                return SourceError(
                    f"{shorten(path)}: record key {key} (record {position} of the file) cannot be read: {shorten(single)}"
                )
        return SourceError(f"{shorten(path)}: record keys {first_few(keys.tolist())} cannot be read: {shorten(error)}")

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Records, a digest of base names, sizes and ranges, and one of the indices: the same wherever the files lie."""
        return {"kind": "ArrayRecordDataSource", "records": len(self), "files": self._digest, "index": self._index}

    def close(self) -> None:
        self._pool.close()

    def __getstate__(self) -> dict[str, Any]:
        return {
            "parts": [(part.path, part.start, part.stop) for part in self._parts],
            "options": self._options,
            "storage": self._storage,
            "open": self._max_open_files,
            "digests": (self._digest, self._index),
            "stamps": {path: tuple(stamp) for path, stamp in self._stamps.items()},
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._parts = tuple(FileRange(*row) for row in state["parts"])
        self._options, self._max_open_files = state["options"], state["open"]
        self._storage = state["storage"]
        self._digest, self._index = state["digests"]
        self._stamps = {path: Stamp(*stamp) for path, stamp in state["stamps"].items()}
        self._prepare()

    def __repr__(self) -> str:
        return f"ArrayRecordDataSource({len(self)} records in {first_few([part.path for part in self._parts])})"


def _digests(parts: tuple[FileRange, ...], contents: Mapping[str, Content]) -> tuple[str, str]:
    """Digests of names, sizes and ranges; and of the files' indices."""
    files, index = hashlib.sha256(), hashlib.sha256()
    for part in parts:
        content = contents[part.path]
        described = (name_of(part.path), content.stamp.size, content.count, part.start, part.stop)
        files.update(repr(described).encode())
        index.update(content.index.encode())
    return files.hexdigest()[:16], index.hexdigest()[:12]
