"""Stores on the network, and the store of a URL, opened once in each process.

In: URLs. Out: sizes, bytes, names; and exceptions as the store's library has them, of two kinds: `FileNotFoundError` and those
of `is_final` are answers, all others are faults of the way, after which the same question may be asked again.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Protocol

from ..stamps import Stamp
from ..storage_options import StorageOptions
from ..urls import scheme_of, split_url


class FileStore(Protocol):
    """A store on the network. Any thread may call; each call is one request, but for lists."""

    def stamp(self, key: str) -> Stamp: ...

    def read(self, key: str, start: int, stop: int) -> tuple[memoryview, Stamp | None]:
        """The bytes `[start, stop)`, and the stamp of the file that they are from, where the answer tells it."""
        ...

    def files_under(self, prefix: str) -> list[str]:
        """The keys of all files whose keys begin with `prefix`, which is empty or ends in `/`."""
        ...

    def files_in(self, prefix: str) -> list[str]:
        """Those of them without a further `/` after it."""
        ...

    def has_folders(self) -> bool: ...

    def put_file(self, key: str, path: str) -> None:
        """Write a local file, in place of what was there; it appears when it is whole."""
        ...

    def put_bytes(self, key: str, data: bytes) -> None:
        """Write bytes, in the same way."""
        ...

    def remove(self, key: str) -> None:
        """Remove a file; it may be gone already."""
        ...

    def is_final(self, error: Exception) -> str | None:
        """The remedy for an error that will be the same when the store is asked again; None for other errors."""
        ...


_OBJECT_STORES = {"s3", "s3a", "gs", "az", "adl", "azure", "abfs", "abfss", "http", "https"}

_opened: dict[tuple[str, str], FileStore] = {}
_lock = threading.Lock()


def store_of(url: str, options: StorageOptions) -> tuple[FileStore, str]:
    """The store of a URL, and the key in it; raises MissingExtraError, or SourceError for an unknown option or scheme."""
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


def close_stores() -> None:
    """Let go of all connections; they are made anew when they are needed."""
    _opened.clear()


def _forget_all() -> None:
    global _lock
    _lock = threading.Lock()
    _inherited.extend(_opened.values())  # their threads do not exist in this process: nothing of them may be closed
    _opened.clear()


_inherited: list[Any] = []

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
