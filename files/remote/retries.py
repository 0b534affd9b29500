"""In: a question to a store. Out: the answer, or one error after the last try: what, how many tries, why, and what to do."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ...common.messages import TEXT, short_repr, shorten
from ...common.redaction import redacted_error, secrets_in, without_secrets
from ...errors import HeadraceError, SourceError, SourceNotFoundError
from ..storage_options import StorageOptions
from ..urls import unsigned
from .store import FileStore, store_of

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
"""Seconds. Each pause is twice the one before, and a random part shorter, so that many workers do not come back at once."""

_own_random = random.Random()
"""Not the user's: reading must not change what their program draws."""

ResultT = TypeVar("ResultT")


def ask(url: str, options: StorageOptions, question: Callable[[FileStore, str], ResultT]) -> ResultT:
    """Ask a store about a file until there is an answer, at most as often as the options say.

    Raises:
        SourceNotFoundError: the answer is that there is no such file.
        SourceError: the last try failed, or the answer is an error that will stay.
    """
    store, key = store_of(url, options)
    for number in range(1, options.tries + 1):
        try:
            return question(store, key)
        except HeadraceError:
            raise
        except Exception as error:
            # A program that ends does not wait.
            is_last = number == options.tries or not threading.main_thread().is_alive()
            failure = _failure(store, url, options, error, number if is_last else 0)
        if failure is not None:
            raise failure  # outside of `except`: else the library's own error, which may tell credentials, hangs on it
        time.sleep(_pause(number))
    raise AssertionError("tries are at least 1")


def _failure(store: FileStore, url: str, options: StorageOptions, error: Exception, tries: int) -> SourceError | None:
    """The error that an answer of a store comes to; None where it may be asked again, as `tries` is 0."""
    url, secrets = unsigned(url), (*options.store, *secrets_in(url))
    told = _text(error, secrets)
    if isinstance(error, FileNotFoundError):
        failure: SourceError = SourceNotFoundError(f"no file {short_repr(url, TEXT)}")
    elif (remedy := store.is_final(error)) is not None:
        failure = SourceError(f"{shorten(url)}: {remedy}. ({told})")
    elif tries:
        failure = SourceError(
            f"{shorten(url)}: given up after {tries} tries: {told}. Is the store reachable? More patience is "
            "storage_options={'tries': …, 'timeout': seconds}."
        )
    else:
        return None
    failure.__cause__ = without_secrets(error, secrets)
    return failure


def _pause(failed: int) -> float:
    pause: float = min(_FIRST_PAUSE * 2 ** (failed - 1), _LONGEST_PAUSE) * _own_random.uniform(0.5, 1)
    return pause


def _text(error: Exception, secrets: Sequence[tuple[str, Any]]) -> str:
    """The message of a library, without credentials, and without what it adds for its developers."""
    text = redacted_error(str(error).partition("Debug source")[0], secrets)
    return shorten(f"{type(error).__name__}: {text}", 160)
