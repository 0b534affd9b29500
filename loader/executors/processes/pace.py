"""Makes tasks as long as is worth a message, and no longer; knows what tasks take.

In: what tasks took. Out: how many of the plan's spans the next task should be made of, how many groups should go into one
message, and what a task will take.

A batch of small records is done in less time than it takes to ask for it, wake somebody up and answer. So the work behind
a message grows to several batches, while it stays short and its batches stay in the processor's caches.
"""

from __future__ import annotations

from ...work.tasks import Group, Task

TASK_SECONDS = 30e-3
"""What a task of several spans may take: a hundred times its messages."""

TASK_BYTES, REREAD_BYTES = 16 << 20, 8 << 20
"""What the batches of such a task may occupy; and what it may where tasks read what others wrote, to find it in the caches."""

MAX_UNITS, MAX_REREAD_UNITS = 32, 16
"""Likewise spans or groups. More of them have their tags cross in memory of their own, as a message has no room for them."""


class Pace:
    """What tasks take, and the length of the next one.

    Args:
        span: positions in a span.
        segments: of the pipeline.
    """

    def __init__(self, span: int, segments: int = 1) -> None:
        self._span = span
        self._most_bytes = TASK_BYTES if segments == 1 else REREAD_BYTES
        self._most_units = MAX_UNITS if segments == 1 else MAX_REREAD_UNITS
        self._seconds_per_input: dict[int, float] = {}
        self._together: dict[int, int] = {}

    def together(self, segment: int) -> int:
        """How many spans, of the first segment, or groups, of another, the next message should be about."""
        return self._together.get(segment, 1)

    def note(self, task: Task, seconds: float, size: int) -> None:
        """A task took `seconds` and gave `size` bytes. Messages grow to twice as much at a time."""
        segment, inputs = _inputs_of(task)
        before = self._seconds_per_input.get(segment, seconds / inputs)
        self._seconds_per_input[segment] = (before + seconds / inputs) / 2
        units = inputs / self._span if segment == 0 else 1
        room = units * min(TASK_SECONDS / max(seconds, 1e-9), self._most_bytes / max(size, 1))
        room = min(room, 2 * (units if segment == 0 else self.together(segment)), self._most_units)
        self._together[segment] = 1 << max(int(room).bit_length() - 1, 0)

    def expected_seconds(self, task: Task) -> float:
        """What a task will take, as far as tasks before it tell."""
        segment, inputs = _inputs_of(task)
        return inputs * self._seconds_per_input.get(segment, 1e-6)


def _inputs_of(task: Task) -> tuple[int, int]:
    """The segment that a task belongs to, and how many inputs it has there."""
    if isinstance(task, Group):
        return task.segment, max(sum(part.stop - part.start for part in task.parts), 1)
    return 0, max(task.stop - task.start, 1)
