"""Stores that fsspec supports, such as Hugging Face, memory and FTP."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...common.lazy_exports import optional_library
from ...common.messages import shorten
from ...common.redaction import raise_without_secrets, redacted_error, secrets_in
from ...errors import MissingExtraError, SourceError
from ..stamps import Stamp
from ..storage_options import StorageOptions
from ..urls import scheme_of

_VERSIONS = (
    "ETag",
    "etag",
    "oid",
    "blob_id",
    "checksum",
    "LastModified",
    "last_modified",
    "mtime",
    "created",
)
"""Attributes by which file systems distinguish versions of a file."""

KNOWN_SECONDS = 30.0
"""Seconds for which the commit of a branch is remembered when a file is looked up."""


class OtherStore:
    """Store (`FileStore`) on a file system of fsspec. A key is the whole URL."""

    def __init__(self, url: str, options: StorageOptions) -> None:
        optional_library("fsspec.core", "files of this scheme need fsspec", "remote")
        import fsspec.core

        scheme = scheme_of(url)
        secrets, known = [*options.store, *secrets_in(url)], False
        try:
            fsspec.get_filesystem_class(scheme)
            known = True
            # some take the host from it
            self.system, _ = fsspec.core.url_to_fs(url, **dict(options.store))
        except Exception as error:  # each file system has its own
            told = redacted_error(
                f"{type(error).__name__}: {error}" if known else str(error), secrets
            )
            raise_without_secrets(
                _not_opened(url, scheme, shorten(told), known, error), error, secrets
            )

    def stamp(self, key: str) -> Stamp:
        found = self.system.info(key)
        if found["type"] != "file":
            raise FileNotFoundError(key)
        version = next((found[name] for name in _VERSIONS if found.get(name) is not None), None)
        return Stamp(int(found["size"]), None if version is None else str(version))

    def read(self, key: str, start: int, stop: int) -> tuple[memoryview, Stamp | None]:
        return memoryview(self.system.cat_file(key, start=start, end=stop)), None

    def files_under(self, prefix: str) -> list[str]:
        return self._urls(prefix, self.system.find(prefix))

    def files_in(self, prefix: str) -> list[str]:
        found = self.system.ls(prefix, detail=True)
        return self._urls(prefix, [one["name"] for one in found if one["type"] == "file"])

    def _urls(self, prefix: str, names: list[str]) -> list[str]:
        """Return paths that the file system listed as URLs that begin with the user's `prefix`."""
        from fsspec.core import strip_protocol

        own = str(strip_protocol(prefix)).rstrip("/")
        return [prefix.rstrip("/") + name[len(own) :] for name in names]

    def has_folders(self) -> bool:
        return True

    def put(self, key: str, content: bytes | Path) -> None:
        if isinstance(content, Path):
            self.system.put_file(str(content), key)
        else:
            self.system.pipe_file(key, content)

    def remove(self, key: str) -> None:
        with suppress(FileNotFoundError):
            self.system.rm_file(key)

    def is_final(self, error: Exception) -> str | None:
        if isinstance(error, PermissionError):
            return "access is refused; pass credentials that allow it in storage_options="
        return (
            "check the URL"
            if isinstance(error, (ValueError, TypeError, NotImplementedError))
            else None
        )


def _not_opened(url: str, scheme: str, told: str, known: bool, error: Exception) -> Exception:
    if known:
        remedy = "Check the URL, storage_options= and that the store can be reached."
        return SourceError(f"{shorten(url)}: the store cannot be opened: {told}. {remedy}")
    if isinstance(error, ImportError):
        return MissingExtraError(f"{shorten(url)}: {told}")
    return SourceError(
        f"{shorten(url)}: the scheme {scheme}:// is unknown ({told}). Use a scheme that fsspec "
        "knows, such as s3:// or gs://."
    )


class HubStore(OtherStore):
    """Store (`FileStore`) of repositories of Hugging Face. A key is the whole URL.

    A branch may move while files are read, and an answer does not name its commit. So files are
    read at the commit that was last looked up: at the first use of the branch, and again if a stamp
    is requested more than `KNOWN_SECONDS` later. If another version is read, the stamp of the file
    shows it.
    """

    def __init__(self, url: str, options: StorageOptions) -> None:
        super().__init__(url, options)
        self._commits: dict[Any, tuple[str, float]] = {}
        """Commit of each branch, and the time at which it was looked up (`time.monotonic`)."""
        self._stamps: dict[str, Stamp] = {}
        """Stamps of files at a commit. They do not change."""

    def stamp(self, key: str) -> Stamp:
        at = self._at_commit(key, time.monotonic() - KNOWN_SECONDS)
        return super().stamp(key) if at is None else self._stamp_at(at)

    def read(self, key: str, start: int, stop: int) -> tuple[memoryview, Stamp | None]:
        at = self._at_commit(key)
        return (
            super().read(key, start, stop)
            if at is None
            else (super().read(at, start, stop)[0], self._stamp_at(at))
        )

    def _stamp_at(self, at: str) -> Stamp:
        if at not in self._stamps:
            self._stamps[at] = super().stamp(at)
        return self._stamps[at]

    def _at_commit(self, key: str, since: float = 0.0) -> str | None:
        """Return the URL of a file at the commit of its branch.

        Return None for a bucket, which has no commits.

        Args:
            key: URL of the file.
            since: the commit must have been looked up after this time.
        """
        from huggingface_hub import HfApi

        found = self.system.resolve_path(key)
        if not hasattr(found, "revision"):
            return None
        branch = found.repo_type, found.repo_id, found.revision
        commit, when = self._commits.get(branch, ("", 0.0))
        if not commit or when < since:
            hub = HfApi(endpoint=self.system.endpoint, token=self.system.token)
            commit = str(
                hub.repo_info(found.repo_id, repo_type=found.repo_type, revision=found.revision).sha
            )
            self._commits[branch] = commit, time.monotonic()
        kind = "" if found.repo_type == "model" else f"{found.repo_type}s/"
        return f"hf://{kind}{found.repo_id}@{commit}/{found.path_in_repo}"
