"""Read ranges of a remote file by blocks, from memory, from the cache on disk, or from the store.

If another thread or process is already fetching a block, a thread waits for it. Blocks that are
announced stay mapped into memory for a while; of other blocks, only the requested bytes are read
from disk. Each read is checked with the block's checksums, also a read of mapped memory, because
the file may change. A damaged block is fetched again.
"""

from __future__ import annotations

import functools
import mmap
import os
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ..mmap_files import mapping_of
from ..sums import CHUNK_BYTES, SUM_BYTES, DamagedPieceError, checked, sums_of, with_sums
from .cache import Cache, Claim
from .hot import HOT, HOT_BYTES
from .parallel import in_background, in_parallel

Range = tuple[int, int]
"""Offset and length of a range, in bytes."""

# A request takes as long as the transfer of more bytes than this.
GAP_BYTES = 64 << 10
"""Maximum gap in bytes between two ranges that are fetched by one request."""

# Enough to amortize a request, and few enough for several to run at the same time.
REQUEST_BYTES = 8 << 20
"""Maximum bytes of one request."""

# Few enough not to fetch much that is not wanted, and enough to justify a file.
BLOCK_BYTES = 1 << 19
"""Size of a block of the cache, in bytes."""

AT_ONCE = 64
"""Maximum number of blocks of one call that are open, or in memory, at the same time."""

_SCATTERED = 8
"""Maximum ratio of fetched to requested bytes.

If announced ranges exceed it, they are not prefetched.
"""

Bring = Callable[[int, int], memoryview]
"""Type of a function that fetches the bytes `[start, stop)` from the store."""

Int64s: TypeAlias = npt.NDArray[np.int64]


class CachedBlock(Protocol):
    """Protocol of a block on this machine. A slice returns its bytes."""

    def __getitem__(self, part: slice, /) -> bytes: ...


