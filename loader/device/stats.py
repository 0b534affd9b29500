"""Divide the user's waits into causes: reading, transforming, agreeing, transferring, and the rest.

"Agreeing" is the agreement with the other hosts on the next step. The rest is called "hand-over":
queues, and the waking up of threads.

In: for each batch, the times at which the user waited, and at which the batch was read,
transformed, agreed on and transferred. Out: seconds of waiting for each cause.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..stats import LITTLE, IteratorStats, lines_of_waits, table
from ..timing.observer import Waits
from ..timing.quantiles import Quantiles, as_plain, quantiles_of
from ..timing.snapshot import PARTS_OF_A_WAIT, Snapshot, StepTimes
from .queue import Times

KEPT = 1000
"""Largest number of steps in `FeederStats.last`."""


class BatchTimes(NamedTuple):
    """Times of a batch that the user received, in seconds of `time.perf_counter`.

    Attributes:
        asked: time at which the user asked for the batch.
        taken: time at which the user got the batch.
        made: times of the steps in making the batch.
    """

    asked: float
    taken: float
    made: Times


OPERATION_LINES = 3
"""Largest number of lines about the loader's operations in the printed table."""


@dataclass(frozen=True)
class FeederStats:
    """The result of `feeder.stats()`. `print` it for a table.

    Attributes:
        steps: number of batches that the user received.
        elapsed: seconds from the first request for a batch to the last batch received, including
            the user's own work.
        total: waiting times of all steps together.
        last: waiting times of each of the last 1,000 steps, oldest first.
        batches: for each of these steps, times in seconds of `time.perf_counter`: when the user
            asked for the batch and got it; and when it was read, transformed, agreed on with the
            other hosts, and transferred.
        loader: statistics of the `DataLoader`'s iterator, which is ahead of the user; None if the
            feeder reads from something else.
    """

    steps: int
    elapsed: float
    total: StepTimes
    last: tuple[StepTimes, ...] = field(repr=False)
    batches: tuple[BatchTimes, ...] = field(default=(), repr=False)
    loader: IteratorStats | None = None

    @property
    def quantiles(self) -> dict[str, Quantiles]:
        """Quantiles of the times of the last 1,000 batches, and of the loader's tasks, by name.

        "next" is the whole wait for a batch; other names are the causes of waits, such as
        "reading".
        """
        causes = dict(
            zip(("next", *PARTS_OF_A_WAIT[1:-1], "hand-over"), zip(*self.last, strict=True))
        )
        own = {name: quantiles_of(seconds) for name, seconds in causes.items()}
        return ({} if self.loader is None else self.loader.quantiles) | own

    def to_dict(self) -> dict[str, Any]:
        """Return all statistics except those of single steps, as plain values for JSON."""
        return {
            "steps": self.steps,
            "elapsed": self.elapsed,
            "total": dict(zip(PARTS_OF_A_WAIT, self.total)),
            "quantiles": as_plain(self.quantiles.items()),
            "loader": None if self.loader is None else self.loader.to_dict(),
        }

    def __str__(self) -> str:
        waited, *parts = self.total
        rows = [
            ("waited for batches", waited),
            *((f"  {name}", seconds) for (name, _), seconds in zip(_PARTS, parts)),
            ("your own work", self.elapsed - waited),
        ]
        work = (
            []
            if self.loader is None or not self.loader.stages
            else self.loader.lines(OPERATION_LINES)
        )
        return "\n".join(
            [
                *table(f"{self.steps:,} steps", self.elapsed, rows),
                *lines_of_waits(self.quantiles.get("next")),
                *work,
                f"What to do: {self.advice()}",
            ]
        )

    def advice(self) -> str:
        """Return one piece of advice for the user: the change that would shorten the waits most."""
        waited, *parts = self.total
        if waited <= LITTLE * self.elapsed:
            return "nothing; batches are there when you ask for them."
        *made, handed_over = parts
        largest = len(made) if handed_over > sum(made) else made.index(max(made))
        loader = self.loader
        if (
            _PARTS[largest][0] == "reading"
            and loader is not None
            and loader.worker_count
            and loader.waited > LITTLE * loader.elapsed
        ):
            return loader.advice()
        return _PARTS[largest][1]


