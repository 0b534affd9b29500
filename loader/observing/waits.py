"""When the user waited.

In: the times of waits: for each block of rows that is waited for, never for a record. Out: sums of seconds.
"""

from __future__ import annotations


class Waits:
    """When the user's thread was in `next`."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._since = self._until = 0.0

    def note(self, began: float, ended: float) -> None:
        """It was there from `began` to `ended`, in seconds of `time.perf_counter`."""
        self._since = self._since or began
        self._until = ended
        self.seconds += ended - began

    @property
    def elapsed(self) -> float:
        """Seconds from the first wait to the end of the last."""
        return self._until - self._since
