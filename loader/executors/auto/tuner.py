"""Decide, from measured speeds, which number of workers to try next, and which to keep.

In: the measured speed of a setting (a number of workers, and of batches that each keeps ready).
Out: the next setting. There are no side effects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from ....common.units import format_count

# Chosen: from second to second, speeds mostly differ by less.
GAIN = 1.05
"""Factor by which a setting must be faster than the best one to replace it."""

# Chosen.
ENOUGH = 0.02
"""Share of the loop's time.

If the user waits for at most this share with the fastest setting so far, the search ends.
"""

# Chosen: another program may slow down one measurement.
TRIES = 2
"""Largest number of times that the calling thread is tried in place of workers."""
# Chosen: handing a batch over to the user's process takes less.
HEAVY_SECONDS = 10e-3
"""If a worker needs more seconds than this for a batch, the calling thread is not tried."""

# Chosen.
MOST_BUFFER = 4
"""The number of finished batches per worker is doubled up to this number.

A larger one of the user's stays as it is.
"""


class Setting(NamedTuple):
    """A setting to try: the number of workers, and how many finished batches each keeps ready.

    Attributes:
        workers: number of workers; 0 for the calling thread.
        buffer: finished batches that each worker keeps ready.
    """

    workers: int
    buffer: int


class Measurement(NamedTuple):
    """Speed of the stream, measured for some seconds with one setting.

    Attributes:
        seconds: length of the measurement.
        inputs: number of records or rows that were processed.
        waited: how many of these seconds the user's loop waited for batches.
        nbytes: largest number of bytes that workers shared with the user's process.
    """

    seconds: float
    inputs: int
    waited: float
    nbytes: int

    @property
    def rate(self) -> float:
        return self.inputs / self.seconds


class Tuner:
    """Search for the fastest number of workers. Call `note` after each measurement.

    Args:
        least: number of workers at the start; 0 for the calling thread.
        most: largest number of workers.
        most_bytes: bytes of memory that workers may share with the user's process; None for no
            limit.
        buffer: finished batches that each worker keeps ready at the start.

    Attributes:
        setting: current setting.
        settled: True if the search has ended.
        share: factor for the lengths of measurements: with 1/4, each takes a quarter of the usual
            time.
        begins_here: True if the calling thread works until the first workers are ready.
        reason: sentence for the user that says why the calling thread makes the batches, although
            the options have workers; "" in all other cases.
    """

    share: ClassVar[float] = 1.0
    begins_here: ClassVar[bool] = True
    reason = ""

    def __init__(
        self, least: int, most: int, most_bytes: int | None = None, buffer: int = 1
    ) -> None:
        self.setting = self._best = Setting(least, buffer)
        self.settled = False
        self._most, self._most_bytes = most, most_bytes
        self._best_rate = 0.0
        self._bytes_each = 0.0  # of memory, for each batch that is ahead
        self._tries = self._settings()
        next(self._tries)

    def note(self, measurement: Measurement) -> Setting:
        """Record the measured speed of the current setting, and return the setting to use next.

        A setting is a number of workers, and a number of finished batches that each keeps ready.
        """
        if self.settled:
            return self.setting
        if self.setting.workers:
            self._bytes_each = max(self._bytes_each, measurement.nbytes / _ahead(self.setting))
        better = measurement.rate > self._best_rate * GAIN
        if better or self._best == self.setting:
            self._best, self._best_rate = self.setting, measurement.rate
        if measurement.waited <= ENOUGH * measurement.seconds and (
            better or self._best == self.setting
        ):
            return self.settle()
        for setting in self._tries:
            if self._fits(setting):
                self.setting = setting
                return setting
        return self.settle()

    def settle(self) -> Setting:
        """End the search for the fastest number of workers, and return the best setting so far."""
        self.settled, self.setting = True, self._best
        return self._best

    def _fits(self, setting: Setting) -> bool:
        return self._most_bytes is None or self._bytes_each * _ahead(setting) <= self._most_bytes

    def _settings(self) -> Iterator[Setting]:
        """Yield the settings (numbers of workers and ready batches) to try, the current one first.

        After each setting is measured, the caller stores the best setting so far in `_best`, from
        which the next setting is computed.
        """
        yield self._best
        workers, failed = max(2 * self._best.workers, 2), self._most + 1
        while workers <= self._most:
            yield Setting(workers, self._best.buffer)
            # or something else slowed it down: one after the other, once more
            if self._best.workers != workers:
                yield self._best
                yield Setting(workers, self._best.buffer)
            if self._best.workers != workers:
                failed = workers
                break
            workers = 2 * workers if 2 * workers <= self._most else max(self._most, workers + 1)
        while (between := (self._best.workers + failed) // 2) > self._best.workers:
            yield Setting(between, self._best.buffer)
            if self._best.workers != between:
                failed = between
        while self._best.workers and self._best.buffer < MOST_BUFFER:
            tried = Setting(self._best.workers, min(2 * self._best.buffer, MOST_BUFFER))
            yield tried
            if self._best != tried:
                break


class HereOrWorkers(Tuner):
    """Choose between the workers that the user asked for and the calling thread.

    The calling thread is faster if making a batch takes less time than getting it from a worker.
    Workers and calling thread are measured in turn, at most twice each. The calling thread is
    chosen if it was more than 5 % faster than the workers both times. The workers are kept without
    further measurements if the user hardly waits for batches, if workers need long for a batch, or
    if the calling thread was not faster.

    Args:
        workers: number of workers that the user asked for.
        buffer: finished batches that each worker keeps ready.
        batch: number of records in a batch.
    """

    share = 1 / 4
    begins_here = False

    def __init__(self, workers: int, buffer: int, batch: int) -> None:
        super().__init__(workers, workers, None, buffer)
        self._batch = batch
        self._asked, self._here = self.setting, Setting(0, buffer)
        self._rates: dict[Setting, list[float]] = {self._asked: [], self._here: []}

    def note(self, measurement: Measurement) -> Setting:
        if self.settled:
            return self.setting
        workers, here = self._rates[self._asked], self._rates[self._here]
        self._rates[self.setting].append(measurement.rate)
        if self.setting == self._asked and not self._is_cheap(measurement):
            return self.settle()
        if here and min(here) <= GAIN * max(workers):
            return self.settle()
        if len(here) == TRIES:
            self._best = self._here
            self.reason = (
                f"Your thread makes the batches: it made {format_count(min(here))} records/s, and "
                f"{self._asked.workers} worker{'s' * (self._asked.workers > 1)} "
                f"{format_count(max(workers))}, as handing these batches over takes longer than "
                "making them."
            )
            return self.settle()
        self.setting = self._here if self.setting == self._asked else self._asked
        return self.setting

    def _is_cheap(self, measurement: Measurement) -> bool:
        """Return True if the calling thread may be faster than the workers.

        This is possible if the user waits for batches although a worker makes a batch in a short
        time.
        """
        batches = max(measurement.inputs / self._batch, 1)
        each = self._asked.workers * measurement.waited / batches
        return measurement.waited > ENOUGH * measurement.seconds and each < HEAVY_SECONDS


def _ahead(setting: Setting) -> int:
    """Return how many batches can be in memory at the same time with a setting.

    For each worker, these are the batch that it makes and the finished ones that it keeps ready.
    """
    return setting.workers * (1 + setting.buffer)
