"""Read records of consecutive parts, e.g. files or row groups, and inspect them in parallel."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ..files.remote.parallel import in_parallel

Int64s = npt.NDArray[np.int64]
RecordT = TypeVar("RecordT")
PartT = TypeVar("PartT", bound=Hashable)
FoundT = TypeVar("FoundT")


def of_each(look: Callable[[PartT], FoundT], parts: Sequence[PartT]) -> list[FoundT]:
    """Call a function for each part as `in_parallel` does.

    Return the results in the order of `parts`.

    Equal parts are passed to the function only once.

    Args:
        look: the function, which takes one part.
        parts: for example paths, or indices of files.

    Raises:
        Exception: an error that `look` raises.

    >>> of_each(len, ["one", "three", "one"])
    [3, 5, 3]
    """
    once = list(dict.fromkeys(parts))
    found = dict(zip(once, in_parallel(look, once)))
    return [found[part] for part in parts]


def read_by_part(
    keys: Int64s, ends: Int64s, read: Callable[[int, Int64s], list[RecordT]]
) -> list[RecordT]:
    """Return the records of `keys`, in order. Each part that has some of them is read by one call.

    Args:
        keys: `int64[n]`, each in `[0, ends[-1])`.
        ends: `int64[parts]`, the first key after each part.
        read: function that takes the index of a part and keys of that part, and returns their
            records.

    >>> def read(part, keys):
    ...     return [f"{part}:{key}" for key in keys]
    >>> read_by_part(np.array([4, 0, 3]), np.array([2, 5]), read)
    ['1:4', '0:0', '1:3']
    """
    if len(keys) == 0:
        return []
    if len(ends) == 1:
        return read(0, keys)
    if len(keys) == 1:
        return read(int(ends.searchsorted(keys[0], side="right")), keys)
    groups = grouped(ends.searchsorted(keys, side="right"), keys)
    return list(
        in_order(
            [read(part, groups.indices[start:stop]) for part, start, stop in groups.slices], groups
        )
    )


def part_of(key: int, ends: Int64s) -> tuple[int, int]:
    """Return the index of the part that has a key, and the index of the record within that part.

    Args:
        key: key of a record.
        ends: `int64[parts]`, the first key after each part.

    >>> part_of(4, np.array([2, 5]))
    (1, 2)
    """
    part = int(np.searchsorted(ends, key, side="right"))
    return part, key - (int(ends[part - 1]) if part else 0)


def by_part(keys: Int64s, ends: Int64s) -> list[tuple[int, Int64s]]:
    """Return `(part, keys)` for each part that has some of the keys, in ascending order of parts.

    Args:
        keys: `int64[n]`, keys of records.
        ends: `int64[parts]`, the first key after each part.

    >>> [(part, some.tolist()) for part, some in by_part(np.array([4, 0, 3]), np.array([2, 5]))]
    [(0, [0]), (1, [4, 3])]
    """
    groups = grouped(ends.searchsorted(keys, side="right"), keys)
    return [(part, groups.indices[start:stop]) for part, start, stop in groups.slices]


@dataclass(frozen=True, slots=True)
class Groups:
    """Requested records, sorted by part. Records of one part are one group.

    Attributes:
        slices: `(part, start, stop)` for each group: its records are `indices[start:stop]`.
        indices: `int64[n]`, indices of the records within their parts, group by group.
        back: `int64[n]`, for each requested record, in the order of the request, its position in
            `indices`.
    """

    slices: list[tuple[int, int, int]]
    indices: Int64s
    back: Int64s


def grouped(parts: Int64s, indices: Int64s) -> Groups:
    """Group records by part.

    Args:
        parts: `int64[n]`, part of each record.
        indices: `int64[n]`, index of each record within its part.

    >>> grouped(np.array([7, 2, 7]), np.array([10, 11, 12])).slices
    [(2, 0, 1), (7, 1, 3)]
    """
    # which sort three times as fast
    short = parts.astype(np.int16) if len(parts) and parts.max() < 1 << 15 else parts
    order = np.argsort(short, kind="stable")
    in_order = parts[order]
    edges = (np.flatnonzero(in_order[1:] != in_order[:-1]) + 1).tolist()
    back = np.empty(len(parts), dtype=np.int64)
    back[order] = np.arange(len(parts))
    cuts = pairwise([0, *edges, len(parts)] if len(parts) else [])
    return Groups(
        [(int(in_order[start]), start, stop) for start, stop in cuts], indices[order], back
    )


def in_order(found: Sequence[Sequence[RecordT]], groups: Groups) -> Sequence[RecordT]:
    """Return the records of all groups in the order in which they were requested.

    Args:
        found: records of each group.
        groups: groups of the requested records.
    """
    records = list(chain.from_iterable(found))
    if len(records) < 2:  # itemgetter of one index returns no tuple
        return records
    return operator.itemgetter(*groups.back.tolist())(records)  # type: ignore[no-any-return]


class LastResult(Generic[FoundT]):
    """Cache of the last result of a function that takes an array of keys: `of(keys)` returns it.

    It helps where each column of a batch is found with the same array object. Threads may share it:
    at worst two threads compute the same result.

    Args:
        find: the function.
    """

    def __init__(self, find: Callable[[Int64s], FoundT]) -> None:
        self._find = find
        self._last: tuple[Int64s, FoundT] | None = None

    def of(self, keys: Int64s) -> FoundT:
        last = self._last
        if last is None or last[0] is not keys:
            self._last = last = keys, self._find(keys)
        return last[1]
