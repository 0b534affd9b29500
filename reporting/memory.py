"""Measures the memory of this process and its workers.

In: nothing. Out: bytes, as Linux counts them: what several processes share counts in part for each.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def memory() -> tuple[int, int] | None:
    """Bytes of this process, and of those that it started; None where the system does not tell."""
    own = os.getpid()
    try:
        return _bytes_of(own), sum(_bytes_of_one_that_may_end(child) for child in started_by(own))
    except (OSError, ValueError):
        return None


def _bytes_of(process: int) -> int:
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) << 10
    raise ValueError("no Pss")


def _bytes_of_one_that_may_end(process: int) -> int:
    with suppress(OSError, ValueError):
        return _bytes_of(process)
    return 0


def started_by(process: int) -> Iterator[int]:
    """The processes that one started, and those that they started."""
    for thread in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, thread.read_text().split()):
                yield child
                yield from started_by(child)
