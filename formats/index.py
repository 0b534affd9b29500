"""Where the records of a file lie: found once, kept in a file, mapped into memory by everyone who reads.

In: a file and a function that goes through it. Out: an `Index`. It is kept beside the file, as `<file>.millrace-index`; in the
user's cache folder, where that is read-only or remote; or in a folder of the user's choice. It says of which file it is
(size, time of the last change), and appears under its name only when it is whole. One that is of another file is made anew.

    a line of text, MAGIC | a line of JSON: what it is of, words, and the arrays' names, dtypes and shapes | the arrays' bytes
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..checks import warn
from ..files.opened import OpenFile, open_file
from ..files.stamps import Stamp
from ..files.storage_options import StorageOptionsLike
from ..files.streams import written_whole
from ..files.urls import is_remote, name_of, unsigned
from ..mapped import map_readable
from ..wording import brief

SUFFIX = ".millrace-index"
MAGIC = b"millrace index 1\n"
_ALIGNMENT = 64

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Index:
    """Where the records of a file lie. Arrays are read-only."""

    count: int
    """How many records there are."""
    stamp: Stamp
    """Of the file."""
    digest: str
    """Of the arrays and words: two files with one digest have records at the same places, of the same checksums or keys."""
    arrays: Arrays
    words: tuple[str, ...] = ()
    """What numbers in the arrays stand for."""


@dataclass(frozen=True)
class Found:
    """What going through a file found."""

    count: int
    arrays: Arrays
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class IndexKind:
    """A format whose files have an index."""

    name: str
    """Changed whenever what `find` finds has another meaning."""
    find: Callable[[OpenFile], Found]


def index_of(
    path: str,
    kind: IndexKind,
    folder: str | None = None,
    storage_options: StorageOptionsLike = None,
    stamp: Stamp | None = None,
) -> Index:
    """The index of a file: the one that is kept, if it is of this file; else it is made, and kept.

    Args:
        path: of the file.
        kind: of the file.
        folder: where indices are kept. Default: beside the file, or in the user's cache folder.
        storage_options: how a remote file is reached.
        stamp: of the version that is wanted. Default: any.

    Raises:
        SourceError: the file cannot be read, is not of this kind, or is another version.
    """
    file = open_file(path, storage_options, stamp)
    try:
        places = _places(path, folder)
        kept = (_kept(place, kind.name, file.stamp) for place in places)
        return next((index for index in kept if index is not None), None) or _made(file, kind, places)
    finally:
        file.close()


def _made(file: OpenFile, kind: IndexKind, places: list[str]) -> Index:
    found = kind.find(file)
    file.check_unchanged()
    arrays = {name: np.ascontiguousarray(array) for name, array in found.arrays.items()}
    index = Index(found.count, file.stamp, _digest(arrays, found.words), arrays, found.words)
    for place in places:
        try:
            os.makedirs(os.path.dirname(place) or ".", exist_ok=True)
            _write(place, kind.name, index)
        except OSError:
            continue
        return index
    warn(
        f"{brief(file.path)}: its index can be kept nowhere, and is made anew by each process; pass index_dir=, a folder that "
        "can be written to."
    )
    return index


def _places(path: str, folder: str | None) -> list[str]:
    """Where an index may be kept, the best place first."""
    whole = unsigned(path) if is_remote(path) else os.path.abspath(path)
    elsewhere = f"{hashlib.sha256(whole.encode()).hexdigest()[:16]}-{name_of(path)}{SUFFIX}"
    if folder is not None:
        return [os.path.join(folder, elsewhere)]
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    cached = os.path.join(home, "millrace-indices", elsewhere)
    return [cached] if is_remote(path) else [path + SUFFIX, cached]


def _digest(arrays: Arrays, words: tuple[str, ...]) -> str:
    digest = hashlib.sha256(json.dumps(words).encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype.str}".encode())
        digest.update(_bytes_of(arrays[name]))
    return digest.hexdigest()[:16]


def _bytes_of(array: npt.NDArray[Any]) -> Any:
    return array.reshape(-1).view(np.uint8).data


def _write(place: str, kind: str, index: Index) -> None:
    said = {
        "kind": kind,
        "stamp": list(index.stamp),
        "count": index.count,
        "digest": index.digest,
        "words": index.words,
        "arrays": {name: [array.dtype.str, list(array.shape)] for name, array in index.arrays.items()},
    }
    with written_whole(place) as file:
        file.write(MAGIC + json.dumps(said).encode() + b"\n")
        for array in index.arrays.values():
            file.write(bytes(-file.tell() % _ALIGNMENT))
            file.write(_bytes_of(array))


def _kept(place: str, kind: str, stamp: Stamp) -> Index | None:
    """The index that is kept at a place, if it is whole and of this file."""
    try:
        with open(place, "rb") as file:
            if file.readline(len(MAGIC)) != MAGIC:
                return None
            said, start = json.loads(file.readline()), file.tell()
        if (said["kind"], said["stamp"]) != (kind, list(stamp)):
            return None
        arrays = _mapped(map_readable(place), said["arrays"], start)
        return Index(said["count"], stamp, said["digest"], arrays, tuple(said["words"]))
    except (OSError, ValueError, LookupError, TypeError):  # of other programs, or damaged: made anew
        return None


def _mapped(memory: npt.NDArray[np.uint8], described: Mapping[str, Any], start: int) -> Arrays:
    arrays = {}
    for name, (dtype, shape) in described.items():
        start += -start % _ALIGNMENT
        arrays[name] = np.ndarray(tuple(shape), np.dtype(dtype), memory, start)
        start += arrays[name].nbytes
    if start != len(memory):
        raise ValueError(start)
    return arrays
