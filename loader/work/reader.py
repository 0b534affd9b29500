"""Read tasks' records from a source, or make whole batches from its columns; find failing records.

In: spans (the consecutive positions of a task). Out: their records, read in one call of the source.
If the source has columns (one array for each field, with all records): batches, each made by one
`np.take` per column, without any work per record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...common.fields import replaced
from ...operations import Operation
from ...operations.protocol import Allocate, ArraySpec, Element
from ...operations.stacking import allocated
from ...operations.trees import flatten, leaf_names
from ...sources.mixed.source import MixedColumn
from ...sources.protocol import is_text_column, key_check, reader_of
from ..interrupts import raise_if_of_signal_handler
from ..plan.leaf import Leaf
from ..plan.pipeline import Pipeline
from .explain import READING, SAMPLER, explained, place
from .tasks import ReadRecords, SpanTask

# Measured with a mix of 35 columns and two workers.
ENOUGH = 8192
"""For a task with so many positions or more, only their keys are computed, and no later ones."""


class KeyBlocks:
    """Cache of the record keys of consecutive positions, for tasks that mostly follow one another.

    Keys are computed in blocks (of consecutive positions) far longer than a task. If the source has
    a function `announce`, it is called with the keys of the next block as soon as the first key of
    the current block is used. Several threads may share a cache; at worst, two of them compute the
    same block.

    Args:
        leaf: the source with its sampler.
    """

    def __init__(self, leaf: Leaf) -> None:
        self._leaf = leaf
        self._ahead = leaf.block_size
        self._block: tuple[int, NDArray[np.int64]] = (0, np.empty(0, dtype=np.int64))
        self._coming = self._block
        self._announce = leaf.source_facts.announce
        self._check = key_check(leaf.source)  # for a whole block at a time

    def expect(self, count: int) -> None:
        """Announce that the keys of the next `count` positions will be used.

        Usually, the keys of a whole block of consecutive positions are computed at a time. If
        `count` is 8,192 or more, only the keys of these `count` positions are computed, because
        other workers read the positions after them.
        """
        self._ahead = count if count >= ENOUGH else self._leaf.block_size

    def of(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the record keys `int64[stop - start]` at this shard's positions `[start, stop)`.

        Raises:
            RecordKeyError: the source does not have a key that the sampler returned.
            Exception: an exception of the sampler.
        """
        first, keys = self._block
        if not (first <= start and stop <= first + len(keys)):
            self._block = first, keys = (
                self._computed(start, stop)
                if self._announce is None
                else self._announced(start, stop)
            )
        return keys[start - first : stop - first]

    def _computed(self, start: int, stop: int) -> tuple[int, NDArray[np.int64]]:
        """Compute the keys of the positions from `start` to `stop` or further.

        Return `start` and the keys. If the sampler fails for a position from `stop` on, only the
        keys of `[start, stop)` are returned.
        """
        last = max(min(start + self._ahead, self._leaf.total), stop)
        try:
            return start, self._keys(start, last)
        except Exception as error:
            raise_if_of_signal_handler(error)
            if last == stop:
                raise
            return start, self._keys(start, stop)

    def _keys(self, start: int, stop: int) -> NDArray[np.int64]:
        keys = self._leaf.record_keys(self._leaf.positions(start, stop))
        return keys if self._check is None else self._check(keys)

    def _announced(self, start: int, stop: int) -> tuple[int, NDArray[np.int64]]:
        """Compute the keys of positions from `start` to `stop` or further, and announce them.

        Return `start` and the keys. To announce keys means to call the source's function `announce`
        with them. The keys of the next positions are also computed and announced.
        """
        (first, keys), (second, coming) = self._block, self._coming
        if first <= start < first + len(keys) == second and stop <= second + len(coming):
            keys = np.concatenate([keys[start - first :], coming])
        elif second <= start and stop <= second + len(coming):
            keys = coming[start - second :]
        else:
            keys = self._computed(start, stop)[1]
            self._tell(keys)
        end = start + len(keys)
        if end < self._leaf.total:
            self._coming = self._computed(end, end)
            self._tell(self._coming[1])
        return start, keys

    def _tell(self, keys: NDArray[np.int64]) -> None:
        assert self._announce is not None, "it is asked for before"
        self._announce(keys)


