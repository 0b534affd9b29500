"""Batch: consecutive elements become one, stacked leaf by leaf.

In: elements of equal structure and shapes. Out: a tree of arrays with a new leading axis.

Incremental: the first element fixes the layout, and elements are copied into the batch's own memory while they are still
in the caches, a few at a time if they are small, and then dropped. To collect a batch's elements and stack them at the end
would touch twice the memory, and cold.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ..checks import whole_number
from ..wording import shown
from .padding import batch_and_pad, pad_batch
from .protocol import Context, Element, Operation, Step
from .stacking import Stack

BatchFunction = Callable[[Sequence[Element]], Element]


class Batch(Operation):
    """Puts `batch_size` consecutive elements into one.

    Arrays and numbers are stacked into one array per leaf, of shape `[batch_size, *shape]`, with the dtype that
    `np.stack` would give; where numbers of several dtypes come together, a `PromotionWarning` says so, once for each leaf.
    Strings, bytes and other objects become an array of dtype object, which loses nothing. Dicts, tuples and lists of arrays are
    trees, whose leaves are stacked one by one. A list of numbers is refused, as it may be meant for an array: map it to one, or
    to a tuple.

    Args:
        batch_size: number of elements, at least 1.
        drop_remainder: False (default) gives a shorter last batch; True leaves the remainder out, an error where nothing
            else would be left.
        batch_fn: makes the batch from the list of its elements, in place of stacking; see `pad_batch`.

    Raises:
        ValueError: `batch_size` is not positive.
        BatchError: while batching, when two elements differ in structure or in the shape of a leaf, or are a number here and
            a string or object there; or when a leaf is masked.
        NoElementError: an element is None.

    >>> from millrace import load
    >>> [batch.tolist() for batch in load(range(5), batch_size=2, num_epochs=1)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, batch_size: int, drop_remainder: bool = False, batch_fn: BatchFunction | None = None) -> None:
        self.batch_size = whole_number("batch_size", batch_size, 1, None, "a positive int")
        if not isinstance(drop_remainder, (bool, np.bool_)):
            raise TypeError(f"drop_remainder={shown(drop_remainder)} is no bool; a function goes to batch_fn=.")
        _check_called(batch_fn)
        if batch_fn is not None and not callable(batch_fn):
            raise TypeError(f"batch_fn={shown(batch_fn)} must be a function from a list of elements to a batch.")
        self.drop_remainder = drop_remainder
        self.batch_fn = batch_fn

    @property
    def takes(self) -> int:  # type: ignore[override]
        """As the base says."""
        return self.batch_size

    @property
    def drops_remainder(self) -> bool:  # type: ignore[override]
        """As the base says."""
        return bool(self.drop_remainder)

    @property
    def only_stacks(self) -> bool:  # type: ignore[override]
        """As the base says."""
        return type(self) is Batch and self.batch_fn is None

    def taking(self, count: int) -> Batch:
        """As the base says."""
        other = copy.copy(self)
        other.batch_size = whole_number("batch_size", count, 1, None, "a positive int")
        return other

    def __repr__(self) -> str:
        rest = ", drop_remainder=True" if self.drop_remainder else ""
        return f"Batch({self.batch_size}{rest})"

    def identity_parameters(self) -> dict[str, Any]:
        """All but the size: a stream may go on with another one."""
        return {name: value for name, value in vars(self).items() if name != "batch_size"}

    def connect(self, then: Step, context: Context, number: int) -> Step:
        size, drop_remainder = self.batch_size, self.drop_remainder
        rows = Stack(size, context.allocate, context.tell) if self.batch_fn is None else Gather(size, self.batch_fn)
        waiting: list[Element] = []
        limit = 1  # the first row fixes the layout, and with it how many rows are worth copying at a time
        count = 0
        first: tuple[int, int, int] = (0, 0, 0)

        def batch_step(element: Element) -> None:
            waiting.append(element)
            if len(waiting) == limit:
                copy_waiting()

        def take_all(elements: Iterator[Element]) -> int:
            nonlocal limit
            taken = 0
            while True:
                if not count and not waiting:
                    limit = min(rows.chunk, size)  # nothing before or behind asks where each row comes from
                if limit == 1 and not waiting:  # rows too large to wait for others
                    for element in elements:
                        taken += 1
                        waiting.append(element)
                        del element  # so that the next one can have its memory, which is in the caches
                        copy_waiting()
                        if limit > 1 or not count:
                            break
                    else:
                        return taken
                    continue
                before = len(waiting)
                try:
                    waiting.extend(islice(elements, limit - before))
                except Exception:
                    copy_before_failure()
                    raise
                taken += len(waiting) - before
                if len(waiting) < limit:
                    return taken
                copy_waiting()

        def copy_before_failure() -> None:
            """What is wrong with an earlier element comes first, however many waited."""
            try:
                if waiting:
                    copy_waiting()
            except Exception as earlier:
                raise earlier from None

        def copy_waiting() -> None:
            nonlocal limit, count, first
            if count == 0:
                first = context.seed, context.position, context.row
            try:
                rows.add(count, waiting)
            except Exception:
                context.blame(number, rows.row)
                raise
            count += len(waiting)
            waiting.clear()
            limit = min(rows.chunk, size - count)
            if count == size:
                emit()

        def emit() -> None:
            last = context.seed, context.position, context.row
            context.seed, context.position, context.row = first
            try:
                batch = rows.finish(count)
            except Exception:
                context.blame(number)
                raise
            begin_anew()
            then(batch)
            context.seed, context.position, context.row = last

        def at_end() -> None:
            if waiting:
                copy_waiting()
            if count and not drop_remainder:
                emit()
            begin_anew()

        def begin_anew() -> None:
            nonlocal limit, count
            limit, count = 1, 0

        context.take_all[number] = take_all
        context.at_end.append(at_end)
        return batch_step


def _check_called(batch_fn: Any) -> None:
    """Raise for a maker of batch functions where a batch function is meant."""
    for maker, arguments in ((pad_batch, ""), (batch_and_pad, "batch_size=…")):
        if batch_fn is maker:
            name = maker.__name__
            raise TypeError(f"batch_fn={name} makes a function; call it, batch_fn=millrace.{name}({arguments}).")


class Gather:
    """Collects elements for a `batch_fn` of the user's. Attributes as of `Stack`."""

    row = 0

    def __init__(self, size: int, batch_fn: BatchFunction) -> None:
        self.chunk = size
        self._batch_fn = batch_fn
        self._elements: list[Element] = []

    def add(self, row: int, elements: Sequence[Element]) -> None:
        """Put elements at `row` and the rows after it; rows come in order."""
        if row == 0:
            self._elements = []
        self._elements.extend(elements)

    def finish(self, rows: int) -> Element:
        """The batch."""
        elements, self._elements = self._elements, []
        return self._batch_fn(elements)
