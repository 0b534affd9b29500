"""Stores on the network: open a URL's store once in a process; repeat requests that fail.

A store raises the exceptions of its library. `FileNotFoundError`, and exceptions for which
`is_final` returns a remedy, are answers of the store. A `HeadraceError`, or a full disk of this
machine, is raised at once. All others are failures of the network, after which the request is
repeated.
"""

from __future__ import annotations

import errno
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ...common.messages import TEXT, short_repr, shorten
from ...common.redaction import raise_without_secrets, redacted_error, secrets_in
from ...common.system import after_fork
from ...errors import HeadraceError, SourceError, SourceNotFoundError
from ..stamps import Stamp
from ..storage_options import StorageOptions
from ..urls import scheme_of, split_url, unsigned


class FileStore(Protocol):
    """Protocol of a store. Thread-safe. Each call is one request, except for lists of files."""

    def stamp(self, key: str) -> Stamp:
        """Return the stamp (size and version) of the file `key`.

        Raises:
            NoRangesError: the server tells the stamp only together with the whole file.
        """
        ...

    def read(self, key: str, start: int, stop: int) -> tuple[memoryview, Stamp | None]:
        """Return the bytes `[start, stop)` of the file `key`, and its stamp.

        The stamp is None if the answer has none.

        Raises:
            NoRangesError: the server sends only whole files.
        """
        ...

    def files_under(self, prefix: str) -> list[str]:
        """Return the keys of all files that begin with `prefix`, which is empty or ends in `/`."""
        ...

    def files_in(self, prefix: str) -> list[str]:
        """Return the keys of the files directly under `prefix`, without a further `/`."""
        ...

    def has_folders(self) -> bool: ...

    def put(self, key: str, content: bytes | Path) -> None:
        """Write bytes or a local file, replacing an existing one.

        It appears when it is complete.
        """
        ...

    def remove(self, key: str) -> None:
        """Remove a file. It may be missing."""
        ...

    def is_final(self, error: Exception) -> str | None:
        """Return the remedy for an error that a retry would not change; None for other errors."""
        ...


# Each pause is twice the one before, less a random part, so that many workers do not retry at the
# same time.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
"""Seconds before the second try, and maximum seconds between two tries."""

# Its own: reading must not change the user's random numbers.
_own_random = random.Random()
"""Random generator for pauses."""

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Numbers of errors of a disk of this machine to which an answer is written.

Another request would not help.
"""

ResultT = TypeVar("ResultT")

_OBJECT_STORES = {"s3", "s3a", "gs", "az", "adl", "azure", "abfs", "abfss", "http", "https"}

_opened: dict[tuple[str, str], FileStore] = {}
_lock = threading.Lock()


def store_of(url: str, options: StorageOptions) -> tuple[FileStore, str]:
    """Return the store of a URL, and the key of the file in it.

    Raises:
        MissingExtraError: the library of the store is not installed.
        SourceError: an option or the scheme is unknown.
    """
    root, key = split_url(url)
    if scheme_of(url) not in _OBJECT_STORES:
        key = url  # fsspec splits URLs itself
    whole = scheme_of(url) == "hf"  # one for all repositories
    name = (scheme_of(url) if whole else root, repr((options.store, options.timeout)))
    with _lock:
        if name not in _opened:
            _opened[name] = _open(root, url, options)
        return _opened[name], key


def _open(root: str, url: str, options: StorageOptions) -> FileStore:
    if scheme_of(url) in _OBJECT_STORES:
        from .object_store import ObjectStore

        return ObjectStore(root, url, options)
    from .other_store import HubStore, OtherStore

    if scheme_of(url) == "hf":
        return HubStore(url, options)
    return OtherStore(url, options)


def ask(
    url: str, options: StorageOptions, question: Callable[[FileStore, str], ResultT]
) -> ResultT:
    """Make a request about a file to its store, and return the answer.

    The request is repeated if it fails.

    Args:
        url: URL of the file.
        options: how the store is reached.
        question: function that takes the store and the key of the file, and makes a request.

    Raises:
        SourceNotFoundError: the store answers that the file does not exist.
        SourceError: the last try failed, or a retry would not help.
        OSError: there is no space on the disk to which `question` writes the answer.
    """
    store, key = store_of(url, options)
    secrets = *options.store, *secrets_in(url)
    for number in range(1, options.tries + 1):
        try:
            return question(store, key)
        except HeadraceError:
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno in _NO_SPACE:
                raise
            # A program that ends does not wait.
            is_last = number == options.tries or not threading.main_thread().is_alive()
            # What comes after that mark is for the library's developers.
            text = redacted_error(str(error).partition("Debug source")[0], secrets)
            told = shorten(f"{type(error).__name__}: {text}", 160).rstrip(".")
            failure = _failure(store, unsigned(url), error, told, number if is_last else 0)
            if failure is not None:
                raise_without_secrets(failure, error, secrets)
        pause = min(_FIRST_PAUSE * 2 ** (number - 1), _LONGEST_PAUSE)
        time.sleep(pause * _own_random.uniform(0.5, 1))
    raise AssertionError(f"tries={options.tries} in storage_options, but it must be at least 1")


def _failure(
    store: FileStore, url: str, error: Exception, told: str, tries: int
) -> SourceError | None:
    """Return the error for a failed request, or None if the request may be repeated.

    Args:
        store: the store.
        url: URL of the file.
        error: exception of the store.
        told: text of the exception, without secrets.
        tries: number of tries if this was the last one; otherwise 0.
    """
    if isinstance(error, FileNotFoundError):
        return SourceNotFoundError(f"there is no file {short_repr(url, TEXT)}. Check the address.")
    if (remedy := store.is_final(error)) is not None:
        return SourceError(f"{shorten(url)}: the request failed ({told}): {remedy}.")
    if not tries:
        return None
    return SourceError(
        f"{shorten(url)}: the request failed (tries: {tries}): {told}. Check that the store can be "
        "reached, or allow more time with storage_options={'tries': …, 'timeout': seconds}."
    )


def close_stores() -> None:
    """Close all connections. They are opened again when they are needed."""
    _opened.clear()


def _forget_all() -> None:
    global _lock
    _lock = threading.Lock()
    # their threads do not exist in this process: nothing of them may be closed
    _inherited.extend(_opened.values())
    _opened.clear()


_inherited: list[Any] = []

after_fork(_forget_all)
