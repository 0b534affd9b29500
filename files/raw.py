"""In: an open file. Out: the same as a raw stream of Python's, for whoever reads on from a place."""

from __future__ import annotations

import io
import os
from typing import Any

from .opened import OpenFile


class RawFile(io.RawIOBase):
    """An open file with a place in it. It leaves the file open."""

    def __init__(self, file: OpenFile) -> None:
        self._file, self._place = file, 0

    def read_at(self, length: int, offset: int) -> bytes:
        """Bytes from `offset` on."""
        return self._file.read(offset, length)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._place = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._file.size}[whence]
        return self._place

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), max(self._file.size - self._place, 0))
        buffer[:length] = self.read_at(length, self._place)
        self._place += length
        return length
