"""When the user waited, and when the user was away for long.

In: the times of waits: for each block of rows that is waited for, never for a record. Out: sums of seconds.
"""

from __future__ import annotations


class Waits:
    """When the user's thread was in `next`."""

    def __init__(self) -> None:
        self._seconds = 0.0  # of the waits that ended
        self._since = self._until = 0.0
        self._began: float | None = None  # the wait that has not ended
        self._pauses = 0.0, 0.0  # the two longest times away: the second longest, and the longest

    def begin(self, now: float) -> None:
        """A wait begins, in seconds of `time.perf_counter`."""
        self._since = self._since or now
        self._began = now
        if self._until and now - self._until > self._pauses[0]:
            away = now - self._until
            self._pauses = min(away, self._pauses[1]), max(away, self._pauses[1])

    def end(self, now: float) -> None:
        """The wait that had begun ends."""
        self._seconds, self._until, self._began = self.until(now), now, None

    def until(self, now: float) -> float:
        """Seconds that were waited, those of a wait that has not ended included."""
        began = self._began
        return self._seconds + (0.0 if began is None else now - began)

    @property
    def seconds(self) -> float:
        """Seconds that were waited, in waits that ended."""
        return self._seconds

    @property
    def elapsed(self) -> float:
        """Seconds from the first wait to the end of the last."""
        return self._until - self._since

    @property
    def paused(self) -> float:
        """Seconds of the two longest times that the user was away, since they were last forgotten."""
        return sum(self._pauses)

    def forget_pauses(self) -> None:
        """Look for the longest times anew."""
        self._pauses = 0.0, 0.0
