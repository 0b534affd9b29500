"""How long the arrays of records are, without a look at what is in them.

In: records, or columns of them. Out: lengths, for packing to be planned before anything is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..common.fields import fields_of


def lengths_of(records: Sequence[Any]) -> Any:
    """`int64[records]`, the lengths of arrays; of dicts a dict with such an array for each leaf that is one. None if none is.

    Named tuples and dataclasses are as dicts.

    >>> lengths_of([{"x": np.zeros(3), "id": 7}, {"x": np.zeros(5), "id": 8}])
    {'x': array([3, 5])}
    """
    first = records[0]
    if fields_of(first) is not None:
        return lengths_of([fields_of(record) for record in records])
    if isinstance(first, dict):
        return _by_key({key: _leaf(records, key) for key in first})
    if not isinstance(first, np.ndarray) or not all(isinstance(one, np.ndarray) and one.ndim for one in records):
        return None
    return np.fromiter(map(len, records), np.int64, len(records))


def _leaf(records: Sequence[Any], key: Any) -> Any:
    try:
        return lengths_of([record[key] for record in records])
    except (KeyError, TypeError, IndexError):  # not all records have it
        return None


def lengths_of_columns(columns: Any) -> Any:
    """The same, of a tree of arrays whose first axis counts records.

    >>> lengths_of_columns({"x": np.zeros((2, 3)), "id": np.zeros(2)})
    {'x': array([3, 3])}
    """
    if isinstance(columns, dict):
        return _by_key({key: lengths_of_columns(column) for key, column in columns.items()})
    if not isinstance(columns, np.ndarray) or columns.ndim < 2:
        return None
    return np.full(len(columns), columns.shape[1], np.int64)


def _by_key(lengths: dict[Any, Any]) -> dict[Any, Any] | None:
    return {key: length for key, length in lengths.items() if length is not None} or None
