"""Decides how many workers there are, after how fast the stream went with some: what is tried next, and what is kept. Purely.

In: the speed with a setting. Out: the next setting.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from ....common.units import format_count

GAIN = 1.05
"""What more workers must bring to be kept. Chosen: more than speeds differ by chance from second to second, mostly."""

ENOUGH = 0.02
"""Of the time: who waits less needs nothing more. Chosen."""

TRIES = 2
"""Times that the calling thread is tried in place of workers. Chosen: another program may slow down one stretch."""

HEAVY_SECONDS = 10e-3
"""Seconds of a worker for a batch from which on the calling thread is not tried: to hand it over takes less. Chosen."""

MOST_BUFFER = 4
"""Batches ahead for each worker. Chosen."""


class Setting(NamedTuple):
    """A number of workers, and how far they work ahead.

    Attributes:
        workers: 0: in the calling thread.
        buffer: finished batches held ready for each.
    """

    workers: int
    buffer: int


class Stretch(NamedTuple):
    """Some seconds with one setting.

    Attributes:
        seconds: how long it was.
        inputs: records, or rows, that came through.
        waited: seconds that the user waited.
        nbytes: of memory that workers share, at most.
    """

    seconds: float
    inputs: int
    waited: float
    nbytes: int

    @property
    def rate(self) -> float:
        return self.inputs / self.seconds


class Tuner:
    """The setting, and what is tried next.

    Attributes:
        setting: the current one.
        settled: nothing more is tried.
        share: of the usual times for which a setting is tried.
        begins_here: the calling thread works until the first workers can.
        reason: why the calling thread works where workers were asked for, as a sentence; "" if it does not.

    Args:
        least: workers to begin with: 0 or 1.
        most: workers that there may be.
        most_bytes: of memory that workers may share with the user; None: any.
        buffer: to begin with.
    """

    share: ClassVar[float] = 1.0
    begins_here: ClassVar[bool] = True
    reason = ""

    def __init__(self, least: int, most: int, most_bytes: int | None = None, buffer: int = 1) -> None:
        self.setting = self._best = Setting(least, buffer)
        self.settled = False
        self._most, self._most_bytes = most, most_bytes
        self._best_rate = 0.0
        self._bytes_each = 0.0  # of memory, for each batch that is ahead
        self._tries = self._settings()
        next(self._tries)

    def note(self, stretch: Stretch) -> Setting:
        """Note a stretch with the setting; return the next setting."""
        if self.settled:
            return self.setting
        if self.setting.workers:
            self._bytes_each = max(self._bytes_each, stretch.nbytes / _ahead(self.setting))
        better = stretch.rate > self._best_rate * GAIN
        if better or self._best == self.setting:
            self._best, self._best_rate = self.setting, stretch.rate
        if stretch.waited <= ENOUGH * stretch.seconds and (better or self._best == self.setting):
            return self.settle()
        for setting in self._tries:
            if self._fits(setting):
                self.setting = setting
                return setting
        return self.settle()

    def settle(self) -> Setting:
        """Keep what was best."""
        self.settled, self.setting = True, self._best
        return self._best

    def _fits(self, setting: Setting) -> bool:
        return self._most_bytes is None or self._bytes_each * _ahead(setting) <= self._most_bytes

    def _settings(self) -> Iterator[Setting]:
        """Settings to try, one after the other; between two of them `_best` is brought up to date."""
        yield self._best
        workers, failed = max(2 * self._best.workers, 2), self._most + 1
        while workers <= self._most:
            yield Setting(workers, self._best.buffer)
            if self._best.workers != workers:  # or something else slowed it down: one after the other, once more
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
            tried = Setting(self._best.workers, 2 * self._best.buffer)
            yield tried
            if self._best != tried:
                break


class HereOrWorkers(Tuner):
    """The workers that the user asked for, unless the calling thread is faster: where records cost less than handing them over.

    Both are tried twice, in turns. The calling thread is chosen only if it was faster each time.

    Args:
        workers: that the user asked for.
        buffer: finished batches held ready for each.
        batch: records of a batch.
    """

    share = 1 / 4
    begins_here = False

    def __init__(self, workers: int, buffer: int, batch: int) -> None:
        super().__init__(workers, workers, None, buffer)
        self._batch = batch
        self._asked, self._here = self.setting, Setting(0, buffer)
        self._rates: dict[Setting, list[float]] = {self._asked: [], self._here: []}

    def note(self, stretch: Stretch) -> Setting:
        """Note a stretch with the setting; return the next setting."""
        if self.settled:
            return self.setting
        workers, here = self._rates[self._asked], self._rates[self._here]
        self._rates[self.setting].append(stretch.rate)
        if self.setting == self._asked and not self._is_cheap(stretch):
            return self.settle()
        if here and min(here) <= GAIN * max(workers):
            return self.settle()
        if len(here) == TRIES:
            self._best = self._here
            self.reason = (
                f"Your thread makes the batches: it made {format_count(min(here))} records/s, and "
                f"{self._asked.workers} worker{'s' * (self._asked.workers > 1)} {format_count(max(workers))}, as handing "
                "these batches over takes longer than making them."
            )
            return self.settle()
        self.setting = self._here if self.setting == self._asked else self._asked
        return self.setting

    def _is_cheap(self, stretch: Stretch) -> bool:
        """True if batches are waited for, but take a worker so little time that the calling thread may be faster."""
        batches = max(stretch.inputs / self._batch, 1)
        each = self._asked.workers * stretch.waited / batches
        return stretch.waited > ENOUGH * stretch.seconds and each < HEAVY_SECONDS


def _ahead(setting: Setting) -> int:
    """Batches that may be in memory at a time."""
    return setting.workers * (1 + setting.buffer)
