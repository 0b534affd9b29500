"""Copy elements into the memory of a batch, a few at a time.

The first element determines the layout: one column, `[batch_size, *shape]`, for each leaf. Later
batches keep the layout as long as it fits their first element. Elements with the structure, types
and shapes of the first one are copied column by column, many by one NumPy call. All others are
copied one by one, which also finds the cause of an error.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from math import prod
from operator import is_, itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..common.messages import shorten
from ..errors import BatchError, BatchMemoryError, NoElementError, StructureError
from .column import Column
from .protocol import Allocate, ArraySpec, Element, Notify, allocate_plainly, notify_nobody
from .trees import Structure, bare_lists, flatten, is_leaf, leaf_names

# `mnist` takes 1.5 times as long with 1, 1.17 with 8, 1.06 with 128.
CHUNK_ROWS = 64
"""Maximum number of elements that are copied together."""

# Rows of 30 KB take 1.2 times as long with a quarter of this.
CHUNK_BYTES = 256 << 10
"""Maximum bytes of elements copied together, so that they stay in the processor's caches."""


_NO_MEMORY = (errno.ENOMEM, errno.ENOSPC, errno.EFBIG, errno.EINVAL)
"""Error codes of the system for sizes that it cannot provide.

Codes for a lack of file descriptors are left out.
"""


class Stack:
    """Memory of the batch that is being filled.

    The layout (a column for each leaf) is kept for the next batches.

    Args:
        size: number of rows.
        allocate: function that allocates the arrays of a batch.
        notify: function that reports a message about a leaf to the user.
        lists_are_trees: True: lists of numbers are stacked item by item. False: they are an error.

    Attributes:
        size: number of rows.
        chunk: number of elements to copy together.
        row: row that is being copied; after a failure, the row with the failure.
    """

    def __init__(
        self,
        size: int,
        allocate: Allocate,
        notify: Notify = notify_nobody,
        lists_are_trees: bool = False,
    ) -> None:
        self.size = size
        self._lists_are_trees = lists_are_trees
        self._allocate = allocate
        self._notify = notify
        self._layout: Layout | None = None
        self.chunk = 1
        self.row = 0

    def resize(self, size: int) -> None:
        """Set the number of rows of the following batches to `size`."""
        self.size, self._layout = size, None

    def add(self, row: int, elements: Sequence[Element]) -> None:
        """Copy elements into `row` and the following rows. Row 0 begins a new batch.

        Raises:
            BatchError: an element cannot be stacked, differs from the first one in structure or
                shape, or has a dtype that has no common dtype with the others.
        """
        layout = self._layout
        self.row = row
        if row > 0:
            assert layout is not None
            if len(elements) != 1 or not layout.put_one(row, elements[0]):
                self._write_all(layout, row, elements)
        elif layout is None or not layout.begin_with(elements, self._allocate):
            self._begin(elements)

    def _begin(self, elements: Sequence[Element]) -> None:
        """Begin a batch with these elements; the first one may need another layout.

        BatchError if they cannot be stacked.
        """
        self.row = 0
        first = elements[0]
        leaves, structure = flatten(first)
        if self._layout is None or not self._layout.fits(leaves, structure):
            _check(first, self._lists_are_trees)
            self._layout = Layout(self.size, leaves, structure, notify=self._notify)
        layout = self._layout
        layout.begin(structure, self._allocate)
        layout.write(0, first)
        self.chunk = layout.chunk
        self._write_all(layout, 1, elements[1:])

    def _write_all(self, layout: Layout, row: int, elements: Sequence[Element]) -> None:
        if len(elements) > 1 and layout.put(row, elements):
            return
        for self.row, element in enumerate(elements, row):
            layout.write(self.row, element)

    def finish(self, rows: int) -> Element:
        """Return the first `rows` rows of the batch. Its memory belongs to the caller."""
        assert self._layout is not None
        return self._layout.finish(rows)


def stacked(elements: Sequence[Element], lists_are_trees: bool = False) -> Element:
    """Return the batch of these elements (at least one), as a plain `Batch` makes it.

    Args:
        elements: elements of one structure.
        lists_are_trees: True: stack lists of numbers item by item. False: they are an error.

    Raises:
        BatchError: the elements cannot be stacked.

    >>> stacked([1, 2]).tolist()
    [1, 2]
    """
    stack = Stack(len(elements), allocate_plainly, lists_are_trees=lists_are_trees)
    stack.add(0, elements)
    return stack.finish(len(elements))


