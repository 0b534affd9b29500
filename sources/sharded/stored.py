"""An uncompressed shard in a store, which is read by ranges.

In: an open file, and the ranges that a read needs. Out: slices of the shard, as of an array.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ...files.opened import OpenFile
from ...files.streams import RawFile
from ...formats.sharded.encodings import Bytes

Range = tuple[int, int]
"""First byte of a range, and the byte after its last one."""

_TAIL_BYTES = 12
"""Size of the end of a file that stays in memory when a part of it was read.

The end of a LitData chunk tells its layout.
"""


class StoredShard:
    """Bytes of a shard in a store; a slice is an array `uint8[bytes]`. Thread-safe.

    Args:
        file: the open file.
        head: first bytes of the file, which stay in memory. Default: none.
        fetched: bytes of ranges that were fetched together. Default: none. Other slices are fetched
            one by one.
        tail: last bytes of the file, if they are known.
    """

    def __init__(
        self,
        file: OpenFile,
        head: bytes = b"",
        fetched: Mapping[Range, bytes] | None = None,
        tail: bytes = b"",
    ) -> None:
        self.file, self._head, self._fetched, self._tail = file, head, fetched or {}, tail

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the head."""
        return len(self._head)

    def __len__(self) -> int:
        return self.file.size

    def __getitem__(self, part: slice) -> Bytes:
        start, stop, _ = part.indices(len(self))
        if stop <= len(self._head):
            return np.frombuffer(self._head[start:stop], np.uint8)
        if 0 <= (begin := len(self) - _TAIL_BYTES) <= start < stop:
            self._tail = self._tail or self.file.read(begin, _TAIL_BYTES)
            return np.frombuffer(self._tail[start - begin : stop - begin], np.uint8)
        data = self._fetched.get((start, stop))
        return np.frombuffer(
            self.file.read(start, max(stop - start, 0)) if data is None else data, np.uint8
        )

    def ranges_of(self, places: npt.NDArray[np.int64], samples: int) -> list[Range]:
        """Return the ranges of samples that are stored one after the other.

        Args:
            places: `int64[n]`, indices of the samples.
            samples: number of samples in the shard.
        """
        offsets = self[4 : 8 + 4 * samples].view("<u4")
        return list(zip(offsets[places].tolist(), offsets[places + 1].tolist()))

    def with_head(self, size: int) -> StoredShard:
        """Return the shard with its first `size` bytes in memory, or all if it has fewer."""
        return StoredShard(self.file, self.file.read(0, min(size, len(self))))

    def with_ranges(self, ranges: Iterable[Range]) -> StoredShard:
        """Return the shard with these ranges in memory.

        Those that are close together are fetched by one request.
        """
        wanted = self._inside(ranges)
        found = self.file.read_many(
            [start for start, _ in wanted], [stop - start for start, stop in wanted]
        )
        return StoredShard(self.file, self._head, dict(zip(wanted, found)), self._tail)

    def prefetch(self, ranges: Iterable[Range]) -> None:
        """Start to fetch these ranges. Does not wait."""
        wanted = self._inside(ranges)
        self.file.prefetch([start for start, _ in wanted], [stop - start for start, stop in wanted])

    def _inside(self, ranges: Iterable[Range]) -> list[Range]:
        """Return the ranges that lie in the file; each once."""
        return sorted({(start, stop) for start, stop in ranges if 0 <= start <= stop <= len(self)})

    def opened(self, start: int, stop: int) -> io.RawIOBase:
        """Return a range as a file."""
        part: Any = _Part(self.file, start, stop)  # has what is used of an `OpenFile`
        return RawFile(part)


class _Part:
    """Range of an open file, for `RawFile`."""

    def __init__(self, file: OpenFile, start: int, stop: int) -> None:
        self._file, self._start, self.size = file, start, stop - start

    def read(self, offset: int, length: int) -> bytes:
        return self._file.read(self._start + offset, length)
