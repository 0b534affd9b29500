"""Reads the records of spans from the source of a leaf, or batches straight from its columns; finds what cannot be read.

In: spans. Out: their records, in one call of the source; or their batches, one `np.take` a column and nothing per record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.fields import replaced
from ...operations import Operation
from ...operations.memory import allocated
from ...operations.protocol import Allocate, ArraySpec, Element
from ...operations.trees import flatten, leaf_names
from ...sources.mixed.source import MixedColumn
from ...sources.protocol import is_text_column, key_check, reader_of
from ..plan.leaf import Leaf
from ..plan.pipeline import Pipeline
from .explain import READING, SAMPLER, explained, place
from .tasks import ReadRecords, SpanTask

ENOUGH = 8192
"""Positions whose keys are worth to be computed on their own. By a mix of 35 columns, with two workers."""


class KeyBlocks:
    """Record keys of spans that mostly follow one another, computed in blocks far larger than a span.

    A source that has `announce` is told the keys of a block when those of the block before begin to be read.

    Threads may share one: they replace the pair of start and keys as a whole, and at worst compute a block twice.
    """

    def __init__(self, leaf: Leaf) -> None:
        self._leaf = leaf
        self._ahead = leaf.block_size
        self._block: tuple[int, NDArray[np.int64]] = (0, np.empty(0, dtype=np.int64))
        self._coming = self._block
        self._announce = getattr(leaf.source, "announce", None)
        self._check = key_check(leaf.source)  # for a whole block at a time

    def expect(self, count: int) -> None:
        """So many positions will be asked for from the next one on; where they are enough, others are somebody else's."""
        self._ahead = count if count >= ENOUGH else self._leaf.block_size

    def of(self, start: int, stop: int) -> NDArray[np.int64]:
        first, keys = self._block
        if not (first <= start and stop <= first + len(keys)):
            self._block = first, keys = (
                self._computed(start, stop) if self._announce is None else self._announced(start, stop)
            )
        return keys[start - first : stop - first]

    def _computed(self, start: int, stop: int) -> tuple[int, NDArray[np.int64]]:
        """The start and the keys of a block; of the span alone, if the sampler fails after it."""
        last = max(min(start + self._ahead, self._leaf.total), stop)
        try:
            return start, self._keys(start, last)
        except Exception:
            if last == stop:
                raise
            return start, self._keys(start, stop)

    def _keys(self, start: int, stop: int) -> NDArray[np.int64]:
        keys = self._leaf.record_keys(self._leaf.positions(start, stop))
        return keys if self._check is None else self._check(keys)

    def _announced(self, start: int, stop: int) -> tuple[int, NDArray[np.int64]]:
        """A block of keys; the source knows them, and is told those of the next block."""
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
    """Reads the records of spans. Any number of threads may use one."""

    def __init__(self, leaf: Leaf) -> None:
        self._leaf = leaf
        self.read = reader_of(leaf.source, checked=True)  # keys `int64[n]` to records
        self._keys = KeyBlocks(leaf)

    def expect(self, task: SpanTask) -> None:
        """The spans of a task will be read, one after the other."""
        self._keys.expect(task.stop - task.start)

    def keys(self, span: SpanTask) -> NDArray[np.int64]:
        return self._keys.of(span.start, span.stop)

    def records(self, span: SpanTask) -> Sequence[Any]:
        """The records of a span, in one call of the source."""
        return self.read(self.keys(span))

    def all_but_unread(self, span: SpanTask, read: ReadRecords) -> tuple[Sequence[Any], Exception | None]:
        """The records that were read ahead; those that could not be are read again, up to a failure, and why it failed."""
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
    def _after(records: Sequence[Any], read: tuple[Sequence[Any], Exception]) -> tuple[Sequence[Any], Exception]:
        """Records before others, and the failure of these. No variable of the caller, where its traceback leads, keeps it."""
        return [*records, *read[0]], read[1]

    def records_before_failure(self, span: SpanTask, failure: Exception) -> tuple[Sequence[Any], Exception]:
        """The records of a span, read one by one, up to the first that cannot be read, and why it cannot.

        Args:
            span: could not be read in one call.
            failure: why not; it is the answer if every single record can be read.
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
    """The readers of sources with random access, by the numbers of every leaf."""
    return {number: Reader(leaf) for number, leaf in enumerate(pipeline.every_leaf) if not leaf.in_order}


class ColumnReader:
    """Takes batches from columns, as a plain `Batch` would make them of their rows. Stands in for it and for reading."""

    def __init__(self, columns: Any, batch: Operation, allocate: Allocate) -> None:
        leaves, self._structure = flatten(columns)
        self._leaves: list[Any] = leaves
        self._names = leaf_names(self._structure)
        self._allocate = allocate
        self.batch_size = batch.takes or 1
        self._drop_remainder = batch.drops_remainder
        self._has_texts = any(map(is_text_column, leaves))
        self._gathers = [isinstance(leaf, MixedColumn) or is_text_column(leaf) for leaf in leaves]
        self._specs = self._specs_of(self.batch_size)

    def _specs_of(self, rows: int) -> tuple[ArraySpec, ...]:
        return tuple(ArraySpec((rows, *leaf.shape[1:]), leaf.dtype) for leaf in self._leaves)

    @classmethod
    def of(cls, pipeline: Pipeline, allocate: Allocate) -> ColumnReader | None:
        return None if pipeline.columns is None else cls(pipeline.columns, pipeline.operations[0], allocate)

    def batches(self, keys: NDArray[np.int64]) -> list[Element]:
        size = self.batch_size
        cut = len(keys) - len(keys) % size if self._drop_remainder else len(keys)
        rows = [leaf.rows_of(keys) if gathers else (leaf, keys) for leaf, gathers in zip(self._leaves, self._gathers)]
        return [self._batch_of(rows, start, min(start + size, cut)) for start in range(0, cut, size)]

    def whole(
        self, reader: Reader, span: SpanTask, records: Sequence[Any], failure: Exception
    ) -> tuple[list[Element], Exception]:
        """The batches that are whole before the record at fault, given the records before it; and the failure."""
        count = len(records) - len(records) % self.batch_size
        before = replaced(span, stop=span.start + count)  # the sampler may have no keys for what follows
        return (self.batches(reader.keys(before)) if count else []), failure

    def _batch_of(self, rows: list[tuple[NDArray[Any], NDArray[np.int64]]], start: int, stop: int) -> Element:
        specs = self._specs if stop - start == self.batch_size else self._specs_of(stop - start)
        arrays = self._arrays(specs)
        for (column, places), array in zip(rows, arrays):
            # The places are within bounds, as the leaf checked: "clip" only spares the buffer that "raise" needs.
            column.take(places[start:stop], 0, array, "clip")
        return self._structure.unflatten(arrays)

    def _arrays(self, specs: Sequence[ArraySpec]) -> list[NDArray[Any]]:
        """Memory of a batch; that of objects is never shared with another process."""
        if not self._has_texts:
            return allocated(specs, self._names, self._allocate)
        plain = [number for number, spec in enumerate(specs) if not spec.dtype.hasobject]
        if not plain:
            return [np.empty(*spec) for spec in specs]
        names = [self._names[number] for number in plain]
        shared = iter(allocated([specs[number] for number in plain], names, self._allocate))
        return [np.empty(*spec) if spec.dtype.hasobject else next(shared) for spec in specs]
