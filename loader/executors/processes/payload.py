"""A pipeline, packed for other processes.

In: any object. Out: anonymous memory, and from it the object again, in any number of processes.

Large arrays are not copied into the pickle but stand beside it. Whoever unpacks maps the memory and has them where they
are, privately: pages are shared until somebody writes to one.
"""

from __future__ import annotations

import mmap
import os
import pickle
from collections.abc import Sequence
from typing import Any

from ...interrupts import Uninterrupted
from ..pool.pickled import pickled

_HEADER = 16
_ALIGNMENT = 64


class Payload:
    """Anonymous memory for a value. It is there as long as somebody has its descriptor, here or in another process."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("headrace-payload")

    def pack(self, value: Any, name: str) -> None:
        """Put a value there.

        Raises:
            PicklingError: something in it cannot be pickled; the message says what, beginning at `name`.
        """
        stream, buffers = pickled(value, name)
        sizes = pickle.dumps([buffer.nbytes for buffer in buffers])
        header = len(sizes).to_bytes(8, "little") + len(stream).to_bytes(8, "little")
        self._write([header + sizes + stream, *buffers])

    def _write(self, parts: Sequence[Any]) -> None:
        """Put these there, each aligned."""
        end = 0
        for part in parts:
            data, offset = memoryview(part).cast("B"), _aligned(end)
            end = offset + len(data)
            while offset < end:
                offset += os.pwrite(self.descriptor, data[len(data) - (end - offset) :], offset)

    def close(self) -> None:
        """Close the descriptor. May be called twice."""
        with Uninterrupted():
            if self.descriptor >= 0:
                os.close(self.descriptor)
                self.descriptor = -1


def unpack(descriptor: int) -> Any:
    """The value. The descriptor may be closed afterwards."""
    memory = memoryview(mmap.mmap(descriptor, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE))
    sizes_stop = _HEADER + int.from_bytes(memory[:8], "little")
    stream_stop = sizes_stop + int.from_bytes(memory[8:_HEADER], "little")
    buffers, end = [], stream_stop
    for size in pickle.loads(memory[_HEADER:sizes_stop]):
        start = _aligned(end)
        end = start + size
        buffers.append(memory[start:end])
    return pickle.loads(memory[sizes_stop:stream_stop], buffers=buffers)


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT
