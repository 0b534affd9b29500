"""Cache of facts about many files, such as the number of records in each, in one file beside them.

Inspecting 100,000 files takes many seconds. The cache contains the stamp (size and modification
time) of each file. The next source on these files reads only the stamps, and inspects the files
whose stamp has changed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..files.opened import OpenFile
from ..files.stamps import Stamp
from ..files.urls import any_remote
from ..formats.index import (
    SUFFIX,
    FoundRecords,
    Index,
    IndexKind,
    digest_of,
    places_of,
    put_index,
    read_index,
)
from .growing.generation import FileFacts
from .parts import of_each

Int64s: TypeAlias = npt.NDArray[np.int64]

MANY_FILES = 1000
"""Minimum number of files for which facts are cached. Fewer are inspected in less than a second."""

_MISSING = (-1, -1)


def kept_facts_of(
    paths: Sequence[str],
    kind: Any,
    stamped: Callable[[str], tuple[str, ...]],
    look: Callable[[str], tuple[int, ...]],
    width: int,
) -> tuple[Int64s, Int64s]:
    """Return the stamps of many local files, and facts about each.

    They come from the cache where it is valid.

    Args:
        paths: paths of the files.
        kind: JSON values that the facts depend on, besides the files.
        stamped: function that takes a path and returns the paths of all files that its facts depend
            on, `path` itself first. It returns the same number of paths for each file.
        look: function that takes a path, inspects that file, and returns `width` integers.
        width: number of integers that `look` returns.

    Returns:
        Two arrays: stamps, `int64[files, stamped, 2]`, with the size in bytes and the modification
            time
        in ns; and facts, `int64[files, width]`.

    Raises:
        Exception: whatever `look` raises for a file that cannot be read.
    """
    key = hashlib.sha256(json.dumps([kind, list(paths)], default=str).encode()).hexdigest()
    beside = os.path.join(os.path.dirname(os.path.abspath(paths[0])), ".files")
    places = places_of(beside, None, f".{key[:16]}{SUFFIX}")
    stamps = _stamps_of(list(map(stamped, paths)))
    shape = _kind(stamps.shape[1:], width)
    stamp = Stamp(len(paths), key)
    kept = next(
        (
            each
            for each in (read_index(place, shape, stamp) for place in places)
            if each is not None
        ),
        None,
    )
    if kept is None:
        numbers = np.array(of_each(look, paths), np.int64)
    else:
        changed = np.flatnonzero((stamps != kept.arrays["stamps"]).any(axis=(1, 2))).tolist()
        numbers = kept.arrays["numbers"]
        if not changed:
            return stamps, numbers
        numbers = numbers.copy()
        numbers[changed] = of_each(look, [paths[place] for place in changed])
    arrays = {"stamps": stamps, "numbers": numbers}
    put_index(places, shape.name, Index(len(paths), stamp, digest_of(arrays, ()), arrays))
    return stamps, numbers


def file_facts_of(
    paths: Sequence[str], kind: Any, look: Callable[[str], FileFacts]
) -> list[FileFacts]:
    """Return the facts about each file, in order.

    If there are at least 1,000 files and all are local, they come from the cache where it is valid.

    Args:
        paths: paths of the files.
        kind: JSON values that the facts depend on, besides the files.
        look: function that inspects the file at a path.

    Raises:
        Exception: an error that `look` raises for a file that cannot be read.
    """
    if len(paths) < MANY_FILES or any_remote(paths):
        return of_each(look, paths)

    def numbers_of(path: str) -> tuple[int, ...]:
        found = look(path)
        return found.records, *np.frombuffer(bytes.fromhex(found.digest), ">i8").tolist()

    stamps, numbers = kept_facts_of(paths, kind, lambda path: (path,), numbers_of, 2)
    digests = numbers[:, 1].astype(">i8").tobytes().hex()
    return [
        FileFacts(records, Stamp(*stamp), digests[16 * place : 16 * place + 16])
        for place, (records, stamp) in enumerate(zip(numbers[:, 0].tolist(), stamps[:, 0].tolist()))
    ]


def _kind(stamps: tuple[int, ...], width: int) -> IndexKind:
    def fits(found: FoundRecords, size: int) -> bool:
        return len(found.arrays["stamps"]) == len(found.arrays["numbers"]) == found.count == size

    return IndexKind(
        "facts about files",
        _no_pass,
        {"stamps": ("<i8", stamps), "numbers": ("<i8", (width,))},
        fits,
    )


def _no_pass(file: OpenFile) -> FoundRecords:
    raise NotImplementedError(
        f"an index of several files cannot be made from the single file {file.path}. This is a "
        "fault in headrace. Report it, with the output of `headrace report PROGRAM.py`."
    )


def _stamps_of(files: list[tuple[str, ...]]) -> Int64s:
    """Return sizes in bytes and modification times in ns, `int64[files, paths per file, 2]`.

    They are -1 for a missing file.

    Args:
        files: for each file, the paths of all files that its facts depend on.
    """
    paths = [path for each in files for path in each]
    try:
        found = [(one.st_size, one.st_mtime_ns) for one in map(os.stat, paths)]
    except OSError:  # whoever looks at the missing file raises its error
        found = list(map(_stamp, paths))
    return np.array(found, np.int64).reshape(len(files), -1, 2)


def _stamp(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return _MISSING
    return found.st_size, found.st_mtime_ns
