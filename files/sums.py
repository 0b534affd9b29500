"""Checksums of the pieces (blocks, or copies of files) in the cache on disk, one for each chunk.

A block is stored with the checksums of its chunks after its bytes, so a read of a few bytes checks
only few chunks. A copy of a whole file is stored unchanged, because other libraries read it; its
checksums are in a file beside it.
"""

from __future__ import annotations

import zlib

from .descriptors import read_at

# Its checksum takes 3 µs.
CHUNK_BYTES = 1 << 14
"""Number of bytes that one crc32 checksum covers."""

SUM_BYTES = 4

_AT_ONCE = 1 << 26
"""Number of bytes of a copy that are read at a time."""


class DamagedPieceError(Exception):
    """Bytes on disk differ from the bytes that were written.

    The piece is then removed and fetched again.
    """


def sums_of(data: bytes | memoryview) -> bytes:
    """Return the checksums of all chunks of `data`, four bytes each.

    >>> len(sums_of(bytes(CHUNK_BYTES + 1)))
    8
    """
    view = memoryview(data)
    crcs = (zlib.crc32(view[at : at + CHUNK_BYTES]) for at in range(0, len(view), CHUNK_BYTES))
    return b"".join(crc.to_bytes(SUM_BYTES, "little") for crc in crcs)


def with_sums(size: int) -> int:
    """Return the size of a block of `size` bytes together with its checksums."""
    return size + SUM_BYTES * -(-size // CHUNK_BYTES)


def checked(descriptor: int, size: int, start: int, stop: int) -> bytes:
    """Return the bytes `[start, stop)` of a stored block after a check of their checksums.

    Args:
        descriptor: descriptor of the block's file.
        size: size of the block without checksums.
        start: first byte.
        stop: byte after the last one.

    Raises:
        DamagedPieceError: a checksum is wrong.
    """
    first, last = start // CHUNK_BYTES, -(-stop // CHUNK_BYTES)
    begin, end = first * CHUNK_BYTES, min(last * CHUNK_BYTES, size)
    data = read_at(descriptor, end - begin, begin)
    if sums_of(data) != read_at(descriptor, SUM_BYTES * (last - first), size + SUM_BYTES * first):
        raise DamagedPieceError
    return data[start - begin : stop - begin]


def is_whole(descriptor: int, size: int, sums: bytes) -> bool:
    """Return True if a copy of a file matches its checksums. Reads the whole file."""
    found = (sums_of(read_at(descriptor, _AT_ONCE, at)) for at in range(0, size, _AT_ONCE))
    return b"".join(found) == sums
