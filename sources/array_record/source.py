"""Source of the records of ArrayRecord files, as `bytes`.

The constructor opens each file once, counts its records, and closes it. A process that reads a
record opens the file again. Many records are read by one call of the library.
File format: https://github.com/google/array_record.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...common.messages import first_few, short_repr, shorten
from ...errors import NoRecordsError, SourceError
from ...files.opened import check_open_file, copy_ahead
from ...files.paths import PathLike, path_list
from ...files.reader_pool import ReaderPool
from ...files.stamps import Stamp
from ...files.storage_options import StorageOptionsLike, storage_options_of
from ...files.urls import is_remote, name_of
from ..facts import SourceFacts
from ..file_source import FileSource, hex_digest, open_files_limit
from ..growing.generation import FileFacts
from ..kept_facts import file_facts_of
from ..parts import by_part, part_of
from ..provenance import FilePlace
from .files import (
    DIRECTORY_PATTERNS,
    RANDOM_ACCESS,
    ArrayRecordPath,
    FileInstruction,
    FileRange,
    array_record_library,
    bounded,
    inspected,
    open_number,
    parts_of,
    read_positions,
    whole_files,
)


class ArrayRecordDataSource(FileSource[bytes]):
    """Records of ArrayRecord files, numbered from the first file to the last.

    Thread-safe, picklable, safe to fork.

    Args:
        paths: a path; a glob; a directory (its `*.array_record*` and `*.arrayrecord*` files, at any
            depth); `"path[start:end]"`, the records `[start, end)` of one file (`[start:]` and
            `[:end]` are open ranges); a file instruction of TFDS, with `filename`, `skip` and
            `take`; or a list of any of these. Files of a glob or directory are sorted by path; a
            list keeps its order. Names in a directory that begin with `.` or `_` are left out.
        reader_options: options of the library's reader, `{name: value}`. They override
            `readahead_buffer_size: 0` and `max_parallelism: 0`, which suit random access.
        max_open_files: maximum number of open files of this source. Default: all sources of a
            process together keep a quarter of the process's limit open (16 to 256).
        storage_options: how files in a store are reached and cached; see
            `docs/how-to/remote-files.md`. Each file is copied into the cache as a whole.
        growing: False (default), True, or a folder. If not False, more files may be added later.
            Each list of files is a numbered generation, which is recorded in
            `.headrace-generations` beside the data, or in this folder if one is passed; see
            `docs/how-to/data-that-changes.md`.
        generation: number of the generation to read, from 0. The source then does not look for
            newer files.

    Raises:
        SourceNotFoundError: a path matches no file.
        SourceError: a file is empty, cut off or not ArrayRecord; a range exceeds its file; there
            are no records; or the generation does not exist, or one of its files was modified.
        ValueError: `paths` is an empty list; a range is malformed, or is used with `growing`; the
            library does not know a reader option; or `max_open_files` is less than 1.
        TypeError: a path is neither a string nor a `pathlib.Path`, `reader_options` is not a dict,
            or `max_open_files` is not an integer.
        MissingExtraError: the library array_record is not installed.

    Example (needs a file):
        `ArrayRecordDataSource("train*.array_record")[0]` is a `bytes` object.
    """

    _kind = "ArrayRecordDataSource"
    _settles = False

    _starts: npt.NDArray[np.int64]
    """`int64[parts]`: key of a record, minus its position in the file of its part."""
    _files: tuple[tuple[str, Stamp], ...]
    """Path and stamp of each file, without duplicates. Parts of one file share its reader."""
    _file_of_part: list[int]

    def __init__(
        self,
        paths: ArrayRecordPath | Sequence[ArrayRecordPath],
        reader_options: Mapping[str, Any] | None = None,
        *,
        max_open_files: int | None = None,
        storage_options: StorageOptionsLike = None,
        growing: bool | PathLike = False,
        generation: int | None = None,
    ) -> None:
        array_record_library()
        self._storage = storage_options_of(storage_options)
        if reader_options is not None and not isinstance(reader_options, Mapping):
            raise TypeError(
                f"reader_options={short_repr(reader_options)} is not a dict. Pass a dict, {{name: "
                "value}."
            )
        options = {
            **RANDOM_ACCESS,
            **{str(name): str(value) for name, value in (reader_options or {}).items()},
        }
        self._options = ",".join(f"{name}:{value}" for name, value in options.items())
        self._max_open_files = open_files_limit(max_open_files)
        if growing is not False or generation is not None:
            self._begin(whole_files(paths), DIRECTORY_PATTERNS, self._storage, growing, generation)
            return
        listed = path_list([paths] if isinstance(paths, FileInstruction) else paths)
        self._take_parts([part for path in listed for part in parts_of(path, self._storage)])

    def _inspect_file(self, path: str) -> FileFacts:
        return inspected(path, self._options, self._storage)

    def _inspect_all(self, paths: Sequence[str]) -> list[FileFacts]:
        return file_facts_of(paths, type(self).__name__, self._inspect_file)

    def _facts(self, found: FileFacts) -> FileFacts:
        return found

    def _take(self, paths: Sequence[str]) -> None:
        self._take_parts(list(map(FileRange, paths)))

    def _take_parts(self, wanted: Sequence[FileRange]) -> None:
        self._paths = tuple(part.path for part in wanted)
        contents = self._inspected(self._paths)
        parts = [bounded(part, content.records) for part, content in zip(wanted, contents)]
        self._ends = np.cumsum([stop - start for _, start, stop in parts], dtype=np.int64)
        self._starts = self._ends - np.array([stop for _, _, stop in parts], np.int64)
        stamps = dict(zip(self._paths, (content.stamp for content in contents)))
        self._files, number = tuple(stamps.items()), dict(zip(stamps, range(len(stamps))))
        self._file_of_part = [number[path] for path in self._paths]
        described = [
            (name_of(path), content.stamp.size, content.records, start, stop)
            for (path, start, stop), content in zip(parts, contents)
        ]
        index = hex_digest("".join(content.digest for content in contents), 12)
        self._identity = hex_digest("".join(map(repr, described))), index
        self._prepare()
        if not len(self):
            raise NoRecordsError(
                f"the files {first_few(self._paths)}, or the ranges of them that were passed, "
                "contain no records. Pass a file, or a range, with at least one record."
            )

    def _prepare(self) -> None:
        # The pool holds no reference to this object, so that both die at once.
        opener = functools.partial(open_number, self._files, self._options, self._storage)
        self._pool: ReaderPool[Any] = ReaderPool(opener, self._max_open_files)

    @property
    def facts(self) -> SourceFacts:
        # The library has threads of its own, which serve one call.
        return super().facts._replace(
            has_own_threads=True, reads_ahead=1, records_together=self._group_size
        )

    def _group_size(self) -> int:
        """Return the number of records that are decompressed to read one record.

        It is the `group_size` of the first file.
        """
        with self._pool.lend(self._file_of_part[0]) as reader:
            found = re.search(r"group_size:(\d+)", reader.writer_options_string())
        return int(found[1]) if found else 1

    def _read_part(self, part: int, keys: npt.NDArray[np.int64]) -> list[bytes]:
        positions = (keys - self._starts[part]).tolist()
        with self._pool.lend(self._file_of_part[part]) as reader:
            try:
                records = read_positions(reader, positions)
            except RuntimeError as error:
                raise self._unreadable(part, reader, keys, error) from error
        # After it: where a file was cut off the library gives empty records, where it was written
        # anew others, and no error.
        check_open_file(*self._files[self._file_of_part[part]])
        return records

    def file_place(self, key: int) -> FilePlace:
        part, _ = part_of(key, self._ends)
        return FilePlace(self._paths[part], key - int(self._starts[part]))

    def _announce(self, keys: npt.NDArray[np.int64]) -> None:
        numbers = dict.fromkeys(self._file_of_part[part] for part, _ in by_part(keys, self._ends))
        files = [self._files[number] for number in numbers]
        if sum(stamp.size for _, stamp in files) <= self._storage.cache_bytes // 2:
            copy_ahead([(path, stamp) for path, stamp in files if is_remote(path)], self._storage)

    def _unreadable(
        self, part: int, reader: Any, keys: npt.NDArray[np.int64], error: Exception
    ) -> SourceError:
        check_open_file(*self._files[self._file_of_part[part]])
        path = shorten(self._paths[part])
        for key in keys.tolist():
            position = key - int(self._starts[part])
            try:
                read_positions(reader, [position])
            except RuntimeError as single:
                return SourceError(
                    f"{path}: record key {key} (record {position} of the file) cannot be read: "
                    f'{shorten(single)}. Write the file again, or pass on_error="skip".'
                )
        return SourceError(
            f"{path}: record keys {first_few(keys.tolist())} cannot be read: {shorten(error)}. "
            "Write "
            'the file again, or pass on_error="skip".'
        )
