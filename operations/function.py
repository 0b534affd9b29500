"""Operations that consist of one user function.

Functions, and objects of other libraries, are converted to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MethodType
from typing import Any, TypeVar

from ..common.messages import short_repr
from .protocol import Operation

METHODS = ("map", "random_map", "map_with_index", "filter", "flat_map")
"""Names of methods by which transforms of headrace and other libraries are recognised."""


class FunctionOperation(Operation):
    """Operation that calls one user function for each element.

    The function is passed to the constructor, or it is a method of a subclass; `method` is the name
    of that method.

    Args:
        function: the function. None (default): the method of the subclass.

    Raises:
        TypeError: `function` is not callable.
    """

    _function: Callable[..., Any] | None = None

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        if function is not None and not callable(function):
            raise TypeError(
                f"{type(self).__name__}({short_repr(function)}): the argument is not a function. "
                f"Pass a function, or define {self.method} in a subclass."
            )
        self._function = function

    @property
    def function(self) -> Callable[..., Any]:
        """Function that is called for each element.

        Raises:
            TypeError: no function was passed, and a subclass does not override the method.
        """
        own = getattr(self, self.method)
        plain = own.__func__ if isinstance(own, MethodType) else own
        overridden = plain is not getattr(_declaring(type(self)), self.method)
        function = own if overridden else self._function
        if function is None:
            name = type(self).__name__
            raise TypeError(
                f"{name}() has no function to call. Pass {name}(function), or define "
                f"{self.method}() in a subclass."
            )
        return function

    @property
    def user_function(self) -> Callable[..., Any]:
        """The user's function."""
        return self.function

    def _call(self, *arguments: Any) -> Any:
        if self._function is None:
            raise NotImplementedError(
                f"{type(self).__name__} does not define {self.method}(). Define this method in the "
                "class."
            )
        return self._function(*arguments)

    def __repr__(self) -> str:
        function = self._function
        name = (
            ""
            if function is None
            else getattr(function, "__qualname__", None) or short_repr(function)
        )
        return f"{type(self).__name__}({name})"


def _declaring(kind: type) -> type:
    """Return the first class among `kind` and its bases that sets the attribute `method`.

    An example is `MapTransform`.
    """
    return next(base for base in kind.__mro__ if "method" in vars(base))


KindT = TypeVar("KindT", bound=FunctionOperation)


def as_kind(kind: type[KindT], transform: Any) -> KindT:
    """Return a transform as an operation of class `kind`.

    Args:
        kind: class of the operation, such as `MapTransform`.
        transform: an operation of this class, which is returned unchanged; an object that has the
            method of this class, such as `map`; or a function.

    Raises:
        TypeError: `transform` is none of these, or an operation without a function.
    """
    if isinstance(transform, kind):
        _ = transform.function  # raises when there is nothing to do
        return transform
    is_class, method = is_transform_class(transform), getattr(transform, kind.method, None)
    if is_class and method is not None:
        raise TypeError(
            f"{kind.method}({transform.__name__}): the argument is a class of transforms. Pass an "
            f"instance, {transform.__name__}(…)."
        )
    function = transform if method is None or isinstance(transform, type) else method
    if isinstance(transform, Operation) or is_class or not callable(function):
        raise TypeError(
            f"{kind.method}({short_repr(transform)}): the argument is not a function. Pass a "
            f"function, a headrace.{kind.__name__}, or an object with {kind.method}()."
        )
    return kind(function)


def is_transform_class(transform: Any) -> bool:
    """Return True if `transform` is a class of transforms.

    It was then passed in place of an instance. Classes that are used as functions, such as `str` or
    datasets, give False.
    """
    if not isinstance(transform, type):
        return False
    made_of_many = issubclass(transform, Iterable)
    has_method = not made_of_many and any(hasattr(transform, method) for method in METHODS)
    return has_method or issubclass(transform, Operation)
