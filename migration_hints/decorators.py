"""Decorators that add hints to the error for an argument that a function does not have."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

ClassT = TypeVar("ClassT", bound=type)
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def explains_arguments(kind: ClassT) -> ClassT:
    """Make public methods of a class raise a TypeError with a hint for unknown arguments.

    Class methods, methods with `**` parameters, and functions that were made by `functools.wraps`,
    are left out. Return the class.
    """
    methods = {
        name: method for base in reversed(kind.__mro__[:-1]) for name, method in vars(base).items()
    }
    for name, method in methods.items():
        if not name.startswith("_") and not (
            isinstance(method, FunctionType) and hasattr(method, "__wrapped__")
        ):
            explained = _explained(f"{kind.__name__.replace('Methods', 'Dataset')}.{name}", method)
            if explained is not None:
                setattr(kind, name, explained)
    return kind


def explains_init(kind: ClassT) -> ClassT:
    """Make the constructor of a class raise a TypeError with a hint for unknown arguments.

    Return the class.
    """
    setattr(kind, "__init__", explained_as(kind.__name__)(vars(kind)["__init__"]))  # noqa: B010 (mypy allows no assignment)
    return kind


def _explained(label: str, method: Any) -> Any:
    """Return a method that raises a TypeError with a hint for unknown arguments.

    The result is None for objects that are neither functions nor static methods, and for functions
    with `**` parameters.

    Args:
        label: name of the method in the error message.
        method: the method, a function or a static method.
    """
    if isinstance(method, staticmethod):
        explained = _explained(label, method.__func__)
        return explained and type(method)(explained)
    is_strict = (
        isinstance(method, FunctionType) and not method.__code__.co_flags & inspect.CO_VARKEYWORDS
    )
    return explained_as(label)(method) if is_strict else None


def explained_as(label: str) -> Callable[[FunctionT], FunctionT]:
    """Return a decorator: the function raises a TypeError with a hint for unknown arguments.

    Args:
        label: name of the function in the error message, such as "MapDataset.shuffle".
    """

    def explain(function: FunctionT) -> FunctionT:
        @functools.wraps(function)
        def explained(*arguments: Any, **named: Any) -> Any:
            for name in named:
                if name not in _names_of(function):
                    from .hints import unknown_argument

                    raise unknown_argument(label, name, _names_of(function))
            return function(*arguments, **named)

        return explained  # type: ignore[return-value]

    return explain


@functools.cache
def _names_of(function: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [
        each.name
        for each in parameters
        if each.kind is not each.POSITIONAL_ONLY and each.name != "self"
    ]
