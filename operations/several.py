"""Operations on several elements: shuffle within a window, zip, or make several from one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..common.generators.keyed_random import KeyedGenerator, child_row
from ..common.messages import short_repr
from ..common.validation import whole_number
from ..errors import FanOutError
from .chain import ChainMethods, ChainT
from .function import FunctionOperation, as_kind
from .protocol import Context, Element, Operation, SeedFor, Step


class WindowShuffle(Operation):
    """Shuffle elements within windows of consecutive elements. Windows stay in their order.

    Args:
        window_size: number of elements in a window, at least 1. The last window may have fewer.
        seed: seed of this shuffle, in `[0, 2^64)`. None (default): the seed of the sampler or the
            dataset.

    Raises:
        TypeError, ValueError: an argument is not an int, or is out of range.

    >>> from headrace import load
    >>> shuffled = [*load(range(8), transformations=[WindowShuffle(4, seed=1)], num_epochs=1)]
    >>> sorted(shuffled[:4]), sorted(shuffled[4:])
    ([0, 1, 2, 3], [4, 5, 6, 7])
    """

    keeps_elements = True
    one_to_one = False
    reads_position = True

    def __init__(self, window_size: int, seed: int | None = None) -> None:
        self.window_size = whole_number(
            "window_size", window_size, 1, None, "a positive number of elements"
        )
        self.seed = None if seed is None else whole_number("seed", seed, 0, (1 << 64) - 1, "an int")
        self.takes = self.window_size

    @property
    def needs_seed(self) -> bool:  # type: ignore[override]
        """True if the shuffle has no seed of its own."""
        return self.seed is None

    def with_chain_seed(self, seed_for: SeedFor, number: int) -> WindowShuffle:
        """Return a copy with its own seed, for use in a chain of datasets.

        Args:
            seed_for: function that returns the seed, from "window_shuffle" and this operation's
                seed or None.
            number: not used.

        Raises:
            SeedError: neither this shuffle nor the chain has a seed.
        """
        other = copy.copy(self)
        other.seed = seed_for("window_shuffle", self.seed)
        return other

    def __repr__(self) -> str:
        return f"WindowShuffle({self.window_size})"

    def orders(self, number: int) -> Callable[[int, int, int, int], Sequence[int]]:
        """Return a function that computes the order of a window.

        It takes the number of elements, and seed, position and row of the first element. It returns
        the order as indices.

        Args:
            number: index of the operation in the pipeline, a part of the key of its random numbers.
        """
        generator_at, own = KeyedGenerator(number).at, self.seed

        def order(count: int, seed: int, position: int, row: int) -> list[int]:
            places: list[int] = (
                generator_at(seed if own is None else own, position, row)
                .permutation(count)
                .tolist()
            )
            return places

        return order

    def connect(self, then: Step, context: Context, number: int) -> Step:
        order = self.orders(number)

        def push_window(window: Sequence[tuple[Any, ...]]) -> None:
            places = order(len(window), *window[0][:3])
            for place in (
                places if context.only is None else places[context.only : context.only + 1]
            ):
                context.seed, context.position, context.row, context.input, element = window[place]
                then(element)

        return in_groups(self.window_size, push_window, context, number, keeps_rest=True)


class WindowShuffleMethods(ChainMethods[ChainT]):
    """Method `window_shuffle` of a stream.

    A `MapDataset` has its own, which changes the order of indices.
    """

    def window_shuffle(self, window_size: int, seed: int | None = None) -> ChainT:
        """Shuffle elements within windows of consecutive elements. Windows stay in their order.

        Args:
            window_size: number of elements in a window, at least 1.
            seed: in `[0, 2^64)`. None (default): derived from an earlier call of `seed()`.

        Raises:
            SeedError: there is no seed.
            TypeError, ValueError: an argument is not an int, or is out of range.

        >>> from headrace import MapDataset
        >>> shuffled = list(MapDataset.range(6).to_iter_dataset().window_shuffle(3, seed=1))
        >>> sorted(shuffled[:3]), sorted(shuffled[3:])
        ([0, 1, 2], [3, 4, 5])
        """
        return self.then(WindowShuffle(window_size, seed))


class ZipRows(Operation):
    """Combine consecutive elements, from several datasets in turn, into one tuple or dict.

    At the end of the stream, fewer than `count` elements are dropped.

    Args:
        count: number of datasets.
        names: keys of the dict; empty (default): a tuple.
    """

    drops_remainder = True
    needs_one = False  # the shortest dataset may be empty
    puts_together = True

    def __init__(self, count: int, names: Sequence[str] = ()) -> None:
        self.takes = count
        self.names = tuple(names)

    @property
    def fingerprint(self) -> list[Any]:
        """Description of the operation in a checkpoint, as JSON values."""
        return ["Together", {"takes": self.takes, "names": list(self.names)}]

    def __repr__(self) -> str:
        return f"ZipRows({', '.join(self.names) or self.takes})"

    def connect(self, then: Step, context: Context, number: int) -> Step:
        def push_together(group: Sequence[tuple[Any, ...]]) -> None:
            context.seed, context.position, context.row = group[0][:3]
            elements = tuple(element for *_, element in group)
            then(dict(zip(self.names, elements)) if self.names else elements)

        assert self.takes is not None, "set when it was made"
        return in_groups(self.takes, push_together, context, number, keeps_rest=False)


def in_groups(
    size: int,
    push_group: Callable[[Sequence[tuple[Any, ...]]], None],
    context: Context,
    number: int,
    keeps_rest: bool,
) -> Step:
    """Return a step that collects `size` elements with their places, and then calls `push_group`.

    Args:
        size: number of elements in a group.
        push_group: function that takes a group: `(seed, position, row, input, element)` for each
            element.
        context: context of the chain of steps.
        number: index of the operation in the pipeline.
        keeps_rest: True: `push_group` also gets a last group of fewer elements. False: that group
            is dropped.
    """
    group: list[tuple[Any, ...]] = []

    def emit() -> None:
        gathered = group.copy()
        group.clear()
        try:
            push_group(gathered)
        except Exception:
            context.blame(number)
            raise

    def step(element: Element) -> None:
        group.append((context.seed, context.position, context.row, context.input, element))
        if len(group) == size:
            emit()

    def finish() -> None:
        if group and keeps_rest:
            emit()
        group.clear()

    context.at_end.append(finish)
    return step


class FlatMap(FunctionOperation):
    """Replace each element by the elements that a function returns for it: none, one or several.

    Args:
        function: function that takes an element and returns an iterable of elements. None
            (default): a subclass overrides `flat_map`.
        max_fan_out: maximum number of elements for one; more are an error. None (default): no
            limit. Subclasses may set it as an attribute.

    Raises:
        TypeError: `function` is not callable; or, while running, it returns None.
        ValueError: `max_fan_out` is negative.
        FanOutError: while running, if it returns more than `max_fan_out` elements.

    >>> list(FlatMap(lambda text: text.split()).flat_map("to be or not"))
    ['to', 'be', 'or', 'not']
    """

    method = "flat_map"
    node_name = "FlatMapped"
    one_to_one = False

    def __init__(
        self, function: Callable[..., Any] | None = None, max_fan_out: int | None = None
    ) -> None:
        super().__init__(function)
        if max_fan_out is not None:
            self.max_fan_out = whole_number(
                "max_fan_out", max_fan_out, 0, None, "an int, or None for no limit"
            )

    def flat_map(self, element: Element, /) -> Iterable[Element]:
        """Return the elements that replace `element`."""
        return self._call(element)  # type: ignore[no-any-return]

    def connect(self, then: Step, context: Context, number: int) -> Step:
        function, limit = self.function, self.max_fan_out

        def flat_map_step(element: Element) -> None:
            row = context.row
            try:
                children = function(element)
                if children is None:
                    raise TypeError(
                        f"{short_repr(self)} returned None for an element. Return a list, or [] to "
                        "drop the element."
                    )
                for index, child in enumerate(children):
                    if index == limit:
                        raise FanOutError(
                            f"{short_repr(self)} made more than max_fan_out={limit} elements from "
                            "one. Raise max_fan_out, or return fewer."
                        )
                    context.row = child_row(row, index)
                    then(child)
            except Exception:
                context.blame(number)
                raise
            context.row = row

        return flat_map_step


def fan_out_of(transform: Any, max_fan_out: int | None) -> FlatMap:
    """Return a flat map with the limit `max_fan_out`; if None, with the transform's own limit.

    `transform` is a function, a `FlatMap`, or an object with a method `flat_map`; otherwise
    TypeError.
    """
    if isinstance(transform, FlatMap) and max_fan_out is None:
        return as_kind(FlatMap, transform)
    limit = getattr(transform, "max_fan_out", None) if max_fan_out is None else max_fan_out
    return FlatMap(as_kind(FlatMap, transform).function, limit)
