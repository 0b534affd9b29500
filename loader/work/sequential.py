"""Read a source without random access: elements in order, from its beginning or from a saved state.

In: tasks, each with a state of the source, and the position to which the state belongs. Out: the
elements of the tasks, and the source's state after them. Any worker can repeat a task: if the
worker's iterator is at another position, the worker restores the state in the task, and reads on to
the task's first position.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import Any

from ...common.closing import close_of
from ..options import INSIDE_A_TASK
from ..plan.leaf import Leaf
from ..plan.pipeline import Pipeline
from .explain import READING, explained
from .tasks import SourceState, SpanTask


class SequentialReader:
    """Reads a source without random access with one iterator, which continues from task to task.

    Threads may share it, but only one at a time reads.

    Args:
        leaf: the source with its sampler.
    """

    def __init__(self, leaf: Leaf) -> None:
        self._leaf = leaf
        self._iterator: Any = None
        self._position = -1  # local
        self._state: str | None = (
            None  # at that position; another way to it, from a state of Grain's, is another place
        )
        self._ended = False
        # threads share it: a task whose result nobody wants any more may still be running
        self._at_work = Lock()

    def read(self, task: SpanTask) -> tuple[list[Any], Exception | None, SourceState]:
        """Read the elements of a task.

        Returns:
            Three values: the elements; the exception, or None; and the source's state after
            reading. There are fewer elements than positions in the task if the source ends or
            fails. After an exception, the state is "", and the source counts as ended.
        """
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
            where = f"on element {self._leaf.position(position)} of a dataset without random access"
            return found, explained(error, where, READING)
        self._position = position
        return found, None

    def close(self) -> None:
        """Drop the iterator over a source without random access.

        If the source has workers of its own, the iterator is closed first, so that these workers
        stop.
        """
        close = close_of(self._iterator)
        self._iterator, self._position = None, -1
        if self._leaf.source.has_workers:
            close()

    def _place(self) -> AbstractContextManager[None]:
        """Return a context manager inside which the source is read.

        In this context, loaders inside the source run in this thread, unless the source has workers
        of its own.
        """
        return nullcontext() if self._leaf.source.has_workers else _here()

    def _go_to(self, task: SpanTask) -> None:
        at, state = task.since or (0, "")
        stands_there = (self._position, self._state) == (task.start, state)
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
        """Append this shard's next element to `found`.

        Return True if there was an element, False at the end. The source gives the elements of all
        shards in turn: of `shard_count` consecutive elements, this shard takes one.
        """
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
    """Return a reader for each source without random access, by index of the stage that reads it.

    A stage is a group of operations that run in one task.
    """
    leaves = {
        stage.number: pipeline.leaves[stage.leaf]
        for stage in pipeline.stages
        if stage.leaf is not None
    }
    return {number: SequentialReader(leaf) for number, leaf in leaves.items() if leaf.in_order}


@contextmanager
def _here() -> Iterator[None]:
    """Return a context for reading a source that may contain a loader.

    Inside the context, such a loader works in this thread, and starts no workers of its own.
    """
    token = INSIDE_A_TASK.set(True)
    try:
        yield
    finally:
        INSIDE_A_TASK.reset(token)
