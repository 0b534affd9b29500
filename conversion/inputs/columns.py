"""Columns of Parquet for records that come from arrays. In: an array, or several by name. Out: an Arrow schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..outputs.arrow_values import pyarrow
from ..outputs.parquet import VALUE


def schema_of_columns(columns: Any) -> Any:
    """The types of columns that are arrays whose first axis counts records; further axes are lists of a fixed size.

    Args:
        columns: an array, which becomes the column `value`, or a dict of arrays.

    Returns:
        An Arrow schema; None for anything else, and if Arrow does not know a dtype.

    >>> print(schema_of_columns(np.zeros((5, 2, 3), np.float32)))
    value: fixed_size_list<item: fixed_size_list<item: float>[3]>[2]
      child 0, item: fixed_size_list<item: float>[3]
          child 0, item: float
    """
    named = columns if isinstance(columns, Mapping) else {VALUE: columns}
    if not all(isinstance(name, str) and isinstance(array, np.ndarray) for name, array in named.items()):
        return None
    try:
        return pyarrow().schema([(name, _type(array)) for name, array in named.items()])
    except pyarrow().ArrowException:
        return None


def _type(array: Any) -> Any:
    kind = pyarrow().from_numpy_dtype(array.dtype)
    for size in reversed(array.shape[1:]):
        kind = pyarrow().list_(kind, size or -1)  # of no fixed size: Arrow does not read back lists of size 0
    return kind
