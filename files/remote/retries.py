"""In: a question to a store. Out: the answer, or one error after the last try: what, how many tries, why, and what to do."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from ...common.messages import TEXT, short_repr, shorten
from ...common.redaction import raise_without_secrets, redacted_error, secrets_in
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
    secrets = *options.store, *secrets_in(unsigned(url))
    for number in range(1, options.tries + 1):
        try:
            return question(store, key)
        except HeadraceError:
            raise
        except Exception as error:
            # A program that ends does not wait.
            is_last = number == options.tries or not threading.main_thread().is_alive()
            text = redacted_error(
                str(error).partition("Debug source")[0], secrets
            )  # what follows is for its developers
            told = shorten(f"{type(error).__name__}: {text}", 160)
            failure = _failure(store, unsigned(url), error, told, number if is_last else 0)
            if failure is not None:
                raise_without_secrets(failure, error, secrets)
        pause = min(_FIRST_PAUSE * 2 ** (number - 1), _LONGEST_PAUSE)
        time.sleep(pause * _own_random.uniform(0.5, 1))
    raise AssertionError("tries are at least 1")


def _failure(store: FileStore, url: str, error: Exception, told: str, tries: int) -> SourceError | None:
    """The error that an answer of a store comes to; None where it may be asked again, as `tries` is 0."""
    if isinstance(error, FileNotFoundError):
        return SourceNotFoundError(f"no file {short_repr(url, TEXT)}")
    if (remedy := store.is_final(error)) is not None:
        return SourceError(f"{shorten(url)}: {remedy}. ({told})")
    if not tries:
        return None
    return SourceError(
        f"{shorten(url)}: given up after {tries} tries: {told}. Is the store reachable? More patience is "
        "storage_options={'tries': …, 'timeout': seconds}."
    )
