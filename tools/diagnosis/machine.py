"""Measures what other programs take of the processors that this one may use.

In: nothing. Out: seconds. Where the system does not tell, other programs take nothing.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ...reporting.memory import started_by

_TICK = 1 / os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 0.01

_AT_WORK = (0, 1, 2, 5, 6, 7)
"""Columns of a processor in /proc/stat: user, nice, system, irq, softirq; and steal, which other machines took."""


class Processors(NamedTuple):
    """Seconds that the processors of this process had worked by some time."""

    at: float
    busy: float  # all of them together, for any program
    own: float  # all processors, for this process and those that it started


def processors() -> Processors | None:
    """Until now; None where the system does not tell."""
    try:
        usable = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        lines = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
        busy = sum(sum(int(line[1 + place]) for place in _AT_WORK) for line in lines if line[0] in usable)
        return Processors(time.perf_counter(), busy * _TICK, _own())
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def taken_by_others(before: Processors | None, after: Processors | None) -> float:
    """Processors that other programs took between two times, on average.

    >>> taken_by_others(Processors(10.0, 100.0, 3.0), Processors(12.0, 103.0, 4.0))
    1.0
    """
    if before is None or after is None or after.at <= before.at:
        return 0.0
    return max((after.busy - before.busy) - (after.own - before.own), 0.0) / (after.at - before.at)


def _own() -> float:
    ended = os.times()
    own = time.process_time() + ended.children_user + ended.children_system
    return own + sum(map(_seconds_of, started_by(os.getpid())))


def _seconds_of(process: int) -> float:
    """Seconds of a process, and of its children that have ended; 0 if it has ended itself."""
    with suppress(OSError, ValueError, IndexError):
        after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, after_name[11:15])) * _TICK
    return 0.0
