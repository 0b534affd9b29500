"""Check whether servers answer at their addresses, "host:port".

In: addresses. Out: those at which a server answers, or does not. A server answers if it sends
anything after the first bytes of a gRPC client, or closes the connection.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable

# Chosen.
CONNECT_SECONDS = 1.0
"""Seconds that a machine may take to connect, and then as many to answer."""

HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""First bytes of a gRPC client (RFC 9113, section 3.4).

A server answers with settings or, with TLS, an alert.
"""


def reachable(address: str) -> bool:
    """Return True if a connection to "host:port" can be made within a second."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, ValueError):
        return False
    return True


def answers(address: str) -> bool:
    """Return True if a server at "host:port" is reached in a second and answers in another."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS) as connection:
            connection.sendall(HELLO)
            connection.recv(1)
    except ConnectionResetError:
        return True
    except (OSError, ValueError):
        return False
    return True


class Pings:
    """Checks whether servers at several addresses answer, without waiting for the answers.

    The answers are read at the next call.

    An address that has not answered for `seconds` is silent.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._asked: dict[str, _Ping] = {}

    def silent(self, addresses: Iterable[str], now: float) -> list[str]:
        """Return the addresses that have not answered for too long at the time `now`.

        Others are no longer asked.
        """
        wanted = set(addresses)
        for address in self._asked.keys() - wanted:
            self._asked.pop(address).close()
        for address in wanted:
            ping = self._asked.get(address)
            if ping is None or ping.is_answered(now):
                self._asked[address] = _Ping(address, now)
        return [address for address in wanted if now - self._asked[address].since > self._seconds]

    def close(self) -> None:
        self.silent((), 0.0)


class _Ping:
    """A request to one address, and whether it was answered.

    `since` is the time from which the caller counts the silence of the address. Until a request is
    sent, it is the time at which the first connection was begun; then it is the time at which the
    request was sent. So if this process pauses before it sends the request, the pause does not
    count as silence of the address.
    """

    def __init__(self, address: str, now: float) -> None:
        self._address = address
        self.since = now
        self._connect()

    def _connect(self) -> None:
        self._said = False
        host, _, port = self._address.rpartition(":")
        family, kind, protocol, _, where = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM
        )[0]
        self._socket = socket.socket(family, kind, protocol)
        self._socket.setblocking(False)
        self._socket.connect_ex(where)

    def is_answered(self, now: float) -> bool:
        """Return True if the address has answered.

        Sends the request, if it was not sent and the connection is ready now. If the connection is
        refused, a new one is begun.
        """
        try:
            if not self._said:
                self._socket.sendall(HELLO)  # cannot be done while it connects
                self._said, self.since = True, now
            self._socket.recv(1)
        except (BlockingIOError, InterruptedError):
            return False
        except ConnectionResetError:
            pass
        except OSError:
            self.close()
            self._connect()
            return False
        self.close()
        return True

    def close(self) -> None:
        self._socket.close()
