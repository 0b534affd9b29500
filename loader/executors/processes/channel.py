"""Messages between the user's process, the zygote and workers, and the channel that carries them.

The zygote is the process that makes workers.

In: messages, with file descriptors. Out: the same messages in the other process. A message is one
packet. If it is too large for a packet, it is written to anonymous memory, and the packet has the
descriptor of this memory. On systems whose sockets do not support packets, each packet is sent over
a stream, after its length in bytes.
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
from ..transport import Kill, NamedRows, Ready, Spawn

# Chosen: messages have under 1 KB (measured), unless errors or rows of objects are in them.
PACKET = 64 << 10
"""Bytes of the largest packet."""

# A stream that has room takes at least 2,048 bytes at once (`SO_SNDLOWAT`), so a sender never
# waits in the middle of a packet.
STREAM_PACKET = 2000
"""Bytes of the largest packet on a stream; less than a stream accepts at once."""

# Some systems have room for few packets by default.
_STREAM_BUFFER = 256 << 10
"""Size in bytes of a stream's buffers."""

_PREFIX = 4  # bytes of the number before a packet

MAX_DESCRIPTORS = 64
"""Largest number of descriptors in one packet.

More are sent before it, in packets without a message.
"""

_IN_PACKET, _IN_MEMORY, _AHEAD = b"p", b"m", b"d"

MORE_DESCRIPTORS = (
    "keep fewer batches, use smaller ones or fewer workers, or raise the limit (ulimit -n)"
)

SlabName = tuple[int, int]
"""Name of a slab (a piece of shared memory): its worker's number, and its own number there."""


ArrayPlace = tuple[SlabName, int, tuple[int, ...], str, tuple[int, ...] | None, bool]
"""Place of an array: slab, byte offset, shape, dtype string, strides (or None), whether writeable.

The strides are None if the array is C-contiguous (rows one after the other).

A slab is a reusable piece of memory.
"""

Encoded = tuple[list[ArrayPlace], bytes]
"""Encoded elements: the places of their arrays, and a pickle that refers to these places by number.

The pickle also has the dtypes that cannot be written as a string.
"""


class Start(NamedTuple):
    """First message to the zygote (the process that makes workers): settings of the user's process.

    The message carries a file descriptor of the payload: memory with the pickled options and
    pipeline.

    Attributes:
        search_path: the module search path, `sys.path`.
        environment: the environment variables.
        each_unpacks: True if each worker unpickles the payload itself, after it has called
            `worker_init_fn`. False if the zygote unpickles it once.
    """

    search_path: list[str]
    environment: dict[str, str]
    each_unpacks: bool


class Exited(NamedTuple):
    """Message from the zygote (the process that makes workers): a worker has ended.

    Attributes:
        worker: number of the worker.
        status: the exit status as `os.waitpid` returns it.
    """

    worker: int
    status: int


class Broken(NamedTuple):
    """Message to the user's process: the sender could not unpickle the pipeline.

    Attributes:
        error: the pickled exception.
    """

    error: bytes


class RunTasks(NamedTuple):
    """Message to a worker: run tasks, one after another.

    A slab is a piece of shared memory that is used several times. Each process has slabs of its
    own, and maps slabs of other processes.

    Attributes:
        tasks: the tasks.
        released: numbers of slabs that the worker has lent to the user's process, and that are
            returned now. A slab that was lent several times occurs once for each time that is over;
            the worker uses it again when all are over.
        named: earlier rows that the tasks refer to, encoded.
        introduced: (name, size) of each slab that has some of these rows and that the worker does
            not know yet. The descriptors of these slabs are sent with this message, in this order.
        forgotten: names of slabs of other workers that no longer exist.
    """

    tasks: Sequence[Task]
    released: list[int]
    named: Sequence[NamedRows] = ()
    introduced: Sequence[tuple[SlabName, int]] = ()
    forgotten: Sequence[SlabName] = ()


class Returned(NamedTuple):
    """Message to a worker: it may use slabs (pieces of its shared memory) again.

    The worker may receive it while it runs a task.

    Attributes:
        slabs: numbers of the slabs.
    """

    slabs: list[int]


class Done(NamedTuple):
    """Message from a worker: the results of the tasks of one message.

    A slab is a piece of shared memory.

    Attributes:
        answers: for each task, a tuple: the header of its block (all but the rows), its encoded
            rows, and pairs (number, size) of the slabs that have the rows.
        introduced: numbers of the slabs that are lent for the first time. Their descriptors are
            sent with this message, in this order.
        dropped: numbers of slabs that will not be used again.
    """

    answers: list[tuple[tuple[Any, ...], Encoded, list[tuple[int, int]]]]
    introduced: list[int]
    dropped: list[int]


