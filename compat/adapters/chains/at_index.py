"""Operations that depend on indices: random maps, maps with an index, window window shuffles.

In: elements, or a stream of elements. Out: transformed elements, or a stream together with the
number of positions that each of its elements takes up (the batch size if the elements are batches,
else 1). An element's index, i.e. the number of elements before it, is its position divided by this
number. As in Grain, the index determines the generator of a random map and the order of a window.
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
from ....operations import (
    FlatMap,
    MapWithIndexTransform,
    Operation,
    RandomMapTransform,
    WindowShuffle,
)
from ....operations.protocol import Context, Step
from ....samplers.grain.grain_order import shuffled
from ..generators import OfDataset
from .orders import WORD


class Below(NamedTuple):
    """Position in the input of an operation, read from Grain's state of the operation.

    It is the result of the method `below(state)` of a `HasGrainState`.

    Attributes:
        state: Grain's state of the dataset below, from which the operation's input resumes.
        taken: number of input elements before that state; None if Grain's state does not have it.
        given: number of elements that the operation has made of its input since that state, and
            delivered.
    """

    state: Any
    taken: int | None = None
    given: int = 0


class HasGrainState:
    """Base of operations whose Grain iterators save a state apart from that of their input."""

    def below(self, state: dict[str, Any]) -> Below:
        """Return the position in the input of the operation, from Grain's state of the operation.

        Args:
            state: Grain's state of the operation.
        """
        raise NotImplementedError


class AtIndex(HasGrainState, Operation):
    """An operation that calls a user's function with the index of each element and the element.

    Args:
        transform: the user's transform.
        unit: number of positions per element: the batch size if the elements are batches, else 1.
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
        """Return the attributes that identify this operation.

        `unit` is left out, because the batch operation before has the batch size.
        """
        return {
            name: value for name, value in vars(self).items() if name not in ("unit", "generators")
        }

    def applied(self) -> Callable[[int, Any], Any]:
        """Return the function to call with the index of an element and the element."""
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
    """A random map: calls a function with each element and Grain's generator for its index.

    Args:
        transform: the user's transform.
        unit: number of positions per element: the batch size if the elements are batches, else 1.
        seed: an int, 0 or more.
    """

    def __init__(self, transform: RandomMapTransform, unit: int, seed: int) -> None:
        super().__init__(transform, unit)
        self.seed = seed
        self.generators = OfDataset(seed)

    def applied(self) -> Callable[[int, Any], Any]:
        function, at = self.transform.function, self.generators.at
        return lambda index, element: function(element, at(index))


class ShuffledWindows(HasGrainState, WindowShuffle):
    """A shuffle of windows of consecutive elements, in Grain's order for each window.

    Args:
        window_size: number of elements in a window.
        seed: an int; only its last 32 bits are used.
        unit: number of positions per element: the batch size if the elements are batches, else 1.
    """

    def __init__(self, window_size: int, seed: int, unit: int) -> None:
        super().__init__(window_size, seed % WORD)
        self.unit = unit

    def identity_parameters(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "unit"}

    def orders(self, number: int) -> Callable[[int, int, int, int], Sequence[int]]:
        """Return a function that returns the order in a window, as a list of the elements' indices.

        The function takes a count of elements, a seed, a position and a row; it uses the count and
        the position.

        Args:
            number: not used.
        """
        # The reverse of Grain's order, since Grain takes the elements of a window from its end.
        own, positions = self.seed or 0, self.unit * self.window_size

        def order(count: int, seed: int, position: int, row: int) -> list[int]:
            places: list[int] = shuffled(
                np.arange(count), count - 1, (own + position // positions) % WORD
            ).tolist()
            return places[::-1]

        return order

    def below(self, state: dict[str, Any]) -> Below:
        """Return where the window of this shuffle begins, and how much of it was delivered.

        Both are taken from Grain's `state`.

        If the state says that the window is finished, its window number is one too high, and is
        corrected.
        """
        given = state["pos_in_window"]
        number = state["window_index"] - (given == self.window_size)
        return Below(state["parent_window_start_state"], number * self.window_size, given)


class TakenApart(HasGrainState, FlatMap):
    """A flat map that resumes inside an element.

    The entry `told_as` of Grain's state counts the delivered results of the element.
    """

    def __init__(self, function: Any, told_as: str) -> None:
        super().__init__(function)
        self.told_as = told_as

    def below(self, state: dict[str, Any]) -> Below:
        return Below(state["parent"], given=state[self.told_as])


def expanded(parent: Any, function: Any, told_as: str) -> Stream:
    """Return a stream that counts the elements of `parent`, and then applies a `TakenApart`."""
    return applied(TakenApart(function, told_as), counted(parent.chain_stream)[0])


@dataclass(frozen=True)
class Indexed(Apply):
    """The top node of a `MapDataset`.

    The index in Grain's states counts the elements of this node.
    """


def counted(stream: Stream, one_to_one: bool = True) -> tuple[Stream, int]:
    """Return a stream whose elements have consecutive indices, and its positions per element.

    Element `i` of the stream begins at position `i * positions`. Where this is not so by itself,
    for example after a filter, a node that counts its rows is put on top, and positions are indices
    of rows.

    Args:
        stream: the elements.
        one_to_one: False if the operation that will be added next omits, adds or reorders elements.
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
    """Return the tree below a node that counts the rows of the tree, and does not change them."""
    return Joined((tree,), All())


def applied(operation: Operation, stream: Stream) -> Stream:
    """Add an operation to the end of a stream; return the new stream."""
    below = stream if operation.one_to_one else kept_apart(stream)
    return stream.on(Apply(below.tree, (operation,)), 1)


def kept_apart(stream: Stream) -> Stream:
    """Return a stream to which an operation can be added that omits, adds or reorders rows.

    If the last stage (operations that run in one task) contains an operation that has a state in
    Grain, a node that counts rows ends this stage: Grain's state counts the rows after that
    operation, but a stage counts the rows after all its operations.
    """
    _, operations = line_of(stream.tree)
    if not any(isinstance(each, HasGrainState) for each in runs_of(operations)[-1]):
        return stream
    return dataclasses.replace(stream, tree=counting(stream.tree))


def indexed(tree: Node) -> Node:
    """Return the tree with its top node marked as the end of a `MapDataset`."""
    return Indexed(tree.input, tree.operations) if isinstance(tree, Apply) else Indexed(tree, ())
