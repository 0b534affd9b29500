"""A pipeline, packed for other processes.

In: any object. Out: anonymous memory, and from it the object again, in any number of processes.

Large arrays are not copied into the pickle but stand beside it. Whoever unpacks maps the memory and has them where they
are, privately: pages are shared until somebody writes to one.
"""

from __future__ import annotations

import mmap
import os
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import cloudpickle

from .....errors import PicklingError
from .....wording import a_kind_of, brief, shown
from ....interrupts import Uninterrupted
from ..tuned import OUT_OF_BAND

_HEADER = 16
_ALIGNMENT = 64
_MAX_DEPTH = 20  # of what is named as the reason why pickling failed


class Payload:
    """Anonymous memory for a value. It is there as long as somebody has its descriptor, here or in another process."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("millrace-payload")

    def pack(self, value: Any, name: str) -> None:
        """Put a value there.

        Raises:
            PicklingError: something in it cannot be pickled; the message says what, beginning at `name`.
        """
        buffers: list[memoryview] = []

        def goes_into_the_pickle(buffer: pickle.PickleBuffer) -> bool:
            if buffer.raw().nbytes < OUT_OF_BAND:
                return True
            buffers.append(buffer.raw())
            return False

        try:
            stream = cloudpickle.dumps(value, protocol=5, buffer_callback=goes_into_the_pickle)
        except Exception as error:
            why = f"{type(error).__name__}: {brief(error, 150)}"
            raise PicklingError(
                f"{_culprit(value, name)} ({why}); worker processes get the pipeline by pickle. Make it where it is used, or "
                "leave it out in __getstate__."
            ) from error
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


def _culprit(value: Any, name: str, depth: int = 0) -> str:
    """Which part of `value`, called `name`, cannot be pickled."""
    for label, part in _parts(value) if depth < _MAX_DEPTH else ():
        try:
            cloudpickle.dumps(part)
        except Exception:
            return _culprit(part, f"{name}{label}", depth + 1)
    return f"{brief(name, 150)} is {a_kind_of(value)}, which cannot be pickled"


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What pickling a value would pickle, as far as it can be named."""
    if isinstance(value, (list, tuple)):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    if isinstance(value, dict):
        yield from ((f"[{shown(key)}]", item) for key, item in value.items())
    yield from _parts_of_function(value)
    if not isinstance(value, type):
        yield from ((f".{attribute}", item) for attribute, item in getattr(value, "__dict__", {}).items())


def _parts_of_function(value: Any) -> Iterator[tuple[str, Any]]:
    code, closure = getattr(value, "__code__", None), getattr(value, "__closure__", None)
    for variable, cell in zip(getattr(code, "co_freevars", ()), closure or ()):
        yield f", variable {variable!r},", cell.cell_contents
    names = getattr(code, "co_names", ())
    variables = getattr(value, "__globals__", {})
    for variable in names:
        if variable in variables and not callable(variables[variable]):
            yield f", global {variable!r},", variables[variable]
