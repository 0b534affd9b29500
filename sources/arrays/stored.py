"""A file in a store, of which several ranges are fetched at a time, and then read one by one.

In: an open file, and ranges. Out: an object of `io`, for libraries that read Python's files.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ...files.opened import OpenFile
from ...files.streams import RawFile

Range = tuple[int, int]
"""Offset and length, in bytes."""


class StoredFile(RawFile):
    """File in a store with a position.

    Ranges that were fetched stay in memory until the next call of `fetch`.
    """

    known: dict[str, npt.NDArray[np.int64]]
    """Offsets and sizes of the pieces of each array, by its name, as far as they were asked for."""

    def __init__(self, file: OpenFile) -> None:
        super().__init__(file, owned=True)
        self.size = file.size
        self._fetched: dict[int, bytes] = {}
        self.known = {}

    def fetch(self, ranges: Iterable[Range]) -> None:
        """Fetch ranges, those that are close together by one request.

        The parts of ranges that lie in the file are fetched.
        """
        wanted = {
            start: min(length, self.size - start)
            for start, length in ranges
            if 0 <= start < self.size
        }
        self._fetched = (
            dict(zip(wanted, self._file.read_many(list(wanted), list(wanted.values()))))
            if wanted
            else {}
        )

    def read_at(self, length: int, offset: int) -> bytes:
        """Return `length` bytes at an offset.

        They come from a fetched range that begins there, else from the store.
        """
        data = self._fetched.get(offset, b"")
        return data[:length] if len(data) >= length else super().read_at(length, offset)
