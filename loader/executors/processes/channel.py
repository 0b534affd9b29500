"""Messages between the user's process, the zygote and the workers, and the channel that carries them.

In: messages, and file descriptors that go along. Out: the same in the other process. One message is one packet; one too large
for a packet travels in anonymous memory.
"""

from __future__ import annotations

import array
import errno
import os
import pickle
import select
import socket
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...work.tasks import Task
from ..pool import Kill, Spawn
from ..transport import NamedRows, Ready

PACKET = 64 << 10
"""Bytes of the largest packet. Chosen: messages have under 1 KB (measured), unless errors or rows of objects are in them."""

MAX_DESCRIPTORS = 64
"""The most descriptors that one packet brings. Further ones come before, in packets without a message."""

_IN_PACKET, _IN_MEMORY, _AHEAD = b"p", b"m", b"d"

MORE_DESCRIPTORS = "keep fewer batches, use smaller ones or fewer workers, or raise the limit (ulimit -n)"

SlabName = tuple[int, int]
"""A slab: the worker that made it, and its number there."""


ArrayPlace = tuple[SlabName, int, tuple[int, ...], str, tuple[int, ...] | None, bool]
"""Of an array: slab, offset in bytes, shape, name of the dtype, strides unless it is contiguous, whether it is writeable."""

Encoded = tuple[list[ArrayPlace], bytes]
"""The places of the arrays, and a pickle of the elements with their numbers, and dtypes that a name does not tell."""


class Start(NamedTuple):
    """To the zygote, first of all, with the payload's descriptor: what the user's process has, to be the same there."""

    search_path: list[str]
    environment: dict[str, str]


class Exited(NamedTuple):
    """From the zygote: worker `worker` is gone, with this status as `os.waitpid` gave it."""

    worker: int
    status: int


class Broken(NamedTuple):
    """From the zygote: the pipeline could not be unpacked; `error` is a pickled exception."""

    error: bytes


class RunTasks(NamedTuple):
    """To a worker: do tasks, one after the other."""

    tasks: Sequence[Task]
    released: list[int]  # slabs of its own that it may use again
    named: Sequence[NamedRows] = ()  # whose rows are `Encoded`
    introduced: Sequence[tuple[SlabName, int]] = ()  # slabs of these whose descriptors go along, and their sizes
    forgotten: Sequence[SlabName] = ()  # slabs of others that are no more


class Returned(NamedTuple):
    """To a worker, while it may be at work: slabs of its own that it may use again."""

    slabs: list[int]


class Done(NamedTuple):
    """From a worker: what came of a message's tasks."""

    answers: list[tuple[tuple[Any, ...], Encoded, list[tuple[int, int]]]]  # headers, rows, their slabs with sizes
    introduced: list[int]  # slabs that are lent for the first time, whose descriptors go along, in this order
    dropped: list[int]  # slabs that will not be used again


KINDS: tuple[Any, ...] = (Start, Spawn, Kill, Exited, Broken, Ready, RunTasks, Returned, Done)
"""Every message, by the number that stands for its kind on the way: all that crosses between the processes."""

_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}


def _message(values: tuple[Any, ...]) -> Any:
    return KINDS[values[0]](*values[1:])


class Channel:
    """One end of a connection. Each end is used by one thread at a time."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._buffer = bytearray(PACKET + 1)
        self._has_message, self._has_room = select.poll(), select.poll()
        self._has_message.register(end, select.POLLIN)
        self._has_room.register(end, select.POLLOUT)

    @staticmethod
    def pair() -> tuple[Channel, socket.socket]:
        """Our end, and the one to give away."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return Channel(ours), theirs

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, message: Any, descriptors: Sequence[int] = ()) -> None:
        """Send a message. The descriptors stay open here.

        Raises:
            OSError: the other end is gone.
        """
        ahead = max(len(descriptors) - MAX_DESCRIPTORS + 1, 0)
        for start in range(0, ahead, MAX_DESCRIPTORS):
            socket.send_fds(self.socket, [_AHEAD], list(descriptors[start : min(start + MAX_DESCRIPTORS, ahead)]))
        descriptors = descriptors[ahead:]
        data = _IN_PACKET + pickle.dumps((_NUMBERS[type(message)], *message), protocol=5)
        if len(data) <= PACKET + 1 and not descriptors:
            self.socket.send(data)
            return
        if len(data) <= PACKET + 1:
            socket.send_fds(self.socket, [data], list(descriptors))
            return
        memory = os.memfd_create("headrace-message")
        try:
            with open(memory, "wb", closefd=False) as file:
                file.write(memoryview(data)[1:])
            socket.send_fds(self.socket, [_IN_MEMORY], [memory, *descriptors])
        finally:
            os.close(memory)

    def send_if_room(self, message: Any, descriptors: Sequence[int] = ()) -> bool:
        """As `send`, if there is room for several packets, or the other end is gone; False: there is none."""
        if not self._has_room.poll(0):
            return False
        self.send(message, descriptors)
        return True

    def receive(self) -> tuple[Any, list[int]] | None:
        """The next message and its descriptors, which are the caller's to close. None: the other end is gone.

        Raises:
            OSError: there is no room for the descriptors.
        """
        descriptors: list[int] = []
        while True:
            try:
                size, ancillary, flags, _ = self._receive_packet()
            except ConnectionError:
                return None
            if size == 0:
                return None
            start = len(descriptors)
            for level, kind, data in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    descriptors += array.array("i", data[: len(data) - len(data) % 4])
            if flags & socket.MSG_CTRUNC:
                raise OSError(errno.EMFILE, f"no descriptor is left for shared memory; {MORE_DESCRIPTORS}.")
            if self._buffer[:1] == _IN_PACKET:
                return _message(pickle.loads(memoryview(self._buffer)[1:size])), descriptors
            if self._buffer[:1] == _IN_MEMORY:
                with open(descriptors.pop(start), "rb") as file:
                    file.seek(0)
                    return _message(pickle.loads(file.read())), descriptors

    def _receive_packet(self) -> Any:
        room = socket.CMSG_LEN(4 * MAX_DESCRIPTORS)
        try:
            return self.socket.recvmsg_into([self._buffer], room)
        except ConnectionResetError:
            # The other end went away without reading all that we sent. What it had sent before still comes after this.
            return self.socket.recvmsg_into([self._buffer], room)

    def readable(self) -> bool:
        """True if `receive` would return at once."""
        return bool(self._has_message.poll(0))

    def close(self) -> None:
        """Hang up. May be called twice."""
        self.socket.close()
