"""Objects that say what to write, when they are asked for what they have not: a method, an element, the next element.

In: a name, or an operation of Python's. Out: an error with the remedy.
"""

from __future__ import annotations

from abc import ABCMeta
from typing import TYPE_CHECKING, Any, NoReturn


class NotHereError(TypeError, AttributeError):
    """An operation of Python's that an object does not have: a TypeError, as Python says, of which `hasattr` says False."""


class NotHere:
    """In place of a special method that an object does not have: says what to write.

    Args:
        message: of the error.
    """

    def __init__(self, message: str) -> None:
        self._message = message

    def __get__(self, instance: Any, kind: Any = None) -> NoReturn:
        raise NotHereError(self._message)


class RemarksOfClass(ABCMeta):
    """Metaclass: says where a missing name is, as the class's objects do."""

    if not TYPE_CHECKING:  # which is to find such names itself

        def __getattr__(cls, name: str) -> Any:
            raise AttributeError(_message(cls, name) or f"type object {cls.__name__!r} has no attribute {name!r}")


class Remarks(metaclass=RemarksOfClass):
    """Base of datasets and loaders: says what to write for a method of another library.

    Attributes:
        _asked_as: the kind of object in messages, and in the tables.
    """

    _asked_as = ""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if message := _message(type(self), name):
                raise AttributeError(message)
            return object.__getattribute__(self, name)  # raises what it raised before


def _message(own: Any, name: str) -> str:
    """The remark on a name that objects of a class do not have, or nothing."""
    if name.startswith("_"):
        return ""
    from .hints import methods_instead

    remedy = methods_instead(own._asked_as).get(name, "").replace("`", "")
    return f"{own._asked_as} has no {name}(); {remedy}." if remedy else ""
