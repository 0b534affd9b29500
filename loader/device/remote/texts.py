"""Texts and statistics as arrays of bytes, in which a host sends them.

In: text or statistics. Out: arrays of fixed lengths; and back.
"""

from __future__ import annotations

import dataclasses
import pickle
import socket
from collections.abc import Callable
from typing import Any

import numpy as np

from ....common.messages import shorten
from ....errors import HostsError

PART_BYTES = 1 << 12
"""Size of the arrays in which texts come, with eight bytes for the length of the whole text."""

LAST_BYTES = 1 << 16
"""Size of the array in which the statistics come at the end, in one call.

They usually have some thousand bytes.
"""

RECENT = 100
"""Largest number of waits in the statistics that are sent."""


def part_of(text: bytes, start: int, size: int = PART_BYTES) -> Any:
    """Return a part of a text, from a byte on, and the text's length: an array of `size` bytes."""
    content = len(text).to_bytes(8, "little") + text[start : start + size - 8]
    return np.frombuffer(content.ljust(size, b"\0"), np.uint8)


def bytes_of(read: Callable[[int], Any]) -> bytes:
    """Return the bytes that `read` returns in parts.

    `read` is a function of the first byte, which returns arrays of `part_of`.

    >>> bytes_of(lambda start: part_of(b"a text", start))
    b'a text'
    """
    content, length = b"", -1
    while len(content) != length:
        array = np.asarray(read(len(content))).tobytes()
        length = int.from_bytes(array[:8], "little")
        content = (content + array[8:])[:length]
    return content


def stats_as_bytes(stats: Any) -> bytes:
    """Return the name of this machine and the statistics of a loader, as bytes.

    Single tasks and events are left out.
    """
    short = dataclasses.replace(
        stats, tasks=(), worker_events=(), last_waits=stats.last_waits[-RECENT:]
    )
    return pickle.dumps((socket.gethostname(), short))


def named_stats(content: bytes) -> tuple[str, Any]:
    """Return a machine's name and the statistics of its loader, of the bytes that it has sent."""
    name, stats = pickle.loads(content)
    return name, stats


def described(error: Exception) -> str:
    """Return the class and the message of an error."""
    return f"{type(error).__name__}: {shorten(error)}"


def as_told(error: Exception) -> bytes:
    """Return an error as bytes for `told`.

    It becomes a `HostsError` if the controlling process may not know its class.
    """
    if type(error).__module__.partition(".")[0] not in ("builtins", "headrace"):
        error = HostsError(
            f"a host failed: {described(error)}. Correct the cause on this host, and start again."
        )
    return pickle.dumps((None, error))


def told(content: bytes) -> Any:
    """Return the answer that a host has sent, or raise the error that it has sent instead."""
    answer, error = pickle.loads(content)
    if error is not None:
        raise error
    return answer


def last_stats(ended: Any) -> list[tuple[str, Any]]:
    """Return a list with the name and the statistics that `HostSide.end` has returned.

    Return an empty list if it has not returned any.
    """
    content = np.asarray(ended).tobytes()
    length = int.from_bytes(content[:8], "little")
    return [named_stats(content[8 : 8 + length])] if 0 < length <= LAST_BYTES - 8 else []
