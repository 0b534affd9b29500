"""How much of the rows of tasks may lie in the object stores of a cluster. Pure.

In: what rows were seen to weigh, and how large the stores of nodes are. Out: how many inputs a task may have at most, and how
many tasks may be under way.

An object lies in one piece in the store of the node that made it, and again in that of the node that wants it. One that is
large beside a store takes others' place, is written to disk, or never comes. So tasks begin with one unit each, and grow once
something is known of their rows.
"""

from __future__ import annotations

import sys

from .tuned import OBJECT_SHARE, STORE_SHARE


class Budget:
    """Bytes of the rows of each stage. `stages`: how many stages keep rows in the stores at a time."""

    def __init__(self, stages: int) -> None:
        self._stages = stages
        self._stores: dict[str, float] = {}  # bytes of a node's store, by its id
        self._weights: dict[int, float] = {}  # bytes that come of an input, by the stage
        self._row: float | None = None  # bytes of one, of whatever stage
        self._largest: dict[int, float] = {}  # bytes of a task, by the stage

    def add_store(self, node: str, size: float) -> None:
        """A node has a store, and rows may lie there."""
        if size > 0:
            self._stores[node] = size

    def remove_store(self, node: str) -> None:
        """A node is gone."""
        self._stores.pop(node, None)

    def note(self, stage: int, inputs: int, rows: int, size: int) -> None:
        """A task has made so many rows, of so many bytes. Heavy ones are remembered for a while, as more may come."""
        weight = size / max(inputs, 1)
        self._row = max(size / max(rows, 1), (self._row or 0.0) * 7 / 8)
        self._weights[stage] = max(weight, (self._weights.get(stage, 0.0) * 7 + weight) / 8)
        self._largest[stage] = max(float(size), (self._largest.get(stage, 0.0) * 7 + size) / 8)

    def most_inputs(self, stage: int) -> int:
        """Inputs of a task on a leaf. 1: nothing is known yet, or no more than one has room."""
        if stage not in self._weights:
            return 1
        return self._most(self._object(), self._weights[stage])

    def most_rows(self) -> int:
        """Rows that are put together: into a group, or by a join."""
        return 1 if self._row is None else self._most(self._object(), self._row)

    def _object(self) -> float:
        """Bytes of an object that is small beside any store."""
        return min(self._stores.values(), default=0.0) * OBJECT_SHARE

    def most_tasks(self, stage: int, inputs: int) -> int:
        """Tasks that may be under way, or done and not taken yet, if the next ones have so many inputs: at least one.

        Tasks grow before the first larger one is done.
        """
        room = min(self._stores.values(), default=0.0) * len(self._stores) * STORE_SHARE / self._stages
        return self._most(room, max(self._largest.get(stage, 0.0), self._weights.get(stage, 0.0) * inputs))

    def _most(self, room: float, weight: float) -> int:
        return max(int(room / weight), 1) if weight and self._stores else sys.maxsize
