"""Objects that explain what to write when a missing method, item or `next` is used."""

from __future__ import annotations

from abc import ABCMeta
from typing import TYPE_CHECKING, Any, NoReturn


class NotHereError(TypeError, AttributeError):
    """Missing operation of Python: a TypeError, as Python raises, that also makes `hasattr` return False."""


class NotHere:
    """Replacement of a special method that an object does not have. It explains what to write.

    Args:
        message: text of the error.
    """

    def __init__(self, message: str) -> None:
        self._message = message

    def __get__(self, instance: Any, kind: Any = None) -> NoReturn:
        raise NotHereError(self._message)


class RemarksOfClass(ABCMeta):
    """Metaclass that explains missing class attributes, as the objects of the class do."""

    if not TYPE_CHECKING:  # which is to find such names itself

        def __getattr__(cls, name: str) -> Any:
            raise AttributeError(_message(cls, name) or f"type object {cls.__name__!r} has no attribute {name!r}")


class Remarks(metaclass=RemarksOfClass):
    """Base of datasets and loaders that explains what to write for a method of another library.

    Attributes:
        _asked_as: name of the kind of object in messages and in the tables.
    """

    _asked_as = ""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if message := _message(type(self), name):
                raise AttributeError(message)
            return object.__getattribute__(self, name)  # raises what it raised before


def _message(own: Any, name: str) -> str:
    """Return the hint for a name that objects of a class do not have, or ""."""
    if name.startswith("_"):
        return ""
    from .hints import methods_instead

    remedy = methods_instead(own._asked_as).get(name, "").replace("`", "")
    return f"{own._asked_as} has no {name}(); {remedy}." if remedy else ""
