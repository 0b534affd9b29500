"""Open file in a store. Ranges are read by few requests, several at a time.

With a cache, whole blocks are fetched once for all processes of a host, and kept (`blocks.py`).
Without a cache, ranges that are close to one another share a request.
"""

from __future__ import annotations

import hashlib
import os
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from ...common.messages import shorten
from ...errors import SourceError
from ..stamps import Stamp, check_unchanged
from ..storage_options import StorageOptions
from ..sums import is_whole, sums_of
from ..urls import unsigned
from .blocks import AT_ONCE, BLOCK_BYTES, REQUEST_BYTES, CachedBlocks, Range, blocks_of, together
from .cache import Cache
from .parallel import in_parallel
from .store import FileStore, ask

_AHEAD_BYTES = 8 << 20
"""Number of bytes that are prefetched in a file that is read from beginning to end."""

_PORTION_BYTES = AT_ONCE * BLOCK_BYTES
"""Maximum number of bytes that are read at a time."""

_COPIED_BYTES = 8 * REQUEST_BYTES
"""Number of bytes of a copy that are fetched at a time."""

_COPY_TRIES = 3
"""Number of times that a copy may be damaged before this is an error."""

checked_copies: set[tuple[str, int]] = set()
"""Path and inode of each copy that this process has checked against its checksums."""


