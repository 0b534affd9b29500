"""Measures how long a thread needed a processor, whether it had one or not.

In: nothing. Out: seconds. A thread that others keep from the processors does not wait for a disk, a lock or a sleep.
"""

from __future__ import annotations

from time import thread_time

import numpy as np


def needed_seconds() -> float:
    """Seconds that this thread was at work, or was kept from it."""
    return thread_time() + kept_seconds()


def kept_seconds() -> float:
    """Seconds that this thread was kept from work, as other programs had the processors; 0 where only Linux would know."""
    try:
        told = np.fromfile(
            "/proc/thread-self/schedstat", np.int64, 3, sep=" "
        )  # in C: no interrupt leaves the file open
    except OSError:  # it is not Linux, or its kernel does not count this
        return 0.0
    return float(told[1]) * 1e-9 if len(told) == 3 else 0.0
