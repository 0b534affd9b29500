"""Find the ArrayRecord files that a user names, and read them by the library `array_record`."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from time import perf_counter
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from ...common.lazy_exports import optional_library
from ...common.messages import TEXT, short_repr, shorten
from ...errors import SourceError, SourceNotFoundError
from ...files.descriptors import write_at
from ...files.opened import OpenFile, check_open_file, local_copy, open_file
from ...files.paths import PathLike, find_files, path_list, text_of
from ...files.stamps import Stamp
from ...files.storage_options import StorageOptions
from ...files.urls import is_remote
from ..growing.generation import FileFacts

DIRECTORY_PATTERNS = ("*.array_record*", "*.arrayrecord*")
"""Patterns of ArrayRecord files in a directory, with names like `x.array_record-00000-of-00008`."""

_RANGE = re.compile(r"(.+)\[(-?\d*):(-?\d*)(:-?\d*)?\]", re.DOTALL)


@runtime_checkable
class FileInstruction(Protocol):
    """Protocol of a part of a file, as TFDS and Grain describe it.

    Attributes:
        filename: path of the file.
        skip: number of records before the part.
        take: number of records in it; -1 means all that remain.
        examples_in_shard: number of records in the file.
    """

    filename: str
    skip: int
    take: int
    examples_in_shard: int


ArrayRecordPath: TypeAlias = PathLike | FileInstruction


class FileRange(NamedTuple):
    """Records `[start, stop)` of one file.

    Attributes:
        path: path of the file.
        start: index of the first record.
        stop: index of the record after the last one; None: the range ends with the file.
    """

    path: str
    start: int = 0
    stop: int | None = None


def parts_of(path: Any, storage: StorageOptions) -> list[FileRange]:
    """Return the parts of files that a user's path names.

    Args:
        path: a path, a glob, a folder, `"path[start:end]"`, or a file instruction.
        storage: how files in a store are reached.

    Raises:
        SourceNotFoundError: no file matches.
        ValueError: a range is malformed, or is given for several files.
        TypeError: `path` is not a path.
    """
    if isinstance(path, FileInstruction):
        start = int(path.skip)
        return [
            FileRange(
                text_of(path.filename), start, None if path.take < 0 else start + int(path.take)
            )
        ]
    name = text_of(path)
    match = None if os.path.exists(name) else _RANGE.fullmatch(name)
    if match is None:
        return [FileRange(file) for file in find_files(name, DIRECTORY_PATTERNS, storage)]
    start, stop = _bounds(match, name)
    files = find_files(match[1], DIRECTORY_PATTERNS, storage)
    if len(files) > 1:
        raise ValueError(
            f"{shorten(name)}: a range [start:end] needs a single file, but "
            f"{short_repr(match[1], TEXT)} matches {len(files)} files. Name one file."
        )
    return [FileRange(files[0], start, stop)]


def whole_files(paths: ArrayRecordPath | Sequence[ArrayRecordPath]) -> list[str]:
    """Return paths, globs and folders as a list of strings.

    Check first that each names whole files, not a part.

    Args:
        paths: the user's paths: one, or a list of them.

    Raises:
        ValueError: a path names a part of a file.
        TypeError: a path is neither a string nor a `pathlib.Path`.
    """
    listed = path_list([paths] if isinstance(paths, FileInstruction) else paths)
    for path in listed:
        if isinstance(path, FileInstruction) or (
            not os.path.exists(text_of(path)) and _RANGE.fullmatch(text_of(path))
        ):
            raise ValueError(
                f"{short_repr(path, TEXT)}: a growing source reads whole files, so a path must "
                "have no range, and must not be a file instruction with skip and take. Pass the "
                "path alone, or leave out growing= and generation=."
            )
    return list(map(text_of, listed))


def _bounds(match: re.Match[str], instruction: str) -> tuple[int, int | None]:
    start, stop = int(match[2] or 0), int(match[3]) if match[3] else None
    if match[4] or "-" in match[2] + match[3]:
        raise ValueError(
            f"{shorten(instruction)}: a range must have no step and no negative number. Write "
            "path[start:end], [start:] or [:end], counted from 0, the first record of the file."
        )
    if stop is not None and start > stop:
        raise ValueError(
            f"{shorten(instruction)}: the range ends before it starts. Write path[start:end] with "
            "start <= end."
        )
    return start, stop


def bounded(part: FileRange, count: int) -> tuple[str, int, int]:
    """Return `(path, start, stop)` of a part of a file, which has the records `[start, stop)`.

    Args:
        part: the part; its `stop` may be None.
        count: number of records in the file.

    Raises:
        SourceError: the part exceeds the file.
    """
    stop = count if part.stop is None else part.stop
    if not 0 <= part.start <= stop <= count:
        wanted = f"[{part.start}:{'' if part.stop is None else part.stop}]"
        raise SourceError(
            f"{shorten(part.path)}: the range asks for records {wanted}, but the file has {count} "
            f"records. Pass a range, or skip and take, within [0:{count}]."
        )
    return part.path, part.start, stop


# Threads and workers are the loader's: with parallelism of its own, each reader would compete with
# them.
RANDOM_ACCESS = {"readahead_buffer_size": "0", "max_parallelism": "0"}
# Below a page nothing is gained; 32 KiB and more cost up to 10 % with records of 1 KB.
_BUFFER_BYTES = 4096
# `read([p, …])` shares its work out to the library's threads: it costs 300 µs a call and overlaps
# waits for the disk. `read(p, p + 1)` takes 3 to 5 µs on the calling thread. So few keys are read
# one by one, unless they wait for the disk, and more in one call.
_FEW = 64
_CALL_SECONDS = 300e-6
# Files end in blocks of 64 KiB: the last one says where the index is, and the index is before it.
_INDEX_BYTES = 2 * 65536
_HEAD_BYTES, _END_BYTES = 1 << 16, 4 << 20
"""Bytes at the beginning and at the end of a remote file that are read to count its records."""


def array_record_library() -> Any:
    """Return the module of the library `array_record`.

    Raises:
        MissingExtraError: the library is not installed.
    """
    user = "ArrayRecordDataSource needs the package array_record"
    return optional_library("array_record.python.array_record_module", user, "array-record")


def inspected(path: str, options: str, storage: StorageOptions) -> FileFacts:
    """Open a file, and return its number of records, its stamp and a digest of its end.

    The stamp is the size and modification time.

    Args:
        path: path or URL of the file.
        options: options of the library's reader, `"name:value,…"`.
        storage: how files in a store are reached.

    Raises:
        SourceNotFoundError: the file does not exist.
        SourceError: the file is empty, cut off or not ArrayRecord.
    """
    with closing(open_file(path, storage)) as file:
        if not file.size:
            raise SourceError(
                f"{shorten(path)}: the file is empty (0 bytes). Remove the file, or write it again."
            )
        length = min(_INDEX_BYTES, file.size)
        digest = hashlib.sha256(file.read(file.size - length, length)).hexdigest()[:16]
        return FileFacts(_count(file, options, storage), file.stamp, digest)


def _count(file: OpenFile, options: str, storage: StorageOptions) -> int:
    """Return the number of records of a file.

    If possible, only the two ends of a remote file are read.

    Args:
        file: open file.
        options: options of the library's reader, `"name:value,…"`.
        storage: how files in a store are reached.

    Raises:
        SourceError: the file is empty, cut off or not ArrayRecord.
    """
    if is_remote(file.path):
        with suppress(SourceError), _ends_of(file, _END_BYTES) as path:
            return _count_at(path, file.path, options)
    with local_copy(file.path, storage, file.stamp) as path:
        return _count_at(path, file.path, options)


@contextmanager
def _ends_of(file: OpenFile, length: int) -> Iterator[str]:
    """Give a temporary file with the beginning and the end of `file` only.

    A context manager. Between the two are zeros.

    It has the size of `file`, and is removed at the end.

    Args:
        file: open file.
        length: number of bytes at the end.
    """
    tail = max(file.size - length, 0)
    head = min(tail, _HEAD_BYTES)
    with tempfile.NamedTemporaryFile(prefix="headrace-") as copy:
        for place, part in zip((0, tail), file.read_many([0, tail], [head, file.size - tail])):
            write_at(copy.fileno(), part, place)
        yield copy.name


def _count_at(path: str, name: str, options: str) -> int:
    with closing(_open(path, name, options)) as reader, _foreign(name):
        return int(reader.num_records())


def open_number(
    files: tuple[tuple[str, Stamp], ...], options: str, storage: StorageOptions, number: int
) -> Any:
    """Open the file `files[number]` for reading, and return the library's reader.

    Args:
        files: path and expected stamp of each file.
        options: options of the library's reader, `"name:value,…"`.
        storage: how files in a store are reached.
        number: index into `files`.

    Raises:
        SourceError: the file is missing, was modified or cannot be read.
    """
    name, stamp = files[number]
    with local_copy(name, storage, stamp) as path:
        reader = _open(path, name, options)
    try:
        check_open_file(name, stamp)
    except BaseException:
        reader.close()
        raise
    return reader


def _open(path: str, name: str, options: str) -> Any:
    """Open a local file, and return the library's reader.

    Args:
        path: path of the file.
        name: name of the file, for messages.
        options: options of the library's reader, `"name:value,…"`.

    Raises:
        SourceNotFoundError: the file does not exist.
        SourceError: the file is empty, cut off or not ArrayRecord.
    """
    if not os.path.exists(path):
        raise SourceNotFoundError(f"there is no file {short_repr(name, TEXT)}. Check the path.")
    if not os.path.getsize(path):
        raise SourceError(
            f"{shorten(name)}: the file is empty (0 bytes). Remove the file, or write it again."
        )
    reader = array_record_library().ArrayRecordReader(
        path, options=options, file_reader_buffer_size=_BUFFER_BYTES
    )
    if reader.ok():  # the library reports errors only when the reader is used or closed
        return reader
    with _foreign(name):
        reader.close()
    raise _unreadable(name)


@contextmanager
def _foreign(name: str) -> Iterator[None]:
    """Turn a RuntimeError of the library into a SourceError that names the file `name`.

    A context manager.
    """
    try:
        yield
    except RuntimeError as error:
        raise _unreadable(name, str(error)) from error


def _unreadable(name: str, reason: str = "") -> SourceError:
    because = f" ({shorten(reason)})" if reason else ""
    return SourceError(
        f"{shorten(name)} cannot be read{because}. It is not an ArrayRecord file, is cut off, or "
        "this process may not read it. Pass another file, write it again, or change its "
        "permissions."
    )


def read_positions(reader: Any, positions: list[int]) -> list[bytes]:
    """Return the records at these positions of an open file, in order.

    Args:
        reader: the library's reader.
        positions: indices of the records in the file, from 0.

    Raises:
        RuntimeError: the library cannot read a record.
    """
    records: list[bytes] = []
    if len(positions) > _FEW:
        records += reader.read(positions)
        return records
    end = perf_counter() + _CALL_SECONDS
    for place, position in enumerate(positions):
        if place < len(positions) - 1 and perf_counter() > end:
            records += reader.read(positions[place:])
            break
        records += reader.read(position, position + 1)
    return records
