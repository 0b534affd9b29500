"""The distinct values of an array of whole numbers that mostly stand in runs. In: an array. Out: a list."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray


def distinct(values: NDArray[Any]) -> list[int]:
    """The values that occur, in order.

    `np.unique` imports `numpy.ma` when it is first called, which takes 20 to 60 ms: more than all else of a first plan.

    >>> import numpy as np
    >>> distinct(np.array([3, 3, 1, 3]))
    [1, 3]
    """
    begins = values[1:] != values[:-1]
    return sorted({*values[:1].tolist(), *values[1:][begins].tolist()})
