"""Operations that depend on the index of an element: random maps with Grain's generators, maps with an index, and windows.

In: elements, or a stream. Out: elements; the stream, with the number of positions that an element has: Grain's orders and
generators depend on how many came before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ....chains.stream import Stream
from ....loader.plan.compile import compiled, line_of
from ....loader.plan.joins import Apply, Joined, Node
from ....loader.plan.rules import All
from ....loader.plan.stages import runs_of, unit_of
from ....operations import MapWithIndexTransform, Operation, RandomMapTransform, WindowShuffle
from ....operations.protocol import Context, Step
from ....samplers.grain_order import shuffled
from ..generators import OfDataset
from .orders import WORD


class Below(NamedTuple):
    """The part of Grain's state of an operation that describes the elements that come to it.

    The method `below` of an operation gives it, if its iterators have states of their own in Grain.
    """

    state: Any  # of the dataset below, from which these elements begin
    taken: int | None = None  # how many came before these; None: that is not told
    given: int = 0  # how many elements that are made of these were delivered


class AtIndex(Operation):
    """A function of the index of each element, and the element.

    Args:
        transform: that the user passed.
        unit: positions of an element: the size of batches before it, or 1.
    """

    node_name = "RandomMapped"
    reads_position = True
    reads_index = True

    def __init__(self, transform: MapWithIndexTransform | RandomMapTransform, unit: int) -> None:
        self.transform = transform
        self.unit = unit

    def __repr__(self) -> str:
        return repr(self.transform)

    def identity_parameters(self) -> dict[str, Any]:
        """Without the number of positions, which is the batch's own."""
        return {name: value for name, value in vars(self).items() if name not in ("unit", "generators")}

    def applied(self) -> Callable[[int, Any], Any]:
        """The function."""
        return self.transform.function

    def below(self, state: dict[str, Any]) -> Below:
        counts = [state[name] for name in ("index_for_rng", "counter") if name in state]
        return Below(state["parent"], *counts)

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
    """A function of each element and Grain's generator of its index."""

    def __init__(self, transform: RandomMapTransform, unit: int, seed: int) -> None:
        super().__init__(transform, unit)
        self.seed = seed
        self.generators = OfDataset(seed)

    def applied(self) -> Callable[[int, Any], Any]:
        function, at = self.transform.function, self.generators.at
        return lambda index, element: function(element, at(index))


class ShuffledWindows(WindowShuffle):
    """Windows of consecutive elements, each in Grain's order of its number."""

    def __init__(self, window_size: int, seed: int, unit: int) -> None:
        super().__init__(window_size, seed % WORD)
        self.unit = unit

    def identity_parameters(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "unit"}

    def orders(self, number: int) -> Callable[[int, int, int, int], Sequence[int]]:
        """Grain takes them from the end."""
        own, positions = self.seed or 0, self.unit * self.window_size

        def order(count: int, seed: int, position: int, row: int) -> list[int]:
            places: list[int] = shuffled(np.arange(count), count - 1, (own + position // positions) % WORD).tolist()
            return places[::-1]

        return order

    def below(self, state: dict[str, Any]) -> Below:
        """A finished window counts as the next one."""
        given = state["pos_in_window"]
        number = state["window_index"] - (given == self.window_size)
        return Below(state["parent_window_start_state"], number * self.window_size, given)


@dataclass(frozen=True)
class Indexed(Apply):
    """The upper end of a `MapDataset`: what comes out of it has the indices that Grain's states tell."""


def counted(stream: Stream, one_to_one: bool = True) -> tuple[Stream, int]:
    """A stream, of which element i stands at the positions from i times the number that is given.

    Where something is left out or added, a join of one counts what arrives: its rows have numbers.

    Args:
        stream: the elements.
        one_to_one: as of the operation that comes next, see `applied`.
    """
    if not one_to_one:
        stream = kept_apart(stream)
    base, operations = line_of(stream.tree)
    shards = compiled(stream.tree).shard.shard_count
    by_position = isinstance(base, Joined) or (not base.leaf.in_order and shards == 1)
    if by_position and all(each.one_to_one for each in operations) and not stream.skips_errors:
        return stream, unit_of(operations) * (shards if isinstance(base, Joined) else 1)
    return dataclasses.replace(stream, tree=counting(stream.tree)), shards


def counting(tree: Node) -> Node:
    """The same rows, which are counted."""
    return Joined((tree,), All())


def applied(operation: Operation, stream: Stream) -> Stream:
    """Apply an operation to a stream."""
    below = stream if operation.one_to_one else kept_apart(stream)
    return stream.on(Apply(below.tree, (operation,)), 1)


def kept_apart(stream: Stream) -> Stream:
    """A stream for an operation that leaves out, adds or moves rows: it keeps apart from what has a state in Grain.

    That state counts the rows that come out of it, and a stage those that come out of all its operations.
    """
    _, operations = line_of(stream.tree)
    if not any(hasattr(each, "below") for each in runs_of(operations)[-1]):
        return stream
    return dataclasses.replace(stream, tree=counting(stream.tree))


def indexed(tree: Node) -> Node:
    """The tree of a `MapDataset`, marked as such."""
    return Indexed(tree.input, tree.operations) if isinstance(tree, Apply) else Indexed(tree, ())
