"""Asks Ray's processes, from time to time, whether they answer.

In: addresses, "host:port". Out: which of them have been silent for too long. Ray itself finds out after a minute. A connection
alone says nothing: the kernel takes it for a process that stands still.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable

CONNECT_SECONDS = 1.0
"""How long a machine may take to answer. Chosen."""

SILENT_SECONDS = 5.0
"""How long a node may be silent. Chosen: one answers in 1 ms (measured), and work of a lost one is only done again."""

HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""How a client of gRPC begins (RFC 9113, section 3.4): a server answers with its settings, or, with TLS, with an alert."""


def answers(address: str) -> bool:
    """True if somebody at "host:port" says something at once; waits `CONNECT_SECONDS` twice at most."""
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
    """Asks without waiting. What is asked is looked at by the next call, whenever that comes.

    Who has not answered for `seconds` is silent.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._asked: dict[str, _Ping] = {}

    def silent(self, addresses: Iterable[str], now: float) -> list[str]:
        """Those of the addresses that are silent. What is known of others that were asked about before is forgotten."""
        wanted = set(addresses)
        for address in self._asked.keys() - wanted:
            self._asked.pop(address).close()
        for address in wanted:
            ping = self._asked.get(address)
            if ping is None or ping.is_answered(now):
                self._asked[address] = _Ping(address, now)
        return [address for address in wanted if now - self._asked[address].since > self._seconds]

    def close(self) -> None:
        """Ask no more."""
        self.silent((), 0.0)


class _Ping:
    """One question. `since`: when we last did something for it, so that a pause of ours is not taken for theirs."""

    def __init__(self, address: str, now: float) -> None:
        self._address = address
        self.since = now
        self._connect()

    def _connect(self) -> None:
        self._said = False
        host, _, port = self._address.rpartition(":")
        family, kind, protocol, _, where = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        self._socket = socket.socket(family, kind, protocol)
        self._socket.setblocking(False)
        self._socket.connect_ex(where)

    def is_answered(self, now: float) -> bool:
        """True if it is; sends what could not be sent yet. A refusal is no answer: it is asked again."""
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
        """Hang up."""
        self._socket.close()
