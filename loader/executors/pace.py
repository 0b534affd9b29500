"""Makes tasks of some time, not of some count; knows what tasks take.

In: what tasks took. Out: how many positions or rows the next task should have, how many tasks go into one message, and what a
task will take.

Nothing is known at first, so that a task is as small as it can be: the first element should come soon. A batch of small records
is done in less time than it takes to ask for it, wake somebody up and answer. So tasks grow to several batches, while they stay
short and their batches stay in the processor's caches.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import NamedTuple

from ...sources.protocol import is_in_event_loop
from ..options import ReadOptions
from ..plan.leaf import Leaf
from ..plan.pipeline import Pipeline
from ..plan.stages import MIN_SPAN, Stage
from ..work.tasks import SpanTask, Task, input_count

TASK_SECONDS = 30e-3
"""What a task may take, if it can be smaller: a hundred times its messages. Measured by `mnist` with two workers."""

TASK_BYTES, REREAD_BYTES = 16 << 20, 8 << 20
"""What its rows may occupy; the second where tasks read what others wrote, in the caches still. By `mnist` and `ragged`."""

WINDOW_BYTES = 1 << 20
"""What packed rows of several windows may occupy: those of one lie side by side, and are batched without a copy. Chosen."""

MAX_UNITS, MAX_REREAD_UNITS = 32, 16
"""Likewise spans of the plan, or groups. Set by the packet: the tags of more have no room in it."""

INLINE_UNITS = 8
"""Likewise spans of rows that are no batches, where no message is sent. Chosen: small against `TASK_BYTES`."""

WAITING_SHARE = 0.1
"""Of a worker's time: who waits longer for records needs more of them under way. Chosen."""

STILL_WAITING = 0.98
"""What is left of that share after a task that did not wait: as enough are under way then, it says little. Chosen."""

OBJECT_SHARE = 1 / 8
"""Of the smallest object store, for the rows of one task. Chosen."""

STORE_SHARE = 1 / 2
"""Of all object stores, for the rows of all tasks under way. Chosen: they need not be spread evenly."""


class Limits(NamedTuple):
    """Limits of the positions, or rows, that a stage does together.

    Attributes:
        least: in a task, and what their number is a multiple of.
        task: most in a task.
        message: most in the tasks of a message; and rows that come of them, as long as there is more than `least`.
        nbytes: most bytes of the rows of a task, unless `least` has more.
    """

    least: int
    task: int
    message: int
    nbytes: int = TASK_BYTES


def inline_limits_of(pipeline: Pipeline) -> dict[int, Limits]:
    """Those of each stage, where no messages are sent."""

    def units(stage: Stage) -> int:  # what is run through is so again, to resume
        run_through = stage.leaf is not None and pipeline.leaves[stage.leaf].in_order
        return 1 if stage.groups or run_through else INLINE_UNITS

    return {stage.number: _limits(pipeline, stage, units(stage)) for stage in pipeline.stages}


def limits_of(pipeline: Pipeline, several: bool) -> dict[int, Limits]:
    """Those of each stage, where a message may have `several` batches, or of each only one."""
    units = 1 if not several else MAX_UNITS if len(pipeline.stages) == 1 else MAX_REREAD_UNITS
    return {stage.number: _limits(pipeline, stage, units) for stage in pipeline.stages}


def _limits(pipeline: Pipeline, stage: Stage, units: int) -> Limits:
    if stage.leaf is None:
        return (
            Limits(stage.unit, stage.unit, stage.unit * units)
            if stage.groups
            else Limits(1, MIN_SPAN, MIN_SPAN * units)
        )
    span, packs = pipeline.spans[stage.leaf], bool(stage.operations) and stage.operations[-1].plans_rows
    return Limits(span if stage.groups else 1, span * units, span * units, WINDOW_BYTES if packs else TASK_BYTES)


def more_or_fewer(done: int, seconds: float, most: int) -> int:
    """Number to do together after `done` of them took that long: at most twice as many.

    >>> more_or_fewer(4, 1e-3, 32), more_or_fewer(4, 0.1, 32)
    (8, 1)
    """
    return max(min(int(done * TASK_SECONDS / max(seconds, 1e-9)), 2 * done, most), 1)


