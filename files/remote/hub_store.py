"""Repositories of Hugging Face. In: URLs. Out: bytes, each with the version that they are from.

A branch moves while one reads, and an answer does not say which commit it is from. So files are read at a commit: that of the
branch when this process first read from it. Whoever knew another version of a file is told so by its stamp.
"""

from __future__ import annotations

import time
from typing import Any

from ..stamps import Stamp
from ..storage_options import StorageOptions
from .other_store import OtherStore

_KNOWN_SECONDS = 30.0
"""For so long a branch is not asked for its commit again when a file is looked up."""


class HubStore(OtherStore):
    """The Hub; `Store` says what it does. A key is the whole URL."""

    def __init__(self, url: str, options: StorageOptions) -> None:
        super().__init__(url, options)
        self._commits: dict[Any, tuple[str, float]] = {}
        """Of branches, with the time at which they were asked for."""
        self._stamps: dict[str, Stamp] = {}
        """Of files at commits, which do not change."""

    def stamp(self, key: str) -> Stamp:
        """As the protocol says."""
        at = self._at_commit(key, time.monotonic() - _KNOWN_SECONDS)
        return super().stamp(key) if at is None else self._stamp_at(at)

    def read(self, key: str, start: int, stop: int) -> tuple[memoryview, Stamp | None]:
        """As the protocol says."""
        at = self._at_commit(key)
        return super().read(key, start, stop) if at is None else (super().read(at, start, stop)[0], self._stamp_at(at))

    def _stamp_at(self, at: str) -> Stamp:
        if at not in self._stamps:
            self._stamps[at] = super().stamp(at)
        return self._stamps[at]

    def _at_commit(self, key: str, since: float = 0.0) -> str | None:
        """The URL of a file at the commit that its branch had at some time since then; None for a bucket, which has none."""
        from huggingface_hub import HfApi

        found = self._system.resolve_path(key)
        if not hasattr(found, "revision"):
            return None
        branch = found.repo_type, found.repo_id, found.revision
        commit, when = self._commits.get(branch, ("", 0.0))
        if not commit or when < since:
            hub = HfApi(endpoint=self._system.endpoint, token=self._system.token)
            commit = str(hub.repo_info(found.repo_id, repo_type=found.repo_type, revision=found.revision).sha)
            self._commits[branch] = commit, time.monotonic()
        kind = "" if found.repo_type == "model" else f"{found.repo_type}s/"
        return f"hf://{kind}{found.repo_id}@{commit}/{found.path_in_repo}"
