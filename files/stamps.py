"""In: the path of a file. Out: what tells that it is still the same file, and an error if it is not.

A file that is written anew while a source reads it would give other records under the same keys. So its size and the time of
its last change are kept from the moment at which the source was made, and compared where that costs nothing.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from ..common.messages import shorten
from ..errors import SourceError
from .storage_options import StorageOptionsLike, storage_options_of
from .urls import is_remote


class Stamp(NamedTuple):
    """Size in bytes, and the time of the last change in ns; of a remote file what tells its versions apart, or None."""

    size: int
    modified: int | str | None


def stamp_of(path: str, storage_options: StorageOptionsLike = None) -> Stamp:
    """The stamp of a file.

    Raises:
        OSError: as the file system says.
        SourceError: as the store says.
    """
    if is_remote(path):
        from .remote.remote_file import remote_stamp

        return remote_stamp(path, storage_options_of(storage_options))
    return local_stamp(path)


def local_stamp(path: str) -> Stamp:
    """The stamp of a file of this machine.

    Raises:
        OSError: as the file system says.
    """
    found = os.stat(path)
    return Stamp(found.st_size, found.st_mtime_ns)


def check_unchanged(path: str, before: Stamp, now: Stamp) -> None:
    """Hold the stamp of a file against that of the moment at which its source was made.

    Raises:
        SourceError: it is another one.

    >>> check_unchanged("a.parquet", Stamp(9, 1), Stamp(9, 1))
    """
    if now == before:
        return
    told = f"{before.size} → {now.size} bytes" if now.size != before.size else "same size, other time of change"
    raise SourceError(
        f"{shorten(path)}: the file was changed after the source was made ({told}); make the source anew, and write new "
        "versions of files under new names."
    )


def check_open_file(path: str, before: Stamp) -> None:
    """`check_unchanged` for a file that is open: one that was removed stays whole for its readers.

    A remote one is not asked about: each answer of a store tells which version it is from.

    Raises:
        SourceError: it was changed, or cannot be looked at.
    """
    if is_remote(path):
        return
    try:
        now = stamp_of(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise SourceError(f"{shorten(path)}: the file cannot be read any more: {shorten(error)}") from error
    check_unchanged(path, before, now)
