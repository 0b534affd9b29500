"""Read values of some rows of one Arrow column of chunks, as NumPy or Python objects.

NumPy values are as in `columns`: scalars and arrays of the stored dtype. Python values are as
pyarrow's `to_pylist` returns them. Numbers, lists of numbers and texts are read where they are,
whatever the number of chunks. All other values are read one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from ..parts import LastResult
from .columns import (
    Array,
    Nullable,
    OneByOne,
    dense,
    filled,
    gives_arrays,
    is_list,
    is_scalar,
    plain,
)
from .pieces import Int64s, PieceRows, Places, joined_view


class TableColumn(Protocol):
    """Protocol of the values of one column. `take(places)` returns the values of rows.

    Thread-safe.
    """

    def take(self, places: Places) -> list[Any]: ...


@dataclass(frozen=True)
class Numbers:
    """Column in which each value is a number, or an array; all arrays have one shape.

    Attributes:
        rows: the values.
        as_python: True: `take` returns Python numbers and lists. False: NumPy scalars and arrays.
    """

    rows: PieceRows
    as_python: bool

    def take(self, places: Places) -> list[Any]:
        taken = self.rows.take(places)
        return taken.tolist() if self.as_python else list(taken)


class Ragged:
    """Values of unequal length, such as lists or texts, one after the other in memory.

    `items` is an array of the items of all values. `bounds(places)` returns, for the values at some
    places, the index in `items` of the first item and the index after the last one.

    Args:
        offsets: for each chunk of n values, n + 1 offsets into its contents.
        contents: contents of each chunk.
    """

    def __init__(self, offsets: Sequence[Array], contents: Sequence[Array]) -> None:
        self._offsets = PieceRows(offsets)
        self.items, self._starts = joined_view(contents)
        self.items_bytes = sum(one.nbytes for one in contents)

    def bounds(self, places: Places) -> tuple[Int64s, Int64s]:
        base = self._starts[places.pieces]
        after = Places(places.pieces, places.rows + 1)  # a piece of n values has n + 1 offsets
        return base + self._offsets.take(places), base + self._offsets.take(after)


@dataclass(frozen=True)
class Lists:
    """Column in which each value is a list of numbers.

    Attributes:
        ragged: the lists.
        as_python: True: `take` returns lists. False: read-only views, arrays.
    """

    ragged: Ragged
    as_python: bool

    def take(self, places: Places) -> list[Any]:
        items = self.ragged.items
        starts, stops = self.ragged.bounds(places)
        arrays = [items[start:stop] for start, stop in zip(starts.tolist(), stops.tolist())]
        return [array.tolist() for array in arrays] if self.as_python else arrays

    def lengths(self, places: Places) -> Int64s:
        starts, stops = self.ragged.bounds(places)
        return stops - starts


@dataclass(frozen=True)
class Text:
    """Column in which each value is a text or bytes.

    Attributes:
        ragged: the bytes of each value.
        is_binary: True: values are `bytes`. False: values are `str`.
    """

    ragged: Ragged
    is_binary: bool

    def take(self, places: Places) -> list[Any]:
        memory = self.ragged.items.data
        starts, stops = self.ragged.bounds(places)
        parts = [memory[start:stop] for start, stop in zip(starts.tolist(), stops.tolist())]
        return list(map(bytes, parts)) if self.is_binary else [str(part, "utf-8") for part in parts]


@dataclass(frozen=True)
class Objects:
    """Column of any other type. pyarrow converts its values one by one to Python objects.

    Attributes:
        chunks: the pyarrow arrays of the column.
    """

    chunks: Sequence[Any]

    def take(self, places: Places) -> list[Any]:
        pairs = zip(places.pieces.tolist(), places.rows.tolist())
        return [self.chunks[piece][row].as_py() for piece, row in pairs]


class ListsWithNulls:
    """Column of lists of numbers, some of which have a null in them: see `OneByOne`.

    Args:
        chunks: the pyarrow arrays of the column, of a type for which `gives_arrays` is True.
    """

    def __init__(self, chunks: Sequence[Any]) -> None:
        self._pieces = list(map(OneByOne, chunks))

    def take(self, places: Places) -> list[Any]:
        pairs = zip(places.pieces.tolist(), places.rows.tolist())
        return [self._pieces[piece].take([row])[0] for piece, row in pairs]


def table_column(chunks: Sequence[Any], as_python: bool) -> TableColumn:
    """Return a column in the form from which rows are read fastest.

    Args:
        chunks: pyarrow arrays: at least one, none of them empty.
        as_python: True: Python values. False: NumPy values.
    """
    # Without dictionary and extension type, except of arrays of one shape.
    stored = [chunk if hasattr(chunk.type, "shape") else plain(chunk) for chunk in chunks]
    column = _numbers(stored, as_python) or _lists(stored, as_python) or _text(stored)
    if column is None:
        return (
            ListsWithNulls(stored)
            if gives_arrays(stored[0].type) and not as_python
            else Objects(chunks)
        )
    if not any(chunk.null_count for chunk in stored):
        return column
    return Nullable(
        column, PieceRows([chunk.is_null().to_numpy(zero_copy_only=False) for chunk in stored])
    )


def _numbers(chunks: Sequence[Any], as_python: bool) -> Numbers | None:
    with_nulls = any(chunk.null_count for chunk in chunks)
    if with_nulls and not is_scalar(chunks[0].type):
        return None
    arrays = _all_or_none(
        [filled(chunk) if with_nulls else _of_one_shape(chunk) for chunk in chunks]
    )
    if arrays is None or 0 in arrays[0].shape or (as_python and arrays[0].dtype.kind not in "biuf"):
        return None
    return Numbers(PieceRows(arrays), as_python)


def _of_one_shape(chunk: Any) -> Array | None:
    """Return a chunk as an array `[rows, *shape]`, or None if its values have no common shape.

    This includes multidimensional arrays, which Hugging Face stores as lists of lists.
    """
    if not hasattr(chunk.type, "storage_dtype"):
        return dense(chunk)
    shape = chunk.type.shape
    if None in shape or chunk.null_count:
        return None
    flat = chunk.storage
    while is_list(flat.type):
        flat = flat.flatten()
    items = dense(flat)
    return None if items is None else items.reshape(len(chunk), *shape)


def _lists(chunks: Sequence[Any], as_python: bool) -> Lists | None:
    import pyarrow.types as kinds

    kind = chunks[0].type
    if not (kinds.is_list(kind) or kinds.is_large_list(kind)) or not is_scalar(kind.value_type):
        return None
    contents = _all_or_none([dense(chunk.values) for chunk in chunks])
    if contents is None or (as_python and contents[0].dtype.kind not in "biuf"):
        return None
    return Lists(Ragged([chunk.offsets.to_numpy() for chunk in chunks], contents), as_python)


def _text(chunks: Sequence[Any]) -> Text | None:
    import pyarrow.types as kinds

    kind = chunks[0].type
    is_binary, is_large = (
        kinds.is_binary(kind) or kinds.is_large_binary(kind),
        kinds.is_large_string(kind),
    )
    if not (is_binary or is_large or kinds.is_string(kind)):
        return None
    offset = np.dtype(np.int64 if is_large or kinds.is_large_binary(kind) else np.int32)
    return Text(
        Ragged([_offsets(chunk, offset) for chunk in chunks], [_bytes(chunk) for chunk in chunks]),
        is_binary,
    )


def _offsets(chunk: Any, dtype: np.dtype[Any]) -> Array:
    return np.frombuffer(chunk.buffers()[1], dtype, len(chunk) + 1, chunk.offset * dtype.itemsize)


def _bytes(chunk: Any) -> Array:
    data = chunk.buffers()[2]
    return (
        np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    )


def _all_or_none(arrays: Sequence[Array | None]) -> list[Array] | None:
    found = [array for array in arrays if array is not None]
    return found if len(found) == len(arrays) else None


class BatchColumn:
    """Column of numbers, with the part of an array's interface that `Batch` uses.

    It has dtype, shape, and `take` by keys.

    Args:
        rows: rows of the table's column.
        length: number of rows of the dataset.
        dtype: dtype of batches.
        places: finds the places of keys in the table.
    """

    def __init__(
        self, rows: PieceRows, length: int, dtype: npt.DTypeLike, places: LastResult[Places]
    ) -> None:
        self._rows = rows
        self._places = places
        self.dtype = np.dtype(dtype)
        self.shape = (length, *rows.shape)
        self.nbytes = length * self.dtype.itemsize * int(np.prod(rows.shape))

    def __len__(self) -> int:
        return int(self.shape[0])

    def take(self, keys: Int64s, axis: Literal[0], out: Array, mode: Literal["clip"]) -> None:
        """Copy the rows of `keys` into `out`, like `np.ndarray.take`.

        `axis` and `mode` are always 0 and "clip".
        """
        self._rows.take_into(self._places.of(keys), out)


class BatchTexts:
    """Column of strings or bytes, with the members of `sources.protocol.TextColumn`.

    Args:
        values: function that returns the values of keys `int64[n]`.
        column: the table's column.
        length: number of rows of the dataset.
    """

    is_text: ClassVar[Literal[True]] = True
    dtype = np.dtype(object)

    def __init__(self, values: Callable[[Int64s], list[Any]], column: Text, length: int) -> None:
        self._values = values
        self.shape = (length,)
        self.nbytes = column.ragged.items_bytes

    def __len__(self) -> int:
        return self.shape[0]

    def rows_of(self, keys: Int64s) -> tuple[Array, Int64s]:
        """Return the values of `keys` as an array of objects, and their positions, `0, 1, …`."""
        values = np.empty(len(keys), object)
        values[:] = self._values(keys)
        return values, np.arange(len(keys))
