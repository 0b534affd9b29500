"""In: the columns of several sources, and keys of a mix of them. Out: rows, one `np.take` for each part and column.

Keys are those of a `MixedSource`: record i of part p, of n parts, is i·n + p.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Groups:
    """Records of several parts, those of each part together."""

    slices: list[tuple[int, int, int]]
    """Part, start and stop of each group."""
    indices: Int64s
    """Of the records within their parts, group by group."""
    back: Int64s
    """Where each of the records that were asked for stands among them."""


def grouped(parts: Int64s, indices: Int64s) -> Groups:
    """Sort records by their parts.

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


class _LastGroups:
    """The groups of keys; those of the last keys are kept, as each column asks for the same.

    Threads may share one: they replace keys and groups together, and at worst group the same keys twice.
    """

    def __init__(self, parts: int) -> None:
        self._parts = parts
        self._last: tuple[Int64s | None, Groups | None] = (None, None)

    def of(self, keys: Int64s) -> Groups:
        last, groups = self._last
        if last is not keys or groups is None:
            indices, parts = np.divmod(keys, self._parts)
            groups = grouped(parts, indices)
            self._last = keys, groups
        return groups


class MixedColumn:
    """One column of several sources, as far as batches need it: an array that is read by the keys of a mix."""

    def __init__(self, parts: Sequence[Array], groups: _LastGroups) -> None:
        self._takes = [part.take for part in parts]
        self._groups = groups
        self.dtype = parts[0].dtype
        self.shape = (sum(map(len, parts)), *parts[0].shape[1:])
        self.nbytes = sum(part.nbytes for part in parts)

    def __len__(self) -> int:
        return int(self.shape[0])

    def rows_of(self, keys: Int64s) -> tuple[Array, Int64s]:
        """The rows of `keys`, part by part, and where each of the keys' rows stands among them."""
        groups = self._groups.of(keys)
        rows = np.empty((len(keys), *self.shape[1:]), self.dtype)
        for part, start, stop in groups.slices:
            self._takes[part](groups.indices[start:stop], 0, rows[start:stop], "clip")
        return rows, groups.back


def mixed_columns(columns: Sequence[Any]) -> Any:
    """Trees of columns as one of mixed columns; None if they have not all the same structure, dtypes and shapes."""
    import optree

    if any(tree is None for tree in columns):
        return None
    flat = [optree.tree_flatten(tree, none_is_leaf=True, namespace="headrace") for tree in columns]
    leaves, structure = [leaves for leaves, _ in flat], flat[0][1]
    kinds = [[(leaf.dtype, leaf.shape[1:]) for leaf in some] for some in leaves]
    if any(other != structure for _, other in flat) or any(kind != kinds[0] for kind in kinds):
        return None
    groups = _LastGroups(len(columns))
    return structure.unflatten([MixedColumn(parts, groups) for parts in zip(*leaves)])
