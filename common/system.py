"""The parts of an operating system that are used, and what stands in for them where there are none.

Linux has all of it. macOS has no anonymous memory with a descriptor, no packets on local sockets and no `/proc`, and a process
that has loaded its frameworks must not be forked. There, or where `HEADRACE_TRANSPORT=portable` asks for it, worker processes
use what every POSIX system has.
"""

from __future__ import annotations

import os
import signal
import socket
import tempfile

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


def anonymous_file(name: str) -> int:
    """A descriptor of an empty file that has no name on disk, and is gone with its last descriptor and mapping.

    It is memory where the system has such files. `name` is shown by tools that list open files.

    Raises:
        OSError: there is no room for it, or for a descriptor.
    """
    if not is_portable():
        return os.memfd_create(name)
    in_memory = os.path.isdir(_MEMORY) and os.access(_MEMORY, os.W_OK)
    with tempfile.TemporaryFile(prefix=name, dir=_MEMORY if in_memory else None) as file:
        return os.dup(file.fileno())


def usable_processors() -> int:
    """The processors that this process may use, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
