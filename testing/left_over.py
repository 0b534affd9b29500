"""List what this process has: threads, child processes, open descriptors, shared memory.

So a test finds what is left behind.

In: nothing. Out: for each kind of thing, a description of each thing by its key. A key says more
than a process id or the number of a descriptor, which may soon be used again for another thing.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

Things: TypeAlias = "dict[str, dict[str, str]]"
"""Descriptions of things by kind ("thread", "process", …) and key."""

DESCRIPTORS = Path("/proc/self/fd")
_PROCESSES = Path("/proc")
SHARED_MEMORY = Path("/dev/shm")
_OUR_SHARED_MEMORY = "headrace"


def everything() -> Things:
    """Return threads, descendant processes, descriptors and files of headrace's shared memory.

    Without `/proc`, as on macOS, processes and descriptors are not found.
    """
    return {
        "thread": threads(),
        "process": processes(),
        "descriptor": descriptors(),
        "shared memory": shared_memory(),
    }


def new_things(
    before: Things, now: Callable[[], Things] = everything, seconds: float = 30.0
) -> Things:
    """Return what exists now and did not exist `before`.

    Things that are about to end get some seconds for it.

    Args:
        before: an earlier result of `now`.
        now: function that returns what exists.
        seconds: longest time to wait until nothing new is left.
    """
    deadline = time.monotonic() + seconds
    pause = 0.002
    while (left := _difference(before, now())) and time.monotonic() < deadline:
        # most things end by themselves, and a collection takes long in a large program
        if pause > 0.05:
            gc.collect()
        time.sleep(pause)
        pause = min(2 * pause, 0.1)
    return left


def described(things: Things) -> str:
    """Return a line of text for each thing."""
    return "\n".join(
        f"left behind: {kind} {text}" for kind, some in things.items() for text in some.values()
    )


def _difference(before: Things, now: Things) -> Things:
    new = {kind: _without(some, before[kind]) for kind, some in now.items()}
    return {kind: some for kind, some in new.items() if some}


def _without(some: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in some.items() if key not in known}


def threads() -> dict[str, str]:
    """Return the threads that Python has started."""
    gc.disable()  # enumerate holds a lock that a thread needs which a collected iterator ends
    try:
        every = threading.enumerate()
    finally:
        gc.enable()
    return {str(id(one)): repr(one) for one in every if not _is_dummy(one)}


def _is_dummy(thread: threading.Thread) -> bool:
    """Return True for the object that Python makes for a thread of another library.

    Python keeps it after the thread has ended.
    """
    return type(thread).__name__ == "_DummyThread"


def processes() -> dict[str, str]:
    """Return the descendants of this process, also those that ended and were not waited for."""
    try:  # far cheaper than to look at every process of the machine
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (ChildProcessError, AttributeError):
        return {}
    stats = {
        int(name): stat
        for name in _names(_PROCESSES)
        if name.isdigit()
        if (stat := _stat(int(name)))
    }
    family, found = {os.getpid()}, dict[str, str]()
    while children := [
        pid for pid, stat in stats.items() if int(stat[1]) in family and pid not in family
    ]:
        family.update(children)
        for pid in children:
            state, began = stats[pid][0], stats[pid][19]
            found[f"{pid} {began}"] = f"{pid}, state {state}: {_command(pid)}"
    return found


def _stat(pid: int) -> list[str]:
    """Return the fields of `/proc/<pid>/stat` after the name: state, parent, ….

    Return [] if the process has gone.
    """
    with suppress(OSError):
        return (_PROCESSES / str(pid) / "stat").read_text().rpartition(") ")[2].split()
    return []


def _command(pid: int) -> str:
    with suppress(OSError):
        return (
            (_PROCESSES / str(pid) / "cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode(errors="replace")
            .strip()
        )
    return ""


def descriptors() -> dict[str, str]:
    """Return the open descriptors, by number and what each refers to.

    A number alone may be used again.
    """
    found = {}
    for number in _names(DESCRIPTORS):
        with suppress(FileNotFoundError):  # the descriptor of this listing is closed already
            text = f"{number} → {os.readlink(DESCRIPTORS / number)}"
            found[text] = text
    return found


def shared_memory() -> dict[str, str]:
    """Return the files of headrace in `/dev/shm`."""
    names = [name for name in _names(SHARED_MEMORY) if name.startswith(_OUR_SHARED_MEMORY)]
    return {name: str(SHARED_MEMORY / name) for name in names}


def _names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder)) if folder.is_dir() else []
