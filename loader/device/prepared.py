"""Batches split into their leaves, to be filled up with rows and put where the user wants them.

In: leaves of a batch (arrays and numbers) and facts about them. Out: leaves with more rows,
templates (batches without rows), and the batch again. jax is not imported, because feeders without
devices use this module, too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from ...common.messages import first_few, shorten
from ...errors import ShardingError
from ...operations.trees import Structure


@dataclass(frozen=True)
class Arrangement:
    """Facts about all batches with the same structure, shapes and dtypes.

    A leaf is an array or number of the batch. The leaves in `going` are put on devices. In a feeder
    without devices, `going` has the leaves that can be filled up with rows: arrays and numbers. All
    other leaves are passed on as they are.

    Attributes:
        structure: structure of the batch.
        kinds: shape and dtype of each leaf.
        names: name of each leaf.
        going: indices of the leaves that are put on devices (or can be filled up).
        shardings: sharding of each leaf in `going`; empty without devices.
        leading: the leaf whose leading axis defines the number of rows, as an index in `going`. It
            is the first leaf that is divided along its leading axis. If no leaf is divided, it is
            the first leaf that has an axis. None if no leaf has an axis.
        with_rows: indices of the leaves whose leading axis has the rows.
        rows: number of rows; -1 if no leaf has rows.
        divisor: `rows` must be a multiple of this number.
        cut: a pair (index of the leaf, dtype on devices) for each integer leaf that has fewer bits
            on devices.
    """

    structure: Structure
    kinds: list[tuple[tuple[int, ...], Any]]
    names: list[str]
    going: list[int]
    shardings: list[Any]
    leading: int | None
    with_rows: frozenset[int]
    rows: int
    divisor: int
    cut: list[tuple[int, Any]]

    @cached_property
    def described(self) -> str:
        """Text that says path, dtype and shape of each leaf in `going` (those put on devices).

        The number of rows is left out. The text must be equal on all hosts.
        """
        return "; ".join(self._described(number, *self.kinds[number]) for number in self.going)

    def _described(self, number: int, shape: tuple[int, ...], dtype: Any) -> str:
        sizes = ["rows", *shape[1:]] if number in self.with_rows else shape
        return f"{self.names[number] or 'itself'} {dtype}[{', '.join(map(str, sizes))}]"


@dataclass(slots=True)
class Prepared:
    """A batch split into its leaves (arrays and numbers).

    Attributes:
        leaves: the leaves.
        arrangement: facts about all batches with the same structure, shapes and dtypes.
    """

    leaves: list[Any]
    arrangement: Arrangement

    def template(self) -> Any:
        """Return the batch with 0 rows, as a pattern for a process that has no batch left.

        Leaves (arrays and numbers) that have no rows keep their values. Leaves that are not put on
        devices become None. In a feeder without devices, objects that are neither arrays nor
        numbers become None.
        """
        going, with_rows = set(self.arrangement.going), self.arrangement.with_rows
        leaves = [
            _kept(leaf[:0] if number in with_rows else leaf) if number in going else None
            for number, leaf in enumerate(self.leaves)
        ]
        return self.arrangement.structure.unflatten(leaves)

    def constants(self) -> dict[str, bytes]:
        """Return the bytes of each leaf (array or number) without an axis for rows, by name.

        Leaves that are not put on devices are left out. In a feeder without devices, leaves are
        left out to which rows can never be added, such as objects.

        The returned leaves must be equal in all batches, because a process that has no batch left
        uses the leaves of another batch.
        """
        arrangement = self.arrangement
        constant = [number for number in arrangement.going if number not in arrangement.with_rows]
        return {arrangement.names[number]: _content(self.leaves[number]) for number in constant}

    def filled(self, rows: int | None, repeats: bool) -> list[Any]:
        """Return the leaves (arrays and numbers) of the batch for devices, with rows added.

        Rows are added to all leaves that have rows. Leaves that are not put on devices are left
        out. In a feeder without devices, leaves are left out to which rows can never be added, such
        as objects.

        Args:
            rows: number of rows that leaves have afterwards. None: no rows are added.
            repeats: True: missing rows are the rows of the batch again, from the first row. False:
                missing rows are zeros.
        """
        known = self.arrangement
        leaves = [self.leaves[number] for number in known.going]
        if rows is None or rows == known.rows:
            return leaves
        fill = _repeated if repeats and known.rows else _filled
        return [
            fill(leaf, rows) if number in known.with_rows else leaf
            for number, leaf in zip(known.going, leaves)
        ]

    def with_leaves(self, leaves: Iterable[Any]) -> Any:
        """Return the batch with new leaves in place of those that `filled` has returned.

        Args:
            leaves: the new leaves (arrays and numbers), in the order of `filled`.
        """
        for number, leaf in zip(self.arrangement.going, leaves):
            self.leaves[number] = leaf
        return self.arrangement.structure.unflatten(self.leaves)


class Placement(Protocol):
    """Interface of the last step of a feeder: puts batches on devices, or keeps them on the host.

    Only the feeder's transfer thread calls the methods.

    Attributes:
        warning: a warning for the user, which the user's thread issues; None if there is none.
    """

    warning: str | None

    def prepare(self, batch: Any) -> Prepared:
        """Split a batch into its leaves (arrays and numbers), for `put`.

        Raises an error if the batch cannot be put where the user wants it.
        """

    def put(self, prepared: Prepared, rows: int | None, real: int | None = None) -> tuple[Any, Any]:
        """Put a batch on devices, or leave it on the host; return the batch and its mask.

        The mask is None if batches are not filled up.

        Args:
            prepared: the batch.
            rows: number of rows to which it is filled up; None to leave it as it is.
            real: number of rows, from the first, for which the mask is True. The rows after these
                are filled in. None: all rows that the batch had before it was filled up.
        """


def describe_leaf(name: str) -> str:
    """Return a text with which messages name a leaf (array) of a batch.

    Args:
        name: name of the leaf; empty if the batch is a single array.
    """
    return f"the batch's leaf {shorten(name)}" if name else "the batch"


def leading_rows(
    shapes: list[tuple[int, ...]], divided: list[int], everywhere: list[bool]
) -> tuple[int | None, int, list[int]]:
    """Find the leaves (arrays) of a batch that have its rows, and the number of rows.

    The number of rows is the length of one leaf's leading axis. This is the first leaf that is
    divided along its leading axis. If no leaf is divided, it is the first leaf that has an axis.
    All leaves with this length have rows, with one exception: if some leaf is divided, leaves that
    are put whole on every device have no rows.

    Args:
        shapes: shape of each leaf.
        divided: indices of the leaves that are divided along their leading axis.
        everywhere: for each leaf, True if it is put whole on every device.

    Returns:
        Three values: the index of the leaf that defines the number of rows, or None; the number of
        rows, or -1 if no leaf has rows; and the indices of all leaves with rows.
    """
    leading = next(iter(divided or [index for index, shape in enumerate(shapes) if shape]), None)
    if leading is None:
        return None, -1, []
    rows = shapes[leading][0]
    alike = [index for index, shape in enumerate(shapes) if shape and shape[0] == rows]
    return leading, rows, [index for index in alike if not (divided and everywhere[index])]


def check_rows(names: list[str], shapes: list[tuple[int, ...]], divided: list[int]) -> None:
    """Check that all leaves (arrays) of a batch that have rows have the same number of rows.

    Args:
        names: name of each leaf.
        shapes: shape of each leaf.
        divided: indices of the leaves that are divided along their leading axis. If there are none,
            all leaves with an axis have rows.

    Raises:
        ShardingError: the numbers of rows differ.
    """
    sizes = {
        shapes[index][0]: names[index] for index in divided or range(len(shapes)) if shapes[index]
    }
    if len(sizes) > 1:
        each = first_few([f"{name or 'the batch'}: {size}" for size, name in sizes.items()])
        raise ShardingError(
            'on_uneven="pad" or "repeat" cannot know which leaves have one row for each record, '
            f"because their leading axes differ ({each}). Remove the others in a map. Or, for "
            'batches on devices, pass a tree of shardings: (mesh, "data") for leaves with rows and '
            "(mesh, PartitionSpec()) for others."
        )


def _is_jax(leaf: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(leaf, jax.Array)


def _kept(leaf: Any) -> Any:
    return leaf if _is_jax(leaf) else np.array(leaf)


def _content(leaf: Any) -> bytes:
    if _is_jax(leaf) and not isinstance(leaf.dtype, np.dtype):  # random keys
        leaf = sys.modules["jax"].random.key_data(leaf)
    return np.asarray(leaf).tobytes()


def _filled(leaf: Any, wanted: int) -> Any:
    if _is_jax(leaf):  # of random keys, too, which NumPy has no zeros of
        jnp = sys.modules["jax"].numpy
        return jnp.concatenate([leaf, jnp.zeros((wanted - len(leaf), *leaf.shape[1:]), leaf.dtype)])
    filled = np.zeros((wanted, *leaf.shape[1:]), leaf.dtype)
    filled[: len(leaf)] = leaf
    return filled


def _repeated(leaf: Any, wanted: int) -> Any:
    return leaf[np.arange(wanted) % len(leaf)]
