"""Grain's transforms, built on headrace's.

Unlike headrace's, they raise at once if there is no function to run.

In: a user's subclasses or functions. Out: operations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, Union

from ...operations import Batch as OurBatch
from ...operations import Filter as OurFilter
from ...operations import FlatMap as OurFlatMap
from ...operations import MapTransform, MapWithIndexTransform, RandomMapTransform
from ...operations.function import FunctionOperation

Function: TypeAlias = Callable[..., Any] | None


class _OfGrain(FunctionOperation):
    def __init__(self, function: Function = None) -> None:
        super().__init__(function)
        _ = self.function  # raises when there is nothing to do

    @property
    def grain_method(self) -> str:
        """Name of the method that a subclass of this transform overrides, for example "map"."""
        return self.method


def grain_method(operation: Any) -> str:
    """Return the method name ("map", "filter", …) of a Grain transform, "" for other operations."""
    return operation.grain_method if isinstance(operation, _OfGrain) else ""


class Batch(OurBatch):
    """Batches of consecutive elements. Lists are treated as trees, like tuples.

    With `drop_remainder`, a dataset too small for one batch gives an empty stream. Arguments and
    exceptions as for `headrace.Batch`.

    >>> from headrace.compat.grain import MapDataset
    >>> batches = MapDataset.source([[1, 2], [3, 4]]).batch(2)
    >>> [[item.tolist() for item in batch] for batch in batches]
    [[[1, 3], [2, 4]]]
    """

    lists_are_trees = True
    needs_one = False


class Map(_OfGrain, MapTransform):
    """Transform that makes one element of each element: override `map`, or pass a function.

    Raises:
        TypeError: if there is neither a function nor an overridden method.

    >>> class AddOne(Map):
    ...     def map(self, element):
    ...         return element + 1
    >>> AddOne().map(1), Map(lambda element: element + 1).map(1)
    (2, 2)
    """


class RandomMap(_OfGrain, RandomMapTransform):
    """Transform of an element and a random generator: override `random_map`, or pass a function.

    Raises:
        TypeError: if there is neither a function nor an overridden method.
    """


class TfRandomMap(RandomMap, ABC):
    """Random map for subclasses written for TensorFlow: override `np_random_map(element, rng)`."""

    @abstractmethod
    def np_random_map(self, element: Any, rng: Any) -> Any:
        """Return the element made of `element`, using the random generator `rng`."""

    def random_map(self, element: Any, rng: Any) -> Any:
        """Return `np_random_map(element, rng)`."""
        return self.np_random_map(element, rng)


class MapWithIndex(_OfGrain, MapWithIndexTransform):
    """Transform of an index and an element: override `map_with_index`, or pass a function.

    Raises:
        TypeError: if there is neither a function nor an overridden method.
    """


class Filter(_OfGrain, OurFilter):
    """Keep the elements for which a function returns True: override `filter`, or pass a function.

    Raises:
        TypeError: if there is neither a function nor an overridden method.
    """


class FlatMap(_OfGrain, OurFlatMap):
    """Make several elements of one: override `flat_map` and `max_fan_out`, or pass a function.

    Args:
        function: returns the elements made of one element; None if `flat_map` is overridden.
        max_fan_out: the largest number of elements made of one.

    Raises:
        TypeError: if there is neither a function nor an overridden method.
    """

    def __init__(self, function: Function = None, max_fan_out: int | None = None) -> None:
        OurFlatMap.__init__(self, function, max_fan_out)
        _ = self.function


Transformation: TypeAlias = Union[Batch, Map, RandomMap, Filter, FlatMap, MapWithIndex]  # noqa: UP007 - as Grain's, for get_args
Transformations: TypeAlias = Sequence[Transformation]


class DatasetSelectionMap(ABC):
    """Map from an index of `MapDataset.select_from_datasets` to a dataset and an index in it.

    A subclass defines both methods.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of elements in an epoch."""

    @abstractmethod
    def __getitem__(self, index: int) -> tuple[int, int]:
        """Return the index of the dataset and the index in it; `index` may be past the end."""
