"""Stages: consecutive operations that one task can run; and spans, ranges of positions of tasks.

In: operations. Out: stages; spans.

A stage's unit is the number of inputs that make one output, if nothing is dropped or added. It is
the product of the numbers that its operations take. An operation that takes several inputs (a
`Batch`) after one that drops or adds elements (a `Filter`, a `FlatMap`) cannot know from which
positions its inputs will come. So it begins a new stage, whose inputs are the ordered rows of the
stage before.

    [map, Batch(8), map]                    one stage, unit 8: a task is a batch ("aligned")
    [map, filter, map, Batch(8), map]       [map, filter, map] unit 1, then [Batch(8), map] unit 8
    ("ragged")
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import NamedTuple

from ...operations import Operation
from .cursor import Subtree

# Enough positions to be worth a task, few enough for a quick first element.
MIN_SPAN, MAX_SPAN = 32, 1024
"""Smallest and largest number of positions planned for a task of single records.

It may have fewer.
"""

MAX_PARTS = 32
"""Largest number of pieces into which a task is divided if its worker died from it.

Each piece is tried alone. A piece from which a worker dies is divided, too, until the failing
record is found.
"""

COLUMN_UNITS, COLUMN_BYTES = 8, 2 << 20
"""Largest number of batches, and of bytes, that a task reads as columns.

