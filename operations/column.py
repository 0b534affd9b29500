"""Column: one leaf of a batch, into which the leaves of elements are copied.

Leaves with the type, shape and dtype of the first one are copied many at a time, by one NumPy call.
All others are copied one by one. If numbers have several dtypes, the column gets their common
dtype, as `np.stack` does, and reports it.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..common.messages import a_kind_of, shorten
from ..errors import BatchError, StructureError
from .protocol import ArraySpec, Notify

PYTHON_NUMBERS = (bool, int, float, complex)
TEXTS = (str, bytes)
NUMBERS = "biufc"
"""Kinds of NumPy dtypes that are numbers.

Batches with several of these dtypes are reported to the user.
"""

UNMADE = (GeneratorType, CoroutineType, AsyncGeneratorType)
"""Types of values that have no content yet: results of functions with `yield` or `async`."""

_dtype_of = attrgetter("dtype")


class Column:
    """One leaf of a batch.

    Args:
        name: name of the leaf.
        size: number of rows.
        example: the leaf in the first element.
        notify: function that reports a message about the leaf to the user.

    Attributes:
        array: the memory of the column, `[size, *shape of the leaf]`.
        spec: its shape and dtype.
        row_bytes: number of bytes of the first leaf.
        is_plain: True if the dtype holds no objects.
        many_at_once: True if leaves like the first one can be copied by one NumPy call.

    Raises:
        BatchError: the example cannot be stacked.
    """

    array: NDArray[Any]
    _joined: NDArray[Any]  # the same memory, for np.concatenate: [rows * first axis of a row, …]

    def __init__(self, name: str, size: int, example: Any, notify: Notify) -> None:
        self.name = shorten(name or "of the element", 100)
        leaf = as_array(example, self.name)
        self._notify = notify
        self.spec = ArraySpec((size, *leaf.shape), np.result_type(leaf.dtype))
        self.row_bytes = leaf.nbytes
        self.is_plain = not self.spec.dtype.hasobject and self.spec.dtype.itemsize > 0
        self._shape = leaf.shape
        self._type = type(example)
        self._text = next((kind for kind in TEXTS if isinstance(example, kind)), None)
        self._dtype = leaf.dtype if isinstance(example, (np.ndarray, np.generic)) else None
        self._type_tells = self._dtype is None or (
            isinstance(example, np.generic) and leaf.dtype.kind in NUMBERS
        )
        self.many_at_once = self._type in TEXTS or (
            self.is_plain
            and (self._is_plain_number() if self._dtype is None else self._is_plain_array(example))
        )
        self._joins = (
            self.many_at_once
            and self._type is np.ndarray
            and leaf.ndim > 0
            and leaf.dtype == self.spec.dtype
        )

    def _is_plain_array(self, example: Any) -> bool:
        if isinstance(example, np.ndarray) and hasattr(example, "mask"):
            return False  # the next one may mask something
        # Scalars of these are kept as objects.
        return bool(self._shape) or self.spec.dtype.kind not in "US"

    def _is_plain_number(self) -> bool:
        return self._type in PYTHON_NUMBERS and (
            self._type is not int or self.spec.dtype == np.int64
        )

    def fits(self, leaf: Any) -> bool:
        """Return True if this column can be used for a batch whose first element has `leaf`.

        Dtype and shape must be the same, and one NumPy call must be able to copy such leaves. So
        the result is False for objects and masked arrays.
        """
        alike = self.many_at_once and self._is_like(leaf) and np.shape(leaf) == self._shape
        return bool(alike and (self._type is not int or np.asarray(leaf).dtype == self.spec.dtype))

    def _is_like(self, leaf: Any) -> bool:
        return type(leaf) is self._type and (self._type_tells or bool(leaf.dtype == self._dtype))

    def begin(self, array: NDArray[Any]) -> None:
        """Use `array` as the memory of the column for the next batch.

        It has the shape and dtype of `spec`.
        """
        self.array = array
        if self._joins:
            self._joined = array.reshape(len(array) * self._shape[0], *self._shape[1:])

    def put_all(self, row: int, leaves: Sequence[Any]) -> bool:
        """Copy leaves into rows from `row` on, if all have the column's type, shape and dtype.

        Called only if `many_at_once`. Return True if they were copied. Otherwise some rows may be
        overwritten; copy each leaf by `put`.
        """
        # it was widened: each row may widen it again
        if self.array.dtype != self.spec.dtype:
            return False
        count = len(leaves)
        try:
            if list(map(type, leaves)).count(self._type) < count:
                return False
            if self._joins:
                return self._join(row, leaves)
            if not self._type_tells and list(map(_dtype_of, leaves)).count(self._dtype) < count:
                return False
            if self._shape and leaves[0].shape != self._shape:
                return False
            self.array[row : row + count] = leaves  # refuses leaves of unequal shapes
        except (AttributeError, TypeError, ValueError, OverflowError):
            return False
        return True

    def put_one(self, row: int, leaf: Any) -> bool:
        """Copy a leaf into a row if it has the type, shape and dtype of the first one.

        Called only if `many_at_once`. Return True if it was copied.
        """
        if self.array.dtype != self.spec.dtype:
            return False
        try:
            if not self._is_like(leaf) or getattr(leaf, "shape", ()) != self._shape:
                return False
            self.array[row] = leaf
        except (AttributeError, TypeError, ValueError, OverflowError):
            return False
        return True

    def _join(self, row: int, leaves: Sequence[NDArray[Any]]) -> bool:
        length, count = self._shape[0], len(leaves)
        if list(map(len, leaves)).count(length) < count:
            return False
        rows = self._joined[row * length : (row + count) * length]
        # Refuses other axes after the first, and other dtypes.
        np.concatenate(leaves, out=rows, casting="no")
        return True

    def put(self, row: int, leaf: Any) -> None:
        """Copy a leaf into a row, whatever its type or dtype. The column may get a wider dtype.

        If numbers of two dtypes come together, this is reported to the user.

        Raises:
            BatchError: the leaf has another shape, or no dtype holds both its values and the values
                of the others.
        """
        array = as_array(leaf, self.name)
        if array.shape != self._shape:
            raise self._unequal(array)
        if array.dtype != self.array.dtype or (self._text is not None and self._mixes(leaf)):
            self._widen(row, array.dtype, type(leaf))
        self.array[row] = array[()]  # of a 0-d array of dtype object, the object

    def _mixes(self, leaf: Any) -> bool:
        """Return True if the leaf is text and those in the column are bytes, or the reverse."""
        return isinstance(leaf, TEXTS) and not isinstance(leaf, self._text or object)

    def _widen(self, rows: int, dtype: np.dtype[Any], kind: type) -> None:
        """Replace the array by one whose dtype can also hold a new leaf.

        Args:
            rows: number of filled rows, which are kept.
            dtype: dtype of the new leaf.
            kind: type of the new leaf.

        Raises:
            BatchError: the dtypes have no common dtype.
        """
        former = self.array
        common = _common(former.dtype, dtype)
        if common is None:
            one, other = _named(former.dtype, self._type), _named(dtype, kind)
            raise BatchError(
                f"leaf {self.name} has dtype {one} in one element of the batch and {other} in "
                "another, and no dtype can hold both exactly. Map them to one dtype before Batch."
            )
        if _are_numbers(former.dtype, dtype):
            self._notify(self.name, _promotion(self.name, former.dtype, dtype, common))
        if common != former.dtype:
            self.array = np.empty(self.spec.shape, common)
            self.array[:rows] = former[:rows]

    def _unequal(self, array: NDArray[Any]) -> StructureError:
        return StructureError(
            f"leaf {self.name} has shape {self._shape} in one element of the batch and "
            f"{array.shape} in another. Make the shapes equal before Batch. If only the first axis "
            "differs, Batch(…, batch_fn=headrace.pad_batch()) pads it."
        )

    def finish(self, rows: int) -> NDArray[Any]:
        """Return the first `rows` rows of the column's array.

        The column keeps no reference to them.
        """
        array, self.array, self._joined = self.array, _NOTHING, _NOTHING
        return array if rows == len(array) else array[:rows]


_NOTHING: NDArray[Any] = np.empty(0)


def as_array(leaf: Any, name: str = "of the element") -> NDArray[Any]:
    """Return a leaf as an array.

    Strings, bytes and other objects become a 0-d array of dtype object.

    Args:
        leaf: the leaf.
        name: name of the leaf, for messages.

    Raises:
        BatchError: the leaf is a masked array with a masked value, a container that is not a tree,
            or a generator or coroutine.
    """
    if isinstance(leaf, np.ndarray):
        if type(leaf) is not np.ndarray and b"\1" in getattr(leaf, "mask", _NOTHING).tobytes():
            raise BatchError(
                f"leaf {name} is a masked array, but a batch has no mask. Map it to "
                "leaf.filled(…), or to data and mask."
            )
        return leaf
    if isinstance(leaf, (dict, list, tuple)):
        raise BatchError(
            f"an element contains {a_kind_of(leaf)}, whose parts cannot be stacked. Map it to a "
            "plain dict, list or tuple before Batch."
        )
    if isinstance(leaf, UNMADE):
        raise BatchError(
            f"leaf {name} is {a_kind_of(leaf)}, which has no value yet. Pass a function with yield "
            "to headrace.FlatMap(function), or make a list of its values. Await the result of an "
            "async function before Batch."
        )
    if not isinstance(leaf, TEXTS):
        array = np.asarray(leaf)
        if array.dtype.kind not in "OUS":
            return array
    box = np.empty((), dtype=object)
    box[()] = leaf
    return box


def _common(one: np.dtype[Any], other: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return the dtype that holds values of both dtypes; None if there is none.

    Numbers do not become strings or objects.
    """
    try:
        common = np.result_type(one, other)
    except TypeError:
        return None
    kept = not common.hasobject and (common.kind not in "US" or one.kind == other.kind)
    return common if kept else None


