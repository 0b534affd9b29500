"""Return elements of a dataset at one index or several; for a slice, return a dataset."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..common.messages import first_few
from .arguments import checked_index, indices_of, warn_of_exchange


def _elements_at(dataset: Any, indices: NDArray[np.int64]) -> list[Any]:
    """Return the elements at indices `int64[n]`.

    Warn if the dataset is a slice of a shuffled dataset, and an index is not in the first epoch:
    such a slice has other elements in each epoch.
    """
    if len(indices) and not 0 <= indices.min() <= indices.max() < len(dataset):
        warn_of_exchange(
            dataset.root_node, f"indices {first_few(indices.tolist())} of {len(dataset)} elements"
        )
    return list(dataset.root_node.records(indices))


def at_any_index(at: Callable[[Any, int], Any]) -> Callable[[Any, Any], Any]:
    """Extend a `__getitem__` that takes one int, so that it also takes slices and lists.

    For a slice, the new method returns a dataset; for a list of indices, a list of elements.

    Args:
        at: the `__getitem__` that takes one int.
    """

    @functools.wraps(at)
    def at_any_index(dataset: Any, index: Any) -> Any:
        if type(index) is int:
            return at(dataset, checked_index(index))
        if isinstance(index, slice):
            return dataset.slice(index)
        if isinstance(index, (list, tuple, range, np.ndarray)):
            return _elements_at(dataset, indices_of(index, len(dataset)))
        return at(dataset, checked_index(operator.index(index)))

    return at_any_index
