"""Find the distinct values of an int array; quick if equal values are mostly neighbours."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray


def distinct(values: NDArray[Any]) -> list[int]:
    """Return the distinct values of a one-dimensional array as a list, in ascending order.

    >>> import numpy as np
    >>> distinct(np.array([3, 3, 1, 3]))
    [1, 3]
    """
    # `np.unique` imports `numpy.ma` on first use, which takes 20 to 60 ms: more than a whole first
    # plan.
    begins = values[1:] != values[:-1]
    return sorted({*values[:1].tolist(), *values[1:][begins].tolist()})
