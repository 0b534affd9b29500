"""A file in a store, open. In: ranges of bytes. Out: the bytes; by few requests, several at a time.

With a cache, blocks of 1 MiB are brought whole, once for all processes of a host, and kept. Without one, ranges that are close
to one another are asked for together.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ...errors import MillraceError, SourceError
from ...wording import brief
from ..stamps import Stamp, check_unchanged
from ..storage_options import StorageOptions
from .cache import Cache, Claim
from .ranges import BLOCK_BYTES, REQUEST_BYTES, Range, blocks_of, runs_of, together
from .retries import ask
from .store import store_of

_AT_ONCE = 16
"""Requests that run at the same time."""

_BLOCKS_AT_ONCE = 64
"""Blocks of one call that are held in memory at the same time."""

_SCATTERED = 8
"""How many times as much as is wanted may be brought ahead of time."""

_PORTION_BYTES = _BLOCKS_AT_ONCE * BLOCK_BYTES

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


class RemoteFile:
    """`OpenFile` says what it does. Nothing stays open but the store's connections, which all files of a process share.

    Args:
        path: a URL.
        options: how it is reached.
        stamp: of the version that is to be read; default the one of now.
    """

    path: str
    size: int
    stamp: Stamp

    def __init__(self, path: str, options: StorageOptions, stamp: Stamp | None = None) -> None:
        self.path, self._options = path, options
        self.stamp = stamp or remote_stamp(path, options)
        self.size = self.stamp.size
        self._cache = Cache(options.cache_dir, options.cache_bytes) if options.cache_bytes else None
        self._folder = hashlib.sha256(repr((path, *self.stamp)).encode()).hexdigest()[:24]

    def read(self, offset: int, length: int) -> bytes:
        """The bytes `[offset, offset + length)`."""
        if length <= _PORTION_BYTES:
            return self.read_many([(offset, length)])[0]
        starts = range(offset, offset + length, _PORTION_BYTES)
        return b"".join(self.read(start, min(_PORTION_BYTES, offset + length - start)) for start in starts)

    def read_many(self, ranges: Sequence[Range]) -> list[bytes]:
        """The bytes of many ranges."""
        for offset, length in ranges:
            if offset + length > self.size:
                raise SourceError(
                    f"{brief(self.path)}: {length} bytes were asked for at byte {offset}, but the file has {self.size}."
                )
        if self._cache is None:
            return self._read_apart(ranges)
        found: list[bytes] = []
        for some in _in_portions(ranges):
            found += self._read_blocks(self._cache, some)
        return found

    def prefetch(self, offsets: npt.ArrayLike, lengths: npt.ArrayLike) -> None:
        """Begin to bring the blocks of these ranges into the cache; a fault waits for the read.

        Not without a cache, nor where ranges are so scattered that the blocks would be many times as much, or fill the cache.
        """
        blocks = blocks_of(offsets, lengths)
        wanted, brought = int(np.sum(lengths)), len(blocks) * BLOCK_BYTES
        if self._cache is None or brought > min(_SCATTERED * wanted + 2 * BLOCK_BYTES, self._cache.budget // 2):
            return
        cache, missing = self._cache, self._missing(self._cache, blocks)
        if missing:

            def bring() -> None:
                with suppress(MillraceError):
                    for first in range(0, len(missing), _BLOCKS_AT_ONCE):
                        self._bring(cache, missing[first : first + _BLOCKS_AT_ONCE])

            threading.Thread(target=bring, name="millrace-prefetch", daemon=True).start()

    def check_unchanged(self) -> None:
        """Nothing: each answer of a store tells which version it is from."""

    @contextmanager
    def copied(self) -> Iterator[str]:
        """The path of a copy on this machine, which nobody removes during the `with` block.

        Raises:
            SourceError: there is no cache, the file is larger than it, or it cannot be read.
        """
        if self._cache is None:
            raise SourceError(
                f"{brief(self.path)}: files of this kind are read from a copy on disk, and cache_bytes is 0; raise it in "
                "storage_options=."
            )
        name = f"{self._folder}/whole"
        while (descriptor := self._cache.open(name)) is None:
            claim = self._cache.claim(name, wait=True)
            if claim is not None:
                self._copy(claim)
        try:
            yield f"/proc/self/fd/{descriptor}" if sys.platform == "linux" else self._cache.path(name)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Nothing is open."""

    def __reduce__(self) -> tuple[type[RemoteFile], tuple[str, StorageOptions, Stamp]]:
        return RemoteFile, (self.path, self._options, self.stamp)

    def _copy(self, claim: Claim) -> None:
        with claim.file(self.size) as out:
            for first in range(0, self.size, _PORTION_BYTES):
                starts = range(first, min(first + _PORTION_BYTES, self.size), REQUEST_BYTES)
                for part in _in_parallel(lambda at: self._ask(at, min(at + REQUEST_BYTES, self.size)), starts):
                    out.write(part)

    def _read_apart(self, ranges: Sequence[Range]) -> list[bytes]:
        asked = together(ranges)
        brought = _in_parallel(lambda one: self._ask(*one), asked)
        starts = [start for start, _ in asked]
        found = []
        for offset, length in ranges:
            number = bisect_right(starts, offset) - 1
            found.append(brought[number][offset - starts[number] :][:length] if length else b"")
        return found

    def _read_blocks(self, cache: Cache, ranges: Sequence[Range]) -> list[bytes]:
        blocks = blocks_of([offset for offset, _ in ranges], [length for _, length in ranges])
        opened = {block: cache.open(self._name(block)) for block in blocks}
        try:
            brought = self._bring(cache, [block for block, descriptor in opened.items() if descriptor is None])
            return [self._joined(opened, brought, offset, length) for offset, length in ranges]
        finally:
            for descriptor in opened.values():
                if descriptor is not None:
                    os.close(descriptor)

    def _joined(self, opened: dict[int, int | None], brought: dict[int, bytes], offset: int, length: int) -> bytes:
        found = []
        while length:
            block, start = divmod(offset, BLOCK_BYTES)
            size, descriptor = min(length, BLOCK_BYTES - start), opened[block]
            if descriptor is None:
                found.append(brought[block][start : start + size])
            else:
                found.append(os.pread(descriptor, size, start))
            offset, length = offset + size, length - size
        return found[0] if len(found) == 1 else b"".join(found)

    def _bring(self, cache: Cache, blocks: Sequence[int]) -> dict[int, bytes]:
        """Blocks that were not in the cache: asked for by this thread, or by another one that was faster."""
        claims = {block: claim for block in blocks if (claim := cache.claim(self._name(block), wait=False)) is not None}
        try:
            brought = self._fill(claims)
        finally:
            for claim in claims.values():
                claim.give_up()
        for block in blocks:
            while block not in brought:
                brought.update(self._from_others(cache, block))
        return brought

    def _fill(self, claims: dict[int, Claim]) -> dict[int, bytes]:
        brought: dict[int, bytes] = {}
        for some in _in_parallel(self._ask_blocks, runs_of(sorted(claims))):
            for block, data in some.items():
                with claims[block].file(len(data)) as out:
                    out.write(data)
            brought.update(some)
        return brought

    def _from_others(self, cache: Cache, block: int) -> dict[int, bytes]:
        """A block that another thread or process was about to write; empty if it is not there after all."""
        claim = cache.claim(self._name(block), wait=True)
        if claim is not None:
            try:
                return self._fill({block: claim})
            finally:
                claim.give_up()
        descriptor = cache.open(self._name(block))
        if descriptor is None:
            return {}
        with open(descriptor, "rb") as file:
            return {block: file.read()}

    def _missing(self, cache: Cache, blocks: Iterable[int]) -> list[int]:
        return [block for block in blocks if not cache.holds(self._name(block))]

    def _name(self, block: int) -> str:
        return f"{self._folder}/{block:08x}"

    def _ask_blocks(self, blocks: list[int]) -> dict[int, bytes]:
        first = blocks[0] * BLOCK_BYTES
        data = self._ask(first, min((blocks[-1] + 1) * BLOCK_BYTES, self.size))
        return {block: data[(at := block * BLOCK_BYTES - first) : at + BLOCK_BYTES] for block in blocks}

    def _ask(self, start: int, stop: int) -> bytes:
        """One request, made again while it fails."""
        store, key = store_of(self.path, self._options)

        def question() -> bytes:
            data, stamp = store.read(key, start, stop)
            if stamp is not None:
                check_unchanged(self.path, self.stamp, stamp)
            if len(data) != stop - start:
                raise EOFError(f"{len(data)} bytes came in place of the {stop - start} from byte {start} on")
            return data

        return ask(store, self.path, self._options, question)


def remote_stamp(path: str, options: StorageOptions) -> Stamp:
    """Size and version of a file in a store.

    Raises:
        SourceNotFoundError: it is not there.
        SourceError: the store does not answer, or refuses to.
    """
    store, key = store_of(path, options)

    def question() -> Stamp:
        return store.stamp(key)

    return ask(store, path, options, question)


def _in_portions(ranges: Sequence[Range]) -> Iterable[Sequence[Range]]:
    """Ranges cut where they would touch too many blocks together. One range alone may still be larger."""
    begin, touched = 0, 0
    for number, (_, length) in enumerate(ranges):
        touched += length // BLOCK_BYTES + 2
        if touched > 4 * _BLOCKS_AT_ONCE and number > begin:
            yield ranges[begin:number]
            begin, touched = number, length // BLOCK_BYTES + 2
    yield ranges[begin:]


def _in_parallel(work: Callable[[ItemT], ResultT], items: Sequence[ItemT]) -> list[ResultT]:
    """What `work` gives for each item; the threads end with the call."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(len(items), _AT_ONCE), "millrace-request") as threads:
        return list(threads.map(work, items))
