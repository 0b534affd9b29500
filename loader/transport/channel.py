"""One message is one packet, with the file descriptors that go along.

In: messages. Out: the same messages in the other process. A message too large for a packet travels in anonymous memory.
"""

from __future__ import annotations

import array
import os
import pickle
import selectors
import socket
from collections.abc import Sequence
from typing import Any

from .messages import KINDS

PACKET = 64 << 10
"""Bytes of the largest packet; messages are a thousandth of that, unless errors or rows of objects are in them."""

MAX_DESCRIPTORS = 32
_IN_PACKET, _IN_MEMORY = b"p", b"m"

_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}


def _message(values: tuple[Any, ...]) -> Any:
    return KINDS[values[0]](*values[1:])


class Channel:
    """One end of a connection. Each end is used by one thread at a time."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._buffer = bytearray(PACKET + 1)

    @staticmethod
    def pair() -> tuple[Channel, socket.socket]:
        """Our end, and the one to give away."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return Channel(ours), theirs

    def fileno(self) -> int:
        """For selectors."""
        return self.socket.fileno()

    def send(self, message: Any, descriptors: Sequence[int] = ()) -> None:
        """Send a message. The descriptors stay open here.

        Raises:
            OSError: the other end is gone.
        """
        data = _IN_PACKET + pickle.dumps((_NUMBERS[type(message)], *message), protocol=5)
        if len(data) <= PACKET + 1 and not descriptors:
            self.socket.send(data)
            return
        if len(data) <= PACKET + 1:
            socket.send_fds(self.socket, [data], list(descriptors))
            return
        memory = os.memfd_create("millrace-message")
        try:
            with open(memory, "wb", closefd=False) as file:
                file.write(memoryview(data)[1:])
            socket.send_fds(self.socket, [_IN_MEMORY], [memory, *descriptors])
        finally:
            os.close(memory)

    def receive(self) -> tuple[Any, list[int]] | None:
        """The next message and its descriptors, which are the caller's to close. None: the other end is gone."""
        try:
            size, ancillary = self._receive_packet()
        except ConnectionError:
            return None
        if size == 0:
            return None
        descriptors = array.array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
        if self._buffer[:1] == _IN_PACKET:
            return _message(pickle.loads(memoryview(self._buffer)[1:size])), list(descriptors)
        with open(descriptors[0], "rb") as file:
            file.seek(0)
            return _message(pickle.loads(file.read())), list(descriptors[1:])

    def _receive_packet(self) -> tuple[int, list[tuple[int, int, bytes]]]:
        room = socket.CMSG_LEN(4 * MAX_DESCRIPTORS)
        try:
            return self.socket.recvmsg_into([self._buffer], room)[:2]
        except ConnectionResetError:
            # The other end went away without reading all that we sent. What it had sent before still comes after this.
            return self.socket.recvmsg_into([self._buffer], room)[:2]

    def readable(self) -> bool:
        """Whether `receive` would return at once."""
        with selectors.DefaultSelector() as selector:
            selector.register(self, selectors.EVENT_READ)
            return bool(selector.select(0))

    def close(self) -> None:
        """Hang up. May be called twice."""
        self.socket.close()
