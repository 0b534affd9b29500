"""Batch: stack consecutive elements into one, leaf by leaf.

Elements must have equal structures and shapes. The batch is a tree of arrays with a new leading
axis.

The first element determines the shape and dtype of each array; a number that needs a wider dtype
widens the array. Elements are copied into the batch as they come, a few at a time if they are
small.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, ClassVar

from ..common.messages import short_repr
from ..common.validation import true_or_false, whole_number
from ..migration_hints.decorators import explains_init
from .chain import ChainMethods, ChainT
from .padding import batch_and_pad, pad_batch
from .protocol import Context, Element, Notify, Operation, Step, notifying
from .stacking import Stack

BatchFunction = Callable[[Sequence[Element]], Element]


@explains_init
class Batch(Operation):
    """Combine `batch_size` consecutive elements into one.

    For each leaf, arrays and numbers are stacked into one array of shape `[batch_size, *shape]`,
    with the dtype of `np.stack`. If numbers of a leaf have different dtypes, there is one
    `PromotionWarning` for that leaf. Strings, bytes and other objects become an array of dtype
    object. Dicts, tuples and lists of arrays are trees, whose leaves are stacked one by one. A list
    of numbers is an error, because it may be meant as an array: convert it to an array, or to a
    tuple.

    Args:
        batch_size: number of elements, at least 1.
        drop_remainder: False (default): the last batch may be shorter. True: a shorter last batch
            is dropped; if then no batch is left, that is an error.
        batch_fn: function that takes the list of elements and returns the batch, instead of
            stacking; see `pad_batch`.

    Raises:
        TypeError: `batch_size` is not an int, `drop_remainder` is not a bool, or `batch_fn` is not
            a function.
        ValueError: `batch_size` is not positive.
        BatchError: while batching without `batch_fn`, if two elements differ in structure or in the
            shape of a leaf; if a leaf is a number in one element and a string or object in another;
            or if a leaf is an array with masked values, a list without arrays, or a generator or
            coroutine.
        NoElementError: while batching without `batch_fn`, if an element is None.

    >>> from headrace import load
    >>> [batch.tolist() for batch in load(range(5), batch_size=2, num_epochs=1)]
    [[0, 1], [2, 3], [4]]
    """

    node_name = "Batched"
    lists_are_trees: ClassVar[bool] = False  # True stacks lists of numbers item by item, as tuples

    def __init__(
        self, batch_size: int, drop_remainder: bool = False, batch_fn: BatchFunction | None = None
    ) -> None:
        self.batch_size = whole_number("batch_size", batch_size, 1, None, "a positive int")
        self.drop_remainder = true_or_false(
            "drop_remainder", drop_remainder, "True or False; a function goes to batch_fn="
        )
        _check_called(batch_fn)
        if batch_fn is not None and not callable(batch_fn):
            raise TypeError(
                f"batch_fn={short_repr(batch_fn)} is not a function. Pass a function that takes a "
                "list of elements and returns a batch."
            )
        self.batch_fn = batch_fn

    @property
    def takes(self) -> int:  # type: ignore[override]
        """Number of elements that are combined into a batch."""
        return self.batch_size

    @property
    def drops_remainder(self) -> bool:  # type: ignore[override]
        """True if a shorter last batch is dropped."""
        return bool(self.drop_remainder)

    @property
    def only_stacks(self) -> bool:  # type: ignore[override]
        """True if elements are only stacked.

        Then there is no `batch_fn`, and the class is `Batch` itself or Grain's.
        """
        return (type(self) is Batch or self.lists_are_trees) and self.batch_fn is None

    @property
    def user_function(self) -> BatchFunction | None:
        """The `batch_fn`, or None."""
        return self.batch_fn

    def taking(self, count: int) -> Batch:
        """Return a copy with `count` as its batch size.

        Raises:
            TypeError, ValueError: `count` is not an int of at least 1.
        """
        other = copy.copy(self)
        other.batch_size = whole_number("batch_size", count, 1, None, "a positive int")
        return other

    def __repr__(self) -> str:
        rest = ", drop_remainder=True" if self.drop_remainder else ""
        return f"Batch({self.batch_size}{rest})"

    def identity_parameters(self) -> dict[str, Any]:
        """Return all parameters except the batch size.

        A checkpoint may be restored with another batch size.
        """
        return {name: value for name, value in vars(self).items() if name != "batch_size"}

    def connect(self, then: Step, context: Context, number: int) -> Step:
        step = BatchStep(self, then, context, number)
        context.take_all[number] = step.take_all
        context.at_end.append(step.finish)
        context.at_failure.append(step.look)
        return step.push


def _check_called(batch_fn: Any) -> None:
    """Raise TypeError if `batch_fn` is `pad_batch` or `batch_and_pad` itself.

    They must be called first.
    """
    for maker, arguments in ((pad_batch, ""), (batch_and_pad, "batch_size=…")):
        if batch_fn is maker:
            name = maker.__name__
            raise TypeError(
                f"batch_fn={name} is a function that makes a batch function. Call it, "
                f"batch_fn=headrace.{name}({arguments})."
            )


class BatchStep:
    """Step that fills batches, and pushes each full batch to the next step.

    Elements are collected until there are `_limit` of them, and then copied together.

    Args:
        batch: the operation.
        then: next step, to which batches are pushed.
        context: context of the chain of steps. A batch gets the place (seed, position, row) of its
            first element.
        number: index of the operation in the pipeline.
    """

    __slots__ = (
        "_context",
        "_count",
        "_drops",
        "_first",
        "_limit",
        "_number",
        "_rows",
        "_size",
        "_then",
        "_waiting",
    )

    def __init__(self, batch: Batch, then: Step, context: Context, number: int) -> None:
        size, batch_fn = batch.batch_size, batch.batch_fn
        self._size, self._drops = size, batch.drop_remainder
        self._then, self._context, self._number = then, context, number
        plain = Stack(size, context.allocate, context.notify, batch.lists_are_trees)
        self._rows = plain if batch_fn is None else Gather(size, batch_fn, context.notify)
        # Collecting all elements and stacking them at the end would touch twice the memory, outside
        # the caches.
        self._waiting: list[Element] = []
        self._first = (0, 0, 0)
        self._reset()

    def _reset(self) -> None:
        self._count = 0
        self._limit = 1  # the first row is copied at once: only now is its place known

    def push(self, element: Element) -> None:
        """Add one element to the batch; if it is full, push it.

        The element's place is in the context.
        """
        waiting = self._waiting
        waiting.append(element)
        if len(waiting) == self._limit:
            self._copy()

    def take_all(self, elements: Iterator[Element]) -> None:
        """Add all elements of an iterator.

        A batch gets the place (seed, position, row) that the context has when the batch begins.
        """
        more = True
        while more:  # no longer: a function that raised StopIteration would be called again
            if not self._count and not self._waiting:
                self._limit = min(self._rows.chunk, self._size)
            alone = self._limit == 1 and not self._waiting
            more = self._take_large(elements) if alone else self._take_together(elements)

    def _take_large(self, elements: Iterator[Element]) -> bool:
        """Copy elements one by one, because they are large.

        Return True if the iterator may have more elements.
        """
        for element in elements:
            self._waiting.append(element)
            del element  # so that the next one can have its memory, which is in the caches
            self._copy()
            if self._limit > 1 or not self._count:
                return True
        return False

    def _take_together(self, elements: Iterator[Element]) -> bool:
        waiting, limit = self._waiting, self._limit
        waiting.extend(islice(elements, limit - len(waiting)))
        more = len(waiting) == limit
        if more:
            self._copy()
        return more

    def look(self) -> None:
        """Copy the elements collected so far into the batch. Called after another step failed.

        If one of them cannot be stacked, its error is raised first, because it comes earlier in the
        stream.
        """
        if self._waiting:
            self._copy()

    def _copy(self) -> None:
        context, rows, waiting = self._context, self._rows, self._waiting
        if not self._count:
            self._first = context.seed, context.position, context.row
            if (size := min(self._size, context.most)) != rows.size:
                rows.resize(size)
        try:
            rows.add(self._count, waiting)
        except Exception:
            waiting.clear()
            context.blame(self._number, rows.row)
            raise
        self._count += len(waiting)
        waiting.clear()
        self._limit = min(rows.chunk, self._size - self._count)
        if not self._limit:
            self._emit()

    def _emit(self) -> None:
        context = self._context
        last = context.seed, context.position, context.row
        context.seed, context.position, context.row = self._first
        try:
            batch = self._rows.finish(self._count)
        except Exception:
            context.blame(self._number)
            raise
        self._reset()
        self._then(batch)
        context.seed, context.position, context.row = last

    def finish(self) -> None:
        """Push the last batch, if it has elements.

        With `drop_remainder`, a batch that is not full is dropped.
        """
        if self._waiting:
            self._copy()
        if self._count and not self._drops:
            self._emit()
        self._reset()


class Gather:
    """Collector of elements for a user's `batch_fn`.

    It has the methods of `Stack`, which stacks elements instead.

    Args:
        size: number of rows of a batch.
        batch_fn: function that takes the list of elements and returns the batch.
        notify: function that reports a message about a leaf to the user.
    """

    row = 0

    def resize(self, size: int) -> None:
        """Set the number of rows of the following batches to `size`."""
        self.size = size

    def __init__(self, size: int, batch_fn: BatchFunction, notify: Notify) -> None:
        self.chunk = self.size = size
        self._batch_fn, self._notify = batch_fn, notify
        self._elements: list[Element] = []

    def add(self, row: int, elements: Sequence[Element]) -> None:
        """Collect elements as `row` and the following rows. Row 0 begins a new batch."""
        if row == 0:
            self._elements = []
        self._elements.extend(elements)

    def finish(self, rows: int) -> Element:
        """Return the result of `batch_fn` for the collected elements.

        `rows`, their number, is not used.
        """
        elements, self._elements = self._elements, []
        with notifying(self._notify):
            return self._batch_fn(elements)


class BatchMethods(ChainMethods[ChainT]):
    """Dataset method `batch`."""

    batch_class: ClassVar[type[Batch]] = Batch

    def batch(
        self,
        batch_size: int,
        *,
        drop_remainder: bool = False,
        batch_fn: BatchFunction | None = None,
    ) -> ChainT:
        """Combine consecutive elements into batches, as `Batch` does.

        Batches of a `MapDataset` do not contain elements of two epochs, unless `repeat` comes
        before `batch`.

        Args:
            batch_size: number of elements, at least 1.
            drop_remainder: True: a shorter last batch is dropped. Default False.
            batch_fn: function that takes the list of elements and returns the batch. Default: stack
                them.

        Raises:
            TypeError: an argument has a wrong type.
            ValueError: `batch_size` is not positive; or the dataset is a `MapDataset` with a filter
                or flat map before, so that the elements of batch k are unknown without reading all
                before it.

        >>> from headrace import MapDataset
        >>> [batch.tolist() for batch in MapDataset.range(5).batch(2)]
        [[0, 1], [2, 3], [4]]
        """
        return self.then(self.batch_class(batch_size, drop_remainder, batch_fn))
