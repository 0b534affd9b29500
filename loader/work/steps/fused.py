"""Run records through maps and filters in C iterators, which call only the user's functions.

In: records. Out: the results, and for each result the index of the input from which it comes. After
a failure: the operation that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, compress, repeat, takewhile
from operator import length_hint, not_
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ....operations import Operation
from ....operations.protocol import Context, Element, Generators

Plain: TypeAlias = tuple[Callable[..., Any], bool, Generators | None]
"""Function of a map or filter; True if a filter's; the generators of a random map (else None)."""

Places: TypeAlias = Callable[[], tuple[NDArray[np.int64], NDArray[np.uint64] | None]]
"""Function that returns the records' positions, and their seeds or None if all are the same."""


class FusedMapFilter:
    """Records that go through several maps and filters, one by one, inside iterators written in C.

    So that the operation and record of a failure can be found, iterators count how many records
    each operation got, and how many inputs were left each time that a record passed a filter.

    Args:
        operations: the maps and filters, in order.
        inputs: iterator of the records, whose `operator.length_hint` must be exact.
        count: number of records.
        places: function that returns the positions and seeds of the records, for random maps.

    Attributes:
        elements: iterator of the results.
    """

    def __init__(
        self, operations: Sequence[Plain], inputs: Iterator[Any], count: int, places: Places
    ) -> None:
        self._ended: list[bool] = []
        self._inputs, self._count = inputs, count
        self._lefts: Sequence[int] = range(count - 1, -1, -1)
        self._came: list[tuple[Iterator[Any], Sequence[int]]] = []
        self.elements: Iterator[Element] = chain(inputs, _noted(self._ended))
        for function, filters, generators in operations:
            drawn = () if generators is None else (generators(*places()),)
            self._go_through(function, filters, drawn)

    @property
    def ended(self) -> bool:
        """True if all records have gone through the maps and filters."""
        return bool(self._ended)

    def _go_through(
        self, function: Callable[..., Any], filters: bool, drawn: tuple[Iterator[Any], ...]
    ) -> None:
        counter = self._inputs
        if self._came:
            counter = repeat(True, self._count)
            self.elements = compress(self.elements, counter)
        self._came.append((counter, self._lefts))
        if filters:
            self._lefts = lefts = list[int]()
            passed = filter(function, self.elements)
            # gives None each time
            noted = map(lefts.append, map(length_hint, repeat(self._inputs)))
            self.elements = compress(passed, map(not_, noted))
        else:
            self.elements = map(function, self.elements, *drawn)

    def numbers(self, count: int) -> NDArray[np.int64]:
        """Return, for each of the first `count` results, the index of the input it was made of."""
        return self._count - 1 - np.array(self._lefts[:count], dtype=np.int64)

    def at_fault(self) -> int:
        """Return the index of the map or filter that failed, the last one that got a record."""
        left = length_hint(self._inputs)
        came = [(self._count - length_hint(counter), lefts) for counter, lefts in self._came]
        return max(
            (
                place
                for place, (times, lefts) in enumerate(came)
                if times and lefts[times - 1] == left
            ),
            default=0,
        )


def _noted(ended: list[bool]) -> Iterator[Any]:
    """Append True to `ended` when the iterator is exhausted; yield nothing.

    It is put after the last input, so `ended` says whether all inputs were taken.
    """
    ended.append(True)
    yield from ()


def plain_at_front(operations: Sequence[Operation]) -> list[Callable[[Element], Any]]:
    """Return the functions of the maps and filters at the beginning of a list of operations.

    The first other operation ends the result.
    """
    functions = (operation.plain_function for operation in operations)
    return [*takewhile(lambda function: function is not None, functions)]  # type: ignore[list-item]


def fused_at_front(
    operations: Sequence[Operation], first: int, context: Context | None
) -> list[Plain]:
    """Return the maps and filters at the beginning of a list, up to the first other operation.

    They run inside C iterators. Random maps are included only if no filter comes before them,
    because they need the position of each record.

    Args:
        operations: the operations.
        first: index of the first of them in the pipeline.
        context: state of the operations, for random maps. None: random maps are not included.
    """
    fused: list[Plain] = []
    for number, operation in enumerate(operations, first):
        function, drawing = operation.plain_function, None
        if function is None and context is not None:
            drawing = operation.drawing_function(context, number)
        if function is not None:
            fused.append((function, operation.only_filters, None))
        elif drawing is not None:
            fused.append((drawing[0], False, drawing[1]))
        else:
            break
        context = None if operation.only_filters else context
    return fused