class Layout:
    """Layout of a batch: one column for each leaf of its first element.

    Args:
        size: number of rows.
        leaves: leaves of the first element.
        structure: structure of the first element.
        exact: True: `put` also rejects elements whose keys have another order, though the batch
            would be the same.
        notify: function that reports a message about a leaf to the user.
    """

    def __init__(
        self,
        size: int,
        leaves: Sequence[Any],
        structure: Structure,
        exact: bool = False,
        notify: Notify = notify_nobody,
    ) -> None:
        self._structure = structure
        self._exact = exact
        self._columns = [
            Column(name, size, leaf, notify)
            for name, leaf in zip(leaf_names(self._structure), leaves)
        ]
        self._plain = [column for column in self._columns if column.is_plain]
        self._specs = tuple(column.spec for column in self._plain)
        self._names_of_plain = [column.name for column in self._plain]
        self._alike = all(column.many_at_once for column in self._columns)
        self._is_leaf = structure.is_leaf()
        is_flat = structure.num_nodes == len(leaves) + 1 and structure.type in (dict, list, tuple)
        self._flat: Any = structure.type if is_flat else None
        self._names = structure.entries() if self._flat is dict else None
        self._places = range(len(leaves)) if self._names is None else self._names
        self._order: list[Any] = []  # the same names in the order of the first element
        row_bytes = sum(column.row_bytes for column in self._columns)
        self.chunk = max(1, min(CHUNK_ROWS, CHUNK_BYTES // max(row_bytes, 1)))

    def fits(self, leaves: Sequence[Any], structure: Structure) -> bool:
        """Return True if these columns fit a batch that begins with these leaves and structure."""
        return structure == self._structure and all(map(Column.fits, self._columns, leaves))

    def begin(self, structure: Structure, allocate: Allocate) -> None:
        """Allocate the memory of a batch.

        Args:
            structure: structure of its first element, with the order of keys that the batch gets.
            allocate: function that allocates arrays.
        """
        self._structure = structure
        if self._flat is dict:
            self._order = list(structure.unflatten(self._columns))
        self._take(allocate)

    def _take(self, allocate: Allocate) -> None:
        for column, array in zip(
            self._plain, allocated(self._specs, self._names_of_plain, allocate)
        ):
            column.begin(array)
        for column in self._columns:
            if not column.is_plain:
                column.begin(*allocated([column.spec], [column.name], allocate_plainly))

    def begin_with(self, elements: Sequence[Element], allocate: Allocate) -> bool:
        """Begin a batch with these elements if all are like the earlier batch's first element.

        That is, they have its structure, types and shapes.

        Return True if the batch was begun. Otherwise memory may have been allocated and partly
        filled; begin another batch.

        Args:
            elements: the first elements of the batch, at least one.
            allocate: function that allocates arrays.
        """
        if self._flat is dict:
            first = elements[0]
            keeps_order = (
                type(first) is dict
                and len(first) == len(self._order)
                and all(map(is_, first, self._order))
            )
        else:
            keeps_order = self._is_leaf or self._flat is not None
        if not (keeps_order and self._alike):
            return False
        self._take(allocate)
        return self.put(0, elements)

    def finish(self, rows: int) -> Element:
        """Return the first `rows` rows of the batch."""
        return self._structure.unflatten(self.finish_columns(rows))

    def finish_columns(self, rows: int) -> list[NDArray[Any]]:
        """Return the first `rows` rows of each column."""
        return [column.finish(rows) for column in self._columns]

    def put(self, row: int, elements: Sequence[Element]) -> bool:
        """Copy elements into rows from `row` on, if all are like the first element.

        They must have its structure, types and shapes. Return True if they were copied. Otherwise
        some rows may be overwritten.
        """
        leaves = self._leaves_by_column(elements) if self._alike else None
        return leaves is not None and all(
            column.put_all(row, some) for column, some in zip(self._columns, leaves)
        )

    def put_one(self, row: int, element: Any) -> bool:
        """Copy one element into a row, if it has the structure, types and shapes of the batch.

        Return True if it was copied.
        """
        if not self._alike:
            return False
        if self._is_leaf:
            return self._columns[0].put_one(row, element)
        if type(element) is not self._flat or len(element) != len(self._columns):
            return False
        try:
            for column, name in zip(self._columns, self._places):
                if not column.put_one(row, element[name]):
                    return False
        except KeyError:
            return False
        return True

    def _leaves_by_column(self, elements: Sequence[Element]) -> list[Sequence[Any]] | None:
        """Return the leaves of elements by column, or None if an element has another structure."""
        if self._is_leaf:
            return [elements]
        count = len(elements)
        try:
            if self._flat is None:
                return list(zip(*map(self._structure.flatten_up_to, elements)))
            if list(map(type, elements)).count(self._flat) < count:
                return None
            if list(map(len, elements)).count(len(self._columns)) < count:
                return None
            if self._names is None:
                return list(zip(*elements))
            if self._exact and any(
                keys.count(name) < count for name, keys in zip(self._order, zip(*elements))
            ):
                return None
            return [list(map(itemgetter(name), elements)) for name in self._names]
        except (KeyError, TypeError, ValueError):
            return None

    def write(self, row: int, element: Element) -> None:
        """Copy an element into a row, whatever the types and dtypes of its leaves.

        Raises:
            BatchError: the element cannot be stacked with the others.
        """
        try:
            leaves = self._structure.flatten_up_to(element)
        except ValueError:
            raise self._mismatch(element) from None
        for column, leaf in zip(self._columns, leaves):
            if type(leaf) is not np.ndarray and not is_leaf(leaf):
                raise self._mismatch(element)
            column.put(row, leaf)

    def _mismatch(self, element: Element) -> BatchError:
        if element is None:
            return no_element()
        return StructureError(
            "elements of one batch have different structures: the first is "
            f"{shown(self._structure)}, but this one is {shown(flatten(element)[1])} (* is a "
            "leaf). Map them to one structure before Batch, or pass Batch(…, batch_fn=…)."
        )


def _check(element: Element, lists_are_trees: bool) -> None:
    """Raise BatchError if an element is None, or has lists of numbers without `lists_are_trees`."""
    if element is None:
        raise no_element()
    for name in () if lists_are_trees else bare_lists(element):
        raise BatchError(
            f"leaf {shorten(name or 'of the element', 100)} is a list without an array in it, and "
            "would be stacked item by item. Map it to an array, np.asarray(…). If lengths differ, "
            "also pass Batch(…, batch_fn=headrace.pad_batch()). If you want its items stacked one "
            "by one, map it to a tuple."
        )


def no_element() -> NoElementError:
    """Return the error for an element of a batch that is None."""
    return NoElementError(
        "an element of a batch is None. Replace values that are missing in the data, and check "
        "that the function before Batch returns a value. To leave elements out, use Filter."
    )


def shown(structure: Structure) -> str:
    """Return a structure as text for messages, with `*` for each leaf.

    >>> shown(flatten({"x": 1, "y": None})[1])
    "{'x': *, 'y': None}"
    """
    text = str(structure)
    return shorten(text.removeprefix("PyTreeSpec(").split(", namespace=")[0].removesuffix(")"), 120)


def allocated(
    specs: Sequence[ArraySpec], names: Sequence[str], allocate: Allocate
) -> list[NDArray[Any]]:
    """Return the arrays of a batch, uninitialised.

    Args:
        specs: shape and dtype of each leaf.
        names: name of each leaf, for the message.
        allocate: function that allocates arrays.

    Raises:
        BatchMemoryError: there is not enough memory.
        OSError: the system reports another error, such as a lack of file descriptors.
    """
    try:
        return allocate(specs)
    except (MemoryError, OverflowError, ValueError) as error:
        raise _too_large(specs, names) from error
    except OSError as error:
        if error.errno not in _NO_MEMORY:
            raise
        raise _too_large(specs, names) from error


def _too_large(specs: Sequence[ArraySpec], names: Sequence[str]) -> BatchMemoryError:
    size, name, spec = max((_bytes(spec), name, spec) for name, spec in zip(names, specs))
    total = sum(map(_bytes, specs))
    of_these = f", {size:,} of these" if len(specs) > 1 else ""
    return BatchMemoryError(
        f"there is no memory for a batch of {total:,} bytes: leaf "
        f"{shorten(name or 'of the element', 100)} has shape {spec.shape} and dtype "
        f"{shorten(spec.dtype, 60)}{of_these}. Pass a smaller batch_size, keep fewer batches, or "
        "raise the limit (ulimit -v, the container's memory, or the size of /dev/shm)."
    )


def _bytes(spec: ArraySpec) -> int:
    return spec.dtype.itemsize * prod(spec.shape)
