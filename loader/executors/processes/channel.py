"""Messages between the user's process, the zygote and the workers, and the channel that carries them.

In: messages, and file descriptors that go along. Out: the same in the other process. One message is one packet; one too large
for a packet travels in anonymous memory. Where the system has no sockets of packets, a packet is bytes of a stream after their
number.
"""

from __future__ import annotations

import array
import errno
import os
import pickle
import select
import socket
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from ....common.system import anonymous_file, is_portable
from ...work.tasks import Task
from ..pool import Kill, Spawn
from ..transport import NamedRows, Ready

PACKET = 64 << 10
"""Bytes of the largest packet. Chosen: messages have under 1 KB (measured), unless errors or rows of objects are in them."""

STREAM_PACKET = 2000
"""… on a stream, which takes so many at once if it takes any (`SO_SNDLOWAT` is 2,048): a sender never waits in the middle."""

_STREAM_BUFFER = 256 << 10
"""Bytes that wait in a stream; some systems have room for few packets by themselves."""

_PREFIX = 4  # bytes of the number before a packet

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
    each_unpacks: bool  # workers unpack the payload, for `worker_init_fn` to come first


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


class Logged(NamedTuple):
    """From a worker, by any of its threads: a log record (`worker_logs`)."""

    record: bytes


class Hangs(NamedTuple):
    """From a worker: its task takes long. The fields are those of a `Hang`."""

    what: str
    where: str
    seconds: float
    text: str


class LastWords(NamedTuple):
    """From a worker that ends, as an operation asked Python to exit with this text."""

    text: str


KINDS: tuple[Any, ...] = (Start, Spawn, Kill, Exited, Broken, Ready, RunTasks, Returned, Done, Logged, LastWords, Hangs)
"""Every message, by the number that stands for its kind on the way: all that crosses between the processes."""

_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}


def _message(values: tuple[Any, ...]) -> Any:
    return KINDS[values[0]](*values[1:])


class Channel:
    """One end of a connection. Any thread may send; one thread receives."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._is_stream = end.type == socket.SOCK_STREAM
        self._most = 1 + (STREAM_PACKET if self._is_stream else PACKET)
        self._buffer, self._prefix = bytearray(self._most), bytearray(_PREFIX)
        self._sending = threading.Lock()  # a message may be several packets
        self._has_message, self._has_room = select.poll(), select.poll()
        self._has_message.register(end, select.POLLIN)
        self._has_room.register(end, select.POLLOUT)

    @staticmethod
    def pair() -> tuple[Channel, socket.socket]:
        """Our end, and the one to give away."""
        if not is_portable():
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            return Channel(ours), theirs
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _STREAM_BUFFER)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _STREAM_BUFFER)
        return Channel(ours), theirs

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, message: Any, descriptors: Sequence[int] = ()) -> None:
        """Send a message. The descriptors stay open here.

        Raises:
            OSError: the other end is gone.
        """
        data = _IN_PACKET + pickle.dumps((_NUMBERS[type(message)], *message), protocol=5)
        with self._sending:
            self._send(data, descriptors)

    def _send(self, data: bytes, descriptors: Sequence[int]) -> None:
        ahead = max(len(descriptors) - MAX_DESCRIPTORS + 1, 0)
        for start in range(0, ahead, MAX_DESCRIPTORS):
            self._send_packet(_AHEAD, descriptors[start : min(start + MAX_DESCRIPTORS, ahead)])
        descriptors = descriptors[ahead:]
        if len(data) <= self._most:
            self._send_packet(data, descriptors)
            return
        memory = anonymous_file("headrace-message", len(data) - 1)
        try:
            with open(memory, "wb", closefd=False) as file:
                file.write(memoryview(data)[1:])
            self._send_packet(_IN_MEMORY, [memory, *descriptors])
        finally:
            os.close(memory)

    def _send_packet(self, data: bytes, descriptors: Sequence[int]) -> None:
        if self._is_stream:
            data = len(data).to_bytes(_PREFIX, "little") + data
        sent = socket.send_fds(self.socket, [data], list(descriptors)) if descriptors else self.socket.send(data)
        if sent < len(data):  # of a stream
            self.socket.sendall(data[sent:])

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
                size, ancillary, flags = self._receive_packet()
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

    def _receive_packet(self) -> tuple[int, list[Any], int]:
        """Bytes of the next packet, which are in the buffer then; 0: the connection has ended. What came along, and flags."""
        if not self._is_stream:
            return self._from_socket(self._buffer)
        size, ancillary, flags = self._from_socket(self._prefix)
        if 0 < size < _PREFIX:
            size += self._fill(memoryview(self._prefix)[size:])
        if size < _PREFIX:
            return 0, ancillary, flags
        return self._fill(memoryview(self._buffer)[: int.from_bytes(self._prefix, "little")]), ancillary, flags

    def _from_socket(self, place: bytearray) -> tuple[int, list[Any], int]:
        room = socket.CMSG_LEN(4 * MAX_DESCRIPTORS)
        try:
            return self.socket.recvmsg_into([place], room)[:3]
        except ConnectionResetError:
            # The other end went away without reading all that we sent. What it had sent before still comes after this.
            return self.socket.recvmsg_into([place], room)[:3]

    def _fill(self, place: memoryview) -> int:
        """Bytes received, as many as there are places; 0: the sender ended before that."""
        size = 0
        while size < len(place):
            if not (count := self.socket.recv_into(place[size:])):
                return 0
            size += count
        return size

    def readable(self) -> bool:
        """True if `receive` would return at once."""
        return bool(self._has_message.poll(0))

    def close(self) -> None:
        """Hang up. May be called twice."""
        self.socket.close()
