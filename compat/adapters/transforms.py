"""Grain's transforms: ours, which cannot be made without something to do.

In: subclasses of the user's, or functions. Out: operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, Union

from ...operations import Batch as Batch
from ...operations import Filter as OurFilter
from ...operations import FlatMap as OurFlatMap
from ...operations import MapTransform, MapWithIndexTransform, RandomMapTransform
from ...operations.transforms import as_operation

Function: TypeAlias = Callable[..., Any] | None


class Map(MapTransform):
    """One element in, one out: override `map`, or pass a function.

    Raises:
        TypeError: there is neither.

    >>> class AddOne(Map):
    ...     def map(self, element):
    ...         return element + 1
    >>> AddOne().map(1), Map(lambda element: element + 1).map(1)
    (2, 2)
    """

    def __init__(self, function: Function = None) -> None:
        super().__init__(function)
        as_operation(self)


class RandomMap(RandomMapTransform):
    """One element and a generator in, one element out: override `random_map`, or pass a function.

    Raises:
        TypeError: there is neither.
    """

    def __init__(self, function: Function = None) -> None:
        super().__init__(function)
        as_operation(self)


class MapWithIndex(MapWithIndexTransform):
    """An index and an element in, one element out: override `map_with_index`, or pass a function.

    Raises:
        TypeError: there is neither.
    """

    def __init__(self, function: Function = None) -> None:
        super().__init__(function)
        as_operation(self)


class Filter(OurFilter):
    """Keeps elements: override `filter`, or pass a function.

    Raises:
        TypeError: there is neither.
    """

    def __init__(self, function: Function = None) -> None:
        super().__init__(function)
        as_operation(self)


class FlatMap(OurFlatMap):
    """One element in, several out: override `flat_map` and `max_fan_out`, or pass a function.

    Raises:
        TypeError: there is neither.
    """

    def __init__(self, function: Function = None, max_fan_out: int | None = None) -> None:
        super().__init__(function, max_fan_out)
        as_operation(self)


Transformation: TypeAlias = Union[Batch, Map, RandomMap, Filter, FlatMap, MapWithIndex]  # noqa: UP007 - as Grain's, for get_args
Transformations: TypeAlias = Sequence[Transformation]
