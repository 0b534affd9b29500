"""In: one value of a column, as Arrow holds it (`pyarrow.Scalar`). Out: the same value as `columns.py` gives it.

To convert one value takes a tenth of the time that it takes to convert its column. What it becomes must then depend on its type
alone. So lists are not among these: whether they are arrays depends on all lists of the column.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .columns import is_list, is_scalar

ValueOf = Callable[[Any], Any]


def value_of(kind: Any) -> ValueOf | None:
    """Makes the values of a `pyarrow.DataType` from its scalars; None where the whole column has a say."""
    import pyarrow as pa
    import pyarrow.types as kinds

    if is_list(kind) or kinds.is_dictionary(kind) or isinstance(kind, pa.BaseExtensionType):
        return None
    if not is_scalar(kind):
        return operator.methodcaller("as_py")
    dtype = pa.array([], kind).to_numpy(zero_copy_only=False).dtype
    if dtype.kind in "mM":
        return _time(dtype)
    return _narrow_float(dtype.type) if dtype.kind == "f" and dtype.itemsize < 8 else _number(dtype.type)


def _number(of: type) -> ValueOf:
    def made(scalar: Any) -> Any:
        value = scalar.as_py()
        return None if value is None else of(value)

    return made


def _narrow_float(of: type) -> ValueOf:
    """Python's floats, which are wider, do not keep all bits of what is no number."""
    import pyarrow as pa

    def made(scalar: Any) -> Any:
        value = scalar.as_py()
        if value == value:
            return None if value is None else of(value)
        return pa.repeat(scalar, 1).to_numpy()[0]

    return made


def _time(dtype: Any) -> ValueOf:
    def made(scalar: Any) -> Any:
        value = scalar.value
        return None if value is None else np.int64(value).view(dtype)

    return made
