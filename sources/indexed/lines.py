"""Base of sources whose records are lines of files."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from ...files.opened import OpenFile
from ...formats.index import FoundRecords, Index, IndexKind, lie_in
from ...formats.json_lines import line_ranges
from ..file_source import RecordT
from .source import IndexedSource, Ranges


def index_of_lines(name: str, keep_blank: bool) -> IndexKind:
    """Return a kind of index that has the byte range of each line.

    Args:
        name: name of the format.
        keep_blank: True if blank lines are records; False: they are left out.
    """
    return IndexKind(name, partial(_find, keep_blank=keep_blank), {"ranges": ("<i8", (2,))}, _fits)


def _find(file: OpenFile, keep_blank: bool) -> FoundRecords:
    ranges = line_ranges(file, keep_blank)
    return FoundRecords(len(ranges), {"ranges": ranges})


def _fits(found: FoundRecords, size: int) -> bool:
    ranges = found.arrays["ranges"]
    return len(ranges) == found.count and lie_in(ranges[:, 0], ranges[:, 1], size)


class LinesSource(IndexedSource[RecordT]):
    """Base of sources whose records are lines.

    A subclass defines `index_kind` (`index_of_lines`), `patterns` and `_value`.
    """

    def _value(self, line: bytes, path: str, offset: int) -> RecordT:
        """Return the record of a line.

        Args:
            line: bytes of the line, without its line feed.
            path: path of the file, for messages.
            offset: offset of the line in the file, for messages.

        Raises:
            SourceError: the line is not in the format of the source.
        """
        raise NotImplementedError

    def _read(self, file: OpenFile, index: Index, places: npt.NDArray[np.int64]) -> list[RecordT]:
        offsets, lengths = self._ranges(index, places)
        lines = file.read_many(offsets, lengths)
        return [
            self._value(line, file.path, offset) for line, offset in zip(lines, offsets.tolist())
        ]

    def _ranges(self, index: Index, places: npt.NDArray[np.int64]) -> Ranges:
        offsets, lengths = index.arrays["ranges"][places].T
        return offsets, lengths
