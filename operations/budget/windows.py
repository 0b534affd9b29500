"""Sort records of windows (consecutive records) by shape, and plan batches on a number of shards.

The records of a window are put in one line of *slots*: first the records of the largest shape, then
the records of the next smaller shape, and so on. A step is one batch on each shard. It takes as
many slots from the line as its batches have rows. The last step of a shape also takes slots of the
next shape, so only the last step of a window may have empty rows. Fewer steps are impossible,
because a record needs a step of its shape or of a larger one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .shapes import BatchShapes, Ints


class WindowSteps(NamedTuple):
    """Steps of all windows of an epoch on a number of shards. A step is one batch on each shard.

    Attributes:
        before: `int64[windows + 1]`, number of steps before each window; the last item is the
            number of all steps.
        steps: `int64[windows, shapes]`, number of steps of each shape and all larger shapes
            together, the largest first.
        slots: `int64[windows, shapes]`, first slot of the first step of each shape.
    """

    before: Ints
    steps: Ints
    slots: Ints


class BudgetWindows:
    """Plan of batches by budget: records in windows (consecutive records), each batched by itself.

    Args:
        lengths: `int64[records]`, length of each record. A record that fits no shape is in no
            batch.
        shapes: shapes of the batches.
        window: number of records in a window.

    Attributes:
        places: indices of the records, sorted by window, and in each window from the largest shape
            to the smallest.
        counts: `int64[windows, shapes]`, number of records of each shape, the largest shape first.

    Five records in one window; batches have one row of length 8, or four rows of length 2:

    >>> windows = BudgetWindows(np.array([5, 1, 2, 6, 1]), BatchShapes.of((2, 8), 8, None, 1), 5)
    >>> windows.places.tolist(), windows.counts.tolist(), windows.steps_on(1).before.tolist()
    ([0, 3, 1, 2, 4], [[2, 3]], [0, 3])
    """

    def __init__(self, lengths: NDArray[np.int64], shapes: BatchShapes, window: int) -> None:
        numbers, count = shapes.numbers(lengths), len(shapes.lengths)
        kept = np.flatnonzero(numbers < count)
        windows = -(-len(lengths) // window)
        ranks = (count - 1 - numbers[kept]) + (kept // window * count if windows > 1 else 0)
        # Small ones are sorted ten times as fast.
        ranks = ranks.astype(np.min_scalar_type(max(windows * count, 1)))
        self.shapes = shapes
        self.places = kept[np.argsort(ranks, kind="stable")].astype(
            np.min_scalar_type(max(len(lengths), 1))
        )
        self.counts: Ints = np.bincount(ranks, minlength=windows * count).reshape(windows, count)
        self.starts: Ints = np.concatenate([[0], np.cumsum(self.counts.sum(axis=1))])
        self._rows = np.array(shapes.rows[::-1], np.int64)
        self._known: dict[int, WindowSteps] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": {}}

    def __len__(self) -> int:
        return len(self.counts)

    def sizes(self, windows: Ints) -> Ints:
        """Return the number of slots in each of these windows.

        A slot is the place of one record.
        """
        return self.starts[windows + 1] - self.starts[windows]

    def steps_on(self, shards: int) -> WindowSteps:
        """Return the steps of all windows on `shards` shards.

        They are computed once for each number of shards.
        """
        if shards not in self._known:
            self._known[shards] = self._made(shards)
        return self._known[shards]

    def _made(self, shards: int) -> WindowSteps:
        steps, slots = np.zeros_like(self.counts), np.zeros_like(self.counts)
        taken = np.zeros(len(self.counts), np.int64)  # slots in steps of larger shapes
        ends = np.cumsum(self.counts, axis=1)
        for shape, rows in enumerate((self._rows * shards).tolist()):
            slots[:, shape] = taken
            steps[:, shape] = np.maximum(-(-(ends[:, shape] - taken) // rows), 0)
            taken = taken + steps[:, shape] * rows
        return WindowSteps(
            np.concatenate([[0], np.cumsum(steps.sum(axis=1))]), np.cumsum(steps, axis=1), slots
        )

    def pieces(
        self, shards: int, windows: Ints, steps: Ints, shard: Ints
    ) -> tuple[Ints, Ints, Ints]:
        """Return three arrays for batches: first slot, slot after the last, and index of the shape.

        A slot is the place of one record in its window, where records of larger shapes come first.

        Args:
            shards: number of shards.
            windows: `int64[n]`, windows of the epoch.
            steps: `int64[n]`, index of each step within its window.
            shard: `int64[n]`, shard of each batch; or `int64[shards, 1]`, for the batches of all
                shards.
        """
        made = self.steps_on(shards)
        rank = (made.steps[windows] <= steps[:, None]).sum(axis=1)
        first = np.where(rank > 0, made.steps[windows, rank - 1], 0)
        room = self._rows[rank] * shards
        start = made.slots[windows, rank] + (steps - first) * room
        size = np.minimum(self.sizes(windows) - start, room)
        return (
            start + size * shard // shards,
            start + size * (shard + 1) // shards,
            len(self._rows) - 1 - rank,
        )

    def step_of_slot(self, shards: int, window: int, slot: int) -> tuple[int, int, int]:
        """Return the batch of a record: step within the window, shard, and row in the batch.

        Args:
            shards: number of shards.
            window: number of the window.
            slot: index of a record in the window's list of records, where records of larger shapes
                come first.
        """
        made = self.steps_on(shards)
        rank = int(
            np.flatnonzero(
                (made.slots[window] <= slot) & (np.diff(made.steps[window], prepend=0) > 0)
            )[-1]
        )
        room = int(self._rows[rank]) * shards
        number, at = divmod(slot - int(made.slots[window, rank]), room)
        step = int(made.steps[window, rank - 1] if rank else 0) + number
        size = min(int(self.sizes(np.array([window]))[0]) - (slot - at), room)
        shard = next(one for one in range(shards) if at < size * (one + 1) // shards)
        return step, shard, at - size * shard // shards
