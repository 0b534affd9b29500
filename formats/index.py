"""Indices of records in files.

An index is made once, stored in a file, and mapped into memory by each reader.

It is stored beside the file as `<file>.headrace-index`; in the user's cache folder, if the file's
folder is read-only or the file is remote; or in a folder that the user passes. It contains size and
modification time of its file, and appears when it is complete. If the file was modified, the index
is made again.

An index is checked when it is mapped: once when a source is made, and once in each worker process.
Its arrays must have the names, dtypes and bounds that its kind requires, and its digest must match
(about 1 ms per megabyte). If it is damaged or forged, it is made again from the file.

    a line of text, MAGIC | a line of JSON: facts, words, and the arrays' names, dtypes and shapes |
    the arrays' bytes
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

from ..common.messages import first_few, shorten
from ..common.validation import warn
from ..files.mmap_files import map_readable
from ..files.opened import OpenFile, open_file
from ..files.stamps import Stamp
from ..files.storage_options import StorageOptionsLike
from ..files.urls import is_remote, name_of, unsigned
from ..files.whole_files import private_folder, written_whole

SUFFIX = ".headrace-index"
MAGIC = b"headrace index 1\n"
_ALIGNMENT = 64
CACHE_FOLDER = "headrace-indices"
"""Name of the folder for indices within the user's cache folder."""

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Index:
    """Places of a file's records. The arrays are read-only."""

    count: int
    """Number of records."""
    stamp: Stamp
    """Stamp (size and modification time) of the file."""
    digest: str
    """Digest of arrays and words.

    Equal digests mean records at the same places, with the same checksums or keys.
    """
    arrays: Arrays
    words: tuple[str, ...] = ()
    """Strings to which numbers in the arrays refer."""


@dataclass(frozen=True)
class FoundRecords:
    """Result of searching a file for its records, from which an `Index` is made."""

    count: int
    arrays: Arrays
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class IndexKind:
    """Description of the indices of a file format: how records are found, and the arrays."""

    name: str
    """Name of the format. It changes whenever the meaning of the result of `find` changes."""
    find: Callable[[OpenFile], FoundRecords]
    layout: Mapping[str, tuple[npt.DTypeLike, tuple[int, ...]]]
    """For each array its dtype, and its shape after the first axis."""
    fits: Callable[[FoundRecords, int], bool]
    """Function that returns True if arrays of this layout are consistent, and fit the file size."""
    suffix: str = SUFFIX
    """Suffix of the index file. It ends in `SUFFIX`."""


def index_of(
    path: str,
    kind: IndexKind,
    folder: str | None = None,
    storage_options: StorageOptionsLike = None,
    stamp: Stamp | None = None,
) -> Index:
    """Return the index of a file.

    If none is stored for this version of the file, make and store one.

    Args:
        path: path or URL of the file.
        kind: description of the indices of the file's format.
        folder: folder for indices. None (default): beside the file, or in the user's cache folder.
        storage_options: how a remote file is reached.
        stamp: expected version of the file. None (default): any version.

    Raises:
        SourceError: the file cannot be read, has another format, or is another version.
    """
    file = open_file(path, storage_options, stamp)
    try:
        places = places_of(path, folder, kind.suffix)
        kept = (read_index(place, kind, file.stamp) for place in places)
        return next((index for index in kept if index is not None), None) or _made(
            file, kind, places
        )
    finally:
        file.close()


def _made(file: OpenFile, kind: IndexKind, places: list[str]) -> Index:
    found = kind.find(file)
    file.check_unchanged()
    arrays = {name: np.ascontiguousarray(array) for name, array in found.arrays.items()}
    index = Index(found.count, file.stamp, digest_of(arrays, found.words), arrays, found.words)
    if not put_index(places, kind.name, index):
        folders = first_few([os.path.dirname(place) or "." for place in places])
        warn(
            f"{shorten(file.path, 100)}: its index cannot be saved in {folders}, so each process "
            "makes it again. Make one of these folders writable, or pass another one as index_dir= "
            "if the source has this argument."
        )
    return index


def put_index(places: list[str], kind: str, index: Index) -> bool:
    """Store an index at the first of these paths that can be written. Return True if it was stored.

    Args:
        places: paths, the preferred one first.
        kind: name of the index's kind.
        index: the index.
    """
    for place in places:
        folder = os.path.dirname(place)
        try:
            if os.path.basename(folder) == CACHE_FOLDER:
                private_folder(folder)
            else:
                os.makedirs(folder or ".", exist_ok=True)
            write_index(place, kind, index)
        except OSError:
            continue
        return True
    return False


def places_of(path: str, folder: str | None, suffix: str = SUFFIX) -> list[str]:
    """Return the paths at which the index of a file may be stored, the preferred one first.

    Args:
        path: path or URL of the file.
        folder: folder for indices; None: beside the file, or in the user's cache folder.
        suffix: suffix of the index file.
    """
    whole = unsigned(path) if is_remote(path) else os.path.abspath(path)
    elsewhere = f"{hashlib.sha256(whole.encode()).hexdigest()[:16]}-{name_of(path)}{suffix}"
    if folder is not None:
        return [os.path.join(folder, elsewhere)]
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    cached = os.path.join(home, CACHE_FOLDER, elsewhere)
    return [cached] if is_remote(path) else [path + suffix, cached]


