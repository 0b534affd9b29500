"""Results of a training: its losses and records by step. Comparison of two trainings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import chain

import numpy as np


@dataclass
class TrainingLedger:
    """Results of a training by step.

    If a step is repeated after a resume, its new results replace the earlier ones.

    Attributes:
        losses: loss of each step, as a hexadecimal float.
        records: indices of the records in the batch of each step.
        weights: digest of the weights at the end.
        right: number of test images whose digit was found.
        tested: number of test images.
    """

    losses: dict[int, str] = field(default_factory=dict)
    records: dict[int, list[int]] = field(default_factory=dict)
    weights: str = ""
    right: int = 0
    tested: int = 0

    def forget_after(self, step: int) -> None:
        """Forget the results of all steps after `step`, because the training resumes from it."""
        self.losses = {one: loss for one, loss in self.losses.items() if one <= step}
        self.records = {one: numbers for one, numbers in self.records.items() if one <= step}

    def differences(self, other: TrainingLedger) -> tuple[list[int], list[int]]:
        """Return two lists: the steps whose losses differ, and the steps whose records differ."""
        steps = sorted({*self.losses, *other.losses})
        losses = [step for step in steps if self.losses.get(step) != other.losses.get(step)]
        records = [step for step in steps if self.records.get(step) != other.records.get(step)]
        return losses, records


@dataclass(frozen=True)
class LostRecords:
    """Errors of a loader in the epoch in which a training resumes.

    Attributes:
        twice: number of records that were delivered more than once.
        never: number of records that were never delivered.
        read_again: number of records that were read only to be skipped.
    """

    twice: int
    never: int
    read_again: int


def resumed_by_step_count(
    count: int, batch_size: int, step: int, workers: tuple[int, int]
) -> LostRecords:
    """Simulate a loader in which each worker batches a part of the records.

    It resumes by skipping steps.

    It runs with the first number of workers up to the step, and then with the second. The result
    says how many records it loses or repeats.

    Args:
        count: number of records.
        batch_size: records in a batch.
        step: step at which it is killed and resumed.
        workers: number of workers before and after.
    """
    before = epoch = 0
    while step >= before + len(batches := _by_workers(count, batch_size, epoch, workers[0])):
        before, epoch = before + len(batches), epoch + 1
    done = batches[: step - before]
    resumed = _by_workers(count, batch_size, epoch, workers[1])
    came = Counter(chain.from_iterable(done + resumed[len(done) :]))
    return LostRecords(
        twice=sum(times > 1 for times in came.values()),
        never=count - len(came),
        read_again=sum(map(len, resumed[: len(done)])),
    )


def _by_workers(count: int, batch_size: int, epoch: int, workers: int) -> list[list[int]]:
    """Return the batches of an epoch, as lists of record indices.

    They are in the order in which a loader with workers delivers them.

    Each worker batches every n-th record of the shuffled order, and the workers' batches come in
    turn.

    Args:
        count: number of records.
        batch_size: records in a batch.
        epoch: number of the epoch, which decides the shuffle.
        workers: number of workers, n.
    """
    order = np.random.default_rng((0, epoch)).permutation(count)
    parts = [order[worker::workers] for worker in range(workers)]
    own = [
        [part[at : at + batch_size].tolist() for at in range(0, len(part), batch_size)]
        for part in parts
    ]
    return [
        batches[turn]
        for turn in range(max(map(len, own)))
        for batches in own
        if turn < len(batches)
    ]
