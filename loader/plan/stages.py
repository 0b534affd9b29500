"""Decides, purely, what is to be done: how a pipeline divides into segments, and which spans of positions come next.

In: operations; a cursor. Out: segments; tasks. Nothing here reads a record or starts a thread.

A segment is a run of operations that one task can do on its own. Its unit is the number of inputs that make one output
as long as nothing is dropped or added: the product of its batch sizes. A `Batch` behind a `Filter` or `FlatMap` cannot
know which positions its rows will come from, so it begins a new segment, whose inputs are the ordered rows of the one
before.

    [map, Batch(8), map]                    one segment, unit 8: a task is a batch ("aligned")
    [map, filter, map, Batch(8), map]       [map, filter, map] unit 1, then [Batch(8), map] unit 8 ("ragged")
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...operations import Batch, Operation

MIN_SPAN, MAX_SPAN = 32, 1024
"""Positions in a task whose unit is smaller: enough to pay for the task, few enough for a quick first element."""

MAX_PARTS = 32
"""Parts of a task that ended its worker: each is tried on its own, and divided again if it does so too."""

COLUMN_BYTES = 1 << 20
"""Bytes of columns in a unit from which a span is one unit."""


@dataclass(frozen=True)
class Segment:
    """Operations that run together in one task.

    Attributes:
        first: number of the first of them in the whole pipeline.
        operations: in order.
        unit: inputs to one output.
        one_to_one: every unit gives exactly one output.
        reads_position: an operation needs to know the position.
    """

    first: int
    operations: tuple[Operation, ...]

    @property
    def unit(self) -> int:
        unit = 1
        for operation in self.operations:
            unit *= operation.batch_size if isinstance(operation, Batch) else 1
        return unit

    @property
    def one_to_one(self) -> bool:
        return all(operation.one_to_one for operation in self.operations)

    @property
    def reads_position(self) -> bool:
        return any(operation.reads_position for operation in self.operations)

    def inputs_of(self, number: int) -> int:
        """Inputs of the segment that make one input of the operation with this number."""
        return Segment(self.first, self.operations[: number - self.first]).unit

    def useful(self, inputs: int) -> int:
        """Inputs without the last ones, if these are too few for a unit and what they make is to be dropped."""
        rest = inputs % self.unit
        return inputs - rest if self.outputs(rest) == 0 else inputs

    def outputs(self, inputs: int) -> int:
        """Number of outputs of `inputs` inputs, as far as batches decide it."""
        for operation in self.operations:
            if isinstance(operation, Batch):
                inputs = (
                    inputs // operation.batch_size if operation.drop_remainder else -(-inputs // operation.batch_size)
                )
        return inputs


def segments_of(operations: Sequence[Operation], skips_errors: bool = False) -> tuple[Segment, ...]:
    """Divide a pipeline into segments; at least one, possibly without operations.

    With `skips_errors` every operation may come to nothing, as a filter may.
    """
    starts, one_to_one = [0], not skips_errors
    for number, operation in enumerate(operations):
        if isinstance(operation, Batch) and not one_to_one:
            starts.append(number)
            one_to_one = not skips_errors
        one_to_one = one_to_one and operation.one_to_one
    stops = [*starts[1:], len(operations)]
    return tuple(Segment(start, tuple(operations[start:stop])) for start, stop in zip(starts, stops))


def span_length(segments: Sequence[Segment]) -> int:
    """Positions in a span: one unit; where units are single records, about a batch of the segment that follows."""
    unit = segments[0].unit
    if unit > 1 or Batch in map(type, segments[0].operations):
        return unit
    wanted = segments[1].unit if len(segments) > 1 else MIN_SPAN
    return min(max(wanted, MIN_SPAN), MAX_SPAN)


def column_span_length(segments: Sequence[Segment], row_bytes: int) -> int:
    """Positions in a span that is read as columns: two units, unless they are large.

    Such a unit takes little longer than a task. More than two would push one another's results out of the caches.
    """
    unit = segments[0].unit
    return 2 * unit if unit * row_bytes <= COLUMN_BYTES else unit


class Span(NamedTuple):
    """Consecutive local positions `[start, stop)`."""

    start: int
    stop: int


def parts_of(span: Span, unit: int) -> list[Span]:
    """A span as at most `MAX_PARTS` spans of whole units, as equal as can be; one unit stays one.

    >>> parts_of(Span(0, 8), 4)
    [Span(start=0, stop=4), Span(start=4, stop=8)]
    """
    units = -(-(span.stop - span.start) // unit)
    return list(spans(*span, -(-units // MAX_PARTS) * unit))


def spans(start: int, total: int, length: int, times: Callable[[], int] = lambda: 1) -> Iterator[Span]:
    """The spans from local position `start` to `total`, each of `times()` times `length` positions.

    >>> list(spans(4, 10, 4))
    [Span(start=4, stop=8), Span(start=8, stop=10)]
    """
    while start < total:
        stop = min(start + length * times(), total)
        yield Span(start, stop)
        start = stop
