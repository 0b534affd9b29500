"""For libraries that take a path, and look at the ends of the file alone. In: a remote file. Out: a path, for a while."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from ..opened import OpenFile

_HEAD_BYTES = 1 << 16


@contextmanager
def ends_of(file: OpenFile, length: int) -> Iterator[str]:
    """The path of a file of the same size that has so many bytes of the end, a first block, and zeros between them.

    Raises:
        SourceError: the file cannot be read.
    """
    tail = max(file.size - length, 0)
    head = min(tail, _HEAD_BYTES)
    with tempfile.NamedTemporaryFile(prefix="headrace-") as copy:
        for place, part in zip((0, tail), file.read_many([0, tail], [head, file.size - tail])):
            os.pwrite(copy.fileno(), part, place)
        yield copy.name
