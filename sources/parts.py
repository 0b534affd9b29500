"""Read records from consecutive parts, such as files or row groups, and look at many parts at the same time."""

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
    """Return the result of `look` for each part, in order. It is called on several threads, once for equal parts.

    >>> of_each(len, ["one", "three", "one"])
    [3, 5, 3]
    """
    once = list(dict.fromkeys(parts))
    found = dict(zip(once, in_parallel(look, once)))
    return [found[part] for part in parts]


def read_by_part(keys: Int64s, ends: Int64s, read: Callable[[int, Int64s], list[RecordT]]) -> list[RecordT]:
    """Return the records of `keys`, in order, with one `read` for each part that they touch.

    Args:
        keys: `int64[n]`, each in `[0, ends[-1])`.
        ends: `int64[parts]`, the first key after each part.
        read: `read(part, keys)` returns the records of keys within one part.

    >>> read_by_part(np.array([4, 0, 3]), np.array([2, 5]), lambda part, keys: [f"{part}:{key}" for key in keys])
    ['1:4', '0:0', '1:3']
    """
    if len(keys) == 0:
        return []
    if len(ends) == 1:
        return read(0, keys)
    if len(keys) == 1:
        return read(int(ends.searchsorted(keys[0], side="right")), keys)
    groups = grouped(ends.searchsorted(keys, side="right"), keys)
    return list(in_order([read(part, groups.indices[start:stop]) for part, start, stop in groups.slices], groups))


def part_of(key: int, ends: Int64s) -> tuple[int, int]:
    """Return the part that a key is in, and its number in that part.

    >>> part_of(4, np.array([2, 5]))
    (1, 2)
    """
    part = int(np.searchsorted(ends, key, side="right"))
    return part, key - (int(ends[part - 1]) if part else 0)


def by_part(keys: Int64s, ends: Int64s) -> list[tuple[int, Int64s]]:
    """Return the parts that keys touch, ascending, each with its keys.

    >>> [(part, some.tolist()) for part, some in by_part(np.array([4, 0, 3]), np.array([2, 5]))]
    [(0, [0]), (1, [4, 3])]
    """
    groups = grouped(ends.searchsorted(keys, side="right"), keys)
    return [(part, groups.indices[start:stop]) for part, start, stop in groups.slices]


@dataclass(frozen=True, slots=True)
class Groups:
    """Records of several parts, grouped by part."""

    slices: list[tuple[int, int, int]]
    """Part, start and stop of each group."""
    indices: Int64s
    """Numbers of the records within their parts, group by group."""
    back: Int64s
    """Place of each requested record in the groups."""


def grouped(parts: Int64s, indices: Int64s) -> Groups:
    """Group records by part.

    >>> grouped(np.array([7, 2, 7]), np.array([10, 11, 12])).slices
    [(2, 0, 1), (7, 1, 3)]
    """
    short = parts.astype(np.int16) if len(parts) and parts.max() < 1 << 15 else parts  # which sort three times as fast
    order = np.argsort(short, kind="stable")
    in_order = parts[order]
    edges = (np.flatnonzero(in_order[1:] != in_order[:-1]) + 1).tolist()
    back = np.empty(len(parts), dtype=np.int64)
    back[order] = np.arange(len(parts))
    cuts = pairwise([0, *edges, len(parts)] if len(parts) else [])
    return Groups([(int(in_order[start]), start, stop) for start, stop in cuts], indices[order], back)


def in_order(found: Sequence[Sequence[RecordT]], groups: Groups) -> Sequence[RecordT]:
    """Return the records of all groups in the requested order."""
    records = list(chain.from_iterable(found))
    if len(records) < 2:  # itemgetter of one index returns no tuple
        return records
    return operator.itemgetter(*groups.back.tolist())(records)  # type: ignore[no-any-return]


class LastResult(Generic[FoundT]):
    """Cache of the last result of a function of keys, because each column of a batch asks for the same keys.

    Threads may share it. Keys and result are replaced together; at worst two threads compute the same result.
    """

    def __init__(self, find: Callable[[Int64s], FoundT]) -> None:
        self._find = find
        self._last: tuple[Int64s, FoundT] | None = None

    def of(self, keys: Int64s) -> FoundT:
        last = self._last
        if last is None or last[0] is not keys:
            self._last = last = keys, self._find(keys)
        return last[1]