class Pace:
    """Time that tasks take, and the length of the next one, within the limits of its stage."""

    def __init__(self, limits: Mapping[int, Limits]) -> None:
        self._limits = limits
        self._most_bytes = TASK_BYTES if len(limits) == 1 else REREAD_BYTES
        self.seconds: dict[int, float] = {}  # by stage, of an input
        self._waiting: dict[int, float] = {}  # share of the time
        self._weights: dict[int, int] = {}  # bytes of an input's rows
        self._together = {stage: each.least for stage, each in limits.items()}

    def inputs(self, stage: int) -> int:
        """Positions, or rows, that the next task of a stage should have."""
        return min(self._together[stage], self._limits[stage].task)

    def tasks(self, stage: int) -> int:
        """Tasks of a stage that the next message should have."""
        return max(self._together[stage] // self._limits[stage].task, 1)

    def is_settled(self, stage: int, seconds: float, rows: int) -> bool:
        """True if a task with this time and these rows changes nothing: the next ones are as long as may be."""
        most = self._limits[stage].message
        return 2 * self._together[stage] > most and seconds <= TASK_SECONDS and rows <= most

    def waits(self, stage: int) -> bool:
        """True if tasks of a stage wait for their records."""
        return self._waiting.get(stage, 0.0) > WAITING_SHARE

    def tasks_within(self, stage: int, inputs: int, nbytes: int | None) -> int:
        """Tasks of a stage with so many inputs whose rows occupy no more than that, together with those of other stages."""
        weight = self._weights.get(stage, 0) * inputs
        return sys.maxsize if nbytes is None or not weight else nbytes // len(self._limits) // weight

    def note(self, task: Task, seconds: float, waited: float, rows: int, size: int = 0) -> bool:
        """A task took `seconds`, of which it waited some for records, and gave `rows`, of `size` bytes.

        True if the length of tasks or messages, whether tasks wait, or what their rows weigh changes by it.

        What is done together grows twofold at a time. Waiting is part of it: else all that came meanwhile would come at once.
        """
        stage, is_span, share = task.stage, isinstance(task, SpanTask), waited / max(seconds, 1e-9)
        before = self._together[stage], self.waits(stage), self._weights.get(stage, 0)
        self._waiting[stage] = max(share, self._waiting.get(stage, 0.0) * STILL_WAITING)
        inputs = max(task.stop - task.start if isinstance(task, SpanTask) else input_count(task), 1)
        each = (seconds - waited) / inputs
        self.seconds[stage] = (self.seconds.get(stage, each) + each) / 2
        least, _, most, nbytes = self._limits[stage]
        nbytes = min(nbytes, self._most_bytes)
        room = min(TASK_SECONDS / max(seconds, 1e-9), nbytes / max(size, 1), most / max(rows, 1))
        done = inputs if is_span else self._together[stage]
        wanted = min(inputs * room, 2 * done, most)
        self._together[stage] = least << max(int(wanted / least).bit_length() - 1, 0)
        if size and not before[2] // 2 <= size // inputs <= before[2]:  # it changes seldom
            self._weights[stage] = size // inputs
        return before != (self._together[stage], self.waits(stage), self._weights.get(stage, 0))


class Budget:
    """Bytes of the rows of tasks that may lie in the object stores of a cluster.

    An object lies in one piece in the store of the node that made it, and again in that of the node that wants it. One that is
    large beside a store takes others' place, is written to disk, or never comes. So tasks begin with one unit each, and grow
    once something is known of their rows. `stages`: how many stages keep rows in the stores at a time.
    """

    def __init__(self, stages: int) -> None:
        self._stages = stages
        self._stores: dict[str, float] = {}  # bytes, by the name
        self._weights: dict[int, float] = {}  # bytes that come of an input, by the stage
        self._row: float | None = None  # bytes of one, of whatever stage
        self._largest: dict[int, float] = {}  # bytes of a task, by the stage

    def set_store(self, name: str, size: float) -> None:
        """Rows may lie in a store of so many bytes; 0: it is gone."""
        self._stores.pop(name, None)
        if size > 0:
            self._stores[name] = size

    def note(self, stage: int, inputs: int, rows: int, size: int) -> None:
        """A task has made so many rows, of so many bytes. Heavy ones are remembered for a while, as more may come."""
        weight = size / max(inputs, 1)
        self._row = max(size / max(rows, 1), (self._row or 0.0) * 7 / 8)
        self._weights[stage] = max(weight, (self._weights.get(stage, 0.0) * 7 + weight) / 8)
        self._largest[stage] = max(float(size), (self._largest.get(stage, 0.0) * 7 + size) / 8)

    def most_inputs(self, stage: int) -> int:
        """Inputs of a task on a leaf. 1: nothing is known yet, or no more than one has room."""
        if stage not in self._weights:
            return 1
        return self._most(self._object(), self._weights[stage])

    def most_rows(self) -> int:
        """Rows that are put together: into a group, or by a join."""
        return 1 if self._row is None else self._most(self._object(), self._row)

    def _object(self) -> float:
        return min(self._stores.values(), default=0.0) * OBJECT_SHARE

    def most_tasks(self, stage: int, inputs: int) -> int:
        """Tasks that may be under way, or done and not taken yet, if the next ones have so many inputs: at least one.

        Tasks grow before the first larger one is done.
        """
        room = min(self._stores.values(), default=0.0) * len(self._stores) * STORE_SHARE / self._stages
        return self._most(room, max(self._largest.get(stage, 0.0), self._weights.get(stage, 0.0) * inputs))

    def _most(self, room: float, weight: float) -> int:
        return max(int(room / weight), 1) if weight and self._stores else sys.maxsize


def tasks_ahead(pipeline: Pipeline, options: ReadOptions, stage: int, positions: int) -> int:
    """Number of tasks of a stage, each of these positions, to read ahead in one place that works; 0: none."""
    leaf = pipeline.stages[stage].leaf
    if leaf is None or pipeline.leaves[leaf].in_order or not reads_under_way(pipeline.leaves[leaf], options):
        return 0
    return -(-keys_ahead(pipeline.leaves[leaf], options) // (positions * len(pipeline.leaves)))


def keys_ahead(leaf: Leaf, options: ReadOptions) -> int:
    """Keys of a leaf that are read before they are asked for: of so many records, but one for each read under way."""
    most = options.prefetch_buffer_size
    return max(most // leaf.records_each, min(reads_under_way(leaf, options), most))


def reads_under_way(leaf: Leaf, options: ReadOptions) -> int:
    """Reads of a leaf that are under way at a time, at most; 0: it is not read ahead."""
    readers = options.prefetch_buffer_size
    if readers and not is_in_event_loop(leaf.source):
        readers = options.num_threads
    useful = getattr(leaf.source, "reads_ahead", True)
    return readers if useful is True else min(readers, int(useful))
