"""The files of a store as the protocol of `files/paths.py`. In: URLs. Out: whether they are files, and which are below them."""

from __future__ import annotations

import glob

from ...errors import SourceNotFoundError
from ..patterns import matches
from ..storage_options import StorageOptions
from ..urls import split_url
from .retries import ask
from .store import FileStore, store_of


class RemoteFileSystem:
    """One store, asked for its files. Paths are whole URLs."""

    def __init__(self, options: StorageOptions) -> None:
        self._options = options

    def is_file(self, path: str) -> bool:
        if path.endswith("/") or self._is_root(path):
            return False
        try:
            ask(path, self._options, lambda store, key: store.stamp(key))
        except SourceNotFoundError:
            return False
        return True

    def _is_root(self, path: str) -> bool:
        """True of the URL of a bucket, which answers as if it were a file."""
        store, key = store_of(path, self._options)
        return not key and store.has_folders()

    def is_directory(self, path: str) -> bool:
        store, _ = store_of(path, self._options)
        return (
            store.has_folders()
            and not glob.has_magic(path)
            and bool(self._below(path, everything=False) or self._below(path))
        )

    def names_in(self, directory: str) -> list[str]:
        return [path.rpartition("/")[2] for path in self._below(directory, everything=False)]

    def glob(self, pattern: str) -> list[str]:
        store, _ = store_of(pattern, self._options)
        if not store.has_folders():
            return []
        root, key = split_url(pattern)
        parts = key.split("/")
        fixed = next((number for number, part in enumerate(parts) if glob.has_magic(part)), len(parts))
        rest = parts[fixed:]
        found = self._below("/".join([root, *parts[:fixed]]), everything=len(rest) > 1 or rest == ["**"])
        return [url for url in found if matches(rest, split_url(url)[1].split("/")[fixed:])]

    def _below(self, url: str, everything: bool = True) -> list[str]:
        def question(store: FileStore, key: str) -> list[str]:
            keys = store.files_under(key) if everything else store.files_in(key)
            return keys if "://" in key else [f"{split_url(url)[0]}/{each}" for each in keys]

        try:
            return ask(url.rstrip("/") + "/", self._options, question)
        except SourceNotFoundError:  # of fsspec, for a folder that is not there
            return []
