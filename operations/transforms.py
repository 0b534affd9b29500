"""Operations on single elements: map, random map, map with index, filter, flat map.

In: elements (trees of arrays and scalars). Out: elements. Each is used by subclassing it and overriding its one method, or
by passing it a function.

Every step says its operation's number when an exception passes through it: that costs nothing until one does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np

from ..common.keyed_random import KeyedGenerator, child_row
from ..common.messages import a_kind_of, short_repr
from ..common.validation import whole_number
from ..errors import FanOutError
from .protocol import Context, Element, Operation, Step


class FunctionOperation(Operation):
    """An operation that is one function: passed to it, or a method of a subclass named by `method`."""

    method: ClassVar[str]
    _function: Callable[..., Any] | None = None

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        if function is not None and not callable(function):
            raise TypeError(
                f"{type(self).__name__}({short_repr(function)}): pass a function, or subclass and define {self.method}."
            )
        self._function = function

    @property
    def function(self) -> Callable[..., Any]:
        """The function that works on one element."""
        own = getattr(self, self.method)
        overridden = getattr(own, "__func__", own) is not getattr(_base_of(type(self)), self.method)
        function = own if overridden else self._function
        if function is None:
            name = type(self).__name__
            raise TypeError(
                f"{name} has nothing to do: override {self.method}() in a subclass or pass {name}(function)."
            )
        return function

    def _call(self, *arguments: Any) -> Any:
        if self._function is None:
            raise NotImplementedError(f"override {self.method}() in {type(self).__name__}.")
        return self._function(*arguments)

    def __repr__(self) -> str:
        function = self._function
        name = "" if function is None else getattr(function, "__qualname__", None) or short_repr(function)
        return f"{type(self).__name__}({name})"


def _base_of(kind: type) -> type:
    """The class of this module that `kind` is made from."""
    return next(base for base in kind.__mro__ if base.__module__ == __name__)


class MapTransform(FunctionOperation):
    """One element in, one out.

    >>> MapTransform(lambda record: record * 2).map(21)
    42

    >>> class Scale(MapTransform):
    ...     def map(self, element):
    ...         return element / 255
    >>> Scale().map(51)
    0.2
    """

    method = "map"

    def map(self, element: Element) -> Element:
        """The element that takes the place of `element`."""
        return self._call(element)

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
    """One element in, one out, with random numbers that depend on (seed, position, operation) only.

    The sampler must have a seed. The generator is valid during the call: draw from it, do not keep it.

    >>> import numpy as np
    >>> noise = RandomMapTransform(lambda element, rng: element + rng.normal())
    >>> noise.random_map(1.0, np.random.default_rng(0))
    1.1257302210933933
    """

    method = "random_map"
    reads_position = True
    needs_seed = True

    def random_map(self, element: Element, rng: np.random.Generator) -> Element:
        """The element that takes the place of `element`."""
        return self._call(element, rng)

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


class MapWithIndexTransform(FunctionOperation):
    """One element in, one out, with its position in the global order (of a batch: that of its first record).

    >>> MapWithIndexTransform(lambda index, element: (index, element)).map_with_index(3, "a")
    (3, 'a')
    """

    method = "map_with_index"
    reads_position = True

    def map_with_index(self, index: int, element: Element) -> Element:
        """The element that takes the place of `element`."""
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
    """Keeps the elements for which the function is true.

    >>> Filter(lambda element: element % 2 == 0).filter(3)
    False
    """

    method = "filter"
    one_to_one = False

    def filter(self, element: Element) -> bool:
        """Whether to keep `element`."""
        return bool(self._call(element))

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


class FlatMap(FunctionOperation):
    """One element in, none, one or several out.

    Args:
        function: gives an iterable of elements.
        max_fan_out: most elements that one may become; more are an error. None (default): no limit. Subclasses may set
            it as an attribute.

    >>> list(FlatMap(lambda text: text.split()).flat_map("to be or not"))
    ['to', 'be', 'or', 'not']
    """

    method = "flat_map"
    one_to_one = False
    max_fan_out: int | None = None

    def __init__(self, function: Callable[..., Any] | None = None, max_fan_out: int | None = None) -> None:
        super().__init__(function)
        if max_fan_out is not None:
            self.max_fan_out = whole_number("max_fan_out", max_fan_out, 0, None, "an int, or None for no limit")

    def flat_map(self, element: Element) -> Iterable[Element]:
        """The elements that take the place of `element`."""
        return self._call(element)  # type: ignore[no-any-return]

    def connect(self, then: Step, context: Context, number: int) -> Step:
        function, limit = self.function, self.max_fan_out

        def flat_map_step(element: Element) -> None:
            row = context.row
            try:
                children = function(element)
                if children is None:
                    raise TypeError(
                        f"{short_repr(self)} gave None for an element; return a list, [] to drop the element."
                    )
                for index, child in enumerate(children):
                    if index == limit:
                        raise FanOutError(
                            f"{short_repr(self)} made more than max_fan_out={limit} elements of one; raise it or return fewer."
                        )
                    context.row = child_row(row, index)
                    then(child)
            except Exception:
                context.blame(number)
                raise
            context.row = row

        return flat_map_step


def as_operation(operation: Any) -> Operation:
    """An operation as it is; any other callable becomes a map.

    Raises:
        TypeError: neither, or an operation's class where an instance is meant.
    """
    if isinstance(operation, Operation):
        if isinstance(operation, FunctionOperation):
            _ = operation.function  # raises when there is nothing to do
        return operation
    if isinstance(operation, type) and issubclass(operation, Operation):
        raise TypeError(f"operations has the class {operation.__name__}; pass an instance, {operation.__name__}(…).")
    if callable(operation):
        return MapTransform(operation)
    raise TypeError(
        f"operations has {short_repr(operation)}, {a_kind_of(operation)}; pass a function (a map), or one of MapTransform, "
        "RandomMapTransform, MapWithIndexTransform, Filter, FlatMap, Batch."
    )
