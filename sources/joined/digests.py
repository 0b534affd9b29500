"""Find which records of two sources have the same value in a field, without keeping the values.

In: sources and the name of a field. Out: for each record a digest of its value, and pairs of equal
digests. Digests of records in local files are stored like the index of a file, and are found again
only if a file was modified.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ...common.messages import a_kind_of, first_few, short_repr
from ...errors import SourceError
from ...files.opened import stamp_of
from ...files.stamps import Stamp
from ...files.urls import any_remote
from ...formats.index import (
    SUFFIX,
    FoundRecords,
    Index,
    IndexKind,
    digest_of,
    places_of,
    put_index,
    read_index,
)
from ..facts import facts_of
from ..protocol import fingerprint_of, reader_of

Int64s = npt.NDArray[np.int64]
Digests = npt.NDArray[np.uint64]
"""`uint64[records, 2]`. Equal values have equal digests. None has [0, 0], which never matches."""

_AT_A_TIME = 1024
# first numbers of the digests of integers, whose second number is the integer
_POSITIVE, _NEGATIVE = (1, 2)


def digests_of(source: Any, name: str) -> Digests:
    """Return a digest of a field of each record.

    A record that is None, because a chain has dropped it, has the value None.

    Args:
        source: a source whose records are dicts.
        name: name of the field. Its values are integers, strings, bytes or None.

    Raises:
        SourceError: a record has no such field, or its value is of another type; or a record cannot
            be read.
    """
    columns = facts_of(source).columns()
    if (
        isinstance(columns, Mapping)
        and getattr(columns.get(name), "dtype", np.dtype(object)).kind in "iu"
    ):
        return _of_integers(np.asarray(columns[name]))
    return _kept(source, name, lambda: _read(source, name))


def digest_of_value(value: Any, name: str, key: int) -> tuple[int, int]:
    """Return the digest of one value.

    Raise SourceError for a type that cannot be compared, or too large an integer.
    """
    if value is None:
        return 0, 0
    if isinstance(value, (str, bytes)):
        data = (
            b"s" + value.encode("utf-8", "surrogatepass")
            if isinstance(value, str)
            else b"b" + value
        )
        high, low = np.frombuffer(
            hashlib.blake2b(data, digest_size=16).digest(), np.uint64
        ).tolist()
        return high, low
    if (
        isinstance(value, (int, np.integer))
        and not isinstance(value, bool)
        and -(2**63) <= int(value) < 2**64
    ):
        return _NEGATIVE if value < 0 else _POSITIVE, int(value) % 2**64
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        raise SourceError(
            f"record {key} has {name}={short_repr(value)}. Only integers from -2**63 to 2**64 - 1 "
            "can be compared. Make the values of this field integers of this range, or strings."
        )
    raise SourceError(
        f"record {key} has {name}={short_repr(value)}, {a_kind_of(value)}, which cannot be "
        "compared. Make the values of this field integers, strings or bytes."
    )


def matches(left: Digests, right: Digests) -> Int64s:
    """Return, for each digest of `left`, the index of an equal one in `right`, `int64[n]`, or -1.

    The digest of None has no equal, not even itself. If `right` has several equal digests, one of
    them is taken.
    """
    ordered, order = _sorted(right)
    places = np.minimum(np.searchsorted(ordered, _texts(left)), len(ordered) - 1)
    equal = (right[order[places]] == left).all(axis=1) & left.any(axis=1)
    return np.where(equal, order[places], -1)


def double(digests: Digests) -> tuple[int, int] | None:
    """Return two places that have the same digest; None if there are no such places.

    Digests of None do not count.
    """
    ordered, order = _sorted(digests)
    same = np.flatnonzero((ordered[1:] == ordered[:-1]) & digests[order[1:]].any(axis=1))
    if not len(same):
        return None
    one, other = sorted(order[same[0] : same[0] + 2].tolist())
    return one, other


def field_of(record: Any, name: str, key: int) -> Any:
    """Return a field of a record; SourceError if it is not a dict with this field."""
    if isinstance(record, Mapping) and name in record:
        return record[name]
    if not isinstance(record, Mapping):
        raise SourceError(
            f"record {key} is {a_kind_of(record)}, so it has no field {short_repr(name)}. Make all "
            "records of both sources dicts with this field, for example with MapDataset.map."
        )
    raise SourceError(
        f"record {key} has no field {short_repr(name)}: it has only {first_few(list(record))}. "
        "Pass on= with a field that all records have."
    )


def _sorted(digests: Digests) -> tuple[npt.NDArray[Any], Int64s]:
    texts = _texts(digests)
    order = np.argsort(texts, kind="stable")
    return texts[order], order


def _texts(digests: Digests) -> npt.NDArray[Any]:
    """Return digests as texts of 16 bytes, which NumPy can sort."""
    return np.ascontiguousarray(digests).view("S16").reshape(-1)


def _of_integers(values: npt.NDArray[Any]) -> Digests:
    return np.stack(
        [np.where(values < 0, _NEGATIVE, _POSITIVE).astype(np.uint64), values.astype(np.uint64)],
        axis=1,
    )


def _read(source: Any, name: str) -> Digests:
    found, read = np.empty((len(source), 2), np.uint64), reader_of(source)
    for start in range(0, len(found), _AT_A_TIME):
        keys = np.arange(start, min(start + _AT_A_TIME, len(found)))
        for key, record in zip(keys.tolist(), read(keys)):
            found[key] = digest_of_value(
                None if record is None else field_of(record, name, key), name, key
            )
    return found


def _kept(source: Any, name: str, find: Callable[[], Digests]) -> Digests:
    runs = facts_of(source).file_runs
    files = [] if runs is None else sorted({run.file for run in runs()})
    if not files or any_remote(files):
        return find()
    said = json.dumps(
        [name, fingerprint_of(source), [stamp_of(file) for file in files]], default=str
    )
    suffix = f".{hashlib.sha256(name.encode()).hexdigest()[:8]}.joined{SUFFIX}"
    kind = IndexKind(f"digests {said}", _of_no_file, {"digests": ("<u8", (2,))}, _fits, suffix)
    stamp, places = Stamp(len(source), None), places_of(files[0], None, suffix)
    stored = (read_index(place, kind, stamp) for place in places)
    index = next((index for index in stored if index is not None), None)
    if index is None:
        arrays = {"digests": find().astype("<u8")}
        index = Index(len(source), stamp, digest_of(arrays, ()), arrays)
        put_index(places, kind.name, index)
    return index.arrays["digests"]


def _fits(found: FoundRecords, size: int) -> bool:
    return len(found.arrays["digests"]) == found.count == size


def _of_no_file(file: Any) -> FoundRecords:
    raise NotImplementedError
