"""Grain's older packing: an operation on an iterator of records that gives whole batches.

In: records whose elements are trees of arrays of unequal length. Out: a record per batch, with data
`(values, segmentations, positions)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from ....common.messages import shorten
from ....common.validation import whole_number
from ....errors import PackError
from ....operations.trees import flatten
from ..loader.operations import Records
from ..loader.records import Record, with_key_removed

T = TypeVar("T")


@dataclass
class PackAndBatchOperation(Generic[T]):
    """Put each element into the first row with room; when no row has room, the rows become a batch.

    Attributes:
        length_struct: the length of a row, for each leaf of the elements.
        batch_size: number of rows.
        max_sequences_per_bin: maximal number of elements in a row; None for no limit.

    Raises:
        ValueError: if `batch_size` or `max_sequences_per_bin` is not positive.
        PackError: while iterating, if an element is longer than a row.
    """

    length_struct: Any
    batch_size: int
    max_sequences_per_bin: int | None = None

    def __post_init__(self) -> None:
        whole_number("batch_size", self.batch_size, 1, None, "a number of rows")
        if self.max_sequences_per_bin is not None:
            most = self.max_sequences_per_bin
            whole_number(
                "max_sequences_per_bin", most, 1, None, "a number of elements, None for no limit"
            )

    def __call__(self, input_iterator: Records) -> Records:
        rows: _Rows | None = None
        for record in input_iterator:
            if rows is None or not rows.take(record):
                if rows is not None:
                    yield rows.finished()
                rows = _Rows(self, record.data)
                rows.take(record)
        if rows is not None:
            yield rows.finished()


class _Rows:
    """Rows of the batch that is being filled.

    Args:
        operation: gives the sizes.
        first: an element; it gives the dtypes and the trailing axes.
    """

    def __init__(self, operation: PackAndBatchOperation[Any], first: Any) -> None:
        size = operation.batch_size
        self._lengths, self._structure = flatten(operation.length_struct)
        leaves = [np.asarray(leaf) for leaf in self._structure.flatten_up_to(first)]
        shapes = [(size, length) for length in self._lengths]
        self._data = [
            np.zeros((*shape, *leaf.shape[1:]), leaf.dtype) for shape, leaf in zip(shapes, leaves)
        ]
        self._segmentations = [np.zeros(shape, np.int32) for shape in shapes]
        self._positions = [np.zeros(shape, np.int32) for shape in shapes]
        self._filled = np.zeros((size, len(shapes)), np.int64)
        self._sequences = np.zeros(size, np.int64)
        self._most = operation.max_sequences_per_bin
        self._metadata: Any = None

    def take(self, record: Record[Any]) -> bool:
        """Put an element into the first row with room; return True if a row had room.

        Raises:
            PackError: if the element is longer than a row.
        """
        leaves = self._structure.flatten_up_to(record.data)
        lengths = list(map(len, leaves))
        if any(length > most for length, most in zip(lengths, self._lengths)):
            raise PackError(
                "Inputs to PackAndBatchOperation must be truncated to max length: an element has "
                f"{shorten(lengths, 120)} tokens, but a row holds at most "
                f"{shorten(self._lengths, 120)}. Cut the element with map(…) before the packing, "
                "or raise length_struct."
            )
        room = (self._filled + lengths <= self._lengths).all(axis=1)
        if self._most is not None:
            room &= self._sequences < self._most
        if not room.any():
            return False
        self._put(int(room.argmax()), leaves)
        self._metadata = with_key_removed(record.metadata)
        return True

    def _put(self, row: int, leaves: list[Any]) -> None:
        self._sequences[row] += 1
        for number, leaf in enumerate(leaves):
            start = int(self._filled[row, number])
            cells = slice(start, start + len(leaf))
            self._data[number][row, cells] = leaf
            self._segmentations[number][row, cells] = self._sequences[row]
            self._positions[number][row, cells] = np.arange(len(leaf))
            self._filled[row, number] += len(leaf)

    def finished(self) -> Record[Any]:
        """Return the batch as a record, with the metadata of its last element."""
        columns = (self._data, self._segmentations, self._positions)
        return Record(self._metadata, tuple(map(self._structure.unflatten, columns)))
