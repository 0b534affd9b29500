"""Convert tables and columns of pandas, polars and pyarrow in memory to NumPy arrays.

The libraries are recognised by the names of their classes. None is imported.

* Numbers, booleans, dates, durations and timestamps without zone, none of them missing, become an
  array of their dtype. It is not copied where possible.
* Lists of numbers of one length (polars `Array`, pyarrow `FixedSizeList`) become an array
  `[rows, length]`.
* All others become Python objects: texts, lists, structs, times of day, timestamps with a zone, and
  integers of 128 bits.
* Columns with missing values, of any of these types, become Python objects, with None for these.

NaN and NaT in pandas columns of floats and times are not changed to None. A timestamp with a zone
is a `datetime.datetime` object with that zone; from pandas, a `pandas.Timestamp`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ...common.messages import short_repr

Array = npt.NDArray[Any]

_TABLES = ("pandas.DataFrame", "polars.DataFrame", "pyarrow.Table", "pyarrow.RecordBatch")
_PANDAS_ARRAYS = ("pandas.Index", "pandas.ExtensionArray")
_COLUMNS = (
    "pandas.Series",
    *_PANDAS_ARRAYS,
    "polars.Series",
    "pyarrow.ChunkedArray",
    "pyarrow.Array",
)


def arrays_of(data: Any) -> Any:
    """Return a table as a dict of arrays by column name, and a column as an array.

    In a dict, nested or not, each column is converted. Anything else is returned unchanged.

    Raises:
        ValueError: two columns of a table have the same name.
    """
    kinds = _kinds(data)
    if kinds & {*_COLUMNS}:
        return _array(data)
    if kinds & {*_TABLES}:
        return {name: _array(column) for name, column in _columns(data).items()}
    if type(data) is dict and any(_has_column(value) for value in data.values()):
        return {name: arrays_of(value) for name, value in data.items()}
    return data


def refuse_lists_of_tables(data: Any) -> None:
    """Raise TypeError for a tuple `(X, y)`, and for a list of record batches of pyarrow.

    The tuple has tables or columns.

    Some of the columns may be NumPy arrays, but not all: `MemorySource` refuses those.
    """
    if (
        isinstance(data, tuple)
        and len(data) > 1
        and any(map(_is_column, data))
        and all(map(_is_array_or_column, data))
    ):
        raise TypeError(
            f"a tuple of {len(data)} tables or columns can mean columns or records. "
            'Pass columns as a dict, {"x": X, "y": y}, and records as a list, list(data).'
        )
    if isinstance(data, (list, tuple)) and data and "pyarrow.RecordBatch" in _kinds(data[0]):
        raise TypeError(
            f"a list of record batches ({len(data)}) is not a source of their rows. Pass one table "
            "of all, pyarrow.Table.from_batches(batches)."
        )


def _has_column(value: Any) -> bool:
    return any(map(_has_column, value.values())) if type(value) is dict else _is_column(value)


def _is_array_or_column(value: Any) -> bool:
    return isinstance(value, np.ndarray) or _is_column(value)


def _is_column(value: Any) -> bool:
    return bool(_kinds(value) & {*_COLUMNS, *_TABLES})


def _kinds(data: Any) -> set[str]:
    return {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(data).__mro__}


def _columns(table: Any) -> Mapping[Any, Any]:
    names = list(table.column_names) if hasattr(table, "column_names") else list(table.columns)
    twice = [name for number, name in enumerate(names) if name in names[:number]]
    if twice:
        raise ValueError(
            f"two columns of the table are called {short_repr(twice[0])}. Give each column its own "
            "name."
        )
    return {name: table[name] for name in names}


def _array(column: Any) -> Array:
    kinds = _kinds(column)
    if "pandas.Series" in kinds:
        return _of_pandas(column)
    if "pandas.MultiIndex" in kinds:
        return _objects(column.tolist())
    if kinds & {*_PANDAS_ARRAYS}:
        return _of_pandas(sys.modules["pandas"].Series(column))
    return _of_polars(column) if "polars.Series" in kinds else _of_arrow(column)


def _of_pandas(series: Any) -> Array:
    if isinstance(series.dtype, np.dtype) and not series.dtype.hasobject:
        return np.asarray(series.to_numpy())
    missing = series.isna().to_numpy()
    if not missing.any():
        array = np.asarray(series.to_numpy())
        return (
            array
            if isinstance(series.dtype, np.dtype) or not array.dtype.hasobject
            else _narrowed(array, series.dtype)
        )
    return _objects(
        [None if gone else value for value, gone in zip(series.tolist(), missing.tolist())]
    )


def _narrowed(array: Array, dtype: Any) -> Array:
    """Return values of an extension dtype, such as `Int64`, in its NumPy dtype, if there is one."""
    own = getattr(dtype, "numpy_dtype", None)
    return array.astype(own) if isinstance(own, np.dtype) and not own.hasobject else array


def _of_polars(series: Any) -> Array:
    if type(series.dtype).__name__ in ("Int128", "UInt128"):
        return _objects(series.to_list())
    has_zone = getattr(series.dtype, "time_zone", None) is not None
    if not series.null_count() and not series.dtype.is_nested() and not has_zone:
        array = np.asarray(series.to_numpy())
        return _objects(series.to_list()) if array.dtype.hasobject else array
    if not series.null_count() and type(series.dtype).__name__ == "Array":
        items = series
        while type(items.dtype).__name__ == "Array":
            items = items.explode()
        if items.dtype.is_numeric() and not items.null_count():
            array = np.asarray(series.to_numpy())
            return _objects(series.to_list()) if array.dtype.hasobject else array
    return _objects(series.to_list())


def _of_arrow(column: Any) -> Array:
    from ..arrow.columns import dense, plain

    chunks = [plain(chunk) for chunk in getattr(column, "chunks", [column])]
    arrays = [dense(chunk) for chunk in chunks]
    whole = [array for array in arrays if array is not None]
    if whole and len(whole) == len(arrays):
        return whole[0] if len(whole) == 1 else np.concatenate(whole)
    return _objects(column.to_pylist())


def _objects(values: list[Any]) -> Array:
    array = np.empty(len(values), object)
    # one by one: an assignment of lists would make a matrix of them
    for index, value in enumerate(values):
        array[index] = value
    return array
