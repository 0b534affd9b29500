"""Copies of whole remote files in the cache.

They are made by ranges, or by one request if the server sends only whole files.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
from typing import BinaryIO

from ...common.messages import shorten
from ...errors import HeadraceError, SourceError
from ..descriptors import read_at
from ..stamps import Stamp
from ..storage_options import StorageOptions
from ..sums import sums_of
from ..urls import unsigned
from ..whole_files import private_folder
from .blocks import REQUEST_BYTES, Bring
from .cache import Cache
from .http_files import NO_VERSION, NoRangesError, facts_of, fetch
from .parallel import in_parallel
from .store import ask

LOGGER = logging.getLogger("headrace")

_COPIED_BYTES = 8 * REQUEST_BYTES
"""Number of bytes of a copy that are fetched at a time."""

_SIZE_BYTES = 8
"""Length of a piece of the cache that contains the size of a file."""


def folder_of(path: str, *version: object) -> str:
    """Return the name of the folder of the cache for one version of a file.

    Args:
        path: URL of the file.
        version: values that identify the version.
    """
    # The last part tells how pieces are written: with checksums.
    return hashlib.sha256(repr((unsigned(path), *version, "sums")).encode()).hexdigest()[:24]


def copy_name(path: str, stamp: Stamp) -> str:
    """Return the name of the piece of the cache with a copy of one version of a file."""
    return f"{folder_of(path, *stamp)}/whole"


def make_copy(
    path: str,
    options: StorageOptions,
    stamp: Stamp,
    out: BinaryIO,
    bring: Bring,
    ranges: bool = True,
) -> bytes:
    """Write a remote file to `out`, and return its checksums.

    Args:
        path: URL of the file.
        options: how the store is reached.
        stamp: version of the file.
        out: file to write to.
        bring: function that fetches the bytes `[start, stop)`.
        ranges: True (default): try ranges first, which are fetched in parallel. False: fetch the
            file by one request.

    Raises:
        SourceError: the file cannot be fetched, or has another version.
    """
    if ranges:
        try:
            return _by_ranges(stamp.size, out, bring)
        except NoRangesError:
            pass
    _log_whole(path, stamp.size)
    return ask(path, options, lambda *_: fetch(path, options, out, stamp.size, stamp)).sums


def _by_ranges(size: int, out: BinaryIO, bring: Bring) -> bytes:
    sums = []
    for first in range(0, size, _COPIED_BYTES):
        starts = range(first, min(first + _COPIED_BYTES, size), REQUEST_BYTES)
        for part in in_parallel(lambda at: bring(at, min(at + REQUEST_BYTES, size)), starts):
            out.write(part)
            sums.append(sums_of(part))
    return b"".join(sums)


def _log_whole(path: str, size: int | None) -> None:
    LOGGER.info(
        "%s: the server does not send parts of the file, so all of it (%s) is fetched into the "
        "cache.",
        shorten(unsigned(path)),
        "of unknown size" if size is None else f"{size} bytes",
    )


def stamp_by_request(path: str, options: StorageOptions, cache: Cache) -> Stamp:
    """Return the stamp of a file whose server does not send it without the file.

    If the server does not send the size at all, the file is fetched into the cache, once for each
    version: all threads and processes of a host wait for the first one. If it sends no version
    either, the file is fetched by each call, and its version is the digest of its content.

    Raises:
        SourceNotFoundError: the file does not exist.
        SourceError: the file cannot be fetched, or is larger than the cache; or there is no cache.
    """
    size, version = ask(path, options, lambda *_: facts_of(path, options))
    if size is not None:
        return Stamp(size, version or NO_VERSION)
    if not cache.budget:
        raise no_cache(path)
    if version is None:
        return _fetch_unsized(path, options, cache)
    name = f"{folder_of(path, version, 'size')}/size"
    while True:
        size = _kept_size(cache, name)
        if size is not None:
            return Stamp(size, version)
        claim = cache.claim(name, wait=True)
        if claim is None:
            continue
        try:
            stamp = _fetch_unsized(path, options, cache)
            if stamp.modified == version:  # else it changed meanwhile
                with claim.file(_SIZE_BYTES) as out:
                    out.write(stamp.size.to_bytes(_SIZE_BYTES, "little"))
            return stamp
        finally:
            claim.give_up()


def _kept_size(cache: Cache, name: str) -> int | None:
    descriptor = cache.open(name, _SIZE_BYTES)
    if descriptor is None:
        return None
    try:
        return int.from_bytes(read_at(descriptor, _SIZE_BYTES, 0), "little")
    finally:
        os.close(descriptor)


def _fetch_unsized(path: str, options: StorageOptions, cache: Cache) -> Stamp:
    """Fetch a file of unknown size into the cache, and return its stamp."""
    _log_whole(path, None)
    try:
        private_folder(cache.folder)
        # The cache must know the size of a copy before it is written.
        with tempfile.TemporaryFile(dir=cache.folder) as spooled:
            stamp, sums = ask(path, options, lambda *_: fetch(path, options, spooled, cache.budget))
            claim = cache.claim(copy_name(path, stamp), wait=True)
            if claim is not None:
                spooled.seek(0)
                with claim.file(stamp.size) as out:
                    shutil.copyfileobj(spooled, out, REQUEST_BYTES)
                    claim.keep_sums(sums)
            return stamp
    except HeadraceError:
        raise
    except OSError as error:
        raise cache.unusable(error) from error


def no_cache(path: str) -> SourceError:
    """Return the error for a file that must be fetched whole, without a cache."""
    return SourceError(
        f"{shorten(unsigned(path))}: the server did not send a part of the file. Whole files are "
        "fetched into the cache, but cache_bytes=0 allows no cache. Pass a larger number, such as "
        "storage_options={'cache_bytes': 10**10}."
    )
