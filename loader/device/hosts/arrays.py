"""Batches that stay on the host: fill them up with rows, and make their masks.

In: trees of arrays. Out: the same trees, perhaps with more rows. Only the feeder's transfer thread
uses this module.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....operations.trees import Structure, flatten, leaf_names
from ..prepared import Arrangement, Prepared, check_rows, leading_rows
from .verdict import FILLING, OnUneven

_NUMBERS = (bool, int, float, complex, np.generic)


class OnHost:
    """Fills batches up with rows, on the host. It has the methods of `Placement`.

    With "pad" and "repeat", arrays of numbers and of text are filled up with rows; other leaves,
    such as strings and objects, are passed on unchanged. Batches stay on their host, so the batches
    of different hosts need not have the same shapes.

    Args:
        on_uneven: what to do if hosts have different amounts of data.
    """

    warning: str | None = None

    def __init__(self, on_uneven: OnUneven) -> None:
        self._fills, self._repeats = on_uneven in FILLING, on_uneven == "repeat"
        self._known: Arrangement | None = None

    def prepare(self, batch: Any) -> Prepared:
        """Split a batch into its leaves.

        Raises:
            ShardingError: with "pad" or "repeat", the arrays of the batch have different numbers of
                rows.
        """
        leaves, structure = flatten(batch)
        kinds = [_kind(leaf) for leaf in leaves]
        known = self._known
        if known is None or known.kinds != kinds or known.structure != structure:
            known = self._known = self._arranged(structure, kinds)
        return Prepared(leaves, known)

    def _arranged(
        self, structure: Structure, kinds: list[tuple[tuple[int, ...], Any]]
    ) -> Arrangement:
        names = leaf_names(structure)
        going = (
            [number for number, (_, kind) in enumerate(kinds) if kind is not None]
            if self._fills
            else []
        )
        shapes = [kinds[number][0] for number in going]
        leading, rows, with_rows = leading_rows(shapes, [], [False] * len(shapes))
        check_rows([names[number] for number in going], shapes, [])
        filled, known = (
            frozenset(going[index] for index in with_rows),
            max(rows, 0) if self._fills else -1,
        )
        return _OwnArrangement(structure, kinds, names, going, [], leading, filled, known, 1, [])

    def put(self, prepared: Prepared, rows: int | None, real: int | None = None) -> tuple[Any, Any]:
        """Return the batch, filled up to a number of rows, and its mask.

        The mask is None unless `on_uneven` is "pad" or "repeat" and an array of the batch has an
        axis.

        Args:
            prepared: the batch.
            rows: number of rows to which it is filled up; None to leave it as it is.
            real: number of rows, from the first, for which the mask is True. None: all rows that
                the batch had before it was filled up.
        """
        known = prepared.arrangement
        mask = None
        if known.leading is not None:
            mask = np.arange(known.rows if rows is None else rows) < (
                known.rows if real is None else real
            )
        return prepared.with_leaves(prepared.filled(rows, self._repeats)), mask


class _OwnArrangement(Arrangement):
    """An `Arrangement` (facts about batches) whose description is the same for all batches.

    So the hosts do not compare the shapes of their batches, which may be different on each host.
    """

    described = ""


def _kind(leaf: Any) -> tuple[tuple[int, ...], Any]:
    """Return the shape of a leaf of a batch, and its dtype (the type, for a number).

    The result is `((), None)` for leaves that are passed on unchanged: arrays of objects, masked
    arrays, and objects that are neither arrays nor numbers.
    """
    if isinstance(leaf, _NUMBERS):
        return (), type(leaf)
    if (
        isinstance(leaf, np.ndarray)
        and not leaf.dtype.hasobject
        and not isinstance(leaf, np.ma.MaskedArray)
    ):
        return leaf.shape, leaf.dtype
    return (), None
