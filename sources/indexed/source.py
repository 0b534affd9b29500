"""Base class of sources on files whose records are found through an index.

The index of a file is made when the first source on the file is made, and is stored
(`formats/index.py`). A source holds only paths. A process that reads a record opens the file and
maps the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from ...common.costs import length_of_field
from ...common.messages import first_few
from ...errors import NoRecordsError, SourceError
from ...files.opened import OpenFile, open_file
from ...files.paths import PathLike, Paths, text_of
from ...files.reader_pool import ReaderPool
from ...files.stamps import Stamp
from ...files.storage_options import StorageOptionsLike, storage_options_of
from ...files.urls import name_of
from ...formats.index import SUFFIX, FoundRecords, Index, IndexKind, index_of
from ..facts import SourceFacts
from ..file_source import FileSource, RecordT, hex_digest, open_files_limit
from ..growing.generation import FileFacts
from ..kept_facts import file_facts_of
from ..lengths import lengths_kind
from ..parts import by_part, of_each, part_of
from ..provenance import FilePlace

Ranges: TypeAlias = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Offsets and lengths of byte ranges, `int64[n]` each."""

_AT_A_TIME = 1024
"""Number of records per call when all records of a file are read."""


class IndexedSource(FileSource[RecordT]):
    """Base class of sources that find records through an index.

    Thread-safe, picklable, safe to fork.

    Records are numbered from the first file to the last. A subclass defines `index_kind`,
    `patterns`, `_read` and `_ranges`.

    Args:
        paths: a path, a glob, a directory, or a list of these.
        index_dir: folder for the indices. Default: beside the files.
        max_open_files: maximum number of open files of this source. None (default): all sources of
            a process together keep a quarter of the process's limit open (16 to 256).
        storage_options: how files in a store are reached and cached.
        growing: True or a folder if files may be added later; see
            `docs/how-to/data-that-changes.md`.
        generation: number of the list of files to read, from 0; None: the newest.
    """

    index_kind: ClassVar[IndexKind]
    patterns: ClassVar[tuple[str, ...]]
    """Patterns of the files that are read from a directory."""

    _unpickled = ("_pool", "_indices")
    _beside = (SUFFIX, ".unfinished")
    _stamps: tuple[Stamp, ...]

    def __init__(
        self,
        paths: Paths,
        *,
        index_dir: PathLike | None = None,
        max_open_files: int | None = None,
        storage_options: StorageOptionsLike = None,
        growing: bool | PathLike = False,
        generation: int | None = None,
    ) -> None:
        self._max_open_files = open_files_limit(max_open_files)
        self._index_dir = None if index_dir is None else text_of(index_dir)
        self._storage = storage_options_of(storage_options)
        self._begin(self._named(paths), self.patterns, self._storage, growing, generation)

    def _named(self, paths: Paths) -> Paths:
        """Return `paths`.

        A subclass may replace the path of a list of files by the files in the list.
        """
        return paths

    def _inspect_file(self, path: str) -> FileFacts:
        index = index_of(path, self.index_kind, self._index_dir, self._storage)
        self._check_count(path, index.count)
        return FileFacts(index.count, index.stamp, index.digest)

    def _check_count(self, path: str, count: int) -> None:
        """Raise SourceError if the user stated another number of records than `count` for a file.

        `path` is the path of the file.
        """

    def _inspect_all(self, paths: Sequence[str]) -> list[FileFacts]:
        return file_facts_of(paths, self.index_kind.name, self._inspect_file)

    def _facts(self, found: FileFacts) -> FileFacts:
        return found

    def _take(self, paths: Sequence[str]) -> None:
        self._paths, facts = tuple(paths), self._inspected(paths)
        self._stamps = tuple(each.stamp for each in facts)
        self._ends = np.cumsum([each.records for each in facts], dtype=np.int64)
        files = [(name_of(path), stamp.size) for path, stamp in zip(self._paths, self._stamps)]
        digest = hex_digest("".join(each.digest for each in facts), 12)
        self._identity = hex_digest(repr((files, self._described()))), digest
        if not facts or not self._ends[-1]:
            raise NoRecordsError(
                f"the files {first_few(self._paths)} contain no records. Pass a file with at least "
                "one record."
            )
        self._prepare()

    def _prepare(self) -> None:
        self._indices: dict[int, Index] = {}
        # the pool must not hold this object
        paths, stamps, storage = (self._paths, self._stamps, self._storage)

        def opened(number: int) -> OpenFile:
            return open_file(paths[number], storage, stamps[number])

        self._pool: ReaderPool[OpenFile] = ReaderPool(opened, self._max_open_files)

    def _read(self, file: OpenFile, index: Index, places: npt.NDArray[np.int64]) -> list[RecordT]:
        """Return the records at these places of one file, in order.

        Args:
            file: open file.
            index: index of the file.
            places: indices of the records in the file.

        Raises:
            SourceError: a record cannot be read.
        """
        raise NotImplementedError

    def _ranges(self, index: Index, places: npt.NDArray[np.int64]) -> Ranges:
        """Return two arrays `int64[n]`: offset and length, in the file, of each record's bytes.

        Args:
            index: index of the file.
            places: indices of the records in the file.
        """
        raise NotImplementedError

    def _described(self) -> Any:
        """Return JSON values that records depend on besides the files; None if there are none."""
        return None

    @property
    def facts(self) -> SourceFacts:
        # Of four threads, some wait for the disk while others make records.
        return super().facts._replace(
            reads_ahead=4, lengths_by=self.lengths_by, record_bytes=lambda: self.record_bytes
        )

    def file_place(self, key: int) -> FilePlace:
        number, place = part_of(key, self._ends)
        return FilePlace(self._paths[number], place, self._note(number, place))

    def _note(self, number: int, place: int) -> str:
        return ""

    @property
    def record_bytes(self) -> npt.NDArray[np.int64]:
        """Size of each record in its file, in bytes, `int64[records]`.

        Only the indices are read for it.
        """
        indices = [self._index(number) for number in range(len(self._paths))]
        return np.concatenate([self._ranges(index, np.arange(index.count))[1] for index in indices])

    def lengths_by(self, name: str) -> npt.NDArray[np.int64]:
        """Return the length of a field of each record, or the number in it, `int64[records]`.

        See `headrace.lengths_of`. All records are read once. Then the lengths are stored beside
        each file, like its index, and are found again only if the file was modified.

        Args:
            name: name of the field; "audio/samples" is the field `samples` of the dict `audio`.

        Raises:
            LengthsError: a record has no such field, or the field has no length.
            SourceError: a file cannot be read.
        """
        return np.concatenate(
            of_each(lambda number: self._lengths_in(number, name), range(len(self._paths)))
        )

    def _lengths_in(self, number: int, name: str) -> npt.NDArray[np.int64]:
        first = int(self._ends[number - 1]) if number else 0

        def find(file: OpenFile) -> FoundRecords:
            index, found = self._index(number), list[int]()
            for start in range(0, index.count, _AT_A_TIME):
                places = np.arange(start, min(start + _AT_A_TIME, index.count), dtype=np.int64)
                records = map(self._fields, self._read(file, index, places))
                found += [
                    length_of_field(fields, name, first + key)
                    for key, fields in enumerate(records, start)
                ]
            return FoundRecords(len(found), {"lengths": np.array(found, np.int64)})

        kind = lengths_kind(find, self.index_kind.name, name, self._described())
        stamp = self._stamps[number]
        return index_of(self._paths[number], kind, self._index_dir, self._storage, stamp).arrays[
            "lengths"
        ]

    def _fields(self, record: Any) -> Any:
        """Return a record as a mapping of its fields; a subclass may override it."""
        return record

    def _announce(self, keys: npt.NDArray[np.int64]) -> None:
        for number, some in by_part(keys, self._ends):
            with self._pool.lend(number) as file:
                file.prefetch(*self._ranges(self._index(number), self._places(number, some)))

    def _read_part(self, number: int, keys: npt.NDArray[np.int64]) -> list[RecordT]:
        places, index = self._places(number, keys), self._index(number)
        with self._pool.lend(number) as file:
            try:
                records = self._read(file, index, places)
            except SourceError as error:
                file.check_unchanged()
                for key, place in zip(keys.tolist(), places):
                    try:
                        self._read(file, index, np.array([place]))
                    except SourceError as single:
                        raise SourceError(f"record key {key} cannot be read: {single}") from error
                raise
            file.check_unchanged()
        return records

    def _index(self, number: int) -> Index:
        index = self._indices.get(number)
        if index is None:
            index = index_of(
                self._paths[number],
                self.index_kind,
                self._index_dir,
                self._storage,
                self._stamps[number],
            )
            self._indices[number] = index
        return index
