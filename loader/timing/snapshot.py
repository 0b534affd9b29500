"""Counts and times of a loop: what stats, log, metrics, the terminal's line, reports and verdicts read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple


@dataclass(frozen=True)
class OperationStats:
    """The time of an operation, which is timed now and then.

    Attributes:
        number: of the operation in the pipeline.
        name: the operation, in words.
        seconds: of workers, over all tasks: its share of the tasks that were timed, times what all took.
        per_input: seconds for each position or row that came to its stage.
        timed: positions or rows of the stage for which it was timed; with none of them the seconds are 0.
        slowest: seconds of its slowest call among these; 0 from the first operation on that takes several elements.
        slowest_tag: what names the record of that call; see `Pipeline.place_of`. -1: none.
    """

    number: int
    name: str
    seconds: float
    per_input: float
    timed: int
    slowest: float = 0.0
    slowest_tag: int = -1


@dataclass(frozen=True)
class StageStats:
    """The tasks of a stage whose results your process took. Seconds are those of all workers together, unless it is said.

    Attributes:
        number: of the stage.
        tasks: how many were done.
        inputs: positions, or rows of earlier stages, that they were about.
        rows: that came out.
        nbytes: of these. Of rows that are no batches, the first of a task stands for the others.
        reads: the inputs are positions, whose records it reads.
        ends: the rows are elements, or are joined to be elements.
        busy: all of it.
        reading: of `busy`, in which records were read or waited for; a batch that is taken straight from columns is part of it.
        packing: of `busy`, in which rows were made ready for your process.
        under_way: in which records were being read, of all reads together: divided by the time, how many were under way.
        between: of `busy`, spent in headrace itself between operations.
        cpu_share: of the time of operations, the part in which workers were not waiting: for a disk, a lock or a sleep. 1.0
            where nothing was timed.
        waited: seconds of your process, in which it waited for results.
        queued: seconds that tasks waited for a worker, on average.
        ahead: tasks that were finished before they were asked for, on average over the time.
        operations: each, in order.
    """

    number: int
    tasks: int
    inputs: int
    rows: int
    nbytes: int
    reads: bool
    ends: bool
    busy: float
    reading: float
    packing: float
    between: float
    cpu_share: float
    waited: float
    queued: float
    ahead: float
    operations: tuple[OperationStats, ...]
    under_way: float = 0.0


@dataclass(frozen=True)
class WorkerStats:
    """The work of workers, over the last 2,000 tasks.

    Attributes:
        count: workers that did any of them.
        busy: share of their time in which they did tasks.
        starved: share in which they had none, as your process had all that it wanted ahead.
        hand_over: share in which one was on its way to them.
        started: worker processes that were made since the start.
        ended: of these, the ones that ended by themselves or were killed.
        slab_bytes: of memory that they share with your process now.
        most_slab_bytes: the same at its largest.
    """

    count: int
    busy: float
    starved: float
    hand_over: float
    started: int
    ended: int
    slab_bytes: int
    most_slab_bytes: int


class StepTimes(NamedTuple):
    """Seconds for which the user waited, and what for; the parts add up to `waited`.

    Attributes:
        waited: in `next`.
        reading: the host iterator had yet to give the batch.
        transforming: `transform` had yet to return.
        agreeing: other hosts had yet to say what they have.
        transfer: the batch was on its way to the devices.
        hand_over: the rest: queues and the waking up of threads.
    """

    waited: float
    reading: float
    transforming: float
    agreeing: float
    transfer: float
    hand_over: float


PARTS_OF_A_WAIT = ("waited", "reading", "transforming", "agreeing", "transfer", "hand_over")
"""The fields of `StepTimes`."""


@dataclass(frozen=True)
class Snapshot:
    """Counts and times of a loop since its start, or since the last `set_state`; from `snapshot()` of an iterator or a feeder.

    It costs less than `stats()`, which adds the single tasks. Records, bytes and stages are of the tasks whose results your
    process took, which may be some more than you received the elements of.

    Attributes:
        steps: elements that you received.
        elapsed: seconds in which you received them, your own work in between included.
        waited: seconds of these that you spent in `next`. Without workers your thread does the operations there.
        worker_count: of the loader, now.
        skipped: records or batches left out because they failed.
        stages: what the tasks of each stage took; none with `ExecutionOptions(observe=False)`.
        records: positions whose records were read.
        nbytes: bytes of the records that were read, also of those that operations left out; estimated where sizes differ.
        shared_bytes: memory that workers share with your process now.
        feeding: of a device feeder, the parts of `waited`.
    """

    steps: int
    elapsed: float
    waited: float
    worker_count: int = 0
    skipped: int = 0
    stages: tuple[StageStats, ...] = ()
    records: int = 0
    nbytes: int = 0
    shared_bytes: int = 0
    feeding: StepTimes | None = None

    def since(self, before: Snapshot) -> Snapshot:
        """With what was added after `before`; all of it, if the loop began anew."""
        added = {name: getattr(self, name) - getattr(before, name) for name in _COUNTED}
        return self if any(added[name] < 0 for name in _COUNTED[:-1]) else replace(self, **added)


_COUNTED = ("steps", "elapsed", "waited", "records", "nbytes")  # the last one is estimated, and may shrink


class StageNames(NamedTuple):
    """A stage in words."""

    first: int  # number of its first operation in the pipeline
    operations: tuple[str, ...]
    reads: bool  # it is given positions, whose records it reads
    ends: bool  # what it makes are elements, or rows that are joined to be elements
