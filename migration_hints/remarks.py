"""Objects whose errors say what to write in place of a missing method, item or `next`."""

from __future__ import annotations

from abc import ABCMeta
from typing import TYPE_CHECKING, Any, NoReturn


class NotHereError(TypeError, AttributeError):
    """Error for a missing operator or special method.

    It is a TypeError, as Python raises, and an AttributeError, so that `hasattr` returns False.
    """


class NotHere:
    """Attribute in place of a special method that an object lacks.

    Reading it raises `NotHereError`, with a hint.

    Args:
        message: text of the error.
    """

    def __init__(self, message: str) -> None:
        self._message = message

    def __get__(self, instance: Any, kind: Any = None) -> NoReturn:
        raise NotHereError(self._message)


class RemarksOfClass(ABCMeta):
    """Metaclass that raises AttributeError with a hint for a missing attribute of a class."""

    if not TYPE_CHECKING:  # which is to find such names itself

        def __getattr__(cls, name: str) -> Any:
            raise AttributeError(
                _message(cls, name) or f"type object {cls.__name__!r} has no attribute {name!r}"
            )


class Remarks(metaclass=RemarksOfClass):
    """Base of datasets, loaders and samplers: names of other libraries raise an error with a hint.

    The error is an AttributeError.

    Attributes:
        _asked_as: name of the kind of object in messages and in `hints.json`.
    """

    _asked_as = ""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if message := _message(type(self), name):
                raise AttributeError(message)
            return object.__getattribute__(self, name)  # raises what it raised before


def _message(own: Any, name: str) -> str:
    """Return the hint for an attribute that objects of a class lack, or "" for no hint.

    Args:
        own: the class.
        name: name of the attribute.
    """
    if name.startswith("_"):
        return ""
    from .hints import methods_instead

    remedy = methods_instead(own._asked_as).get(name, "").replace("`", "")
    return f"{own._asked_as} has no {name}(); {remedy}." if remedy else ""
