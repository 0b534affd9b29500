"""Grain's transforms: ours, which cannot be made without something to do.

In: subclasses of the user's, or functions. Out: operations.
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
        """The method of this kind of Grain's transforms."""
        return self.method


def grain_method(operation: Any) -> str:
    """The method that tells of which kind of Grain's transforms an operation is; "" for others."""
    return str(getattr(operation, "grain_method", ""))


class Batch(OurBatch):
    """Consecutive elements as one. Lists are trees, as tuples are.

    Arguments as of `headrace.Batch`. A batch that never fills, with `drop_remainder`, leaves an empty stream.

    >>> from headrace.compat.grain import MapDataset
    >>> [[item.tolist() for item in batch] for batch in MapDataset.source([[1, 2], [3, 4]]).batch(2)]
    [[[1, 3], [2, 4]]]
    """

    lists_are_trees = True
    needs_one = False


class Map(_OfGrain, MapTransform):
    """One element in, one out: override `map`, or pass a function.

    Raises:
        TypeError: there is neither.

    >>> class AddOne(Map):
    ...     def map(self, element):
    ...         return element + 1
    >>> AddOne().map(1), Map(lambda element: element + 1).map(1)
    (2, 2)
    """


class RandomMap(_OfGrain, RandomMapTransform):
    """One element and a generator in, one element out: override `random_map`, or pass a function.

    Raises:
        TypeError: there is neither.
    """


class TfRandomMap(RandomMap, ABC):
    """The random map of TensorFlow's programs: override `np_random_map`."""

    @abstractmethod
    def np_random_map(self, element: Any, rng: Any) -> Any:
        """One element out."""

    def random_map(self, element: Any, rng: Any) -> Any:
        """The same."""
        return self.np_random_map(element, rng)


class MapWithIndex(_OfGrain, MapWithIndexTransform):
    """An index and an element in, one element out: override `map_with_index`, or pass a function.

    Raises:
        TypeError: there is neither.
    """


class Filter(_OfGrain, OurFilter):
    """Keeps elements: override `filter`, or pass a function.

    Raises:
        TypeError: there is neither.
    """


class FlatMap(_OfGrain, OurFlatMap):
    """One element in, several out: override `flat_map` and `max_fan_out`, or pass a function.

    Raises:
        TypeError: there is neither.
    """

    def __init__(self, function: Function = None, max_fan_out: int | None = None) -> None:
        OurFlatMap.__init__(self, function, max_fan_out)
        _ = self.function


Transformation: TypeAlias = Union[Batch, Map, RandomMap, Filter, FlatMap, MapWithIndex]  # noqa: UP007 - as Grain's, for get_args
Transformations: TypeAlias = Sequence[Transformation]


class DatasetSelectionMap(ABC):
    """Says which element of which dataset stands at an index of `MapDataset.select_from_datasets`; define both methods."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of elements in an epoch."""

    @abstractmethod
    def __getitem__(self, index: int) -> tuple[int, int]:
        """The number of the dataset, and the index in it; for indices past the end, too."""
