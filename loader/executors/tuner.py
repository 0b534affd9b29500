"""Decides how many workers there should be, and how far they work ahead, from how fast the stream goes with some. Pure.

In: what a stretch of time gave. Out: the setting from now on.

The rules:
* it begins small: in the calling thread, where that is possible, or with one worker.
* who hardly waits needs no more.
* workers are doubled as long as the stream gets faster by it; what did not help, tried twice, is taken back. Then numbers
  half-way to the one that did not help are tried, and longer buffers, which help where tasks take unequal times.
* whatever was best is kept: after that nothing changes any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

TUNING_SECONDS = 24.0
"""After which nothing more is tried. The last stretch may take some seconds more."""

GAIN = 1.05
"""What more workers must bring to be kept. Chosen: more than speeds differ by chance from second to second, mostly."""

ENOUGH = 0.02
"""Of the time: who waits less needs nothing more. Chosen."""

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
        """Inputs in a second."""
        return self.inputs / self.seconds


class Tuner:
    """The setting, and what is tried next.

    Args:
        least: workers to begin with: 0 or 1.
        most: workers that there may be.
        most_bytes: of memory that workers may share with the user; None: any.
        buffer: to begin with.
    """

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
            yield self._best._replace(workers=workers)
            if self._best.workers != workers:  # or something else slowed it down: one after the other, once more
                yield self._best
                yield self._best._replace(workers=workers)
            if self._best.workers != workers:
                failed = workers
                break
            workers = 2 * workers if 2 * workers <= self._most else max(self._most, workers + 1)
        while (between := (self._best.workers + failed) // 2) > self._best.workers:
            yield self._best._replace(workers=between)
            if self._best.workers != between:
                failed = between
        while self._best.workers and self._best.buffer < MOST_BUFFER:
            tried = self._best._replace(buffer=2 * self._best.buffer)
            yield tried
            if self._best != tried:
                break


def _ahead(setting: Setting) -> int:
    """Batches that may be in memory at a time."""
    return setting.workers * (1 + setting.buffer)


Standing = tuple[float, int, int, float]
"""Seconds, inputs, tasks, and seconds that the user waited."""

NOTHING: Standing = (0.0, 0, 0, 0.0)


@dataclass
class Found:
    """Findings so far.

    Attributes:
        tuner: has the setting, and what is tried next.
        seconds_left: in which more may be tried.
        measured: of a stretch that an epoch's end cut short: it goes on in the next epoch.
    """

    tuner: Tuner
    seconds_left: float = TUNING_SECONDS
    measured: Standing = NOTHING


class Tuning:
    """Findings of one loader's executors. One of them has it at a time; others begin anew."""

    def __init__(self) -> None:
        self._found: Found | None = None

    def take(self) -> Found | None:
        """The findings; None: there are none, or another executor has them."""
        found, self._found = self._found, None
        return found

    def give_back(self, found: Found) -> None:
        """For the next epoch."""
        self._found = found

    def __reduce__(self) -> tuple[type[Tuning], tuple[()]]:
        return type(self), ()
