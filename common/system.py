"""Functions that depend on the operating system, with replacements for features that it lacks.

Linux has all features. macOS lacks anonymous memory with a descriptor, packets on local sockets and
`/proc`, and a process that has loaded its frameworks must not be forked. There, and with
`HEADRACE_TRANSPORT=portable`, worker processes use only what every POSIX system has.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from .messages import short_repr

TRANSPORT = "HEADRACE_TRANSPORT"
"""Environment variable that selects how worker processes exchange data with the main process.

It is unset, or "portable".
"""

_OF_LINUX = ((os, "memfd_create"), (os, "fork"), (os, "waitid"), (socket, "SOCK_SEQPACKET"))
_OF_POSIX = ((socket, "AF_UNIX"), (signal, "SIGKILL"))
_THREADS = "/proc/self/task"
_MEMORY = "/dev/shm"


# Getting new pages for an array of 600 KB takes five times as long as a simple operation on it.
KEPT_FREE = 1 << 30
"""Bytes of freed memory that the C library keeps for reuse."""

_CHECK_SECONDS = 0.5
_PR_SET_PDEATHSIG = 1
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def is_portable() -> bool:
    """Return True if worker processes use only what every POSIX system has.

    This is so if the system lacks features of Linux, or if the user asks for it by
    `HEADRACE_TRANSPORT=portable`.

    Raises:
        ValueError: if the variable `HEADRACE_TRANSPORT` has a value other than "portable".
    """
    wish = os.environ.get(TRANSPORT, "")
    if wish not in ("", "portable"):
        raise ValueError(
            f"{TRANSPORT}={short_repr(wish)} is not a known value. "
            'Set the variable to "portable", or '
            "unset it to use the fastest transport that this system has."
        )
    return wish == "portable" or not (_has_all(_OF_LINUX) and os.path.isdir(_THREADS))


def _has_all(parts: Iterable[tuple[Any, str]]) -> bool:
    return all(hasattr(module, name) for module, name in parts)


def has_processes() -> bool:
    """Return True if worker processes can run, i.e. if the system is POSIX."""
    return _has_all(_OF_POSIX)


def has_gil() -> bool:
    """Return True if the global interpreter lock (GIL) lets one thread at a time run Python code.

    False in a free-threaded Python, unless a module that needs the lock was imported, or the user
    asked for the lock, as by `PYTHON_GIL=1`.
    """
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def signal_name(number: int) -> str:
    """Return the name of a signal.

    For a number without a name, as most real-time signals have, the number.

    >>> signal_name(9), signal_name(40)
    ('SIGKILL', '40')
    """
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def can_fork() -> bool:
    """Return True if this process may be forked: it has one thread, and `is_portable()` is False.

    Raises:
        ValueError: if `HEADRACE_TRANSPORT` has a value other than "portable".
    """
    return not is_portable() and len(os.listdir(_THREADS)) == 1


def anonymous_file(name: str, size: int) -> int:
    """Create a file of `size` bytes without a name, and return its descriptor.

    The file is in memory if the system has such files and enough memory. If `is_portable()`, and if
    the file system can reserve space, its space is reserved, so that writing to a mapping of the
    file cannot end the process. The file disappears with its last descriptor and mapping.

    Args:
        name: text that tools show which list open files.
        size: number of bytes.

    Raises:
        OSError: if there is not enough space to reserve, or no free descriptor.
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
    """Set the size of a file and reserve its space, if the system and the file system can.

    Args:
        descriptor: the open file.
        size: number of bytes.

    Raises:
        OSError: if there is not enough space.
    """
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


def after_fork(call: Callable[[], object]) -> None:
    """Call a function in each process that `os.fork` makes of this one, directly after the fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=call)


def usable_processors() -> int:
    """Return the number of processors that this process may use, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def die_with(parent: int) -> None:
    """Make this process end when its parent (a process id) ends.

    The kernel does this, or else a thread that watches the parent.
    """
    if is_portable():
        threading.Thread(target=_watch, args=(parent,), name="headrace-parent", daemon=True).start()
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_CHECK_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def keep_freed_memory() -> None:
    """Tell the C library to keep freed memory for reuse.

    Results of operations are large and short-lived. Mapping their pages again for each record would
    take longer than most operations.
    """
    try:
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, KEPT_FREE)
        library.mallopt(_M_TRIM_THRESHOLD, KEPT_FREE)
    except (OSError, AttributeError):
        return