class RemoteFile:
    """Open remote file, see `OpenFile`. Only the connections of the store stay open.

    Args:
        path: URL of the file.
        options: how the store is reached, and the cache.
        stamp: expected version of the file. None (default): the current version.
    """

    path: str
    size: int
    stamp: Stamp
    _blocks: CachedBlocks | None = None
    """Blocks in the cache; None without a cache."""

    def __init__(self, path: str, options: StorageOptions, stamp: Stamp | None = None) -> None:
        self.path, self.storage_options = path, options
        self.stamp = stamp or ask(path, options, lambda store, key: store.stamp(key))
        self.size = self.stamp.size
        self._follows, self._asked_for = -1, 0
        # The last part tells how pieces are written: with checksums.
        self._folder = hashlib.sha256(repr((unsigned(path), *self.stamp, "sums")).encode()).hexdigest()[:24]
        self._copy_name = f"{self._folder}/whole"
        self._cache = Cache(options.cache_dir, options.cache_bytes)
        if options.cache_bytes:
            self._blocks = CachedBlocks(self._cache, self._folder, self.size, self._ask)

    def read(self, offset: int, length: int) -> bytes:
        """Return the bytes `[offset, offset + length)`, and prefetch the next ones if the last read ended at `offset`."""
        if offset == self._follows and offset + length + _AHEAD_BYTES > self._asked_for:
            self._asked_for = min(offset + length + 2 * _AHEAD_BYTES, self.size)
            self.prefetch([offset], [max(self._asked_for - offset, 0)])
        self._follows = offset + length
        if length <= _PORTION_BYTES:
            return self.read_many([offset], [length])[0]
        starts = range(offset, offset + length, _PORTION_BYTES)
        return b"".join(self.read(start, min(_PORTION_BYTES, offset + length - start)) for start in starts)

    def read_many(self, offsets: npt.ArrayLike, lengths: npt.ArrayLike) -> list[bytes]:
        starts, sizes = np.asarray(offsets, np.int64), np.asarray(lengths, np.int64)
        if (starts + sizes).max(initial=0) > self.size:
            last = int(np.argmax(starts + sizes))
            raise SourceError(
                f"{shorten(self.path)}: {sizes[last]} bytes were expected at byte {starts[last]}, but "
                f"the file has only {self.size} bytes. The file is cut off, or it changed. Write the "
                "file again."
            )
        if self._blocks is None:
            return self._read_apart(list(zip(starts.tolist(), sizes.tolist())))
        return self._blocks.read(starts, sizes)

    def prefetch(self, offsets: npt.ArrayLike, lengths: npt.ArrayLike) -> None:
        """Start to fetch the blocks of these ranges into the cache. Does nothing without a cache."""
        if self._blocks is not None:
            self._blocks.announce(blocks_of(offsets, lengths), int(np.sum(lengths)))

    def check_unchanged(self) -> None:
        """Do nothing: each answer of a store contains the version of the file."""

    @contextmanager
    def copied(self) -> Iterator[str]:
        """Yield the path of a local copy, which is kept during the block.

        A process checks the copy against its checksums when it first uses it. A damaged copy is made again.

        Raises:
            SourceError: there is no cache, or the copy was damaged several times.
        """
        if self._blocks is None:
            raise SourceError(
                f"{shorten(self.path)}: files of this format are copied to disk before they are read, "
                "but cache_bytes=0 allows no copies. Pass a larger number, such as "
                "storage_options={'cache_bytes': 10**10}."
            )
        descriptor = self._opened_copy()
        try:
            yield f"/proc/self/fd/{descriptor}" if sys.platform == "linux" else self._cache.path(self._copy_name)
        finally:
            os.close(descriptor)

    def _opened_copy(self) -> int:
        """Return a descriptor of the copy after a check of its checksums. The caller closes it."""
        for _ in range(_COPY_TRIES):
            while (descriptor := self._cache.open(self._copy_name, self.size)) is None:
                self.keep_copy(wait=True)
            name = self._cache.path(self._copy_name), os.fstat(descriptor).st_ino
            if name in checked_copies or is_whole(descriptor, self.size, self._cache.sums(self._copy_name)):
                checked_copies.add(name)
                return descriptor
            os.close(descriptor)
            self._cache.remove(self._copy_name)
        raise SourceError(
            f"{shorten(self.path)}: its copy in {shorten(self._cache.folder)} was damaged {_COPY_TRIES} "
            "times. Choose another disk with storage_options={'cache_dir': …}."
        )

    def has_copy(self) -> bool:
        """Return True if the cache has a copy of the file. It is then marked as recently used."""
        return self._cache.touch(self._copy_name)

    def keep_copy(self, wait: bool = False) -> None:
        """Make a copy of the file in the cache, unless it exists.

        Args:
            wait: True: wait if another process is making it. False (default): return at once in this case.
        """
        claim = self._cache.claim(self._copy_name, wait)
        if claim is None:
            return
        sums = []
        with claim.file(self.size) as out:
            for first in range(0, self.size, _COPIED_BYTES):
                starts = range(first, min(first + _COPIED_BYTES, self.size), REQUEST_BYTES)
                for part in in_parallel(lambda at: self._ask(at, min(at + REQUEST_BYTES, self.size)), starts):
                    out.write(part)
                    sums.append(sums_of(part))
            claim.keep_sums(b"".join(sums))

    def close(self) -> None: ...

    def __reduce__(self) -> tuple[type[RemoteFile], tuple[str, StorageOptions, Stamp]]:
        return RemoteFile, (self.path, self.storage_options, self.stamp)

    def _read_apart(self, ranges: Sequence[Range]) -> list[bytes]:
        asked = together(ranges)
        brought = in_parallel(lambda one: self._ask(*one), asked)
        starts = [start for start, _ in asked]
        found = []
        for offset, length in ranges:
            number = bisect_right(starts, offset) - 1
            found.append(bytes(brought[number][offset - starts[number] :][:length]) if length else b"")
        return found

    def _ask(self, start: int, stop: int) -> memoryview:
        def question(store: FileStore, key: str) -> memoryview:
            data, stamp = store.read(key, start, stop)
            if stamp is not None:
                check_unchanged(self.path, self.stamp, stamp)
            if len(data) != stop - start:
                raise EOFError(f"the store must send {stop - start} bytes from byte {start}, but it sent {len(data)}")
            return data

        return ask(self.path, self.storage_options, question)
