"""Grain's classes for which headrace has a dataset method: calling the class calls the method.

In: a dataset and arguments. Out: the dataset that the method returns. It is not an instance of the
class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..chains.map_dataset import MapDataset
from ..options import MultiprocessingOptions


class ByMethod:
    """Base of the classes: calling one calls the dataset method named by `method`."""

    method = ""

    def __new__(cls, parent: Any, *arguments: Any, **named: Any) -> Any:
        return getattr(parent, cls.method)(*arguments, **named)


class Batched(ByMethod):
    """`Batched(dataset, …)` returns `dataset.batch(…)`."""

    def __new__(
        cls, parent: Any, batch_size: int, drop_remainder: bool = False, batch_fn: Any = None
    ) -> Any:
        return parent.batch(batch_size, drop_remainder=drop_remainder, batch_fn=batch_fn)


class Sliced(ByMethod):
    """Calling it calls `dataset.slice(…)` of the dataset passed first.

    ValueError if `sl` is not a slice.
    """

    def __new__(cls, parent: Any, sl: slice) -> Any:
        if not isinstance(sl, slice):
            raise ValueError(
                f"sl is not a slice: {type(sl)}. Pass a slice, such as slice(0, 10). For a list of "
                "indices, write dataset[[3, 1, 4]]."
            )
        return parent.slice(sl)


def by_method(name: str, method: str) -> type[ByMethod]:
    """Make a class that calls the method `method` of the dataset passed to it.

    >>> from headrace.compat.grain import MapDataset
    >>> MapMapDataset = by_method("MapMapDataset", "map")
    >>> MapMapDataset(MapDataset.range(2), str)[1]
    '1'
    """
    return type(name, (ByMethod,), {"method": method, "__doc__": f"Makes `dataset.{method}(…)`."})


def multiprocess_prefetch(
    ds: Any,
    num_workers: int = 0,
    buffer_size: int = 1,
    worker_init_fn: Any = None,
    sequential_slice: bool = False,
) -> Any:
    """Call `dataset.mp_prefetch(…)`.

    Args:
        ds: the dataset.
        num_workers: number of worker processes; 0 (default) for none.
        buffer_size: number of finished elements that each worker keeps ready.
        worker_init_fn: function `(index, count)` that is called in each worker first.
        sequential_slice: no effect.

    >>> from headrace.compat.grain import MapDataset
    >>> stream = MapDataset.range(3).to_iter_dataset()
    >>> list(multiprocess_prefetch(stream, num_workers=1, buffer_size=2))
    [0, 1, 2]
    """
    return ds.mp_prefetch(
        MultiprocessingOptions(num_workers, buffer_size), worker_init_fn, sequential_slice
    )


@dataclass(frozen=True)
class _Begins:
    """A worker init function that ignores its arguments and calls a function without any.

    Attributes:
        function: the function.
    """

    function: Any

    def __call__(self, index: int, count: int) -> None:
        self.function()


def process_prefetch(parent: Any, buffer_size: int, worker_init_fn: Any = None) -> Any:
    """Call `dataset.mp_prefetch(…)` with one worker.

    Args:
        parent: the dataset.
        buffer_size: number of finished elements that the worker keeps ready.
        worker_init_fn: function without arguments that is called in the worker first.

    Raises:
        ValueError: if `buffer_size` is not positive.

    >>> from headrace.compat.grain import MapDataset
    >>> list(process_prefetch(MapDataset.range(3).to_iter_dataset(), buffer_size=2))
    [0, 1, 2]
    """
    if buffer_size <= 0:
        raise ValueError(
            f"`buffer_size` must be greater than 0, but it is {buffer_size}. Pass 1 or more."
        )
    return multiprocess_prefetch(
        parent, 1, buffer_size, None if worker_init_fn is None else _Begins(worker_init_fn)
    )


def mixed_map_dataset(
    parents: Sequence[Any], proportions: Sequence[float] | None = None, selection_map: Any = None
) -> Any:
    """Call `MapDataset.mix`, or `MapDataset.select_from_datasets` if `selection_map` is given.

    Args:
        parents: the datasets.
        proportions: a positive number for each dataset; None (default): all equal.
        selection_map: returns, for an index, `(index of the dataset, index in it)`.

    Raises:
        ValueError: if both `proportions` and `selection_map` are given.

    >>> parents = [MapDataset.range(2), MapDataset.range(5, 7)]
    >>> list(mixed_map_dataset(parents=parents, proportions=[1, 1]))
    [0, 5, 1, 6]
    """
    if selection_map is None:
        return MapDataset.mix(parents, proportions)
    if proportions is not None:
        raise ValueError("Cannot set both proportions and selection_map. Leave one of them out.")
    return MapDataset.select_from_datasets(parents, selection_map)


class SharedMemoryArray:
    """Calling this returns a plain NumPy array of zeros.

    Batches from workers arrive in shared memory anyway.
    """

    def __new__(cls, shape: Any, dtype: Any = float) -> Any:
        return np.zeros(shape, dtype)


@dataclass(frozen=True)
class SharedMemoryArrayMetadata:
    """Description of an array in a named shared memory block.

    It exists for type checks; no element is of this class.

    Attributes:
        name: name of the memory block.
        shape: shape of the array.
        dtype: dtype of the array.
    """

    name: str
    shape: tuple[int, ...]
    dtype: Any
