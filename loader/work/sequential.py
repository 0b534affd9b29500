"""Reads a source that can only be run through: elements in order, from its beginning or from a state of its own.

In: spans, and where the source stood before. Out: their elements, and where it stands after them. A task can be repeated by any
worker: one that stands elsewhere goes to the state that the task tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import Any

from ..options import INSIDE_A_TASK
from ..plan.leaf import Leaf
from ..plan.pipeline import Pipeline
from .explain import READING, explained
from .tasks import SourceState, SpanTask


class SequentialReader:
    """The iterator of a source, moved from task to task. For one thread at a time."""

    def __init__(self, leaf: Leaf) -> None:
        self._leaf = leaf
        self._iterator: Any = None
        self._position = -1  # local
        self._state: str | None = None  # at that position; another way to it, from a state of Grain's, is another place
        self._ended = False
        self._at_work = Lock()  # threads share it: a task that nobody waits for any more may still be at work

    def read(self, task: SpanTask) -> tuple[list[Any], Exception | None, SourceState]:
        """The elements of a span, fewer at the end; why no more came, if that was a failure; where the source stands then."""
        with self._at_work, self._place():
            records, failure = self._records(task)
            if failure is not None:  # nothing more is asked for
                return records, failure, SourceState("", True, len(records))
            self._state = self._leaf.source.state_of(self._iterator)
            return records, None, SourceState(self._state, self._ended, len(records))

    def _records(self, task: SpanTask) -> tuple[list[Any], Exception | None]:
        found: list[Any] = []
        position = task.start
        try:
            self._go_to(task)
            while position < task.stop and self._next(found):
                position += 1
        except Exception as error:
            self._position = -1
            where = f"on element {self._leaf.position(position)} of a dataset that is run through"
            return found, explained(error, where, READING)
        self._position = position
        return found, None

    def close(self) -> None:
        """Stop the work that the source has others do."""
        close = getattr(self._iterator, "close", None)
        self._iterator, self._position = None, -1
        if close is not None and self._leaf.source.has_workers:
            close()

    def _place(self) -> AbstractContextManager[None]:
        """Has the source work in this thread, unless it has workers of its own."""
        return nullcontext() if self._leaf.source.has_workers else _here()

    def _go_to(self, task: SpanTask) -> None:
        at, state = task.since or (0, "")
        stands_there = self._iterator is not None and (self._position, self._state) == (task.start, state)
        self._state = None  # until all is read: an interrupt may come between
        if stands_there:
            return
        self.close()
        self._iterator, self._ended = self._leaf.source.open(state), False
        passed: list[Any] = []
        while at < task.start and self._next(passed):  # a place past the end is the end
            at += 1
            passed.clear()

    def _next(self, found: list[Any]) -> bool:
        """Take the next element of this shard: of shard_count that follow one another, one."""
        shard = self._leaf.shard
        taken: list[Any] = []
        for _ in range(shard.shard_count):
            try:
                taken.append(next(self._iterator))
            except StopIteration:
                self._ended = True
                if shard.drop_remainder or len(taken) <= shard.shard_index:
                    return False
                break
        found.append(taken[shard.shard_index])
        return True


def run_throughs_of(pipeline: Pipeline) -> dict[int, SequentialReader]:
    """The readers of such sources, by the numbers of the stages that they are read for."""
    leaves = {stage.number: pipeline.leaves[stage.leaf] for stage in pipeline.stages if stage.leaf is not None}
    return {number: SequentialReader(leaf) for number, leaf in leaves.items() if leaf.in_order}


@contextmanager
def _here() -> Iterator[None]:
    """Loaders that the source itself iterates work in this thread."""
    token = INSIDE_A_TASK.set(True)
    try:
        yield
    finally:
        INSIDE_A_TASK.reset(token)
