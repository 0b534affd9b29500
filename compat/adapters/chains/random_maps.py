"""Operations that depend on the index of an element: random maps with Grain's generators, and maps with an index.

In: elements. Out: elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ....datasets.nodes.items import Applied
from ....datasets.nodes.line import Line
from ....datasets.nodes.node import Get
from ....operations import MapWithIndexTransform, Operation, RandomMapTransform
from ....operations.protocol import Context, Step
from ....samplers.index_maps import Indices
from ..generators import OfDataset


class AtIndex(Operation):
    """A function of the index of each element, and the element.

    Args:
        transform: that the user passed.
        unit: positions of an element: the size of batches before it, or 1.
    """

    reads_position = True

    def __init__(self, transform: MapWithIndexTransform | RandomMapTransform, unit: int) -> None:
        self.transform = transform
        self.unit = unit

    def __repr__(self) -> str:
        return repr(self.transform)

    def identity_parameters(self) -> dict[str, Any]:
        """As the base says; the number of positions is that of a batch, which tells itself."""
        return {name: value for name, value in vars(self).items() if name not in ("unit", "generators")}

    def applied(self) -> Callable[[int, Any], Any]:
        """The function."""
        return self.transform.function

    def connect(self, then: Step, context: Context, number: int) -> Step:
        function, unit = self.applied(), self.unit

        def at_index_step(element: Any) -> None:
            try:
                then(function(context.position // unit, element))
            except Exception:
                context.blame(number)
                raise

        return at_index_step


class RandomAtIndex(AtIndex):
    """A function of each element and Grain's generator of its index.

    Args:
        transform: that the user passed.
        unit: as of `AtIndex`.
        seed: any number that is not negative.
    """

    def __init__(self, transform: RandomMapTransform, unit: int, seed: int) -> None:
        super().__init__(transform, unit)
        self.seed = seed
        self.generators = OfDataset(seed)

    def applied(self) -> Callable[[int, Any], Any]:
        """As the base says."""
        function, at = self.transform.function, self.generators.at
        return lambda index, element: function(element, at(index))


@dataclass(frozen=True, eq=False)
class RandomMapped(Applied):
    """A function of each element and Grain's generator of its index."""

    operation: RandomAtIndex

    def records(self, indices: Indices) -> Sequence[Any]:
        """As the base says."""
        function, elements = self.operation.applied(), self.input.records(indices)
        return [
            None if element is None else function(index, element) for index, element in zip(indices.tolist(), elements)
        ]

    def getter(self) -> Get:
        """As the base says."""
        get, function = self.input.getter(), self.operation.applied()

        def mapped(index: int) -> Any:
            element = get(index)
            return None if element is None else function(index, element)

        return mapped

    @property
    def line(self) -> Line:
        """As the base says; after a batch or a flat map, a position is no index."""
        below = self.input.line
        return below.then(self.operation, self.moves_freely) if below.keeps_positions else self.evaluated
