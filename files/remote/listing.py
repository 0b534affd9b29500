"""List the files of a store, through the protocol `FileSystem`."""

from __future__ import annotations

import glob

from ...common.messages import TEXT, short_repr, shorten
from ...errors import SourceError, SourceNotFoundError
from ..patterns import matches
from ..storage_options import StorageOptions
from ..urls import split_url, unsigned
from .http_files import NoRangesError, facts_of
from .store import FileStore, ask, store_of


class RemoteFileSystem:
    """File system of all stores. Paths are whole URLs."""

    def __init__(self, options: StorageOptions) -> None:
        self._options = options

    def is_file(self, path: str) -> bool:
        store, key = store_of(path, self._options)
        # the URL of a bucket answers as if it were a file
        if path.endswith("/") or (not key and store.has_folders()):
            return False
        try:
            try:
                ask(path, self._options, lambda store, key: store.stamp(key))
            except NoRangesError:
                ask(path, self._options, lambda *_: facts_of(path, self._options))
        except SourceNotFoundError:
            return False
        return True

    def is_directory(self, path: str) -> bool:
        if glob.has_magic(path):
            return False
        if not store_of(path, self._options)[0].has_folders():
            if path.endswith("/"):
                raise _no_lists(path)
            return False
        return bool(self._below(path, everything=False) or self._below(path))

    def names_in(self, directory: str) -> list[str]:
        return [path.rpartition("/")[2] for path in self._below(directory, everything=False)]

    def names_below(self, directory: str) -> list[str]:
        top = directory.rstrip("/") + "/"
        return [path.removeprefix(top) for path in self._below(directory)]

    def glob(self, pattern: str) -> list[str]:
        store, _ = store_of(pattern, self._options)
        if not store.has_folders():
            if glob.has_magic(split_url(pattern)[1]):
                raise _no_lists(pattern)
            raise SourceNotFoundError(
                f"there is no file {short_repr(unsigned(pattern), TEXT)}. Check the address."
            )
        root, key = split_url(pattern)
        parts = key.split("/")
        fixed = next(
            (number for number, part in enumerate(parts) if glob.has_magic(part)), len(parts)
        )
        rest = parts[fixed:]
        found = self._below(
            "/".join([root, *parts[:fixed]]), everything=len(rest) > 1 or rest == ["**"]
        )
        return [url for url in found if matches(rest, split_url(url)[1].split("/")[fixed:])]

    def _below(self, url: str, everything: bool = True) -> list[str]:
        def question(store: FileStore, key: str) -> list[str]:
            keys = store.files_under(key) if everything else store.files_in(key)
            return keys if "://" in key else [f"{split_url(url)[0]}/{each}" for each in keys]

        try:
            return ask(url.rstrip("/") + "/", self._options, question)
        except SourceNotFoundError:  # of fsspec, for a folder that is not there
            return []


def _no_lists(path: str) -> SourceError:
    return SourceError(
        f"{shorten(unsigned(path))}: HTTP servers do not list their files, so patterns and folders "
        "cannot be read from them. "
        'Pass a list of the URLs of the files, such as ["https://host/0.parquet", '
        '"https://host/1.parquet"].'
    )
