"""How long a thread needed a processor, whether it had one or not.

In: nothing. Out: seconds. A thread that others keep from the processors does not wait for a disk, a lock or a sleep.
"""

from __future__ import annotations

import os
from time import thread_time


def needed_seconds() -> float:
    """Seconds that this thread was at work, or was kept from it."""
    return thread_time() + kept_seconds()


def kept_seconds() -> float:
    """Seconds that this thread was kept from work, as other programs had the processors; 0 where only Linux would know."""
    try:
        file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    except OSError:  # it is not Linux, or its kernel does not count this
        return 0.0
    try:
        return int(os.read(file, 100).split()[1]) * 1e-9
    finally:
        os.close(file)
