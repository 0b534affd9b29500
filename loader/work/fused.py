"""Records through maps and filters, one after the other, in iterators of C's: without a call of ours for each.

In: records. Out: what is left of them, each while it is in the caches still, and which record each comes from; after a failure,
the operation that it arose in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, compress, repeat
from operator import length_hint, not_
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...operations import Operation
from ...operations.protocol import Element

Plain: TypeAlias = tuple[Callable[[Element], Any], bool]
"""The function of a map or a filter, and whether it is a filter's."""


class FusedMapFilter:
    """Records on their way.

    `compress`, which drops nothing here, counts what comes to an operation; `lefts` has, by such a count, how many records were
    left then. So the operations that the last record came to can be told from the others.

    Args:
        operations: what the records go through.
        inputs: the records; tells exactly how many are left.
        count: number of records.

    Attributes:
        elements: what comes out, one by one.
    """

    def __init__(self, operations: Sequence[Plain], inputs: Iterator[Any], count: int) -> None:
        self._ended: list[bool] = []
        self._inputs, self._count = inputs, count
        self._lefts: Sequence[int] = range(count - 1, -1, -1)
        self._came: list[tuple[Iterator[Any], Sequence[int]]] = []
        self.elements: Iterator[Element] = chain(inputs, _noted(self._ended))
        for function, filters in operations:
            self._go_through(function, filters)

    @property
    def ended(self) -> bool:
        """True if all records went through."""
        return bool(self._ended)

    def _go_through(self, function: Callable[[Element], Any], filters: bool) -> None:
        counter = self._inputs
        if self._came:
            counter = repeat(True, self._count)
            self.elements = compress(self.elements, counter)
        self._came.append((counter, self._lefts))
        if filters:
            self._lefts = lefts = list[int]()
            passed = filter(function, self.elements)
            noted = map(lefts.append, map(length_hint, repeat(self._inputs)))  # gives None each time
            self.elements = compress(passed, map(not_, noted))
        else:
            self.elements = map(function, self.elements)

    def numbers(self, count: int) -> NDArray[np.int64]:
        """The numbers of the records that the first `count` elements come from."""
        return self._count - 1 - np.array(self._lefts[:count], dtype=np.int64)

    def at_fault(self) -> int:
        """The operation that made nothing of the last record that came to it: the last one that this record came to."""
        left = length_hint(self._inputs)
        came = [(self._count - length_hint(counter), lefts) for counter, lefts in self._came]
        return max(
            (place for place, (times, lefts) in enumerate(came) if times and lefts[times - 1] == left), default=0
        )


def _noted(ended: list[bool]) -> Iterator[Any]:
    """Give nothing, and note that it was asked for. No method: as a part of itself, a passage would be in a reference cycle."""
    ended.append(True)
    yield from ()


def plain_at_front(operations: Sequence[Operation]) -> list[Plain]:
    """The maps and filters that operations begin with, as far as they push elements in the way of this module."""
    plain: list[Plain] = []
    for operation in operations:
        function = operation.plain_function
        if function is None:
            break
        plain.append((function, operation.only_filters))
    return plain