class Reader:
    """Reads the records of tasks from one source. Any number of threads may share it.

    Args:
        leaf: the source with its sampler.
    """

    def __init__(self, leaf: Leaf) -> None:
        self._leaf = leaf
        self.read = reader_of(leaf.source, checked=True)  # keys `int64[n]` to records
        self._keys = KeyBlocks(leaf)

    def expect(self, task: SpanTask) -> None:
        """Announce that all positions of a task will be read, a few at a time.

        The keys of all these positions are then computed together.
        """
        self._keys.expect(task.stop - task.start)

    def keys(self, span: SpanTask) -> NDArray[np.int64]:
        """Return the record keys of a task's positions.

        Raises RecordKeyError, or an exception of the sampler.
        """
        return self._keys.of(span.start, span.stop)

    def records(self, span: SpanTask) -> Sequence[Any]:
        """Return the records of a task, read in one call of the source.

        Exceptions of the source and of the sampler are raised unchanged.
        """
        return self.read(self.keys(span))

    def all_but_unread(
        self, span: SpanTask, read: ReadRecords
    ) -> tuple[Sequence[Any], Exception | None]:
        """Complete the records that were read in advance: read again those that could not be read.

        Args:
            span: task on consecutive positions.
            read: its records, as far as they could be read.

        Returns:
            All records and None. If a record cannot be read the second time either: the records
            before it (found by reading records one by one), and the exception.
        """
        records = read.records
        for start, stop in read.unread:
            part = replaced(span, start=span.start + start, stop=span.start + stop)
            again: Sequence[Any]
            try:
                again = self.records(part)
            except Exception as failure:
                return self._after(records[:start], self.records_before_failure(part, failure))
            records = [*records[:start], *again, *records[stop:]]
        return records, None

    @staticmethod
    def _after(
        records: Sequence[Any], read: tuple[Sequence[Any], Exception]
    ) -> tuple[Sequence[Any], Exception]:
        """Return the result of a failed read, with earlier records put before its records.

        This is a separate function because the exception's traceback refers to the caller's frame.
        No variable of that frame must refer to the exception, or both would be in a reference
        cycle.

        Args:
            records: the earlier records.
            read: records and exception of the failed read.
        """
        return [*records, *read[0]], read[1]

    def records_before_failure(
        self, span: SpanTask, failure: Exception
    ) -> tuple[Sequence[Any], Exception]:
        """Read the records of a task one by one, to find the record that fails.

        Args:
            span: task whose records could not be read in one call.
            failure: exception of the call that read them all.

        Returns:
            The records before the one that fails, and the exception of the failing record. If each
            record can be read alone, an empty list and `failure`.
        """
        leaf = self._leaf
        records: list[Any] = []
        position, who = 0, SAMPLER
        try:
            for position in leaf.positions(span.start, span.stop).tolist():
                who = SAMPLER
                (key,) = leaf.record_keys(np.array([position], dtype=np.int64)).tolist()
                who = READING
                records.append(leaf.source[key])
        except Exception as error:
            return records, explained(error, place(leaf, position), who)
        return [], explained(failure, place(leaf, leaf.position(span.start)), READING)


def readers_of(pipeline: Pipeline) -> dict[int, Reader]:
    """Return a reader for each source with random access, by its index in `pipeline.every_leaf`."""
    return {
        number: Reader(leaf) for number, leaf in enumerate(pipeline.every_leaf) if not leaf.in_order
    }


class Gathering(NamedTuple):
    """Makes the batches of a task from columns (arrays with all records, one for each field).

    Attributes:
        starts: for each batch, the index of its first row in the task.
        batch_at: function that takes one of these indices, and returns the batch.
    """

    starts: range
    batch_at: Callable[[int], Element]


