"""TFRecord files: records of bytes, each after its length and before its checksum.

    uint64 length | uint32 masked crc32c of the length | bytes | uint32 masked crc32c of the bytes
    (little-endian)

The frame of a record is everything except its bytes. Format:
https://www.tensorflow.org/tutorials/load_data/tfrecord.
"""

from __future__ import annotations

import io
import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..common.lazy_exports import optional_library
from ..common.messages import shorten
from ..errors import SourceError
from ..files.opened import OpenFile
from .damage import OnDamage, leave_out

HEADER_BYTES, FOOTER_BYTES = 12, 4
FRAME_BYTES = HEADER_BYTES + FOOTER_BYTES
"""Number of bytes that a record takes in a file besides its content."""

_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
_MASK = 0xA282EAD8
AT_ONCE = 1 << 20
_LENGTHS_KEPT = 4096
_SCAN_BYTES, _HEADER_ALONE = 1 << 18, 1 << 12
"""Bytes that are read at a time to find headers: if records are short, and if they are long."""


@cache
def crc_function() -> Callable[[bytes], int]:
    """Return the function that computes the crc32c of bytes.

    Raises:
        MissingExtraError: the library google-crc32c is not installed.
    """
    library = optional_library("google_crc32c", "TFRecord files need google-crc32c", "tfrecord")
    function: Callable[[bytes], int] = library.value
    return function


def masked(crc: int) -> int:
    """Return a checksum in the form in which it is stored.

    >>> hex(masked(0))
    '0xa282ead8'
    """
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF


def framed(record: bytes) -> bytes:
    """Return a record with its frame, as it is stored.

    >>> len(framed(b"abc"))
    19
    """
    crc = crc_function()
    length = struct.pack("<Q", len(record))
    return b"".join(
        (length, _FOOTER.pack(masked(crc(length))), record, _FOOTER.pack(masked(crc(record))))
    )


def read_records(
    stream: io.BufferedIOBase, name: str, on_damage: OnDamage | None = None
) -> Iterator[tuple[int, bytes]]:
    """Yield `(offset, record)` for each record of a stream. `offset` is the offset of its frame.

    Args:
        stream: stream at its beginning; of a compressed file, the unpacked bytes.
        name: name of the file, for messages.
        on_damage: function that is called with the error for each record that is skipped, because
            its checksum is wrong or the file ends in it; and for each damaged length, after which
            reading continues at the next intact record. None (default): the error is raised.

    Raises:
        SourceError: a record is damaged; or the first length is damaged, as in a file of another
            format.

    >>> import io
    >>> list(read_records(io.BytesIO(framed(b"one") + framed(b"two")), "x.tfrecord"))
    [(0, b'one'), (19, b'two')]
    """
    crc, window, needed = crc_function(), _Window(stream), HEADER_BYTES
    checksums: dict[int, int] = {}  # of lengths that were met: most files have few
    while window.has(needed):
        buffer, at, needed = window.buffer, window.at, HEADER_BYTES
        # a record takes a microsecond here, and there are billions of them
        while at + HEADER_BYTES <= len(buffer):
            length, checksum = _HEADER.unpack_from(buffer, at)
            if checksums.get(length) != checksum and checksum != masked(crc(buffer[at : at + 8])):
                offset, window.at = window.start + at, at
                leave_out(_no_length(buffer, name, offset), on_damage if offset else None)
                at = window.to_next_record()
                break
            if len(checksums) < _LENGTHS_KEPT:
                checksums[length] = checksum
            stop = at + length + FRAME_BYTES
            if stop > len(buffer):
                needed = stop - at
                break
            record = buffer[at + HEADER_BYTES : stop - FOOTER_BYTES]
            if _FOOTER.unpack_from(buffer, stop - FOOTER_BYTES)[0] == masked(crc(record)):
                yield window.start + at, record
            else:
                leave_out(wrong_checksum(name, window.start + at), on_damage)
            at = stop
        window.at = at
    if window.has(1):
        leave_out(_cut_off(name, window.start + window.at), on_damage)


