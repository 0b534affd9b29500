"""The parts of an operating system that are used, and what stands in for them where there are none.

Linux has all of it. macOS has no anonymous memory with a descriptor, no packets on local sockets and no `/proc`, and a process
that has loaded its frameworks must not be forked. There, or where `HEADRACE_TRANSPORT=portable` asks for it, worker processes
use what every POSIX system has.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
from collections.abc import Callable

from .messages import short_repr

TRANSPORT = "HEADRACE_TRANSPORT"
"""An environment variable."""

_PARTS = ((os, "memfd_create"), (os, "fork"), (os, "waitid"), (socket, "SOCK_SEQPACKET"))
_THREADS = "/proc/self/task"
_MEMORY = "/dev/shm"


def is_portable() -> bool:
    """True if worker processes do with what every POSIX system has: a part of Linux is missing here, or the user asks for it.

    Raises:
        ValueError: the variable `HEADRACE_TRANSPORT` says something else than "portable".
    """
    wish = os.environ.get(TRANSPORT, "")
    if wish not in ("", "portable"):
        raise ValueError(f'{TRANSPORT}={short_repr(wish)} must be "portable"; unset it for what this system has.')
    return wish == "portable" or not (all(hasattr(*part) for part in _PARTS) and os.path.isdir(_THREADS))


def has_processes() -> bool:
    """True if worker processes can run here: it is a POSIX system."""
    return hasattr(socket, "AF_UNIX") and hasattr(signal, "SIGKILL")


def can_fork() -> bool:
    """True if this process may be forked: it runs one thread, as far as the system tells, and none of its libraries minds."""
    return not is_portable() and len(os.listdir(_THREADS)) == 1


def anonymous_file(name: str, size: int) -> int:
    """A descriptor of a file of `size` bytes that has no name on disk, and is gone with its last descriptor and mapping.

    It is memory where the system has such files, and there is room for it: its bytes are there, so that to write to a mapping
    of them cannot end the process. `name` is shown by tools that list open files.

    Raises:
        OSError: there is no room for it, or for a descriptor.
    """
    if not is_portable():
        return _sized(os.memfd_create(name), size)
    if os.path.isdir(_MEMORY) and os.access(_MEMORY, os.W_OK):
        with contextlib.suppress(OSError):  # it is full: containers often have 64 MB there
            return _sized(_unnamed(name, _MEMORY), size, _reserve)
    return _sized(_unnamed(name, None), size, _reserve)


def _unnamed(name: str, folder: str | None) -> int:
    import tempfile  # 3 ms of a worker's start

    with tempfile.TemporaryFile(prefix=name, dir=folder) as file:
        return os.dup(file.fileno())


def _reserve(descriptor: int, size: int) -> None:
    """Give a file its size, and room for all of it, where system and file system can."""
    if size and hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise
    os.ftruncate(descriptor, size)


def _sized(descriptor: int, size: int, give: Callable[[int, int], None] = os.ftruncate) -> int:
    try:
        give(descriptor, size)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def usable_processors() -> int:
    """The processors that this process may use, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
