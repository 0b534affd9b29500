"""The order of batches that are planned from lengths, as a sampler: position → key of a batch.

In: positions of a run, on any number of shards. Out: keys; there is no I/O. A key describes a whole
batch: the places of its records and its shape. All shards have the same number of batches, and at
each step batches of the same shape.

A window is a group of records whose batches are planned together. Windows follow one another, epoch
after epoch. The number of steps of a window depends on the number of shards. So a run that
continues with another number of shards first gets the batches of the current window that were not
delivered: the batches of each shape are divided among the new shards, and empty batches fill up the
last step. The next window is planned for the new number of shards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.messages import short_repr
from ...errors import CheckpointError
from ...operations.budget.windows import BudgetWindows
from ...samplers import NoSharding, ShardOptions
from ...samplers.facts import OrderFacts
from ...samplers.history import Changes, OrderChange
from ...samplers.permutation import place_of
from ...samplers.protocol import ENDLESS, VectorSampler
from .keys import BatchKey, DealtLayers, RunStart
from .plans import STEPS_SEED, FormerPlan, Plans

Ints = NDArray[np.int64]

# The undelivered batches are kept in memory.
MOST_STEPS_APART = 1 << 14
"""Largest difference between the steps at which the shards of a run stopped."""


@dataclass(frozen=True, eq=False)
class BudgetOrder(VectorSampler):
    """Sampler of planned batches: position `first + step · shards + shard` → key of a batch.

    Attributes:
        windows: windows (records whose batches are planned together) of one epoch.
        epochs: number of epochs; None for an endless stream.
        order_seed: seed of the random orders, in `[0, 2^64)`.
        identity: plain values that identify the order.
        seed: seed of random operations after the batches.
        shard_options: shard of this run.
        layers: what earlier runs read of the current window: a pair (number of the window, its
            first position), then for each run the step that each shard reached. Empty if this run
            began at the beginning.
        epoch: the only epoch that is read; None for all.
        former: earlier plans, with the windows to which they apply, if the plan was changed in
            earlier runs.
    """

    windows: BudgetWindows
    epochs: int | None
    order_seed: int
    identity: dict[str, Any]
    seed: int | None = None
    shard_options: ShardOptions = field(default_factory=NoSharding)
    layers: DealtLayers = ()
    epoch: int | None = None
    former: tuple[FormerPlan, ...] = ()

    facts = OrderFacts(block_size=64, shards="planned")

    def __post_init__(self) -> None:
        if self.epoch is None and self._last_key >= 1 << 62:
            raise ValueError(
                f"{self.epochs} epochs of {len(self.windows.places)} records have more batches "
                "than a 64-bit number can count. Pass a smaller number as num_epochs=."
            )

    @property
    def _last_key(self) -> int:
        return (self.epochs or 1) * len(self.windows) * prod(self.plans.radix)

    @cached_property
    def plans(self) -> Plans:
        """The plan of each window (records whose batches are planned together)."""
        return Plans(self.windows, self.former, self.order_seed)

    @property
    def _shards(self) -> int:
        return self.shard_options.shard_count

    @cached_property
    def _before(self) -> Ints:
        """Number of steps before each window of an epoch; last, of all steps."""
        return self.windows.steps_on(self._shards).before

    @property
    def steps_per_epoch(self) -> int:
        """Number of steps of each shard in an epoch."""
        return int(self._before[-1])

    @property
    def epoch_length(self) -> int:
        """Number of batches of all shards in an epoch."""
        return self.steps_per_epoch * self._shards

    @property
    def first_position(self) -> int:
        """Position of the first batch of this run."""
        return self.start.position

    @property
    def _steps(self) -> int | None:
        """Number of steps of each shard in this run; None if it is endless."""
        first, _, begun = self.start
        epochs = 1 if self.epoch is not None else self.epochs
        if not self.steps_per_epoch or not len(self.windows):
            return len(begun)
        return (
            None
            if epochs is None
            else len(begun) + epochs * self.steps_per_epoch - self._steps_before(first)
        )

    def __len__(self) -> int:
        return ENDLESS if self._steps is None else min(self._steps * self._shards, ENDLESS)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The plain values that identify the order."""
        epoch = {} if self.epoch is None else {"epoch": self.epoch}
        return {
            **self.identity,
            "epochs": self.epochs,
            "shapes": _shape_pairs(self.windows),
            **epoch,
        }

    @property
    def changes(self) -> Changes:
        """The shapes of all plans, if the plan was changed.

        Each has the number of the first window to which it applies.
        """
        if not self.former:
            return ()
        begins = [0, *(plan.until for plan in self.former)]
        shapes = [
            _shape_pairs(windows)
            for windows in (*(plan.windows for plan in self.former), self.windows)
        ]
        return tuple(OrderChange(begin, {"shapes": each}) for begin, each in zip(begins, shapes))

    def with_shard_options(self, shard_options: ShardOptions) -> BudgetOrder:
        """Return the same order on another shard, for a run from the beginning."""
        return dataclasses.replace(self, shard_options=shard_options, layers=())

    def after(self, layers: Any, shard_options: ShardOptions) -> BudgetOrder:
        """Return the order of a run on this shard that continues earlier runs.

        Args:
            layers: what the earlier runs read of the current window, as in the attribute `layers`.
            shard_options: shard of the run.

        Raises:
            CheckpointError: `layers` is damaged, or shards stopped too far apart.
        """
        order = dataclasses.replace(self, shard_options=shard_options, layers=layers)
        try:
            if len(order) >= 0:
                return order
        except CheckpointError:
            raise
        except (ValueError, TypeError, LookupError, ArithmeticError):
            pass
        raise CheckpointError(
            f"the state is damaged: lineage={short_repr(layers)}. Restore another checkpoint."
        )

    def repeated(self, epochs: int | None) -> BudgetOrder:
        """Return the same order with another number of epochs; None makes it endless."""
        return dataclasses.replace(self, epochs=epochs)

    def of_epoch(self, epoch: int) -> BudgetOrder:
        """Return the order of one epoch, with positions from 0.

        It has a seed of its own for random operations.
        """
        seed = None if self.seed is None else self.seed + (epoch << 32)
        return dataclasses.replace(self, epoch=epoch, seed=seed)

    @property
    def whole(self) -> BudgetOrder:
        """The order of all epochs."""
        if self.epoch is None:
            return self
        seed = None if self.seed is None else self.seed - (self.epoch << 32)
        return dataclasses.replace(self, epoch=None, seed=seed)

    @property
    def _origin(self) -> int:
        """Number of the first window (records whose batches are planned together) in this order."""
        return (self.epoch or 0) * len(self.windows)

    def _steps_before(self, window: int) -> int:
        """Return how many steps of this order come before a window."""
        epochs, inner = divmod(window - self._origin, max(len(self.windows), 1))
        return epochs * self.steps_per_epoch + int(self._before[inner])

    @cached_property
    def start(self) -> RunStart:
        """The place where this run begins: first window, position, and the batches left.

        Earlier runs did not deliver these batches.

        Raises:
            ValueError: `layers` is not a possible history.
            CheckpointError: shards of an earlier run stopped too far apart.
        """
        begun = np.empty((0, self._shards), np.int64)
        if not self.layers:
            return RunStart(self._origin, 0, begun)
        (window, position), *runs = self.layers
        last = (1 << 62) // prod((*self.plans.radix, max(len(self.windows), 1)))
        if not self._origin <= window <= last:
            raise ValueError(
                f"window {window} must be from {self._origin} to the last window of the plan"
            )
        if not runs:
            return RunStart(window, position, begun)
        return self._last_run().left(runs[-1], self._shards)

    def _last_run(self) -> BudgetOrder:
        """Return the order of the run before this run, with the plan used then.

        That run must have stopped inside a window.
        """
        *before, reached = self.layers
        run = dataclasses.replace(
            self, shard_options=ShardOptions(0, len(reached)), layers=tuple(before)
        )
        start = run.start
        own = next(
            (number for number, plan in enumerate(self.former) if start.window < plan.until), None
        )
        if own is not None:
            run = dataclasses.replace(run, windows=self.former[own].windows)
            # Keys are the same in all orders of these plans.
            vars(run).update(plans=self.plans, start=start)
        return run

    def changed(self, windows: BudgetWindows, reached: Sequence[int]) -> BudgetOrder:
        """Return this order with another plan for all windows that have not begun.

        Args:
            windows: windows of one epoch in the new plan; each has the same records as in the
                current plan.
            reached: the step at which each shard of this run stopped.

        Raises:
            CheckpointError: the shards stopped too far apart, or after the end.
        """
        layers = self.layers_after(reached)
        stopped = dataclasses.replace(self, layers=layers)
        plans = (*self.former, FormerPlan(stopped.start.window, self.windows))
        former = tuple(plan for plan in plans if layers[0][0] < plan.until)
        return dataclasses.replace(stopped, windows=windows, former=former)

    def left(self, reached: Sequence[int], shards: int) -> RunStart:
        """Return where the next run begins, on `shards` shards.

        The shards of this run stopped at the steps `reached`.

        Raises:
            CheckpointError: the shards stopped more than `MOST_STEPS_APART` steps apart.
                (ValueError: after the end.)
        """
        first, position, begun = self.start
        last = max(reached)
        if self._steps is not None and last > self._steps:
            raise ValueError
        if last - min(reached) > MOST_STEPS_APART:
            raise CheckpointError(
                f"shards were saved at steps {min(reached)} to {last}, but they may be at most "
                f"{MOST_STEPS_APART} steps apart. Pass states that all shards saved at the same "
                "step."
            )
        window, end = first, len(begun)
        if last > end:
            window = self._window_of(last - 1) + 1
            end += self._steps_before(window) - self._steps_before(first)
        levels = np.arange(min(reached), end, dtype=np.int64)
        early = levels < len(begun)
        own = self._own_keys(levels[~early], np.arange(self._shards, dtype=np.int64)[:, None])
        left = np.concatenate([begun[levels[early]].T, own], axis=1)[
            levels >= np.array(reached)[:, None]
        ]
        return RunStart(window, position + sum(reached), self.plans.dealt(left, shards, window))

    def layers_after(self, reached: Sequence[int]) -> DealtLayers:
        """Return `layers` for the next run, after this run's shards stopped at the steps `reached`.

        It says how far each shard of each run has come in the first window that some shard has not
        read to its end.

        Raises:
            CheckpointError: a step is after the end.
        """
        first, position, begun = self.start
        if self._steps is not None and max(reached) > self._steps:
            raise CheckpointError(
                f"the states are damaged: they say that shards had made {list(reached)[:8]} of "
                f"{self._steps} steps, which cannot be. Restore another checkpoint."
            )
        layers: DealtLayers = self.layers or ((first, position),)
        if min(reached) < len(begun):
            return (*layers, tuple(reached))
        if self._steps is not None and min(reached) >= self._steps:
            epochs = 1 if self.epoch is not None else self.epochs or 0
            window = self._origin + epochs * len(self.windows)
        else:
            window = self._window_of(min(reached))
        passed = len(begun) + self._steps_before(window) - self._steps_before(first)
        rest = tuple(local - passed for local in reached)
        start = (window, position + passed * self._shards)
        return (start, rest) if any(rest) else (start,)

    def _window_of(self, step: int) -> int:
        """Return the number of the window with a step that this run planned."""
        first, _, begun = self.start
        epochs, inner = divmod(step - len(begun) + self._steps_before(first), self.steps_per_epoch)
        local = int(np.searchsorted(self._before, inner, side="right")) - 1
        return self._origin + epochs * len(self.windows) + local

    def epoch_at(self, position: int) -> int:
        """Return the epoch, from 0, of the batch at a position.

        Return 0 if this is the order of a single epoch.
        """
        if self.epoch is not None or not self.steps_per_epoch:
            return 0
        key = self.record_keys(np.array([position], dtype=np.int64))
        return int(self.plans.batch_keys(key).window[0]) // len(self.windows)

    def record_keys(self, positions: Ints) -> Ints:
        """Return the keys `int64[n]` of the batches at n positions of this run."""
        steps, shard = np.divmod(positions - self.first_position, self._shards)
        return self._keys(steps, shard)

    def _keys(self, steps: Ints, shard: Ints) -> Ints:
        begun = self.start.begun
        found = np.empty(len(steps), np.int64)
        early = steps < len(begun)
        found[early] = begun[steps[early], shard[early]]
        found[~early] = self._own_keys(steps[~early], shard[~early])
        return found

    def _own_keys(self, steps: Ints, shard: Ints) -> Ints:
        """Return the keys of a shard's batches at steps that this run planned.

        They come after the batches that earlier runs left. `shard` is a number, or an array that is
        broadcast against the steps.
        """
        first, _, begun = self.start
        if not len(steps):
            return np.empty((*shard.shape[:-1], 0), np.int64)
        epochs, inner = np.divmod(
            steps - len(begun) + self._steps_before(first), self.steps_per_epoch
        )
        local = np.searchsorted(self._before, inner, side="right") - 1
        windows = self._origin + epochs * len(self.windows) + local
        sizes = self._before[local + 1] - self._before[local]
        places = self.plans.shuffled(inner - self._before[local], windows, sizes)
        start, stop, shape = self.windows.pieces(self._shards, local, places, shard)
        return self.plans.key(BatchKey(windows, start, stop - start, shape))

    def find(self, place: int, epoch: int) -> tuple[int, int, int] | None:
        """Return (step, shard, row) of the record at a place of an epoch.

        Return None if it is in no batch. The result is right only for a run that began at the
        beginning.
        """
        found = self.plans.slot_of(place, epoch)
        if found is None:
            return None
        local, slot = found
        window = epoch * len(self.windows) + local
        line, shard, row = self.windows.step_of_slot(self._shards, local, slot)
        size = int(self._before[local + 1] - self._before[local])
        step = int(self._before[local]) + place_of(line, window, size, self.order_seed ^ STEPS_SEED)
        return (epoch - (self.epoch or 0)) * self.steps_per_epoch + step, shard, row


def _shape_pairs(windows: BudgetWindows) -> list[list[int]]:
    """Return the shapes of planned batches as pairs [padded length, number of rows]."""
    return [list(pair) for pair in zip(windows.shapes.lengths, windows.shapes.rows)]
