"""Finds the ArrayRecord files that a user names. In: paths, ranges, file instructions. Out: files, and ranges of records."""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from ...common.messages import TEXT, short_repr, shorten
from ...errors import SourceError
from ...files.paths import PathLike, find_files, text_of
from ...files.storage_options import StorageOptions

DIRECTORY_PATTERNS = ("*.array_record*", "*.arrayrecord*")
"""The files of a directory that count; `*` at the end for names like `x.array_record-00000-of-00008`."""

_RANGE = re.compile(r"(.+)\[(-?\d*):(-?\d*)(:-?\d*)?\]", re.DOTALL)


@runtime_checkable
class FileInstruction(Protocol):
    """A part of one file, as TFDS and Grain give it: `take` records (-1: all) after the first `skip`."""

    filename: str
    skip: int
    take: int
    examples_in_shard: int


ArrayRecordPath: TypeAlias = PathLike | FileInstruction


class FileRange(NamedTuple):
    """The records `[start, stop)` of one file; stop None is the file's end, known once it was opened."""

    path: str
    start: int = 0
    stop: int | None = None


def parts_of(path: Any, storage: StorageOptions) -> list[FileRange]:
    """The ranges of files that a path, glob or folder, a `path[start:end]` or a file instruction means.

    Raises:
        SourceNotFoundError: nothing is there.
        ValueError: a range is ill-formed, or of several files.
        TypeError: it is no path.
    """
    if isinstance(path, FileInstruction):
        start = int(path.skip)
        return [FileRange(text_of(path.filename), start, None if path.take < 0 else start + int(path.take))]
    name = text_of(path)
    match = None if os.path.exists(name) else _RANGE.fullmatch(name)
    if match is None:
        return [FileRange(file) for file in find_files(name, DIRECTORY_PATTERNS, storage)]
    start, stop = _bounds(match, name)
    files = find_files(match[1], DIRECTORY_PATTERNS, storage)
    if len(files) > 1:
        raise ValueError(
            f"{shorten(name)}: a range [start:end] needs one file, and {short_repr(match[1], TEXT)} stands for {len(files)}"
        )
    return [FileRange(files[0], start, stop)]


def _bounds(match: re.Match[str], instruction: str) -> tuple[int, int | None]:
    start, stop = int(match[2] or 0), int(match[3]) if match[3] else None
    if match[4] or "-" in match[2] + match[3]:
        raise ValueError(
            f"{shorten(instruction)}: a range has no step and counts from the file's first record, 0; "
            "write path[start:end], [start:] or [:end]"
        )
    if stop is not None and start > stop:
        raise ValueError(
            f"{shorten(instruction)}: the range ends before it starts; write path[start:end] with start <= end"
        )
    return start, stop


def bounded(part: FileRange, count: int) -> tuple[str, int, int]:
    """Path, start and stop of a part of a file that has `count` records, or a SourceError where it goes past the end."""
    stop = count if part.stop is None else part.stop
    if not 0 <= part.start <= stop <= count:
        wanted = f"[{part.start}:{'' if part.stop is None else part.stop}]"
        raise SourceError(f"{shorten(part.path)}: records {wanted} were asked for, but the file has {count}")
    return part.path, part.start, stop
