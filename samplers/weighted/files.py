"""Weights as a user gives them: numbers, or a file of numbers.

In: an array, a list, or the path of an .npy file. Out: `float64[n]`, checked.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.messages import short_repr
from ...common.validation import array_of

MOST_RECORDS = (1 << 32) - 1


def weights_of(weights: Any) -> NDArray[np.float64]:
    """Return weights as an array `float64[n]`, after checking them.

    Args:
        weights: one number for each record; or the path of an .npy file with these numbers, which
            is mapped into memory.

    Raises:
        TypeError: if the weights are not numbers.
        ValueError: if there are no weights, or 2^32 or more; if they are not one-dimensional; if
            one is NaN, infinite or negative, or all are 0; or if the file is not an .npy file.
        OSError: if the file cannot be read.
    """
    array = _from_file(weights) if isinstance(weights, (str, os.PathLike)) else _as_array(weights)
    if array.ndim != 1 or not 0 < len(array) <= MOST_RECORDS:
        raise ValueError(
            f"weights= has shape {array.shape}. Pass a list or a one-dimensional array with a "
            f"weight for each record, 1 to {MOST_RECORDS:,} weights."
        )
    numbers = np.ascontiguousarray(array, dtype=np.float64)
    wrong = np.flatnonzero(~(np.isfinite(numbers) & (numbers >= 0)))
    if len(wrong):
        raise ValueError(
            f"the weight of record {wrong[0]} is {numbers[wrong[0]]}. Pass finite numbers of at "
            "least 0, and 0 for a record that is never drawn."
        )
    if not numbers.any():
        raise ValueError(
            "all weights are 0, so nothing could be drawn. Give at least one record a weight above "
            "0."
        )
    return numbers


def _as_array(weights: Any) -> NDArray[Any]:
    array = array_of(weights)
    if array.dtype.kind not in "fiu":
        raise TypeError(
            f"weights={short_repr(weights)} has values of dtype {array.dtype}, not numbers. Pass "
            "one int or float for each record, or the path of an .npy file of them."
        )
    return array


def _from_file(path: str | os.PathLike[str]) -> NDArray[Any]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(
            f"weights={short_repr(os.fspath(path))} is not a complete .npy file of numbers. Save "
            "an array of numbers with np.save."
        ) from error
    return _as_array(array)
