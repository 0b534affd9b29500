"""Stages: groups of consecutive operations that one task can run; and spans, the ranges of positions of tasks.

In: operations. Out: stages; spans.

A stage's unit is the inputs of one output, if nothing is dropped or added. Their number is the
product of the numbers that its operations take. An operation that takes several inputs (a `Batch`)
after one that is not one-to-one (a `Filter`, a `FlatMap`) cannot know which positions its rows will
come from. So it begins a new stage, whose inputs are the ordered rows of the stage before.

    [map, Batch(8), map]                    one stage, unit 8: a task is a batch ("aligned")
    [map, filter, map, Batch(8), map]       [map, filter, map] unit 1, then [Batch(8), map] unit 8 ("ragged")
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

from ...operations import Operation
from .cursor import Subtree

# Enough to be worth a task, few enough for a quick first element.
MIN_SPAN, MAX_SPAN = 32, 1024
"""Smallest and largest number of positions in a task of single records."""

MAX_PARTS = 32
"""Largest number of parts into which a task is divided if it ended its worker. Each part is tried alone.

A part that ends a worker again is divided again.
"""

COLUMN_UNITS, COLUMN_BYTES = 8, 2 << 20
"""Largest number of units, and of bytes, in a span that is read as columns. A larger unit is still read whole."""


@dataclass(frozen=True)
class Stage:
    """Operations that run together in one task.

    Attributes:
        number: index in the pipeline. The inputs of a stage have lower indices.
        leaf: index of the leaf (source with its sampler) that the stage reads; None if its inputs
            are rows.
        first: index, in the whole pipeline, of the stage's first operation.
        operations: the operations, in order.
        part: the part of the pipeline that ends with this stage.
        input: the part of the pipeline whose rows are the inputs; None if the stage reads a leaf.
    """

    number: int
    leaf: int | None
    first: int
    operations: tuple[Operation, ...]
    part: Subtree
    input: Subtree | None = None

    @cached_property
    def on_join(self) -> bool:
        """Return True if the inputs are rows of a join."""
        return self.input is not None and self.input.stage is None

    @cached_property
    def unit(self) -> int:
        return unit_of(self.operations)

    @property
    def group(self) -> int:
        """Number of rows in a task that reads rows: the inputs of one output, or `MIN_SPAN` rows if that is one row."""
        return self.unit if self.groups else MIN_SPAN

    def bounded(self, length: int, most: int) -> int:
        """Return `length`, reduced to the whole outputs that `most` inputs make, but at least the inputs of one output."""
        return min(length, max(most // self.unit, 1) * self.unit)

    @cached_property
    def groups(self) -> bool:
        """Return True if one of the operations makes one output of several inputs."""
        return any(operation.takes is not None for operation in self.operations)

    @cached_property
    def window(self) -> int | None:
        """Index of the first operation that takes several elements and passes each of them on; None if there is none."""
        numbers = (number for number, one in enumerate(self.operations, self.first) if one.takes and one.keeps_elements)
        return next(numbers, None)

    @cached_property
    def one_to_one(self) -> bool:
        """Return True if no operation drops or adds elements."""
        return all(operation.one_to_one for operation in self.operations)

    @cached_property
    def reads_position(self) -> bool:
        """Return True if an operation uses the position of its elements."""
        return any(operation.reads_position for operation in self.operations)

    def makes_rows(self, regrouped: Collection[int]) -> bool:
        """Return True if the stage makes single rows of a leaf (a source with its sampler), which are grouped later.

        `regrouped` has the indices of the stages whose rows another stage groups.
        """
        return self.leaf is not None and self.number in regrouped and not self.groups

    def inputs_of(self, number: int) -> int:
        """Return how many inputs of the stage make one input of the operation with index `number`."""
        return unit_of(self.operations[: number - self.first])

    def useful(self, inputs: int) -> int:
        """Return how many of `inputs` inputs of a stream are used. A batch may drop the last ones as its remainder."""
        count, unit, useful = inputs, 1, inputs
        for operation in self.operations:
            whole, rest = divmod(count, operation.takes or 1)
            unit *= operation.takes or 1
            if operation.drops_remainder:
                useful = min(useful, whole * unit)
            count = whole + (rest > 0 and not operation.drops_remainder)
        return useful

    def starved(self, inputs: int) -> tuple[Operation, int]:
        """Return the first operation that gets too few elements for one output and drops them, and how many it gets.

        To be called only if `useful(inputs)` is 0.
        """
        for operation in self.operations:
            whole, rest = divmod(inputs, operation.takes or 1)
            if operation.drops_remainder and not whole:
                break
            inputs = whole + (rest > 0 and not operation.drops_remainder)
        return operation, inputs

    def outputs(self, inputs: int) -> int:
        """Return the number of outputs made of `inputs` inputs, if no filter or flat map drops or adds elements."""
        for operation in self.operations:
            whole, rest = divmod(inputs, operation.takes or 1)
            inputs = whole + (rest > 0 and not operation.drops_remainder)
        return inputs


def unit_of(operations: Sequence[Operation]) -> int:
    """Return how many inputs of the first operation make one output of the last operation."""
    return prod(operation.takes or 1 for operation in operations)


def runs_of(operations: Sequence[Operation], skips_errors: bool = False) -> list[tuple[Operation, ...]]:
    """Divide operations into the lists that each make up a stage. There is at least one list, which may be empty.

    With `skips_errors`, any operation may drop elements, like a filter.
    """
    starts, one_to_one = [0], not skips_errors
    for number, operation in enumerate(operations):
        if operation.takes is not None and not one_to_one:
            starts.append(number)
            one_to_one = not skips_errors
        one_to_one = one_to_one and operation.one_to_one
    stops = [*starts[1:], len(operations)]
    return [tuple(operations[start:stop]) for start, stop in zip(starts, stops)]


def span_length(stage: Stage, following: Stage | None) -> int:
    """Return the number of positions that a task reads, for a stage on a leaf (a source with its sampler).

    If the stage makes batches, the inputs of one output. Else, for single records, the inputs of one
    output of the `following` stage, within `[MIN_SPAN, MAX_SPAN]`; `MIN_SPAN` if `following` is None.
    """
    if stage.groups:
        return stage.unit
    wanted = following.unit if following is not None else MIN_SPAN
    return min(max(wanted, MIN_SPAN), MAX_SPAN)


def column_span_length(unit: int, row_bytes: int) -> int:
    """Return the number of positions in a task that reads columns: up to 8 batches, fewer if they exceed 2 MiB.

    Args:
        unit: number of positions in a batch.
        row_bytes: bytes of one row of all columns.
    """
    most = COLUMN_BYTES // (unit * row_bytes) if row_bytes else COLUMN_UNITS
    return min(COLUMN_UNITS, max(most, 1)) * unit


class Span(NamedTuple):
    """Consecutive local positions `[start, stop)`.

    Attributes:
        start: first position.
        stop: position after the last one.
    """

    start: int
    stop: int


def parts_of(span: Span, unit: int) -> list[Span]:
    """Divide a span into at most 32 (`MAX_PARTS`) spans of about equal length, each the inputs of whole outputs.

    The inputs of a single output are not divided.

    Args:
        span: the span.
        unit: number of positions for one output.

    >>> parts_of(Span(0, 8), 4)
    [Span(start=0, stop=4), Span(start=4, stop=8)]
    """
    units = -(-(span.stop - span.start) // unit)
    return list(spans(*span, lambda: -(-units // MAX_PARTS) * unit))


def spans(start: int, total: int, length: Callable[[], int]) -> Iterator[Span]:
    """Yield the spans from local position `start` to `total`, each of `length()` positions.

    After `length()` has grown, a span may be shorter, so that it ends at a multiple of the length. Groups of its
    rows then end there, too.

    >>> lengths = iter([1, 2, 4, 8])
    >>> [stop for _, stop in spans(0, 8, lambda: next(lengths))]
    [1, 2, 4, 8]

    >>> list(spans(4, 10, lambda: 4))
    [Span(start=4, stop=8), Span(start=8, stop=10)]
    """
    done, left = 0, total - start
    while done < left:
        size = length()
        stop = min(done + size - done % size, left)
        yield Span(start + done, start + stop)
        done = stop
