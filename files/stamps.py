"""Stamps of files (size and modification time), to detect changes after a source was made.

If a file is rewritten while a source reads it, its keys lead to other records. So size and
modification time are kept from the moment when the source was made, and compared wherever that
takes little time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from ..common.messages import shorten
from ..errors import SourceError


class Stamp(NamedTuple):
    """Size in bytes, and modification time in ns.

    For a remote file, a text that identifies its version, or None.
    """

    size: int
    modified: int | str | None


class Stamps:
    """Stamps (size and modification time) of many files: 16 bytes for each local file."""

    def __init__(self, sizes: Any, modified: Any) -> None:
        self._sizes, self._modified = sizes, modified

    @classmethod
    def of(cls, stamps: Sequence[Stamp]) -> Self:
        """Return the stamps of a list of files in this compact form."""
        plain = all(isinstance(stamp.modified, int) for stamp in stamps)
        modified = np.array([stamp.modified for stamp in stamps], np.int64 if plain else object)
        return cls(np.array([stamp.size for stamp in stamps], np.int64), modified)

    @property
    def sizes(self) -> list[int]:
        """Sizes of all files, in bytes."""
        sizes: list[int] = self._sizes.tolist()
        return sizes

    def __getitem__(self, number: int) -> Stamp:
        return Stamp(int(self._sizes[number]), self._modified[number : number + 1].tolist()[0])


def local_stamp(file: str | int) -> Stamp:
    """Return the stamp of a local file, by path or descriptor.

    Raises:
        OSError: the file does not exist or cannot be accessed.
    """
    found = os.stat(file)
    return Stamp(found.st_size, found.st_mtime_ns)


def check_unchanged(
    path: str,
    before: Stamp,
    now: Stamp,
    since: str = "the source was made",
    remedy: str = "Make the source again",
) -> None:
    """Raise SourceError if two stamps of a file differ: it was modified since.

    Args:
        path: name of the file, for the message.
        before: stamp from the time when the source was made.
        now: present stamp.
        since: what happened when `before` was the stamp, for the message.
        remedy: what the user can do, for the message.
    """
    if now == before:
        return
    by_time = isinstance(before.modified, int) and isinstance(now.modified, int)
    same_size = f"same size, another {'time of change' if by_time else 'version'}"
    difference = f"{before.size} → {now.size} bytes" if now.size != before.size else same_size
    raise SourceError(
        f"{shorten(path)}: the file changed after {since} ({difference}). {remedy}. "
        "Write new versions of files under new names."
    )
