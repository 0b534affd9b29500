"""Record samples of a program's loops, for a report."""

from __future__ import annotations

import itertools
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Self

from ..common.messages import first_few
from ..loader.device.stats import FeederStats
from ..loader.stats import IteratorStats
from ..loader.timing.listeners import listening
from ..loader.timing.snapshot import Snapshot
from .composition import Composition, composition
from .loops import both_stats, host_iterator, snapshot
from .machine import memory

SECONDS = 0.1  # between two samples of a loop, at the beginning; a sample takes about a millisecond

MEMORY_SHARE = 0.01
"""Largest share of time for measuring memory.

The more memory is in use, the longer a measurement takes.
"""
# largest number of samples of a loop; above it, every second one is dropped, and half as many are
# taken
MOST = 600


class Sample(NamedTuple):
    """State of a loop at one time.

    Attributes:
        at: the time, in seconds of `time.perf_counter`.
        loop: counts and times of the loop.
        own_bytes: memory of this process; 0 if unknown.
        workers_bytes: memory of the processes that it started; 0 if unknown.
    """

    at: float
    loop: Snapshot
    own_bytes: int
    workers_bytes: int


@dataclass(frozen=True)
class Recording:
    """The data of a report about a loop.

    Attributes:
        summary: a sentence that describes the loop.
        stats: statistics of its iterator; None if it has none.
        fed: statistics of its device feeder; None without one.
        composition: what its batches consist of, and the parts of its mix.
        samples: counts, times and memory at several times, in order.
    """

    summary: str
    stats: IteratorStats | None
    fed: FeederStats | None
    composition: Composition
    samples: tuple[Sample, ...] = ()

    @classmethod
    def of(cls, loop: Any, samples: tuple[Sample, ...] = ()) -> Recording:
        """Return a recording of the current state of a loop, with samples that were taken before.

        Raises:
            TypeError: the loop does not come from headrace.
        """
        stats, fed = both_stats(loop)
        return cls(_in_words(loop), stats, fed, composition(loop), samples)


def _in_words(loop: Any) -> str:
    """Return a sentence with a loop's number of steps, data and workers.

    Return "" if it has no `DataLoader`'s iterator.
    """
    host, counted = host_iterator(loop), snapshot(loop)
    if host is None or counted is None:
        return ""
    sources = [
        f"{len(leaf.source):,} records of {type(leaf.source).__name__}"
        for leaf in host.pipeline.leaves
    ]
    count, kind = host.snapshot().worker_count, host.execution.worker_kind or "process"
    kinds = {"process": "worker process", "thread": "worker thread", "ray": "Ray actor"}
    workers = (
        f"{count} {kinds[kind]}{'es' if kind == 'process' and count > 1 else 's' * (count > 1)}"
    )
    return (
        f"{counted.steps:,} steps over {first_few(sources, 3)}, "
        f"with {workers if count else 'no workers'}."
    )


@dataclass
class Watched:
    """A loop that is recorded, and its samples, which are taken at equal distances.

    Attributes:
        loop: the loop.
        samples: its samples, in order.
        every: number of ticks from one sample to the next. It doubles each time there are too many
            samples.
    """

    loop: Any
    samples: list[Sample] = field(default_factory=list)
    every: int = 1

    def is_due(self, tick: int) -> bool:
        """Return True if a sample is to be taken at the tick of this number."""
        return tick % self.every == 0

    def add(self, tick: int, sample: Sample) -> None:
        """Add the sample of a tick.

        If there are too many, drop every second one, and take half as many from now on.
        """
        self.samples.append(sample)
        if len(self.samples) > MOST:
            self.every *= 2
            # At ticks at which none is taken any more.
            del self.samples[-1 if tick % self.every else -2 :: -2]


class Recorder:
    """Context manager that takes samples of all loops that begin inside the block."""

    def __init__(self) -> None:
        self._watched: list[Watched] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._look_again_and_again, name="headrace-recorder", daemon=True
        )
        self._listening = ExitStack()

    def __enter__(self) -> Self:
        self._listening.enter_context(listening(self._begins))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._listening.close()
        self._ended.set()
        self._thread.join()

    def longest(self) -> tuple[Any, tuple[Sample, ...]] | None:
        """Return `(loop, samples)` of the loop that ran longest; None if no loop was recorded.

        If several loops ran at least half as long, it is the last one of these.
        """
        times = [(snapshot(each.loop) or _NOTHING).elapsed for each in self._watched]
        if not times:
            return None
        last = max(number for number, elapsed in enumerate(times) if elapsed >= max(times) / 2)
        watched = self._watched[last]
        return watched.loop, tuple(watched.samples)

    def _begins(self, loop: Any) -> None:
        if not any(each.loop is loop or host_iterator(each.loop) is loop for each in self._watched):
            self._watched.append(Watched(loop))

    def _look_again_and_again(self) -> None:
        used, look_at = (0, 0), 0.0
        for tick in itertools.count(1):
            if self._ended.wait(SECONDS):
                return
            due = [each for each in self._watched if each.is_due(tick)]
            if due and (began := time.perf_counter()) >= look_at:
                used = memory() or (0, 0)
                look_at = began + (time.perf_counter() - began) / MEMORY_SHARE
            for each in due:
                each.add(tick, Sample(time.perf_counter(), snapshot(each.loop) or _NOTHING, *used))


_NOTHING = Snapshot(0, 0.0, 0.0)
