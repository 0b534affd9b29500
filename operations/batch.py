"""Batch: consecutive elements become one, stacked leaf by leaf.

In: elements of equal structure and shapes. Out: a tree of arrays with a new leading axis.

Incremental: the first element fixes the layout, and each element is copied into the batch's own memory as soon as it
comes and then dropped. To collect a batch's elements and stack them at the end would touch twice the memory, and cold.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from .protocol import Context, Element, Operation, Step
from .stacking import Stack

BatchFunction = Callable[[Sequence[Element]], Element]


class Batch(Operation):
    """Puts `batch_size` consecutive elements into one.

    Arrays and numbers are stacked into one array per leaf, of shape `[batch_size, *shape]`, with the dtype that
    `np.stack` would give. Strings, bytes and other objects become an array of dtype object, which loses nothing.

    Args:
        batch_size: number of elements, at least 1.
        drop_remainder: False (default) gives a shorter last batch; True leaves the remainder out.
        batch_fn: makes the batch from the list of its elements, in place of stacking; see `pad_batch`.

    Raises:
        ValueError: `batch_size` is not positive.
        BatchError: while batching, when two elements differ in structure or in the shape of a leaf.

    >>> from millrace import load
    >>> [batch.tolist() for batch in load(range(5), batch_size=2, num_epochs=1)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, batch_size: int, drop_remainder: bool = False, batch_fn: BatchFunction | None = None) -> None:
        try:
            self.batch_size = operator.index(batch_size)
        except TypeError:
            raise TypeError(f"batch_size={batch_size!r} is a {type(batch_size).__name__}; pass an int.") from None
        if self.batch_size < 1:
            raise ValueError(f"batch_size={batch_size} must be at least 1.")
        if batch_fn is not None and not callable(batch_fn):
            raise TypeError(f"batch_fn={batch_fn!r} must be a function from a list of elements to a batch.")
        self.drop_remainder = drop_remainder
        self.batch_fn = batch_fn

    def __repr__(self) -> str:
        rest = ", drop_remainder=True" if self.drop_remainder else ""
        return f"Batch({self.batch_size}{rest})"

    def connect(self, then: Step, context: Context, number: int) -> Step:
        size, drop_remainder = self.batch_size, self.drop_remainder
        gathering = Stack(size, context.allocate) if self.batch_fn is None else Gather(self.batch_fn)
        count = first_position = first_row = 0

        def batch_step(element: Element, operation: int = number) -> None:
            nonlocal count, first_position, first_row
            if count == 0:
                first_position, first_row = context.position, context.row
            gathering.add(count, element)
            count += 1
            if count == size:
                emit()

        def emit(operation: int = number) -> None:
            nonlocal count
            rows, count = count, 0
            last = context.position, context.row
            context.position, context.row = first_position, first_row
            then(gathering.finish(rows))
            context.position, context.row = last

        def at_end() -> None:
            if count and not drop_remainder:
                emit()
            forget()

        def forget() -> None:
            nonlocal count
            count = 0
            gathering.clear()

        context.at_end.append(at_end)
        context.on_failure.append(forget)
        return batch_step


class Gather:
    """Collects elements for a `batch_fn` of the user's."""

    def __init__(self, batch_fn: BatchFunction) -> None:
        self._batch_fn = batch_fn
        self._elements: list[Element] = []

    def add(self, row: int, element: Element) -> None:
        """Put `element` at `row`; rows come in order."""
        self._elements.append(element)

    def finish(self, rows: int) -> Element:
        """The batch."""
        elements, self._elements = self._elements, []
        function = self._batch_fn
        return function(elements)

    def clear(self) -> None:
        """Forget what was added."""
        self._elements = []