_PARTS = (
    (
        "reading",
        "the loader is slower than your steps; print(iterator.stats()) without the feeder, or pass "
        "worker_count= (or a larger one).",
    ),
    (
        "transforming",
        "transform= runs on one thread; move it to the operations, and pass worker_count=.",
    ),
    ("agreeing", "other hosts have their batches later than this one; look at their stats."),
    (
        "transfer",
        "send fewer bytes (uint8, converted on the device), or larger batches less often.",
    ),
    (
        "hand-over",
        "batches come in time, but many and small; make larger ones, or use some at once.",
    ),
)
"""The causes of a wait, in the order of `StepTimes`.

Each has the advice that is given if it is the largest.
"""


def split(began: float, ended: float, times: Times) -> StepTimes:
    """Divide the time in which the user waited for a batch into its causes.

    Args:
        began: time at which the user asked for the batch.
        ended: time at which the user got it.
        times: times of the steps in making it.

    Returns:
        Seconds of waiting in total, and for each cause. Of each step in making the batch, only the
        time counts during which the user waited.

    >>> split(10.0, 20.0, Times(8.0, 13.0, 14.0, 14.0, 14.0, 19.5))
    StepTimes(waited=10.0, reading=3.0, transforming=1.0, agreeing=0.0, transfer=5.5, hand_over=0.5)
    """
    # it was ready: the common case, and the one that must cost little
    if times.transferred <= began:
        return StepTimes(ended - began, 0.0, 0.0, 0.0, 0.0, ended - began)

    def within(start: float, stop: float) -> float:
        return max(0.0, min(stop, ended) - max(start, began))

    parts = (
        within(times.read_from, times.read_to),
        within(times.read_to, times.transformed),
        within(times.agree_from, times.agreed),
        within(times.agreed, times.transferred),
    )
    return StepTimes(ended - began, *parts, ended - began - sum(parts))


class Watch:
    """Collects the times of a feeder's batches.

    The user's thread adds times; any thread may call `stats` and `snapshot`.
    """

    def __init__(self) -> None:
        self._steps = 0
        self._waits = Waits()
        self._total = [0.0] * len(PARTS_OF_A_WAIT)
        self._last: deque[BatchTimes] = deque(maxlen=KEPT)
        self._noted: list[BatchTimes] = []
        self._adding = threading.RLock()  # one that a signal's handler may take again

    def note(self, began: float, ended: float, times: Times) -> None:
        self._noted.append(BatchTimes(began, ended, times))
        if len(self._noted) >= KEPT:
            self._add_up()

    def _add_up(self) -> None:
        with self._adding:
            count = len(self._noted)  # more may be added meanwhile
            noted = self._noted[:count]
            del self._noted[:count]
            for batch in noted:
                self._total = [
                    total + seconds for total, seconds in zip(self._total, split(*batch))
                ]
                self._waits.began = batch.asked
                self._waits.end(batch.taken)
            self._last.extend(noted)
            self._steps += count

    def snapshot(self, loader: Snapshot | None) -> Snapshot:
        """Return counts and times of the feeder's steps, together with those of its loader.

        Args:
            loader: snapshot of the loader; None if the feeder reads from something else.
        """
        with self._adding:
            self._add_up()
            total = StepTimes(*self._total)
            own: dict[str, Any] = {
                "steps": self._steps,
                "elapsed": self._waits.elapsed,
                "waited": total.waited,
                "feeding": total,
            }
        return dataclasses.replace(loader or Snapshot(0, 0.0, 0.0), **own)

    def stats(self, loader: IteratorStats | None) -> FeederStats:
        with self._adding:
            self._add_up()
            batches = tuple(self._last)
            steps, elapsed, total = self._steps, self._waits.elapsed, StepTimes(*self._total)
        return FeederStats(
            steps, elapsed, total, tuple(split(*batch) for batch in batches), batches, loader
        )
