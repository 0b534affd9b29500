"""Find the batch that a key stands for.

If the plan of batches was changed, each plan applies to a range of windows.

In: keys. Out: windows, records and shapes of batches. A window is a group of records whose batches
are planned together. Its number decides which plan applies, so a batch that an earlier run planned
but did not deliver is made by the plan of that run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...common.distinct import distinct
from ...common.messages import short_repr
from ...errors import CheckpointError
from ...operations.budget.shapes import BatchShapes
from ...operations.budget.windows import BudgetWindows
from ...samplers.permutation import permute, place_of
from .keys import BatchKey

Ints = NDArray[np.int64]

STEPS_SEED = 1 << 63
"""Combined with the seed (exclusive or), so that steps are not shuffled like records."""


class FormerPlan(NamedTuple):
    """An earlier plan of batches, which was changed during the run.

    Attributes:
        until: number of the first window (records whose batches are planned together) to which it
            does not apply.
        windows: windows of one epoch in this plan.
    """

    until: int
    windows: BudgetWindows


@dataclass(frozen=True, eq=False)
class Plans:
    """All plans of batches that a run has used, one after another.

    In each, a window has the same records.

    A window is a group of records whose batches are planned together.

    Attributes:
        last: windows of one epoch in the current plan.
        former: earlier plans, in ascending order of their windows.
        order_seed: seed of the random orders, in `[0, 2^64)`.
    """

    last: BudgetWindows
    former: tuple[FormerPlan, ...]
    order_seed: int

    def at(self, window: int) -> BudgetWindows:
        """Return the plan that applies to a window, counted over all epochs.

        A window is records whose batches are planned together.
        """
        return next((plan.windows for plan in self.former if window < plan.until), self.last)

    @cached_property
    def radix(self) -> tuple[int, int, int]:
        """Upper limits (exclusive) of fields of a key: first record, number of records, shape."""
        every = [self.last, *(plan.windows for plan in self.former)]
        widest = max(int(np.diff(windows.starts).max(initial=0)) for windows in every)
        rows = max(max(windows.shapes.rows) for windows in every)
        return widest + 1, rows + 1, max(len(windows.shapes.lengths) for windows in every)

    def key(self, parts: BatchKey) -> Ints:
        """Pack the fields of n batches into keys `int64[n]`."""
        slots, rows, shapes = self.radix
        return ((parts.window * slots + parts.start) * rows + parts.records) * shapes + parts.shape

    def batch_keys(self, keys: Ints) -> BatchKey:
        """Split keys `int64[n]` of planned batches into their fields.

        They are window, first record, number of records, and shape.
        """
        slots, rows, shapes = self.radix
        rest, shape = np.divmod(keys, shapes)
        rest, count = np.divmod(rest, rows)
        window, start = np.divmod(rest, slots)
        return BatchKey(window, start, count, shape)

    def places(self, key: int, at_least: int = 0) -> tuple[int, Ints, tuple[int, int]]:
        """Return a batch's epoch, its records' places in it, and its shape (rows, padded length).

        Args:
            key: key of the batch.
            at_least: smallest number of places. A batch with fewer records gets further places of
                its window (records whose batches are planned together), because an empty batch
                needs the structure of a record.
        """
        window, start, count, shape = (
            int(part[0]) for part in self.batch_keys(np.array([key], dtype=np.int64))
        )
        windows = self.at(window)
        epoch, local = divmod(window, len(windows))
        size = int(windows.sizes(np.array([local]))[0])
        count = max(count, at_least)
        slots = np.arange(
            min(start, size - count), min(start, size - count) + count, dtype=np.int64
        )
        counts = windows.counts[local]
        ends = np.cumsum(counts)
        rank = np.searchsorted(ends, slots, side="right")
        for each in range(int(rank[0]), int(rank[-1]) + 1) if count else ():
            chosen, begin = rank == each, int(ends[each] - counts[each])
            epochs = np.full(int(chosen.sum()), self.line_number(window, each))
            slots[chosen] = begin + permute(
                slots[chosen] - begin, epochs, int(counts[each]), self.order_seed
            )
        found = windows.places[int(windows.starts[local]) + slots].astype(np.int64)
        return epoch, found, (windows.shapes.rows[shape], windows.shapes.lengths[shape])

    def slot_of(self, place: int, epoch: int) -> tuple[int, int] | None:
        """Return (window, slot) of the record at a place of an epoch, in the current plan.

        The window is counted within the epoch, and the slot within the window. Return None if the
        record is in no batch.
        """
        windows = self.last
        found = np.flatnonzero(windows.places == place)
        if not len(found):
            return None
        local = int(np.searchsorted(windows.starts, found[0], side="right")) - 1
        window, counts = epoch * len(windows) + local, windows.counts[local]
        slot = int(found[0] - windows.starts[local])
        ends = np.cumsum(counts)
        rank = int(np.searchsorted(ends, slot, side="right"))
        begin = int(ends[rank] - counts[rank])
        line = self.line_number(window, rank)
        return local, begin + place_of(slot - begin, line, int(counts[rank]), self.order_seed)

    def line_number(self, window: int, rank: int) -> int:
        """Return a number that identifies the shuffle of the records of one shape in one window.

        Args:
            window: number of the window (records whose batches are planned together).
            rank: index of the shape.
        """
        return window * len(self.at(window).shapes.lengths) + rank

    def dealt(self, keys: Ints, shards: int, window: int) -> Ints:
        """Divide undelivered batches among shards. Return their keys, `int64[steps, shards]`.

        At each step, all shards get batches of one shape. Empty batches fill up the last step of
        each shape. The order of the steps is shuffled.

        Args:
            keys: keys of the batches, `int64[n]`.
            shards: number of shards.
            window: number of the window after these batches, which decides the shuffle.
        """
        taken = self.batch_keys(keys)
        plan = np.searchsorted([each.until for each in self.former], taken.window, side="right")
        of_plan = plan * self.radix[2] + taken.shape
        groups = [np.empty(0, np.int64)]
        for number in distinct(of_plan):
            of_shape = keys[(of_plan == number) & (taken.records > 0)]
            if missing := -len(of_shape) % shards:
                like = self.batch_keys(of_shape[-1:])
                empty = self.key(like._replace(records=np.zeros(1, np.int64)))
                of_shape = np.append(of_shape, np.repeat(empty, missing))
            groups.append(of_shape)
        steps = np.concatenate(groups).reshape(-1, shards)
        places, seed = np.arange(len(steps), dtype=np.int64), self.order_seed ^ STEPS_SEED
        return (
            steps[permute(places, np.full(len(steps), window), len(steps), seed)]
            if len(steps)
            else steps
        )

    def shuffled(self, places: Ints, windows: Ints, sizes: Ints) -> Ints:
        """Shuffle steps within their windows, and return the new places `int64[n]`.

        Args:
            places: place of each step in its window, before the shuffle.
            windows: number of the window of each step.
            sizes: number of steps of that window.
        """
        result = np.empty_like(places)
        for size in distinct(sizes):
            chosen = sizes == size
            result[chosen] = permute(
                places[chosen], windows[chosen], size, self.order_seed ^ STEPS_SEED
            )
        return result


def shapes_of(values: Any) -> BatchShapes:
    """Read shapes of planned batches from a fingerprint: a list of [padded length, number of rows].

    Raises:
        CheckpointError: they are damaged.
    """
    try:
        pairs = [(length, rows) for length, rows in values]
        lengths, rows = (tuple(column) for column in zip(*pairs, strict=True))
        whole = all(type(number) is int and 0 < number < 1 << 48 for number in (*lengths, *rows))
        if not whole or sorted({*lengths}) != list(lengths):
            raise ValueError
    except (TypeError, ValueError):
        raise CheckpointError(
            f"the state is damaged: the shapes of its batches are {short_repr(values)}, not pairs "
            "[length, rows] in ascending order. Restore another checkpoint."
        ) from None
    return BatchShapes(lengths, rows)
