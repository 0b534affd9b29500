"""Convert texts and statistics to arrays of bytes, in which a host sends them, and back.

In: text or statistics. Out: arrays of fixed lengths. Also the other way round.
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
    """Return a part of a text, as an array of `size` bytes.

    The first 8 bytes are the length of the whole text. The text from byte `start` on follows,
    filled up with zeros.
    """
    content = len(text).to_bytes(8, "little") + text[start : start + size - 8]
    return np.frombuffer(content.ljust(size, b"\0"), np.uint8)


def bytes_of(read: Callable[[int], Any]) -> bytes:
    """Join a text from parts that `part_of` has made.

    Args:
        read: function that takes the index of a byte, and returns the part from this byte on.

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
    """Return the name of this machine and the statistics of a loader, as bytes for `named_stats`.

    Single tasks and events are left out, and only the last 100 waits are sent.
    """
    short = dataclasses.replace(
        stats, tasks=(), worker_events=(), last_waits=stats.last_waits[-RECENT:]
    )
    return pickle.dumps((socket.gethostname(), short))


def named_stats(content: bytes) -> tuple[str, Any]:
    """Convert bytes of `stats_as_bytes` back to the machine's name and the loader's statistics."""
    name, stats = pickle.loads(content)
    return name, stats


def described(error: Exception) -> str:
    """Return a text with the class and the message of an error."""
    return f"{type(error).__name__}: {shorten(error)}"


def as_told(error: Exception) -> bytes:
    """Convert an error to bytes, from which the function `told` raises it again.

    An error becomes a `HostsError` if its class is neither Python's nor headrace's, because the
    controlling process may not know the class.
    """
    if type(error).__module__.partition(".")[0] not in ("builtins", "headrace"):
        error = HostsError(
            f"a host failed: {described(error)}. Correct the cause on this host, and start again."
        )
    return pickle.dumps((None, error))


def told(content: bytes) -> Any:
    """Unpickle a host's answer (any value) and return it; if it is an error, raise this error."""
    answer, error = pickle.loads(content)
    if error is not None:
        raise error
    return answer


def last_stats(ended: Any) -> list[tuple[str, Any]]:
    """Convert an array from `HostSide.end` to a list with one pair: (machine, statistics).

    Return an empty list if the loader could not be made, or if its statistics are too long for the
    array.
    """
    content = np.asarray(ended).tobytes()
    length = int.from_bytes(content[:8], "little")
    return [named_stats(content[8 : 8 + length])] if 0 < length <= LAST_BYTES - 8 else []