class CachedBlocks:
    """Blocks of one version of a file, which are kept in a folder of the cache.

    Args:
        cache: the cache.
        folder: name of the folder.
        size: size of the file in bytes.
        bring: function that fetches the bytes `[start, stop)` from the store.
    """

    def __init__(self, cache: Cache, folder: str, size: int, bring: Bring) -> None:
        self._cache, self._folder, self._size, self._bring = cache, folder, size, bring
        self._announced: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
        """Blocks of the last two announcements, if they fit into memory."""

    def read(self, offsets: Int64s, lengths: Int64s) -> list[bytes]:
        blocks = blocks_of(offsets, lengths)
        if len(blocks) > AT_ONCE and len(offsets) > 1:
            half = len(offsets) // 2
            return self.read(offsets[:half], lengths[:half]) + self.read(
                offsets[half:], lengths[half:]
            )
        firsts, starts = np.divmod(offsets, BLOCK_BYTES)
        places = list(zip(firsts.tolist(), starts.tolist(), (starts + lengths).tolist()))
        while True:
            found = self._found(blocks)
            try:
                return [
                    found[block][start:stop]
                    if start < stop <= BLOCK_BYTES
                    else _joined(found, block, start, stop)
                    for block, start, stop in places
                ]
            except _DamagedBlockError as damaged:  # the next time it comes from the store
                HOT.drop([self._hot_name(damaged.block)])
                self._cache.remove(self._name(damaged.block))

    def announce(self, blocks: Sequence[int], wanted: int) -> None:
        """Start to fetch blocks that will be needed soon. Errors are raised by the later read.

        Nothing is fetched if the needed bytes are so scattered that the blocks are many times as
        large, or if the blocks would fill more than half of the cache.

        Args:
            blocks: indices of the blocks.
            wanted: number of bytes that will be read from them.
        """
        size = len(blocks) * BLOCK_BYTES
        if size > min(_SCATTERED * wanted + 2 * BLOCK_BYTES, self._cache.budget // 2):
            return
        before, now = self._announced[1], frozenset(blocks if 2 * size <= HOT_BYTES else ())
        HOT.drop(map(self._hot_name, self._announced[0] - before - now))
        self._announced = before, now
        missing = [block for block in blocks if not self._cache.touch(self._name(block))]
        portions = [missing[first : first + AT_ONCE] for first in range(0, len(missing), AT_ONCE)]
        in_background([functools.partial(self._claimed, portion) for portion in portions])

    def _found(self, blocks: Sequence[int]) -> dict[int, CachedBlock]:
        found = {block: here for block in blocks if (here := self._here(block)) is not None}
        brought = self._from_store([block for block in blocks if block not in found])
        return found | {block: self._checked(block, mapping) for block, mapping in brought.items()}

    def _checked(self, block: int, mapping: mmap.mmap) -> CachedBlock:
        return _Mapped(mapping, block, self._size_of(block))

    def _here(self, block: int) -> CachedBlock | None:
        mapping = HOT.get(self._hot_name(block))
        if mapping is None and self._is_hot(block):
            mapping = self._mapped(block)
            if mapping is None:
                return None
        if mapping is not None:
            return self._checked(block, mapping)
        descriptor = self._opened(block)
        return None if descriptor is None else _OnDisk(descriptor, block, self._size_of(block))

    def _opened(self, block: int) -> int | None:
        return self._cache.open(self._name(block), with_sums(self._size_of(block)))

    def _mapped(self, block: int) -> mmap.mmap | None:
        descriptor, size = self._opened(block), self._size_of(block)
        if descriptor is None:
            return None
        try:
            mapping = mapping_of(descriptor, with_sums(size))
        finally:
            os.close(descriptor)
        view = memoryview(mapping)
        if sums_of(view[:size]) != view[size:]:
            self._cache.remove(self._name(block))
            return None
        return self._kept(block, mapping)

    def _kept(self, block: int, mapping: mmap.mmap) -> mmap.mmap:
        if self._is_hot(block):
            HOT.put(self._hot_name(block), mapping)
        return mapping

    def _from_store(self, blocks: Sequence[int]) -> dict[int, mmap.mmap]:
        """Return the mappings of blocks that are not in the cache, by block.

        This or another thread fetches them.
        """
        brought = self._claimed(blocks) if blocks else {}
        for block in blocks:
            while block not in brought:
                brought.update(self._from_others(block))
        return brought

    def _claimed(self, blocks: Sequence[int]) -> dict[int, mmap.mmap]:
        """Fetch the blocks that no other thread or process is fetching.

        Return their mappings by block.

        A few requests run in parallel.
        """
        claims: dict[int, Claim] = {}
        try:
            for block in blocks:
                claim = self._cache.claim(self._name(block), wait=False)
                if claim is not None:
                    claims[block] = claim
            runs = in_parallel(lambda run: self._fill(run, claims), runs_of(sorted(claims)))
            return {block: data for run in runs for block, data in run.items()}
        finally:
            for claim in claims.values():
                claim.give_up()

    def _fill(self, run: Sequence[int], claims: dict[int, Claim]) -> dict[int, mmap.mmap]:
        """Fetch consecutive blocks by one request, and write them to the cache.

        Return their mappings by block.

        Args:
            run: consecutive indices of the blocks.
            claims: right to write each of them.
        """
        first = run[0] * BLOCK_BYTES
        data = self._bring(first, min((run[-1] + 1) * BLOCK_BYTES, self._size))
        brought = {}
        for block in run:
            at, size = block * BLOCK_BYTES - first, self._size_of(block)
            with claims[block].file(with_sums(size)) as out:
                out.write(data[at : at + size])
                out.write(sums_of(data[at : at + size]))
                mapping = mapping_of(out.fileno(), with_sums(size))
            brought[block] = self._kept(block, mapping)
        return brought

    def _from_others(self, block: int) -> dict[int, mmap.mmap]:
        """Wait until another thread or process has written a block; return `{block: its mapping}`.

        If the other thread or process has given up, this thread fetches the block. Return {} if the
        block was removed or damaged meanwhile.
        """
        claim = self._cache.claim(self._name(block), wait=True)
        if claim is not None:
            try:
                return self._fill([block], {block: claim})
            finally:
                claim.give_up()
        mapping = self._mapped(block)
        return {} if mapping is None else {block: mapping}

    def _is_hot(self, block: int) -> bool:
        before, now = self._announced
        return block in now or block in before

    def _size_of(self, block: int) -> int:
        return min(BLOCK_BYTES, self._size - block * BLOCK_BYTES)

    def _name(self, block: int) -> str:
        return f"{self._folder}/{block:08x}"

    def _hot_name(self, block: int) -> tuple[str, str]:
        """Return the key of a mapped block in `HOT`.

        It names the cache folder, because several caches may have the same file.
        """
        return self._cache.folder, self._name(block)


class _DamagedBlockError(Exception):
    def __init__(self, block: int) -> None:
        self.block = block


class _Mapped:
    """Block that is mapped into memory for the reads of one call. Each chunk is checked once."""

    def __init__(self, mapping: mmap.mmap, block: int, size: int) -> None:
        self._mapping, self._block, self._size = mapping, block, size
        self._chunk, self._data = -1, b""  # the chunk that was checked last

    def __getitem__(self, part: slice) -> bytes:
        first, last = part.start // CHUNK_BYTES, -(-min(part.stop, self._size) // CHUNK_BYTES)
        begin = first * CHUNK_BYTES
        if last - first == 1 and first == self._chunk:
            return self._data[part.start - begin : part.stop - begin]
        # a copy, which nobody changes any more
        data = self._mapping[begin : min(last * CHUNK_BYTES, self._size)]
        sums = self._size + SUM_BYTES * first
        if sums_of(data) != self._mapping[sums : sums + SUM_BYTES * (last - first)]:
            raise _DamagedBlockError(self._block)
        if last - first == 1:
            self._chunk, self._data = first, data
        return data[part.start - begin : part.stop - begin]


class _OnDisk:
    """Block of which only few bytes are read, directly from its file.

    The file is closed with the object.
    """

    def __init__(self, descriptor: int, block: int, size: int) -> None:
        self._descriptor, self._block, self._size = descriptor, block, size

    def __getitem__(self, part: slice) -> bytes:
        try:
            return checked(self._descriptor, self._size, part.start, part.stop)
        except DamagedPieceError:
            raise _DamagedBlockError(self._block) from None

    def __del__(self) -> None:
        os.close(self._descriptor)


def _joined(found: dict[int, CachedBlock], block: int, start: int, stop: int) -> bytes:
    """Return the bytes of a range that spans several blocks.

    Args:
        found: all blocks of the range, by index.
        block: first block of the range.
        start: first byte, counted from the beginning of that block.
        stop: byte after the last one, counted in the same way.
    """
    parts = []
    while start < stop:
        parts.append(found[block][start : min(stop, BLOCK_BYTES)])
        block, start, stop = block + 1, 0, stop - BLOCK_BYTES
    return b"".join(parts)


def together(ranges: Sequence[Range]) -> list[Range]:
    """Merge ranges `(offset, length)` into ascending requests `(start, stop)` that cover all.

    >>> together([(500_000, 10), (0, 10), (100, 10), (105, 7)])
    [(0, 112), (500000, 500010)]
    """
    found: list[Range] = []
    for offset, length in sorted(ranges):
        if (
            found
            and offset - found[-1][1] <= GAP_BYTES
            and offset + length - found[-1][0] <= REQUEST_BYTES
        ):
            found[-1] = found[-1][0], max(found[-1][1], offset + length)
        elif length:
            found.append((offset, offset + length))
    return found


def blocks_of(offsets: npt.ArrayLike, lengths: npt.ArrayLike) -> list[int]:
    """Return the indices of the blocks that contain a byte of the ranges, ascending.

    >>> blocks_of([BLOCK_BYTES - 1, 0, 5 * BLOCK_BYTES], [2, 1, 0])
    [0, 1]
    """
    starts, sizes = np.asarray(offsets, np.int64), np.asarray(lengths, np.int64)
    filled = sizes > 0
    first, last = starts[filled] // BLOCK_BYTES, (starts + sizes - 1)[filled] // BLOCK_BYTES
    touched = {*first.tolist(), *last.tolist()}
    long = last - first > 1
    for low, high in zip(first[long].tolist(), last[long].tolist()):
        touched.update(range(low, high))
    return sorted(touched)


def runs_of(blocks: Sequence[int]) -> list[list[int]]:
    """Group consecutive blocks into lists of limited length, for one request each.

    >>> runs_of([0, 1, 2, 7])
    [[0, 1, 2], [7]]
    """
    runs: list[list[int]] = []
    for block in blocks:
        if runs and block == runs[-1][-1] + 1 and len(runs[-1]) < REQUEST_BYTES // BLOCK_BYTES:
            runs[-1].append(block)
        else:
            runs.append([block])
    return runs
