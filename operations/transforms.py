"""Operations on single elements: map, random map, map with index, and filter.

The methods of datasets for them, and for the flat map, are here, too.

To use one, pass it a function, or subclass it and override its one method. If an exception passes
through a step, the step records the index of its operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..common.generators.keyed_random import KeyedGenerator
from ..common.messages import a_kind_of, short_repr
from .chain import ChainMethods, ChainT
from .function import FunctionOperation, as_kind
from .protocol import Context, DrawingFunction, Element, Operation, SeedFor, Step
from .several import fan_out_of

WORD = (1 << 64) - 1


class MapTransform(FunctionOperation):
    """Replace each element by `function(element)`; without a function, override `map`.

    TypeError if it is not callable.

    >>> MapTransform(lambda record: record * 2).map(21)
    42

    >>> class Scale(MapTransform):
    ...     def map(self, element):
    ...         return element / 255
    >>> Scale().map(51)
    0.2
    """

    method = "map"
    node_name = "Mapped"

    def map(self, element: Element, /) -> Element:
        """Return the element that replaces `element`."""
        return self._call(element)

    @property
    def plain_function(self) -> Callable[[Element], Any] | None:
        """The function, unless a subclass overrides `connect`; then None.

        TypeError if there is no function.
        """
        return self.function if type(self).connect is MapTransform.connect else None

    def connect(self, then: Step, context: Context, number: int) -> Step:
        function = self.function

        def map_step(element: Element) -> None:
            try:
                then(function(element))
            except Exception:
                context.blame(number)
                raise

        return map_step


class RandomMapTransform(FunctionOperation):
    """Replace each element by `function(element, rng)`, with a random generator.

    Without a function, override `random_map`.

    The random numbers depend only on the seed, the position of the record, the number of the
    operation, and the place of the element among those that a flat map made of the record. The
    sampler or the dataset must have a seed. Use the generator only during the call. TypeError if
    the function is not callable.

    >>> import numpy as np
    >>> noise = RandomMapTransform(lambda element, rng: element + rng.normal())
    >>> noise.random_map(1.0, np.random.default_rng(0))
    1.1257302210933933
    """

    method = "random_map"
    reads_position = True
    needs_seed = True

    def with_chain_seed(self, seed_for: SeedFor, number: int) -> KeyedRandomMap:
        """Return this map with its own seed, for a chain where its index is `number`.

        Raise SeedError if the chain has no seed.
        """
        return KeyedRandomMap(self, seed_for(self.method, None), number)

    def random_map(self, element: Element, rng: np.random.Generator, /) -> Element:
        """Return the element that replaces `element`.

        Draw random numbers from `rng`, and only during this call.
        """
        return self._call(element, rng)

    def drawing_function(self, context: Context, number: int) -> DrawingFunction | None:
        if type(self).connect is not RandomMapTransform.connect:
            return None
        generator_at = KeyedGenerator(number).at

        def generators(
            positions: NDArray[np.int64], seeds: NDArray[np.uint64] | None
        ) -> Iterator[np.random.Generator]:
            return map(
                generator_at,
                repeat(context.seed) if seeds is None else seeds.tolist(),
                positions.tolist(),
            )

        return self.function, generators

    def connect(self, then: Step, context: Context, number: int) -> Step:
        function = self.function
        generator_at = KeyedGenerator(number).at

        def random_map_step(element: Element) -> None:
            try:
                then(function(element, generator_at(context.seed, context.position, context.row)))
            except Exception:
                context.blame(number)
                raise

        return random_map_step


class KeyedRandomMap(Operation):
    """Random map that has its own seed and number.

    Its random numbers depend on (seed, position, row, number).

    Args:
        transform: the map.
        seed: in `[0, 2^64)`. None: the chain sets it.
        number: gives random maps with the same seed different random numbers.
    """

    node_name = "RandomMapped"
    reads_position = True

    def __init__(self, transform: RandomMapTransform, seed: int | None, number: int = 0) -> None:
        self.transform = transform
        self.seed = seed
        self.number = number

    def __repr__(self) -> str:
        return repr(self.transform)

    @property
    def user_function(self) -> Callable[..., Any]:
        """The function of the transform."""
        return self.transform.function

    def with_chain_seed(self, seed_for: SeedFor, number: int) -> KeyedRandomMap:
        """Return this map with a seed, for a chain where its index is `number`.

        Raise SeedError if neither map nor chain has one.
        """
        return KeyedRandomMap(self.transform, seed_for("random_map", self.seed), number)

    def drawing_function(self, context: Context, number: int) -> DrawingFunction | None:
        seed, generator_at = cast(int, self.seed), KeyedGenerator(self.number).at

        def generators(
            positions: NDArray[np.int64], seeds: NDArray[np.uint64] | None
        ) -> Iterator[np.random.Generator]:
            return map(generator_at, repeat(seed), positions.view(np.uint64).tolist())

        return self.transform.function, generators

    def connect(self, then: Step, context: Context, number: int) -> Step:
        function, seed = self.transform.function, cast(int, self.seed)
        generator_at = KeyedGenerator(self.number).at

        def keyed_random_map_step(element: Element) -> None:
            try:
                then(function(element, generator_at(seed, context.position & WORD, context.row)))
            except Exception:
                context.blame(number)
                raise

        return keyed_random_map_step


class MapWithIndexTransform(FunctionOperation):
    """Replace each element by `function(index, element)`.

    Without a function, override `map_with_index`.

    The index is the position of the record in the global order; for a batch, the position of its
    first record. TypeError if the function is not callable.

    >>> MapWithIndexTransform(lambda index, element: (index, element)).map_with_index(3, "a")
    (3, 'a')
    """

    method = "map_with_index"
    node_name = "IndexMapped"
    reads_position = True
    reads_index = True

    def map_with_index(self, index: int, element: Element, /) -> Element:
        """Return the element that replaces `element`, whose index is `index`."""
        return self._call(index, element)

    def connect(self, then: Step, context: Context, number: int) -> Step:
        function = self.function

        def map_with_index_step(element: Element) -> None:
            try:
                then(function(context.position, element))
            except Exception:
                context.blame(number)
                raise

        return map_with_index_step


class Filter(FunctionOperation):
    """Keep elements for which `function(element)` is true, drop others; or override `filter`.

    TypeError if not callable.

    >>> Filter(lambda element: element % 2 == 0).filter(3)
    False
    """

    method = "filter"
    node_name = "Filtered"
    one_to_one = False
    only_filters = True

    def filter(self, element: Element, /) -> bool:
        """Return True to keep `element`."""
        return bool(self._call(element))

    @property
    def plain_function(self) -> Callable[[Element], Any] | None:
        """The function, unless a subclass overrides `connect`; then None.

        TypeError if there is no function.
        """
        return self.function if type(self).connect is Filter.connect else None

    def connect(self, then: Step, context: Context, number: int) -> Step:
        function = self.function

        def filter_step(element: Element) -> None:
            try:
                if function(element):
                    then(element)
            except Exception:
                context.blame(number)
                raise

        return filter_step


class TransformMethods(ChainMethods[ChainT]):
    """Dataset methods for the operations of this module."""

    def map(self, transform: MapTransform | Callable[[Any], Any]) -> ChainT:
        """Apply a function, a `MapTransform`, or an object with a method `map` to each element.

        Raise TypeError for other objects.

        >>> from headrace import MapDataset
        >>> MapDataset.range(5).map(lambda x: x + 1)[2]
        3
        """
        return self.then(as_kind(MapTransform, transform))

    def random_map(
        self, transform: RandomMapTransform | Callable[..., Any], *, seed: int | None = None
    ) -> ChainT:
        """Apply a function of each element and a random generator.

        The random numbers depend only on the seed, the number of operations before, and the
        element's position; after a flat map, also on its place among the elements made of one
        record.

        Args:
            transform: a function `(element, rng)`, or a `RandomMapTransform`.
            seed: in `[0, 2^64)`. None (default): derived from an earlier call of `seed()`.

        Raises:
            SeedError, TypeError: there is no seed; `transform` is neither of these.

        >>> from headrace import MapDataset
        >>> noisy = MapDataset.range(5).random_map(lambda x, rng: x + rng.random(), seed=1)
        >>> noisy[2] == noisy[2], noisy[2] == noisy[7], list(noisy) == list(noisy.to_iter_dataset())
        (True, False, True)
        """
        return self.then(KeyedRandomMap(as_kind(RandomMapTransform, transform), seed))

    def map_with_index(
        self, transform: MapWithIndexTransform | Callable[[int, Any], Any]
    ) -> ChainT:
        """Apply a function of an index and the element.

        In a `MapDataset`, the index is the requested one. In a stream it is the index that the
        element had in the `MapDataset`, even if elements before it were dropped. For a batch, it is
        the index of its first record; for results of a flat map, the index of the record.

        `transform` is a function `(index, element)` or a `MapWithIndexTransform`; otherwise
        TypeError.

        >>> from headrace import MapDataset
        >>> MapDataset.range(5).map_with_index(lambda index, x: (index, x))[7]
        (7, 2)
        >>> odd = MapDataset.range(6).to_iter_dataset().filter(lambda x: x % 2)
        >>> list(odd.map_with_index(lambda index, x: (index, x)))
        [(1, 1), (3, 3), (5, 5)]
        """
        return self.then(as_kind(MapWithIndexTransform, transform))

    def filter(self, transform: Filter | Callable[[Any], bool]) -> ChainT:
        """Keep the elements for which a function, or a `Filter`, returns True.

        TypeError for other objects. A `MapDataset` keeps its length: an index whose element is
        dropped has None.

        >>> from headrace import MapDataset
        >>> dataset = MapDataset.range(5).filter(lambda x: x % 2)
        >>> len(dataset), dataset[2], list(dataset)
        (5, None, [1, 3])
        """
        return self.then(as_kind(Filter, transform))

    def flat_map(self, transform: Any, max_fan_out: int | None = None) -> ChainT:
        """Replace each element by the elements that a function returns for it.

        The function returns a list or another iterable.

        A `MapDataset` has `max_fan_out` indices for each element; unused ones have None.

        Args:
            transform: the function, or a `FlatMap`.
            max_fan_out: maximum number of elements for one; more are an error. None (default): the
                limit of `transform`, or no limit.

        Raises:
            TypeError, ValueError: a wrong type; or the dataset is a `MapDataset`, and there is no
                `max_fan_out`.

        >>> from headrace import MapDataset
        >>> dataset = MapDataset.source(["to be", "or"]).flat_map(str.split, max_fan_out=3)
        >>> len(dataset), dataset[1], dataset[2], list(dataset)
        (6, 'be', None, ['to', 'be', 'or'])
        """
        return self.then(fan_out_of(transform, max_fan_out))


def as_operation(operation: Any) -> Operation:
    """Return an operation unchanged, and any other callable as a `MapTransform`.

    TypeError if `operation` is neither, is the class of an operation, or is a transform without a
    function.
    """
    if isinstance(operation, Operation):
        if isinstance(operation, FunctionOperation):
            _ = operation.function  # raises when there is nothing to do
        return operation
    if isinstance(operation, type) and issubclass(operation, Operation):
        raise TypeError(
            f"an operation is the class {operation.__name__}. Pass an instance, "
            f"{operation.__name__}(…)."
        )
    if callable(operation):
        return MapTransform(operation)
    raise TypeError(
        f"an operation is {short_repr(operation)}, {a_kind_of(operation)}. Pass a function, which "
        "is used as a map, or an operation such as MapTransform, RandomMapTransform, Filter, "
        "FlatMap or Batch."
    )
