"""The blocks of one remote file. In: ranges of bytes. Out: the bytes, from memory, from the cache on disk, or from the store.

Who needs a block that another thread or process is just asking for waits for that. Blocks that were announced close together
are read whole, and stay in memory for a while; of others only what is wanted is read from the disk.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence

from ..opened import Range
from .cache import Cache, Claim
from .hot import HOT, HOT_BYTES
from .parallel import in_background, in_parallel
from .ranges import BLOCK_BYTES, runs_of

AT_ONCE = 64
"""Blocks of one call that are open, or held in memory, at the same time."""

_SCATTERED = 8
"""How many times as much as is wanted may be brought ahead of time."""

Bring = Callable[[int, int], memoryview]
"""Asks the store for the bytes `[start, stop)`."""


class Blocks:
    """The blocks of one version of a file.

    Args:
        cache: where they are kept.
        folder: of the file in it.
        size: of the file in bytes.
        bring: asks the store for some of it.
    """

    def __init__(self, cache: Cache, folder: str, size: int, bring: Bring) -> None:
        self._cache, self._folder, self._size, self._bring = cache, folder, size, bring
        self._announced: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
        """Those of the last two announcements that fit into memory."""

    def read(self, ranges: Sequence[Range]) -> list[bytes]:
        """The bytes of ranges that lie in the file."""
        blocks: set[int] = set()
        for offset, length in ranges:
            if length:
                blocks.update(range(offset // BLOCK_BYTES, (offset + length - 1) // BLOCK_BYTES + 1))
        found: dict[int, bytes | int] = {}
        try:
            for block in blocks:
                if (here := self._here(block)) is not None:
                    found[block] = here
            found.update(self._from_store(sorted(blocks.difference(found))))
            return [_joined(found, offset, length) for offset, length in ranges]
        finally:
            for here in found.values():
                if isinstance(here, int):
                    os.close(here)

    def announce(self, blocks: Sequence[int], wanted: int) -> None:
        """Begin to bring blocks of which so many bytes will be wanted soon; faults wait for the read.

        Not where what is wanted is so scattered that it would be many times as much, or most of the cache.
        """
        size = len(blocks) * BLOCK_BYTES
        if size > min(_SCATTERED * wanted + 2 * BLOCK_BYTES, self._cache.budget // 2):
            return
        fits = 2 * size <= HOT_BYTES
        self._announced = self._announced[1], frozenset(blocks) if fits else frozenset()
        missing = [block for block in blocks if not self._cache.touch(self._name(block))]
        portions = [missing[first : first + AT_ONCE] for first in range(0, len(missing), AT_ONCE)]
        in_background([functools.partial(self._claimed, portion) for portion in portions])

    def _here(self, block: int) -> bytes | int | None:
        """A block, or a descriptor of it, if it is on this machine."""
        kept = HOT.get((self._folder, block))
        if kept is not None:
            return kept
        descriptor = self._cache.open(self._name(block))
        if descriptor is None or not self._is_hot(block):
            return descriptor
        with open(descriptor, "rb", 0) as file:
            data = file.read(BLOCK_BYTES)
        HOT.put((self._folder, block), data)
        return data

    def _from_store(self, blocks: Sequence[int]) -> dict[int, bytes]:
        """Blocks that are not here: asked for by this thread, or by another one that was faster."""
        brought = self._claimed(blocks) if blocks else {}
        for block in blocks:
            while block not in brought:
                brought.update(self._from_others(block))
        return brought

    def _claimed(self, blocks: Sequence[int]) -> dict[int, bytes]:
        """Those of the blocks that nobody else asks for, by few requests at the same time."""
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

    def _fill(self, run: Sequence[int], claims: dict[int, Claim]) -> dict[int, bytes]:
        """One request, for blocks that follow one another."""
        first = run[0] * BLOCK_BYTES
        data = self._bring(first, min((run[-1] + 1) * BLOCK_BYTES, self._size))
        brought = {block: bytes(data[(at := block * BLOCK_BYTES - first) : at + BLOCK_BYTES]) for block in run}
        for block, piece in brought.items():
            with claims[block].file(len(piece)) as out:
                out.write(piece)
            if self._is_hot(block):
                HOT.put((self._folder, block), piece)
        return brought

    def _from_others(self, block: int) -> dict[int, bytes]:
        """A block that another thread or process was about to write; empty if it is not there after all."""
        claim = self._cache.claim(self._name(block), wait=True)
        if claim is not None:
            try:
                return self._fill([block], {block: claim})
            finally:
                claim.give_up()
        here = self._here(block)
        if isinstance(here, int):
            with open(here, "rb", 0) as file:
                here = file.read(BLOCK_BYTES)
        return {} if here is None else {block: here}

    def _is_hot(self, block: int) -> bool:
        before, now = self._announced
        return block in now or block in before

    def _name(self, block: int) -> str:
        return f"{self._folder}/{block:08x}"


def _joined(found: dict[int, bytes | int], offset: int, length: int) -> bytes:
    """A range, out of the blocks that it touches."""
    block, start = divmod(offset, BLOCK_BYTES)
    here = found.get(block)
    if isinstance(here, bytes) and start + length <= BLOCK_BYTES:
        return here[start : start + length]
    parts = []
    while length:
        block, start = divmod(offset, BLOCK_BYTES)
        size, here = min(length, BLOCK_BYTES - start), found[block]
        parts.append(os.pread(here, size, start) if isinstance(here, int) else here[start : start + size])
        offset, length = offset + size, length - size
    return parts[0] if len(parts) == 1 else b"".join(parts)
