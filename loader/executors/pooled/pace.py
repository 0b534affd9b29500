"""Makes tasks as long as is worth a message, and no longer; knows what tasks take.

In: what tasks took. Out: how many of the plan's spans the next task should be made of, how many groups should go into one
message, and what a task will take.

A batch of small records is done in less time than it takes to ask for it, wake somebody up and answer. So the work that
one message asks for grows to several batches, while it stays short and its batches stay in the processor's caches.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...work.tasks import SpanTask, Task, input_count
from .tuned import MAX_REREAD_UNITS, MAX_UNITS, REREAD_BYTES, TASK_BYTES, TASK_SECONDS


class Pace:
    """What tasks take, and the length of the next one. `spans`: positions in a span, of each stage that has such."""

    def __init__(self, spans: Mapping[int, int], stages: int = 1) -> None:
        self._spans = spans
        self._most_bytes = TASK_BYTES if stages == 1 else REREAD_BYTES
        self._most_units = MAX_UNITS if stages == 1 else MAX_REREAD_UNITS
        self._seconds_per_input: dict[int, float] = {}
        self._together: dict[int, int] = {}

    def together(self, stage: int) -> int:
        """How many spans, of a stage on a leaf, or groups, of another, the next message should be about."""
        return self._together.get(stage, 1)

    def note(self, task: Task, seconds: float, size: int) -> None:
        """A task took `seconds` and gave `size` bytes. Messages grow to twice as much at a time."""
        stage, inputs, on_leaf = task.stage, max(input_count(task), 1), isinstance(task, SpanTask)
        before = self._seconds_per_input.get(stage, seconds / inputs)
        self._seconds_per_input[stage] = (before + seconds / inputs) / 2
        units = inputs / self._spans[stage] if on_leaf else 1
        room = units * min(TASK_SECONDS / max(seconds, 1e-9), self._most_bytes / max(size, 1))
        room = min(room, 2 * (units if on_leaf else self.together(stage)), self._most_units)
        self._together[stage] = 1 << max(int(room).bit_length() - 1, 0)

    def expected_seconds(self, task: Task) -> float:
        """What a task will take, as far as tasks before it tell."""
        return max(input_count(task), 1) * self._seconds_per_input.get(task.stage, 1e-6)
