"""Open file in a store. Ranges are read by few requests, several at a time.

With a cache, whole blocks are fetched once for all processes of a host, and kept (`blocks.py`).
Without a cache, ranges that are close to one another share a request.
"""

from __future__ import annotations

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
from ..sums import is_whole
from .blocks import AT_ONCE, BLOCK_BYTES, CachedBlocks, Range, blocks_of, together
from .cache import Cache
from .copies import copy_name, folder_of, make_copy, no_cache, stamp_by_request
from .http_files import OF_CONTENT, NoRangesError
from .parallel import in_background, in_parallel
from .store import FileStore, ask

_AHEAD_BYTES = 8 << 20
"""Bytes that are prefetched, once to twice as many, of a file that is read from its beginning."""

_PORTION_BYTES = AT_ONCE * BLOCK_BYTES
"""Maximum number of bytes that `RemoteFile.read` reads at a time."""

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
    _is_whole: bool
    """True if the file is read from a copy, because the server sends no ranges of it."""

    def __init__(self, path: str, options: StorageOptions, stamp: Stamp | None = None) -> None:
        self.path, self.storage_options = path, options
        self._cache = Cache(options.cache_dir, options.cache_bytes)
        self.stamp = stamp or self._current_stamp()
        # no other answer has this version
        self._is_whole = str(self.stamp.modified).startswith(OF_CONTENT)
        self.size = self.stamp.size
        self._follows, self._asked_for = -1, 0
        self._copy_name = copy_name(path, self.stamp)
        if options.cache_bytes:
            self._blocks = CachedBlocks(
                self._cache, folder_of(path, *self.stamp), self.size, self._ask
            )

    def _current_stamp(self) -> Stamp:
        try:
            return ask(self.path, self.storage_options, lambda store, key: store.stamp(key))
        except NoRangesError:
            return stamp_by_request(self.path, self.storage_options, self._cache)

    def read(self, offset: int, length: int) -> bytes:
        """Return the bytes `[offset, offset + length)`, and perhaps prefetch the next ones.

        They are prefetched if the last read ended at `offset`.
        """
        if offset == self._follows and offset + length + _AHEAD_BYTES > self._asked_for:
            self._asked_for = min(offset + length + 2 * _AHEAD_BYTES, self.size)
            self.prefetch([offset], [max(self._asked_for - offset, 0)])
        self._follows = offset + length
        if length <= _PORTION_BYTES:
            return self.read_many([offset], [length])[0]
        starts = range(offset, offset + length, _PORTION_BYTES)
        return b"".join(
            self.read(start, min(_PORTION_BYTES, offset + length - start)) for start in starts
        )

    def read_many(self, offsets: npt.ArrayLike, lengths: npt.ArrayLike) -> list[bytes]:
        starts, sizes = np.asarray(offsets, np.int64), np.asarray(lengths, np.int64)
        if (starts + sizes).max(initial=0) > self.size:
            last = int(np.argmax(starts + sizes))
            raise SourceError(
                f"{shorten(self.path)}: {sizes[last]} bytes were expected at byte {starts[last]}, "
                f"but the file has only {self.size} bytes. The file is cut off or damaged; or it "
                "does not belong to its index. Write the file again, with its index if it has one."
            )
        ranges = list(zip(starts.tolist(), sizes.tolist()))
        if self._is_whole:
            return self._read_copy(ranges)
        try:
            return (
                self._read_apart(ranges)
                if self._blocks is None
                else self._blocks.read(starts, sizes)
            )
        except NoRangesError:
            if self._blocks is None:
                raise no_cache(self.path) from None
            self._is_whole = True
            return self._read_copy(ranges)

    def _read_copy(self, ranges: Sequence[Range]) -> list[bytes]:
        with open(self._opened_copy(), "rb") as copy:
            found = []
            for offset, length in ranges:
                copy.seek(offset)
                found.append(copy.read(length))
            return found

    def prefetch(self, offsets: npt.ArrayLike, lengths: npt.ArrayLike) -> None:
        """Start to fetch the blocks of these ranges into the cache.

        The whole file is fetched if the server sends no ranges.

        Does nothing without a cache.
        """
        if self._is_whole:
            in_background([] if self.has_copy() else [self.keep_copy])
        elif self._blocks is not None:
            self._blocks.announce(blocks_of(offsets, lengths), int(np.sum(lengths)))

    def check_unchanged(self) -> None:
        """Do nothing: each answer of a store contains the version of the file."""

    @contextmanager
    def copied(self) -> Iterator[str]:
        """Yield the path of a local copy, which is kept during the block.

        A process checks the copy against its checksums when it first uses it. A damaged copy is
        made again.

        Raises:
            SourceError: there is no cache, or it is too small; the file cannot be fetched; or its
                copy was damaged three times.
        """
        if self._blocks is None:
            raise SourceError(
                f"{shorten(self.path)}: files of this format are copied to disk before they are "
                "read, but cache_bytes=0 allows no copies. Pass a larger number, such as "
                "storage_options={'cache_bytes': 10**10}."
            )
        descriptor = self._opened_copy()
        try:
            yield (
                f"/proc/self/fd/{descriptor}"
                if sys.platform == "linux"
                else self._cache.path(self._copy_name)
            )
        finally:
            os.close(descriptor)

    def _opened_copy(self) -> int:
        """Return a descriptor of the copy after a check of its checksums. The caller closes it."""
        for _ in range(_COPY_TRIES):
            while (descriptor := self._cache.open(self._copy_name, self.size)) is None:
                self.keep_copy(wait=True)
            name = self._cache.path(self._copy_name), os.fstat(descriptor).st_ino
            if name in checked_copies or is_whole(
                descriptor, self.size, self._cache.sums(self._copy_name)
            ):
                checked_copies.add(name)
                return descriptor
            os.close(descriptor)
            self._cache.remove(self._copy_name)
        raise SourceError(
            f"{shorten(self.path)}: its copy in {shorten(self._cache.folder)} was damaged "
            f"{_COPY_TRIES} times. Choose another disk with storage_options={{'cache_dir': …}}."
        )

    def has_copy(self) -> bool:
        """Return True if the cache has a copy of the file. It is then marked as recently used."""
        return self._cache.touch(self._copy_name)

    def keep_copy(self, wait: bool = False) -> None:
        """Make a copy of the file in the cache, unless it exists.

        Args:
            wait: True: wait if another process is making it. False (default): return at once in
                this case.
        """
        claim = self._cache.claim(self._copy_name, wait)
        if claim is None:
            return
        with claim.file(self.size) as out:
            claim.keep_sums(
                make_copy(
                    self.path, self.storage_options, self.stamp, out, self._ask, not self._is_whole
                )
            )

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
            found.append(
                bytes(brought[number][offset - starts[number] :][:length]) if length else b""
            )
        return found

    def _ask(self, start: int, stop: int) -> memoryview:
        def question(store: FileStore, key: str) -> memoryview:
            data, stamp = store.read(key, start, stop)
            if stamp is not None:
                check_unchanged(self.path, self.stamp, stamp)
            if len(data) != stop - start:
                raise EOFError(
                    f"the server must send the {stop - start} bytes from byte {start} to {stop}, "
                    f"but it sent {len(data)} bytes"
                )
            return data

        return ask(self.path, self.storage_options, question)