def _are_numbers(one: np.dtype[Any], other: np.dtype[Any]) -> bool:
    """Return True if both dtypes are numbers, and they differ in kind or size."""
    return (
        one.kind in NUMBERS
        and other.kind in NUMBERS
        and one.newbyteorder("=") != other.newbyteorder("=")
    )


def _promotion(name: str, one: np.dtype[Any], other: np.dtype[Any], common: np.dtype[Any]) -> str:
    """Return the text of the warning that numbers of two dtypes are in one batch.

    Args:
        name: name of the leaf.
        one: dtype in some elements.
        other: dtype in others.
        common: dtype of the batch.
    """
    first, second = sorted((str(one), str(other)))
    return (
        f"leaf {name} is of dtype {first} in some elements and {second} in others; batches of both "
        f"are of dtype {common}, as np.stack makes them. Map them to one dtype before Batch."
    )


def common_dtype(name: str, arrays: Sequence[NDArray[Any]], notify: Notify) -> np.dtype[Any]:
    """Return the dtype of a batch of arrays of unequal length.

    Empty arrays count only if all are empty.

    Args:
        name: name of the leaf, for messages.
        arrays: at least one array.
        notify: function that reports a message to the user. Called if numbers have several dtypes.

    Raises:
        BatchError: no dtype holds the values of all arrays.

    >>> common_dtype("x", [np.array([]), np.array([1, 2])], print)
    dtype('int64')
    """
    first, *others = dict.fromkeys(
        array.dtype for array in [one for one in arrays if one.size] or arrays
    )
    common = np.result_type(first)
    for other in others:
        wider = _common(common, other)
        if wider is None:
            raise BatchError(
                f"leaf {name} has dtype {common} in one element of the batch and {other} in "
                "another, and no dtype can hold both exactly. Map them to one dtype before Batch."
            )
        common = wider
    if odd := next((other for other in others if _are_numbers(first, other)), None):
        notify(name, _promotion(name, first, odd, common))
    return common


def _named(dtype: np.dtype[Any], kind: type) -> str:
    return f"object ({shorten(kind.__name__, 60)})" if dtype.hasobject else shorten(dtype, 60)
