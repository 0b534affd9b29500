"""Parts (files, row groups) that lie end to end. In: record keys over them. Out: their records, each part read once.

And what is to be known of each part: looked at once, several at the same time.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ..files.remote.parallel import in_parallel

Int64s = npt.NDArray[np.int64]
RecordT = TypeVar("RecordT")
PartT = TypeVar("PartT", bound=Hashable)
FoundT = TypeVar("FoundT")


def of_each(look: Callable[[PartT], FoundT], parts: Sequence[PartT]) -> list[FoundT]:
    """Returns what `look` finds of each part, in their order. It is called on several threads, once for equal parts.

    >>> of_each(len, ["one", "three", "one"])
    [3, 5, 3]
    """
    once = list(dict.fromkeys(parts))
    found = dict(zip(once, in_parallel(look, once)))
    return [found[part] for part in parts]


def read_by_part(keys: Int64s, ends: Int64s, read: Callable[[int, Int64s], list[RecordT]]) -> list[RecordT]:
    """Returns the records of `keys`, in their order, with one `read` per part that they touch.

    Args:
        keys: `int64[n]`, each in `[0, ends[-1])`.
        ends: `int64[parts]`, the first key after each part.
        read: gives the records of some keys of one part: `read(part, keys)`.

    >>> read_by_part(np.array([4, 0, 3]), np.array([2, 5]), lambda part, keys: [f"{part}:{key}" for key in keys])
    ['1:4', '0:0', '1:3']
    """
    if len(keys) == 0:
        return []
    if len(ends) == 1:
        return read(0, keys)
    if len(keys) == 1:
        return read(int(ends.searchsorted(keys[0], side="right")), keys)
    order, groups = _grouped(keys, ends)
    records: list[RecordT] = []
    for part, members in groups:
        records += read(part, members)
    return list(operator.itemgetter(*np.argsort(order).tolist())(records))


def part_of(key: int, ends: Int64s) -> tuple[int, int]:
    """The part that a key is in, and its number there.

    >>> part_of(4, np.array([2, 5]))
    (1, 2)
    """
    part = int(np.searchsorted(ends, key, side="right"))
    return part, key - (int(ends[part - 1]) if part else 0)


def by_part(keys: Int64s, ends: Int64s) -> list[tuple[int, Int64s]]:
    """The parts that keys touch, ascending, each with its keys.

    >>> [(part, some.tolist()) for part, some in by_part(np.array([4, 0, 3]), np.array([2, 5]))]
    [(0, [0]), (1, [4, 3])]
    """
    return _grouped(keys, ends)[1] if len(keys) else []


def _grouped(keys: Int64s, ends: Int64s) -> tuple[Int64s, list[tuple[int, Int64s]]]:
    """The order in which keys stand by parts, and the parts with their keys."""
    part_of_key = np.searchsorted(ends, keys, side="right")
    order = np.argsort(part_of_key, kind="stable")
    parts, firsts = np.unique(part_of_key[order], return_index=True)
    return order, list(zip(parts.tolist(), np.split(keys[order], firsts[1:])))