class ColumnReader:
    """Makes batches directly from the columns of a source, instead of reading records.

    The batches equal those that the first operation, a plain `Batch`, would make of the records. So
    neither the records nor this operation are needed.

    Args:
        columns: tree of arrays, with the rows along the first axis.
        batch: the first operation, a plain `Batch`.
        allocate: function that returns uninitialised arrays for shapes and dtypes (`ArraySpec`).
    """

    def __init__(self, columns: Any, batch: Operation, allocate: Allocate) -> None:
        leaves, self._structure = flatten(columns)
        self._leaves: list[Any] = list(map(_as_objects, leaves))
        self._names = leaf_names(self._structure)
        self._allocate = allocate
        self.batch_size = batch.takes or 1
        self._has_texts = any(map(is_text_column, self._leaves))
        self._gathers = [
            isinstance(leaf, MixedColumn) or is_text_column(leaf) for leaf in self._leaves
        ]
        self._specs = self._specs_of(self.batch_size)

    def _specs_of(self, rows: int) -> tuple[ArraySpec, ...]:
        return tuple(ArraySpec((rows, *leaf.shape[1:]), leaf.dtype) for leaf in self._leaves)

    @classmethod
    def of(cls, pipeline: Pipeline, allocate: Allocate) -> ColumnReader | None:
        """Return a column reader for the pipeline.

        Return None if the pipeline's batches cannot be made from columns (arrays with all records).
        """
        return (
            None
            if pipeline.columns is None
            else cls(pipeline.columns, pipeline.operations[0], allocate)
        )

    def batches(self, keys: NDArray[np.int64]) -> list[Element]:
        starts, batch_at = self.gathering(keys)
        return [batch_at(start) for start in starts]

    def gathering(self, keys: NDArray[np.int64]) -> Gathering:
        """Return an object that makes batches of the records with the given keys, one at a time."""
        size, specs, unflatten = self.batch_size, self._specs, self._structure.unflatten
        count = len(keys)
        rows = [
            leaf.rows_of(keys) if gathers else (leaf, keys)
            for leaf, gathers in zip(self._leaves, self._gathers)
        ]

        def batch_at(start: int) -> Element:
            stop = start + size
            arrays = self._arrays(specs if stop <= count else self._specs_of(count - start))
            for (column, places), array in zip(rows, arrays):
                # The places are within bounds, as the leaf checked: "clip" only spares the buffer
                # that "raise" needs.
                column.take(places[start:stop], 0, array, "clip")
            return unflatten(arrays)

        return Gathering(range(0, count, size), batch_at)

    def whole(
        self, reader: Reader, span: SpanTask, records: Sequence[Any], failure: Exception
    ) -> tuple[list[Element], Exception]:
        """Return the complete batches of the records before a failure, and the failure itself.

        Args:
            reader: computes the keys of these records.
            span: the task that failed.
            records: the task's records before the one at fault.
            failure: the exception.
        """
        count = len(records) - len(records) % self.batch_size
        # the sampler may have no keys for what follows
        before = replaced(span, stop=span.start + count)
        return (self.batches(reader.keys(before)) if count else []), failure

    def _arrays(self, specs: Sequence[ArraySpec]) -> list[NDArray[Any]]:
        """Return the uninitialised arrays of a batch, one for each spec (shape and dtype).

        Arrays of Python objects get ordinary memory, because processes cannot share them.
        """
        if not self._has_texts:
            return allocated(specs, self._names, self._allocate)
        plain = [number for number, spec in enumerate(specs) if not spec.dtype.hasobject]
        if not plain:
            return [np.empty(*spec) for spec in specs]
        names = [self._names[number] for number in plain]
        shared = iter(allocated([specs[number] for number in plain], names, self._allocate))
        return [np.empty(*spec) if spec.dtype.hasobject else next(shared) for spec in specs]


class _TextArray:
    """Array of strings or bytes, one for each record, which is read like a `TextColumn`.

    Batches get the values as an array of Python objects, as if records had been batched.

    Args:
        column: the array, or a `MixedColumn` of such arrays.
    """

    is_text: ClassVar[Literal[True]] = True
    dtype = np.dtype(object)

    def __init__(self, column: Any) -> None:
        self._column, self.shape = column, column.shape

    def rows_of(self, keys: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return an array of objects with the values of `keys`, and each key's index in this array.

        The array may also have values of other keys.
        """
        if isinstance(self._column, MixedColumn):
            values, places = self._column.rows_of(keys)
            return values.astype(object), places
        return self._column[keys].astype(object), np.arange(len(keys))


def _as_objects(column: Any) -> Any:
    """Wrap a column in `_TextArray` if its values are strings or bytes; else return it as it is."""
    is_text = not is_text_column(column) and column.dtype.kind in "US" and len(column.shape) == 1
    return _TextArray(column) if is_text else column
