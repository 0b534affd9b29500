"""Makes tasks as long as is worth a message, and no longer.

In: what tasks took. Out: how many of the plan's spans the next task should be made of.

A batch of small records is done in less time than it takes to ask for it, wake somebody up and answer. So a task grows
to several batches, while it stays short and its batches stay in the processor's caches.
"""

from __future__ import annotations

TASK_SECONDS = 3e-3
"""What a task of several spans may take: fifty times its messages."""

TASK_BYTES = 4 << 20
"""What the batches of such a task may occupy."""

MAX_UNITS = 16


class Pace:
    """The length of the next task, in spans.

    Args:
        growing: tasks of several spans are possible.
    """

    def __init__(self, growing: bool) -> None:
        self.units = 1
        self._growing = growing

    def note(self, units: float, seconds: float, size: int) -> None:
        """A task of `units` spans took `seconds` and gave `size` bytes. Tasks grow to twice as much at a time."""
        if not self._growing:
            return
        room = units * min(TASK_SECONDS / max(seconds, 1e-9), TASK_BYTES / max(size, 1), 2.0)
        self.units = 1 << max(min(int(room), MAX_UNITS).bit_length() - 1, 0)
