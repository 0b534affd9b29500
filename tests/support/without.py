"""Takes parts of the system away from Python programs. In: names of parts. Out: a folder for the
front of `PYTHONPATH`.

Each interpreter that finds the folder there, as worker processes do, starts without these parts.
"""

import textwrap
from pathlib import Path

import pytest

from headrace.common.system import is_portable

linux_only = pytest.mark.skipif(is_portable(), reason="a promise of the transport of Linux alone")

PARTS = (
    "os.memfd_create",
    "socket.SOCK_SEQPACKET",
    "os.fork",
    "os.waitid",
    "os.sched_getaffinity",
    "/proc",
)
"""What workers use of Linux, and other systems lack; that a process ends with its parent, too, is
Linux's.
"""

WINDOWS_LACKS = (
    *("fcntl", "resource", "pwd", "grp", "termios", "/proc", "/dev/shm"),
    *(
        "os.fork",
        "os.pread",
        "os.pwrite",
        "os.O_CLOEXEC",
        "os.sysconf",
        "os.waitid",
        "os.memfd_create",
        "os.statvfs",
    ),
    *(
        "os.sched_getaffinity",
        "os.register_at_fork",
        "os.getuid",
        "os.geteuid",
        "os.killpg",
        "os.mkfifo",
    ),
    *(
        "signal.SIGKILL",
        "signal.SIGCHLD",
        "signal.SIGBUS",
        "signal.SIGALRM",
        "signal.SIGHUP",
        "signal.SIGUSR1",
    ),
    *("signal.pthread_sigmask", "signal.pthread_kill"),
    *("socket.AF_UNIX", "socket.SOCK_SEQPACKET", "socket.send_fds", "socket.recv_fds"),
    *(
        "mmap.MAP_PRIVATE",
        "mmap.MAP_SHARED",
        "mmap.PROT_READ",
        "mmap.PROT_WRITE",
        "mmap.MADV_HUGEPAGE",
    ),
)
"""What Python has on Linux and not on Windows, of what could be used here."""


def folder_without(parts: tuple[str, ...], folder: Path) -> Path:
    """A folder whose `sitecustomize` takes parts away: "module.name", "module" alone, or a path
    like "/proc".
    """
    (folder / "sitecustomize.py").write_text(f"PARTS = {parts!r}\n" + textwrap.dedent(_TAKE_AWAY))
    return folder


_TAKE_AWAY = """
    import asyncio, importlib, os, sys  # asyncio chooses by the system what of it to use, when it is imported

    def take_away_folder(path):
        def refuse(event, arguments):
            if event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith(path):
                raise FileNotFoundError(2, "taken away", str(arguments[0]))

        def unless_there(function):
            return lambda asked: not str(asked).startswith(path) and function(asked)

        sys.addaudithook(refuse)
        os.path.isdir, os.path.exists = unless_there(os.path.isdir), unless_there(os.path.exists)

    for part in PARTS:
        module, _, name = part.rpartition(".")
        if part.startswith("/"):
            take_away_folder(part)
        elif module:
            delattr(importlib.import_module(module), name)
        else:
            sys.modules[part] = None
    """
