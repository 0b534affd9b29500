"""Records through maps and filters, many through one function before the next, without a call of ours for each.

In: records. Out: what is left of them, and where each comes from; at a failure, all that is left of the records before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any, NamedTuple

from ...operations import Filter, MapTransform, Operation
from ...operations.protocol import Element

TOGETHER = 32
"""Records that go through one map or filter before they go to the next: few enough to stay in the caches."""


class Failed(NamedTuple):
    """Operation `place` of the list raised `error` on record `number`."""

    place: int
    number: int
    error: Exception


class Selection:
    """What maps and filters leave of records.

    Attributes:
        elements: the rows so far.
        numbers: of the record that each comes from.
        failed: of the first record that could not be done; the rest is not begun.
    """

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._functions = [
            (operation.function, isinstance(operation, Filter))
            for operation in operations
            if isinstance(operation, (MapTransform, Filter))
        ]
        self.elements: list[Element] = []
        self.numbers: list[int] = []
        self.failed: Failed | None = None

    def run(self, inputs: Sequence[Any]) -> None:
        """Push all records through, some at a time."""
        for first in range(0, len(inputs), TOGETHER):
            if self.failed is None:
                self._push(inputs[first : first + TOGETHER], first)

    def _push(self, inputs: Sequence[Any], first: int) -> None:
        elements, numbers = list(inputs), list(range(first, first + len(inputs)))
        for place, (function, is_filter) in enumerate(self._functions):
            done, error = _gathered(map(function, elements))
            kept = numbers[: len(done)]
            if is_filter:
                try:
                    kept = list(compress(numbers, done))
                except Exception:  # one that is neither true nor false
                    done, error = _gathered(map(bool, done))
                    kept = list(compress(numbers, done))
            if len(done) < len(elements):  # a later function may yet fail on an earlier record
                self.failed = Failed(place, numbers[len(done)], error or StopIteration())
            elements, numbers = list(compress(elements, done)) if is_filter else done, kept
        self.elements += elements
        self.numbers += numbers


def _gathered(some: Iterable[Any]) -> tuple[list[Any], Exception | None]:
    """What there is up to a failure, and the failure. StopIteration is taken for the end."""
    gathered: list[Any] = []
    try:
        gathered.extend(some)
    except Exception as error:
        return gathered, error
    return gathered, None
