"""Send exceptions between processes, with their type and the worker's traceback where possible.

Unpickling an exception calls its class with `args`. A user's constructor may need other arguments,
or build another message from them. Then the exception is rebuilt without calling its constructor.
If that is impossible too, because the class or its contents cannot be pickled, a subclass of the
nearest base class that can be pickled is made, so that `except` with that base class still matches.
"""

from __future__ import annotations

import contextlib
import pickle
import traceback
from collections.abc import Iterator, Mapping
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

import cloudpickle

from .messages import shorten
from .redaction import redacted


class RemoteTracebackError(Exception):
    """The text of the traceback in the worker process, as an exception.

    It is the cause of the exception that is raised in the user's process.
    """

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class _Rebuilt:
    """Stand-in for an exception in a pickle; it unpickles as the exception that `rebuilt` makes.

    Args:
        *fields: arguments of `rebuilt`.
    """

    def __init__(self, *fields: Any) -> None:
        self._fields = fields

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return rebuilt, self._fields


def rebuilt(
    kind: type[BaseException],
    arguments: tuple[Any, ...],
    attributes: Mapping[str, Any],
    name: str = "",
    message: str = "",
) -> BaseException:
    """Make an exception without calling its constructor, and return it.

    Args:
        kind: class of the exception.
        arguments: its `args`.
        attributes: its other attributes, by name; attributes that cannot be set are left out.
        name: if not empty, the name of a new subclass of `kind`, whose text is `message`.
        message: text of the exception of the new subclass.
    """
    if name:
        kind = type(
            name, (kind,), {"__str__": lambda error: message, "__module__": kind.__module__}
        )
    error: BaseException = _builtin(kind).__new__(kind, *arguments)
    error.args = arguments
    for attribute, value in attributes.items():
        with contextlib.suppress(AttributeError, TypeError):  # it can only be read
            object.__setattr__(error, attribute, value)
    return error


def encode(error: BaseException) -> bytes:
    """Pickle an exception with the text of its traceback.

    `decode` makes an equal or similar one in another process.
    """
    text = redacted("".join(traceback.format_exception(error)))
    copies = (
        data for copy in _copies(error) if (data := _pickled_if_lossless(copy, error)) is not None
    )
    builtin = _builtin(type(error))
    return pickle.dumps(([next(copies), cloudpickle.dumps(_stand_in(builtin, error))], text))


def _copies(error: BaseException) -> Iterator[Any]:
    """Yield copies of an exception, the most faithful first.

    Each copy is of the same class, or of a new subclass of it or of a base class. The last copies
    can be pickled.
    """
    yield error
    yield _Rebuilt(type(error), error.args, _attributes(error))
    for kind in type(error).__mro__:
        if issubclass(kind, BaseException):
            yield _stand_in(kind, error)


def _stand_in(kind: type[BaseException], error: BaseException) -> _Rebuilt:
    arguments = tuple(one if _survives_pickling(one) else repr(type(one)) for one in error.args)
    return _Rebuilt(kind, arguments, _attributes(error), type(error).__name__, _message(error))


def _pickled_if_lossless(copy: Any, error: BaseException) -> bytes | None:
    """Pickle `copy`.

    Return None if this fails, or if the unpickled exception would differ from `error`.

    It must have the message of `error`, and, by name, every attribute in `vars(error)` that can be
    pickled.
    """
    try:
        data = cloudpickle.dumps(copy)
        found = pickle.loads(data)
        same = (
            _message(found) == _message(error)
            and vars(found).keys() >= _attributes(error).keys() & vars(error).keys()
        )
    except Exception:
        return None
    return data if same and isinstance(found, BaseException) else None


def _attributes(error: BaseException) -> dict[str, Any]:
    """Return the attributes of an exception that can be pickled and are not None, by name."""
    held = dict(vars(error))
    for kind in type(error).__mro__:
        for name, member in vars(kind).items():
            if isinstance(
                member, (MemberDescriptorType, GetSetDescriptorType)
            ) and not name.startswith("__"):
                held.setdefault(name, getattr(error, name, None))
    held.pop("args", None)
    return {
        name: value
        for name, value in held.items()
        if value is not None and _survives_pickling(value)
    }


def _survives_pickling(value: Any) -> bool:
    try:
        pickle.loads(cloudpickle.dumps(value))
    except Exception:
        return False
    return True


def _builtin(kind: type[BaseException]) -> type[BaseException]:
    """Return the nearest built-in base class of an exception class."""
    return next(base for base in kind.__mro__ if base.__module__ == "builtins")


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return f"<{type(error).__qualname__}>"


def decode(data: bytes) -> Exception:
    """Unpickle an exception that `encode` pickled, with the worker's traceback as its cause.

    If its class cannot be unpickled in this process, return an exception of a new subclass of its
    nearest built-in class; if that fails, too, a RuntimeError.
    """
    copies, text = pickle.loads(data)
    error = _first_loadable(copies)
    error.__cause__ = RemoteTracebackError(text)
    return error


def _first_loadable(copies: list[bytes]) -> Exception:
    failure: Exception | None = None
    for copy in copies:
        try:
            return pickle.loads(copy)  # type: ignore[no-any-return]
        except Exception as error:
            failure = failure or error
    reason = shorten(f"{type(failure).__name__}: {failure}")
    return RuntimeError(
        f"a worker raised an exception that cannot be unpickled in this process: {reason}. Define "
        "the class of the exception in a module that both processes can import, and check that "
        "pickle can copy it."
    )
