"""In: record keys over parts (files, row groups) that lie end to end. Out: their records, each part read once."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
RecordT = TypeVar("RecordT")


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
    order, groups = _grouped(keys, ends)
    records: list[RecordT] = []
    for part, members in groups:
        records += read(part, members)
    if len(records) == 1:  # itemgetter of one index returns no tuple.
        return records
    return list(operator.itemgetter(*np.argsort(order).tolist())(records))


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