class _Window:
    """Part of a stream that was read into memory, and a position in it."""

    buffer: bytes
    start: int
    """Offset in the stream at which the buffer begins."""
    at: int
    """Current position in the buffer."""

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self._stream = stream
        self.buffer, self.start, self.at = b"", 0, 0

    def has(self, count: int) -> bool:
        """Return True if the stream has `count` more bytes. They are then in the buffer."""
        if len(self.buffer) - self.at >= count:
            return True
        pieces, found = [self.buffer[self.at :]], len(self.buffer) - self.at
        # In pieces: a length may be damaged, and ask for more than the memory holds.
        # By `read1`: where a stream fails, it does so after all that comes before was taken.
        while found < count and (piece := self._stream.read1(AT_ONCE)):
            pieces.append(piece)
            found += len(piece)
        self.start, self.at, self.buffer = self.start + self.at, 0, b"".join(pieces)
        return found >= count

    def to_next_record(self) -> int:
        """Move to the next intact record, or to the end of the stream if there is none.

        Return the position in the buffer.
        """
        self.at += 1
        while self.has(HEADER_BYTES):
            # Of a length of less than a terabyte the last three bytes are zero.
            zeros = self.buffer.find(bytes(3), self.at + 5)
            if zeros < 0:
                self.at = len(self.buffer) - HEADER_BYTES + 1
                continue
            self.at = zeros - 5
            if self._has_record():
                return self.at
            self.at += 1
        self.at = len(self.buffer)
        return self.at

    def _has_record(self) -> bool:
        length = _length_at(self.buffer, self.at) if self.has(HEADER_BYTES) else None
        if length is None or not self.has(length + FRAME_BYTES):
            return False
        end = self.at + HEADER_BYTES + length
        (stored,) = _FOOTER.unpack_from(self.buffer, end)
        return bool(stored == masked(crc_function()(self.buffer[end - length : end])))


class RecordTable(NamedTuple):
    """Offsets and checksums of the records of a TFRecord file."""

    offsets: npt.NDArray[np.int64]
    """Offsets of frames, `int64[records + 1]`. The last one is the end of the file."""
    checksums: npt.NDArray[np.uint32]
    """crc32c of each record's content, `uint32[records]`, as stored in the file."""


def record_table(file: OpenFile) -> RecordTable:
    """Find the records of a file. Their lengths are checked, their contents are not.

    Raises:
        SourceError: the file is damaged, cut off, compressed or not TFRecord.
    """
    offsets, checksums, offset, wanted = array("q"), array("I"), 0, _SCAN_BYTES
    while offset < file.size:
        known, start = len(offsets), offset
        first = max(offset - FOOTER_BYTES, 0)  # the checksum of the record before it comes along
        piece = file.read(first, min(wanted, file.size - first))
        while offset - first + HEADER_BYTES <= len(piece):
            if offsets:
                checksums.append(_FOOTER.unpack_from(piece, offset - first - FOOTER_BYTES)[0])
            offsets.append(offset)
            length = _length_at(piece, offset - first)
            if length is None:
                raise _no_length(piece, file.path, offset)
            offset += length + FRAME_BYTES
        if offset == start or offset > file.size:
            raise _cut_off(file.path, offsets[-1] if offset > start else offset)
        wanted = (
            _HEADER_ALONE
            if offset - start > _HEADER_ALONE * (len(offsets) - known)
            else _SCAN_BYTES
        )
    if offsets:
        checksums.append(_FOOTER.unpack(file.read(offset - FOOTER_BYTES, FOOTER_BYTES))[0])
    offsets.append(offset)
    turned = np.frombuffer(checksums, np.uint32) - np.uint32(_MASK)
    return RecordTable(
        np.frombuffer(offsets, np.int64), turned << np.uint32(15) | turned >> np.uint32(17)
    )


def first_damaged(records: Sequence[bytes], checksums: Sequence[int]) -> int | None:
    """Return the index of the first record whose crc32c is wrong, or None if all are right.

    Args:
        records: contents of records.
        checksums: their stored checksums.

    >>> first_damaged([b"", b"one"], [0, 7])
    1
    """
    found = list(map(crc_function(), records))
    if found == checksums:
        return None
    return next(
        number for number, (crc, wanted) in enumerate(zip(found, checksums)) if crc != wanted
    )


def _length_at(buffer: bytes, at: int) -> int | None:
    length: int
    length, stored = _HEADER.unpack_from(buffer, at)
    return length if stored == masked(crc_function()(buffer[at : at + 8])) else None


def _no_length(begin: bytes, name: str, offset: int) -> SourceError:
    if offset:
        return SourceError(
            f"{shorten(name)}: the length of the record at byte {offset} is damaged, so the "
            "records after it cannot be found. Write the file again."
        )
    if begin.startswith(b"\x1f\x8b"):
        return SourceError(
            f"{shorten(name)} is compressed with gzip, so headrace cannot read single records of "
            "it. Unpack the file. Or give it a name that ends in .gz, and convert it with "
            "`headrace convert`."
        )
    return SourceError(
        f"{shorten(name)} is not a TFRecord file, or its first record is damaged. Pass a TFRecord "
        "file, or write it again."
    )


def wrong_checksum(name: str, offset: int) -> SourceError:
    """Return the error for a record with a wrong checksum."""
    return SourceError(
        f"{shorten(name)}: the record at byte {offset} is damaged, because its checksum is wrong. "
        "Write the file again."
    )


def _cut_off(name: str, offset: int) -> SourceError:
    return SourceError(
        f"{shorten(name)}: the file ends inside the record at byte {offset}, so it is cut off. "
        "Write it again."
    )