class Logged(NamedTuple):
    """Message from a worker, sent by any of its threads: a log record, pickled by `worker_logs`."""

    record: bytes


class Hangs(NamedTuple):
    """Message from a worker: its task takes long. It has the fields of `hang_watch.Hang`.

    Attributes:
        what: operation (or "reading"), and the line of the user's code that is running.
        where: text about the record that the task processes.
        seconds: seconds since the task began.
        text: `what`, `where`, `seconds` and the Python stack in one text, for the log.
    """

    what: str
    where: str
    seconds: float
    text: str


class LastWords(NamedTuple):
    """Message from a worker before it ends: a text that an operation passed to `sys.exit`."""

    text: str


KINDS: tuple[Any, ...] = (
    Start,
    Spawn,
    Kill,
    Exited,
    Broken,
    Ready,
    RunTasks,
    Returned,
    Done,
    Logged,
    LastWords,
    Hangs,
)
"""All kinds of messages between processes.

In a packet, the index in this tuple stands for the kind.
"""

_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}


def _message(values: tuple[Any, ...]) -> Any:
    return KINDS[values[0]](*values[1:])


class Channel:
    """One end of a connection between two processes.

    Any thread may send; only one thread may receive.
    """

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
        """Return a channel for this process, and a socket for another process: the other end."""
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
        """Send a message, together with file descriptors, which stay open in this process.

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
        sent = (
            socket.send_fds(self.socket, [data], list(descriptors))
            if descriptors
            else self.socket.send(data)
        )
        if sent < len(data):  # of a stream
            self.socket.sendall(data[sent:])

    def send_if_room(self, message: Any, descriptors: Sequence[int] = ()) -> bool:
        """Send a message and file descriptors, unless this would have to wait.

        The descriptors stay open in this process.

        Returns:
            True if the message was sent; False if the connection has no room for it at the moment.

        Raises:
            OSError: the other end is gone.
        """
        if not self._has_room.poll(0):
            return False
        self.send(message, descriptors)
        return True

    def receive(self) -> tuple[Any, list[int]] | None:
        """Return the next message and its file descriptors, which the caller must close.

        Return None if the other end is gone.

        Raises:
            OSError: this process cannot open that many descriptors.
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
                raise OSError(
                    errno.EMFILE, f"no descriptor is left for shared memory; {MORE_DESCRIPTORS}."
                )
            if self._buffer[:1] == _IN_PACKET:
                return _message(pickle.loads(memoryview(self._buffer)[1:size])), descriptors
            if self._buffer[:1] == _IN_MEMORY:
                with open(descriptors.pop(start), "rb") as file:
                    file.seek(0)
                    return _message(pickle.loads(file.read())), descriptors

    def _receive_packet(self) -> tuple[int, list[Any], int]:
        """Receive a packet into the buffer.

        Returns:
            The number of bytes (0 at the end of the connection), and the ancillary data and flags
            that `socket.recvmsg_into` returned.
        """
        if not self._is_stream:
            return self._from_socket(self._buffer)
        size, ancillary, flags = self._from_socket(self._prefix)
        if 0 < size < _PREFIX:
            size += self._fill(memoryview(self._prefix)[size:])
        if size < _PREFIX:
            return 0, ancillary, flags
        return (
            self._fill(memoryview(self._buffer)[: int.from_bytes(self._prefix, "little")]),
            ancillary,
            flags,
        )

    def _from_socket(self, place: bytearray) -> tuple[int, list[Any], int]:
        room = socket.CMSG_LEN(4 * MAX_DESCRIPTORS)
        try:
            return self.socket.recvmsg_into([place], room)[:3]
        except ConnectionResetError:
            # The other end went away without reading all that we sent. What it had sent before
            # still comes after this.
            return self.socket.recvmsg_into([place], room)[:3]

    def _fill(self, place: memoryview) -> int:
        """Receive bytes from the stream until `place` is full.

        Return the number of received bytes; 0 if the connection ended before `place` was full.
        """
        size = 0
        while size < len(place):
            if not (count := self.socket.recv_into(place[size:])):
                return 0
            size += count
        return size

    def readable(self) -> bool:
        """Return True if `receive` would return without waiting."""
        return bool(self._has_message.poll(0))

    def close(self) -> None:
        """Close the connection. May be called twice."""
        self.socket.close()
