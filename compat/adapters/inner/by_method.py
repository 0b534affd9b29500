"""Classes that make what a method of a dataset makes: nothing is an instance of them.

In: the dataset below, and arguments. Out: what its method gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..options import MultiprocessingOptions


class ByMethod:
    """Base of these classes."""

    method = ""

    def __new__(cls, parent: Any, *arguments: Any, **named: Any) -> Any:
        return getattr(parent, cls.method)(*arguments, **named)


def by_method(name: str, method: str) -> type[ByMethod]:
    """The class of a name.

    >>> from headrace.compat.grain import MapDataset
    >>> MapMapDataset = by_method("MapMapDataset", "map")
    >>> MapMapDataset(MapDataset.range(2), str)[1]
    '1'
    """
    return type(name, (ByMethod,), {"method": method, "__doc__": f"Makes `dataset.{method}(…)`."})


def multiprocess_prefetch(
    ds: Any, num_workers: int = 0, buffer_size: int = 1, worker_init_fn: Any = None, sequential_slice: bool = False
) -> Any:
    """Makes `dataset.mp_prefetch(…)`.

    >>> from headrace.compat.grain import MapDataset
    >>> list(multiprocess_prefetch(MapDataset.range(3).to_iter_dataset(), num_workers=1, buffer_size=2))
    [0, 1, 2]
    """
    return ds.mp_prefetch(MultiprocessingOptions(num_workers, buffer_size), worker_init_fn, sequential_slice)


class SharedMemoryArray:
    """Makes a plain array: batches come from workers in shared memory by themselves."""

    def __new__(cls, shape: Any, dtype: Any = float) -> Any:
        return np.zeros(shape, dtype)


@dataclass(frozen=True)
class SharedMemoryArrayMetadata:
    """An array in memory of a name; no element is one."""

    name: str
    shape: tuple[int, ...]
    dtype: Any