A larger batch is still read in one task.
"""


@dataclass(frozen=True)
class Stage:
    """Operations that run together in one task.

    Attributes:
        number: index of the stage in the pipeline. The stages from which it gets rows have lower
            indices.
        leaf: index of the leaf (source with its sampler) that the stage reads; None if its inputs
            are rows of another stage or a join.
        first: index, in the whole pipeline, of the stage's first operation.
        operations: the operations, in order.
        part: the section of the pipeline that ends with this stage.
        input: the section of the pipeline whose rows are the inputs; None if the stage reads a
            leaf.
    """

    number: int
    leaf: int | None
    first: int
    operations: tuple[Operation, ...]
    part: Subtree
    input: Subtree | None = None

    @cached_property
    def on_join(self) -> bool:
        """True if the stage's inputs are rows of a join (mix, zip and others)."""
        return self.input is not None and self.input.stage is None

    @cached_property
    def unit(self) -> int:
        return unit_of(self.operations)

    @property
    def group(self) -> int:
        """Number of rows given to one task of a stage whose inputs are rows, not source records.

        These are the rows needed for one output; or `MIN_SPAN` if no operation groups rows.
        """
        return self.unit if self.groups else MIN_SPAN

    def bounded(self, length: int, most: int) -> int:
        """Return a number of inputs for a task: `length`, but not more than a limit.

        The limit is `most`, rounded down to a multiple of the inputs that make one output, but
        never less than these inputs.
        """
        return min(length, max(most // self.unit, 1) * self.unit)

    @cached_property
    def groups(self) -> bool:
        """True if an operation of the stage takes several elements together, as a batch does."""
        return any(operation.takes is not None for operation in self.operations)

    @cached_property
    def window(self) -> int | None:
        """Index of the first operation that reorders several elements, as a window shuffle does.

        None if the stage has no such operation.
        """
        return next(
            (
                number
                for number, one in enumerate(self.operations, self.first)
                if one.takes and one.keeps_elements
            ),
            None,
        )

    @cached_property
    def one_to_one(self) -> bool:
        """True if each operation of the stage makes exactly one element of each element.

        An operation that takes several elements (`Batch`) must make one of each `takes` elements.
        """
        return all(operation.one_to_one for operation in self.operations)

    @cached_property
    def reads_position(self) -> bool:
        """True if an operation of the stage uses positions of elements, as random operations do."""
        return any(operation.reads_position for operation in self.operations)

    def makes_rows(self, regrouped: Collection[int]) -> bool:
        """Return True if the stage makes single rows from a source, which a later stage groups.

        Args:
            regrouped: indices of the stages whose rows another stage groups.
        """
        return self.leaf is not None and self.number in regrouped and not self.groups

    def inputs_of(self, number: int) -> int:
        """Return how many inputs of the stage are needed for one input of an operation in it.

        A stage is the operations that run in one task.

        Args:
            number: index of the operation in the pipeline.
        """
        return unit_of(self.operations[: number - self.first])

    def useful(self, inputs: int) -> int:
        """Return how many of the `inputs` inputs of the stage are used in its outputs.

        A batch may drop the last ones as its remainder.
        """
        unit, useful = 1, inputs
        for operation, _, made in self._counts(inputs):
            unit *= operation.takes or 1
            if operation.drops_remainder:
                useful = min(useful, made * unit)
        return useful

    def starved(self, inputs: int) -> tuple[Operation, int]:
        """Return the stage's first operation that drops all elements as too few, and their number.

        Call it only if `useful(inputs)` is 0.

        Args:
            inputs: number of inputs of the stage.
        """
        return next(
            (operation, count)
            for operation, count, made in self._counts(inputs)
            if operation.drops_remainder and not made
        )

    def outputs(self, inputs: int) -> int:
        """Return the number of outputs that the stage makes of `inputs` inputs.

        It holds if no filter or flat map drops or adds elements.
        """
        return [inputs, *(made for _, _, made in self._counts(inputs))][-1]

    def _counts(self, inputs: int) -> Iterator[tuple[Operation, int, int]]:
        """Yield (operation, inputs, outputs) for each operation: how many it gets and returns."""
        for operation in self.operations:
            whole, rest = divmod(inputs, operation.takes or 1)
            made = whole + (rest > 0 and not operation.drops_remainder)
            yield operation, inputs, made
            inputs = made


def unit_of(operations: Sequence[Operation]) -> int:
    """Return how many inputs of the first operation make one output of the last operation."""
    return prod(operation.takes or 1 for operation in operations)


def runs_of(
    operations: Sequence[Operation], skips_errors: bool = False
) -> list[tuple[Operation, ...]]:
    """Divide operations into lists, one for each stage (operations that run in one task).

    There is at least one list, which may be empty. A new list begins with an operation that takes
    several elements, if an operation before it in the list may drop or add elements.

    Args:
        operations: the operations, in order.
        skips_errors: True if failing records are skipped, so that any operation may drop elements.
    """
    starts, one_to_one = [0], not skips_errors
    for number, operation in enumerate(operations):
        if operation.takes is not None and not one_to_one:
            starts.append(number)
            one_to_one = not skips_errors
        one_to_one = one_to_one and operation.one_to_one
    return [tuple(operations[start:stop]) for start, stop in pairwise([*starts, len(operations)])]


def span_length(stage: Stage, following: Stage | None) -> int:
    """Return the number of positions that a task reads, for a stage that reads a source.

    If the stage makes batches: as many as make one batch. If it makes single records: as many as
    the next stage needs for one of its outputs, but at least `MIN_SPAN` and at most `MAX_SPAN`.

    Args:
        stage: the stage (operations that run in one task).
        following: the next stage; if None, the result for single records is `MIN_SPAN`.
    """
    if stage.groups:
        return stage.unit
    wanted = following.unit if following is not None else MIN_SPAN
    return min(max(wanted, MIN_SPAN), MAX_SPAN)


def column_span_length(unit: int, row_bytes: int) -> int:
    """Return the number of positions in a task that reads columns.

    They are up to 8 batches, fewer if these exceed 2 MiB.

    Args:
        unit: number of positions in a batch.
        row_bytes: bytes of one row of all columns.
    """
    most = COLUMN_BYTES // (unit * row_bytes) if row_bytes else COLUMN_UNITS
    return min(COLUMN_UNITS, max(most, 1)) * unit


class Span(NamedTuple):
    """Consecutive local positions (of one shard), `[start, stop)`.

    Attributes:
        start: first position.
        stop: position after the last one.
    """

    start: int
    stop: int


def parts_of(span: Span, unit: int) -> list[Span]:
    """Divide a range of positions into at most 32 (`MAX_PARTS`) ranges of about equal length.

    Each has whole outputs. The inputs of a single output are not divided.

    Args:
        span: the range.
        unit: number of positions for one output.

    >>> parts_of(Span(0, 8), 4)
    [Span(start=0, stop=4), Span(start=4, stop=8)]
    """
    units = -(-(span.stop - span.start) // unit)
    return list(spans(*span, lambda: -(-units // MAX_PARTS) * unit))


def spans(start: int, total: int, length: Callable[[], int]) -> Iterator[Span]:
    """Yield the spans (ranges of local positions) from `start` to `total`, each `length()` long.

    After `length()` has grown, a span may be shorter, so that it ends at a multiple of the new
    length, counted from `start`. Batches of its rows then end there, too.

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