def digest_of(arrays: Arrays, words: tuple[str, ...]) -> str:
    """Return the digest of an index, 16 hexadecimal digits."""
    digest = hashlib.sha256(json.dumps(words).encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype.str}".encode())
        digest.update(_bytes_of(arrays[name]))
    return digest.hexdigest()[:16]


def _bytes_of(array: npt.NDArray[Any]) -> Any:
    return array.reshape(-1).view(np.uint8).data


def write_index(place: str, kind: str, index: Index) -> None:
    """Write an index to a file.

    Args:
        place: path of the file.
        kind: name of the index's kind.
        index: the index.

    Raises:
        OSError: the file cannot be written.
    """
    said = {
        "kind": kind,
        "stamp": list(index.stamp),
        "count": index.count,
        "digest": index.digest,
        "words": index.words,
        "arrays": {
            name: [array.dtype.str, list(array.shape)] for name, array in index.arrays.items()
        },
    }
    with written_whole(place) as file:
        file.write(MAGIC + json.dumps(said).encode() + b"\n")
        for array in index.arrays.values():
            file.write(bytes(-file.tell() % _ALIGNMENT))
            file.write(_bytes_of(array))


def read_index(place: str, kind: IndexKind, stamp: Stamp) -> Index | None:
    """Return a stored index.

    Return None if it is missing or damaged, or belongs to another version of the file or another
    kind.

    Args:
        place: path of the index file.
        kind: kind that the index must have.
        stamp: stamp of the file to which the index must belong.
    """
    try:
        with open(place, "rb") as file:
            if file.readline(len(MAGIC)) != MAGIC:
                return None
            said, start = json.loads(file.readline()), file.tell()
        if (said["kind"], said["stamp"]) != (kind.name, list(stamp)):
            return None
        arrays = _mapped(map_readable(place), said["arrays"], start, kind)
        count, words = said["count"], said["words"]
        if not (
            _is_count(count)
            and isinstance(words, list)
            and all(isinstance(word, str) for word in words)
        ):
            return None
        found = FoundRecords(count, arrays, tuple(words))
        if said["digest"] != digest_of(arrays, found.words) or not kind.fits(found, stamp.size):
            return None
        return Index(found.count, stamp, said["digest"], arrays, found.words)
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
    ):  # no index of ours
        return None


def _mapped(
    memory: npt.NDArray[np.uint8], described: Mapping[str, Any], start: int, kind: IndexKind
) -> Arrays:
    """Return the arrays of an index, mapped.

    Args:
        memory: bytes of the index file.
        described: dtype and shape of each array, as the index file states them.
        start: offset of the first array.
        kind: kind of the index. Its dtypes are used.

    Raises:
        ValueError: the stated dtypes or shapes do not agree with the kind or the size of the file.
    """
    if described.keys() != kind.layout.keys():
        raise ValueError(list(described))
    arrays = {}
    for name, (dtype, shape) in described.items():
        known, rest = np.dtype(kind.layout[name][0]), kind.layout[name][1]
        rows = shape[0]
        if (
            not _is_count(rows)
            or dtype != known.str
            or shape[1:] != list(rest)
            or rows * known.itemsize > len(memory)
        ):
            raise ValueError(name)
        start += -start % _ALIGNMENT
        arrays[name] = np.ndarray((rows, *rest), known, memory, start)
        start += arrays[name].nbytes
    if start != len(memory):
        raise ValueError(start)
    return arrays


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def ascends(array: npt.NDArray[Any], length: int, last: int, step: int = 0) -> bool:
    """Return True if an array has `length` numbers from 0 to `last`, in steps of at least `step`.

    >>> ascends(np.array([0, 2, 5]), 3, 5), ascends(np.array([0, 5, 2]), 3, 2)
    (True, False)
    """
    if len(array) != length or not length:
        return False
    # a difference may wrap
    rises = bool((array[1:] >= array[:-1]).all() and (np.diff(array) >= step).all())
    return rises and int(array[0]) == 0 and int(array[-1]) == last


def lie_in(offsets: npt.NDArray[Any], lengths: npt.NDArray[Any], size: int) -> bool:
    """Return True if all ranges lie within a file of `size` bytes.

    Args:
        offsets: first byte of each range.
        lengths: number of bytes of each range.
        size: size of the file.

    >>> lie_in(np.array([0, 4]), np.array([4, 1]), 5)
    True
    >>> lie_in(np.array([2**63 - 1]), np.array([9]), 5)
    False
    """
    if len(offsets) != len(lengths) or min(offsets.min(initial=0), lengths.min(initial=0)) < 0:
        return False
    return bool((offsets <= size).all() and (lengths <= size - offsets).all())
