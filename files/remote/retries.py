"""In: a question to a store. Out: the answer, or one error after the last try: what, how many tries, why, and what to do."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from ...errors import MillraceError, SourceError, SourceNotFoundError
from ...wording import TEXT, brief, shown
from ..storage_options import StorageOptions
from .store import Store

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
"""Seconds. Each pause is twice the one before, and a random part shorter, so that many workers do not come back at once."""

_QUERY = re.compile(r"(?<=\w)\?\S*=\S*")
"""Of a URL in a text."""

_own_random = random.Random()
"""Not the user's: reading must not change what their program draws."""

ResultT = TypeVar("ResultT")


def ask(store: Store, url: str, options: StorageOptions, question: Callable[[], ResultT]) -> ResultT:
    """Ask until there is an answer.

    Args:
        store: that is asked.
        url: what it is asked about.
        options: say how many times at most.
        question: one request.

    Raises:
        SourceNotFoundError: the answer is that there is no such file.
        SourceError: the last try failed, or the answer is an error that will stay.
    """
    for number in range(1, options.tries + 1):
        try:
            return question()
        except MillraceError:
            raise
        except FileNotFoundError as error:
            raise SourceNotFoundError(f"no file {shown(url, TEXT)}") from error
        except Exception as error:
            remedy = store.is_final(error)
            if remedy is not None:
                raise SourceError(f"{brief(url)}: {remedy}. ({_text(error)})") from error
            if number == options.tries or not threading.main_thread().is_alive():  # a program that ends does not wait
                raise SourceError(
                    f"{brief(url)}: given up after {number} tries: {_text(error)}. Is the store reachable? More patience is "
                    "storage_options={'tries': …, 'timeout': seconds}."
                ) from error
        time.sleep(_pause(number))
    raise AssertionError("tries are at least 1")


def _pause(failed: int) -> float:
    pause: float = min(_FIRST_PAUSE * 2 ** (failed - 1), _LONGEST_PAUSE) * _own_random.uniform(0.5, 1)
    return pause


def _text(error: Exception) -> str:
    """What a library says, without signatures of URLs, and without what it adds for its developers."""
    told = _QUERY.sub("", str(error).partition("Debug source")[0])
    return brief(f"{type(error).__name__}: {told}", 160)
