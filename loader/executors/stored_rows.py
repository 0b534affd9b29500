"""Rows in the object stores of a Ray cluster: limits of their memory, and rows that are lost.

In: sizes of rows, and of the stores. Out: how long tasks may be, and how many may run. For rows
that were lost: the same rows, after the task that makes them was run a second time.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from ...errors import WorkerCrashedError
from ..work.tasks import Block
from .jobs import MAX_TRIES
from .transport import StoredRows

_RESTORE = (
    "Start Ray with a larger --object-store-memory, or use fewer workers, "
    "and restore the last checkpoint"
)

# Chosen.
OBJECT_SHARE = 1 / 8
"""Share of the smallest of Ray's object stores that the rows of one task may fill."""

# Chosen: rows need not be spread evenly over the stores.
STORE_SHARE = 1 / 2
"""Share of all of Ray's object stores together that the rows of all current tasks may fill."""


class Budget:
    """Limits for the lengths and numbers of tasks whose rows are in Ray's object stores.

    They are computed from the sizes of the rows and of the stores. An object with rows takes memory
    in the store of the node that made it, and in the store of each node that reads it. If an object
    is large compared with the store, it displaces other objects, is written to disk, or never
    arrives. So the first tasks make one output each. Tasks grow once the size of rows is known.

    Args:
        stages: number of stages (operations that run in one task) whose rows are in the stores at
            the same time.
    """

    def __init__(self, stages: int) -> None:
        self._stages = stages
        self._stores: dict[str, float] = {}  # bytes, by the name
        self._weights: dict[int, float] = {}  # bytes that come of an input, by the stage
        self._row: float | None = None  # bytes of one, of whatever stage
        self._largest: dict[int, float] = {}  # bytes of a task, by the stage

    def set_store(self, name: str, size: float) -> None:
        """Set the capacity of the object store `name` in bytes; 0 means that the store is gone."""
        self._stores.pop(name, None)
        if size > 0:
            self._stores[name] = size

    def note(self, stage: int, inputs: int, rows: int, size: int) -> None:
        """Record that a task of a stage (operations that run in one task) made rows.

        The estimated size of a row rises at once after a task with larger rows, and falls slowly
        after tasks with smaller ones.

        Args:
            stage: index of the stage.
            inputs: number of inputs of the task.
            rows: number of rows.
            size: bytes of these rows together.
        """
        weight = size / max(inputs, 1)
        self._row = max(size / max(rows, 1), (self._row or 0.0) * 7 / 8)
        self._weights[stage] = max(weight, (self._weights.get(stage, 0.0) * 7 + weight) / 8)
        self._largest[stage] = max(float(size), (self._largest.get(stage, 0.0) * 7 + size) / 8)

    def most_inputs(self, stage: int) -> int:
        """Return the largest number of inputs of a task with which its rows fit into the stores.

        The result is 1 until a task of the stage is done.

        Args:
            stage: index of the stage (operations that run in one task). It reads records.
        """
        if stage not in self._weights:
            return 1
        return self._most(self._object(), self._weights[stage])

    def most_rows(self) -> int:
        """Return the largest number of rows that one task, or one object in a store, should have.

        These rows fill at most an eighth of the smallest object store. The result is 1 until the
        first task is done, because the size of a row is unknown.
        """
        return 1 if self._row is None else self._most(self._object(), self._row)

    def _object(self) -> float:
        return min(self._stores.values(), default=0.0) * OBJECT_SHARE

    def most_tasks(self, stage: int, inputs: int) -> int:
        """Return how many tasks of a stage may be submitted before the first one's result is taken.

        The result is at least 1. It is unlimited until the size of a task's rows is known.

        Args:
            stage: index of the stage (operations that run in one task).
            inputs: number of inputs of the next tasks, which may be larger than that of earlier
                ones.
        """
        room = (
            min(self._stores.values(), default=0.0) * len(self._stores) * STORE_SHARE / self._stages
        )
        return self._most(
            room, max(self._largest.get(stage, 0.0), self._weights.get(stage, 0.0) * inputs)
        )

    def _most(self, room: float, weight: float) -> int:
        return max(int(room / weight), 1) if weight and self._stores else sys.maxsize


class RunsAgain(Protocol):
    """Interface of an executor that can run a task a second time, if the task's rows were lost."""

    def handle_events(self, wait: bool) -> None: ...

    def make_again(self, rows: RowsWithTask[Any]) -> None: ...


class HandleOfRows(Protocol):
    """Interface of the handle of a task whose rows may be lost."""

    @property
    def executor(self) -> RunsAgain: ...

    @property
    def block(self) -> Block | None: ...


H = TypeVar("H", bound=HandleOfRows)


@dataclass(slots=True, eq=False)
class RowsWithTask(Generic[H]):
    """Rows that may be lost with a machine, and the handle of the task that can make them again."""

    handle: H
    rows: StoredRows
    again: H | None = None  # the task, while it is run again

    def are_lost(self) -> bool:
        """Return True if the rows are lost, and the task has not made them again yet.

        If the second run of the task is done, its rows replace the lost rows. Its error is raised
        if it failed; WorkerCrashedError if it made no rows.
        """
        if self.again is not None and (block := self.again.block) is not None:
            self.again = None
            if not isinstance(block.rows, RowsWithTask):
                reason = None if block.failure is None else block.failure.error
                raise reason or WorkerCrashedError(
                    f"Ray lost rows, which could not be made again. {_RESTORE}."
                )
            self.rows = block.rows.rows
        return self.rows.lost

    def load(self) -> list[Any]:
        losses = 0
        while True:
            while self.are_lost():
                self.handle.executor.make_again(self)
                self.handle.executor.handle_events(wait=True)
            if (elements := self.rows.load()) is not None:
                return elements
            losses += self.rows.lost
            if losses >= MAX_TRIES:
                raise WorkerCrashedError(
                    f"Ray lost the rows of a task {MAX_TRIES} times. {_RESTORE}."
                )
            self.handle.executor.handle_events(wait=False)
