"""Files that are written to stores. In: bytes or local files, and URLs. Out: the same in the store, each whole or not there."""

from __future__ import annotations

from ..storage_options import StorageOptions
from .retries import ask
from .store import store_of


def put_file(path: str, url: str, options: StorageOptions) -> None:
    """Write a local file to a store, in place of what was there; it appears when it is whole.

    Raises:
        SourceError: the store does not take it.
    """
    store, key = store_of(url, options)
    ask(store, url, options, lambda: store.put_file(key, path))


def put_bytes(data: bytes, url: str, options: StorageOptions) -> None:
    """Write bytes to a store, as `put_file` does."""
    store, key = store_of(url, options)
    ask(store, url, options, lambda: store.put_bytes(key, data))


def remove(url: str, options: StorageOptions) -> None:
    """Remove a file from a store; it may be gone already.

    Raises:
        SourceError: the store refuses.
    """
    store, key = store_of(url, options)
    ask(store, url, options, lambda: store.remove(key))
