"""Exceptions between processes: the user's own type where that can be, with the traceback of the other side as its cause.

In: an exception. Out: bytes, and the exception again.
"""

from __future__ import annotations

import pickle
import traceback

import cloudpickle

from ....wording import brief
from ...work.tasks import Failure


class RemoteTracebackError(Exception):
    """The traceback in the worker process, as text; the cause of the exception that it belongs to."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def encode(error: BaseException) -> bytes:
    """An exception as bytes. One that cannot be pickled becomes a RuntimeError with its type and message."""
    text = "".join(traceback.format_exception(error))
    try:
        data = cloudpickle.dumps((error, text))
        pickle.loads(data)
    except Exception:
        stand_in = RuntimeError(f"{type(error).__qualname__}: {error} (an exception that cannot be pickled)")
        for note in getattr(error, "__notes__", ()):
            stand_in.add_note(note)
        data = pickle.dumps((stand_in, text))
    return data  # type: ignore[no-any-return]


def decode(data: bytes) -> Exception:
    """The exception again."""
    try:
        error, text = pickle.loads(data)
    except Exception as failure:
        told = brief(f"{type(failure).__name__}: {failure}")
        return RuntimeError(f"a worker failed with an exception that cannot be unpickled here: {told}")
    error.__cause__ = RemoteTracebackError(text)
    return error  # type: ignore[no-any-return]


class EncodedFailure(Failure):
    """A `Failure` whose error stays encoded until somebody wants it: it is of a class of the user's."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def error(self) -> Exception:  # type: ignore[override]
        """The exception."""
        return decode(self._data)
