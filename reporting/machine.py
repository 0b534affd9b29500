"""Measure how much of the machine this process, processes it started, and other programs use.

It works on Linux.

Memory that several processes share is divided among them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_TICK = 1 / os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 0.01

_AT_WORK = (0, 1, 2, 5, 6, 7)
"""Columns of /proc/stat that count as busy: user, nice, system, irq, softirq, steal.

Steal is the time of other virtual machines.
"""


class Processors(NamedTuple):
    """Processor seconds that were used up to some time, since the system started.

    Attributes:
        at: the time, in seconds of `time.perf_counter`.
        busy: seconds of all programs together, on the processors that this process may use.
        own: seconds of this process and the processes that it started, on all processors.
    """

    at: float
    busy: float
    own: float


def processors() -> Processors | None:
    """Return the processor seconds that were used up to now.

    Return None if the system does not report them.
    """
    try:
        usable = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        lines = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
        busy = sum(
            sum(int(line[1 + place]) for place in _AT_WORK) for line in lines if line[0] in usable
        )
        return Processors(time.perf_counter(), busy * _TICK, _own())
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def taken_by_others(before: Processors | None, after: Processors | None) -> float:
    """Return the average number of processors that other programs used between two measurements.

    Return 0 if one is missing.

    >>> taken_by_others(Processors(10.0, 100.0, 3.0), Processors(12.0, 103.0, 4.0))
    1.0
    """
    if before is None or after is None or after.at <= before.at:
        return 0.0
    return max((after.busy - before.busy) - (after.own - before.own), 0.0) / (after.at - before.at)


def _own() -> float:
    """Return processor seconds of this process and all that it started, also ended ones."""
    ended = os.times()
    own = time.process_time() + ended.children_user + ended.children_system
    for process in started_by(os.getpid()):
        with suppress(OSError, ValueError):  # it has ended
            after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            own += sum(map(int, after_name[11:15])) * _TICK
    return own


def memory() -> tuple[int, int] | None:
    """Return the bytes of memory of this process, and the sum over the processes that it started.

    Return None if unknown.
    """
    try:
        own, others = _bytes_of(os.getpid()), 0
        for child in started_by(os.getpid()):
            with suppress(OSError, ValueError):  # it has ended
                others += _bytes_of(child)
        return own, others
    except (OSError, ValueError):
        return None


def _bytes_of(process: int) -> int:
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) << 10
    raise ValueError("the file smaps_rollup must have a line that begins with Pss:")


def started_by(process: int) -> Iterator[int]:
    """Yield the ids of all processes that a process started, directly or indirectly."""
    for thread in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, thread.read_text().split()):
                yield child
                yield from started_by(child)
