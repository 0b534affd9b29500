"""Checksums of pieces in the cache on disk. In: bytes. Out: one number for each chunk of them, and whether they still agree.

A block is kept with the checksums of its chunks after its bytes, so that a read of a few of them checks few (3 µs a chunk). A
copy of a whole file is kept as it is, as other libraries read it; its checksums stand in a file beside it.
"""

from __future__ import annotations

import zlib

from .descriptors import read_at

CHUNK_BYTES = 1 << 14
"""Bytes under one checksum, a crc32."""

SUM_BYTES = 4

_AT_ONCE = 1 << 26
"""Bytes of a copy that are read at a time."""


class DamagedPieceError(Exception):
    """Bytes on disk are not those that were written; who meets it removes the piece and has it brought again."""


def sums_of(data: bytes | memoryview) -> bytes:
    """The checksums of all chunks of some bytes.

    >>> len(sums_of(bytes(CHUNK_BYTES + 1)))
    8
    """
    view = memoryview(data)
    crcs = (zlib.crc32(view[at : at + CHUNK_BYTES]) for at in range(0, len(view), CHUNK_BYTES))
    return b"".join(crc.to_bytes(SUM_BYTES, "little") for crc in crcs)


def with_sums(size: int) -> int:
    """Bytes of a block of `size` bytes and its checksums."""
    return size + SUM_BYTES * -(-size // CHUNK_BYTES)


def checked(descriptor: int, size: int, start: int, stop: int) -> bytes:
    """The bytes `[start, stop)` of a block that is kept with its checksums, or a DamagedPieceError; `size` is without these."""
    first, last = start // CHUNK_BYTES, -(-stop // CHUNK_BYTES)
    begin, end = first * CHUNK_BYTES, min(last * CHUNK_BYTES, size)
    data = read_at(descriptor, end - begin, begin)
    if sums_of(data) != read_at(descriptor, SUM_BYTES * (last - first), size + SUM_BYTES * first):
        raise DamagedPieceError
    return data[start - begin : stop - begin]


def is_whole(descriptor: int, size: int, sums: bytes) -> bool:
    """True if a copy of a file agrees with its checksums; takes some 0.2 s a gigabyte, and the time of reading it."""
    found = (sums_of(read_at(descriptor, _AT_ONCE, at)) for at in range(0, size, _AT_ONCE))
    return b"".join(found) == sums
