"""What a test may leave behind. In: what there was before it. Out: what there is more of now, named and cleared away."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import sys
import threading
import time
from pathlib import Path

import psutil

NOT_OURS = ("zarr_io", "zarr_pool", "tqdm_monitor", "grain-")
"""Threads of libraries: some live as long as the process, and those of Grain end when they like."""
OF_RAY = ("ray::IDLE", "default_worker.py", "setup_worker.py", "runtime_env/agent")
"""Processes that Ray starts when it likes. An actor is called by its class."""
OF_MATPLOTLIB = "/mpl-data/fonts/"
"""Files that it keeps open once it has written a text."""
PATIENCE_SECONDS = 30
SHARED_MEMORY = Path("/dev/shm")
DESCRIPTORS = Path("/proc/self/fd")

Kinds = dict[str, dict[str, str]]
"""For each kind of thing: a key for each of them that is not used again soon, and a description."""


def present(temporary: Path) -> Kinds:
    """All that could be left behind, as it is now."""
    return {
        "thread": _threads(),
        "process": _processes(),
        "descriptor": descriptors(),
        "temporary file": _files(temporary),
        "shared memory": _shared_memory(),
    }


def more_than(before: Kinds, temporary: Path) -> Kinds:
    """What there is now and was not there before; what is about to end is given time for it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (left := _more(before, present(temporary))) and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.05)
    return left


def clear(left: Kinds) -> None:
    """Ends processes and removes temporary files.

    A descriptor may have an owner, who would later close another of its number, and shared memory may be somebody else's.
    """
    for key in left.get("process", {}):
        _end(int(key.partition(" ")[0]))
    for path in map(Path, left.get("temporary file", {}).values()):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def told(left: Kinds) -> str:
    """A line for each thing."""
    return "\n".join(f"left behind: {kind} {text}" for kind, things in left.items() for text in things.values())


def _more(before: Kinds, now: Kinds) -> Kinds:
    new = {kind: {key: text for key, text in now[kind].items() if key not in before[kind]} for kind in now}
    return {kind: things for kind, things in new.items() if things}


def _threads() -> dict[str, str]:
    # Python makes a _DummyThread when a thread of a library's own calls Python, and keeps it after that thread has ended.
    gc.disable()  # enumerate holds a lock that a thread needs which a collected iterator ends
    try:
        every = threading.enumerate()
    finally:
        gc.enable()
    ours = (one for one in every if not isinstance(one, threading._DummyThread))
    return {f"{id(one)}": repr(one) for one in ours if not one.name.startswith(NOT_OURS)}


def _processes() -> dict[str, str]:
    """Children and theirs; zombies too."""
    try:  # far cheaper than to look at every process of the machine
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return {}
    found = dict(map(_process, psutil.Process().children(recursive=True)))
    return {key: text for key, text in found.items() if not any(name in text for name in OF_RAY)}


def _process(process: psutil.Process) -> tuple[str, str]:
    key = f"{process.pid} {process.create_time()}"
    with contextlib.suppress(psutil.NoSuchProcess):
        return key, f"{process.pid}, {process.status()}: {' '.join(_command(process))}"
    return key, str(process.pid)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.ZombieProcess:
        return [process.name()]


def _end(pid: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(pid).kill()
    with contextlib.suppress(ChildProcessError):  # a grandchild is not ours to wait for
        os.waitpid(pid, 0)


def descriptors() -> dict[str, str]:
    """By number and what it stands for: a number may be given away again."""
    found = {}
    for number in _names(DESCRIPTORS):
        with contextlib.suppress(FileNotFoundError):  # that of the look itself is closed already
            target = os.readlink(DESCRIPTORS / number)
            connected = target.startswith("socket:") and _in_ray()  # which connects to its processes when it likes
            if not connected and OF_MATPLOTLIB not in target:
                found[f"{number} → {target}"] = f"{number} → {target}"
    return found


def _in_ray() -> bool:
    ray = sys.modules.get("ray")
    return ray is not None and ray.is_initialized()


def _files(folder: Path) -> dict[str, str]:
    return {name: str(folder / name) for name in _names(folder)}


def _shared_memory() -> dict[str, str]:
    """What is headrace's: Grain, in another process of the tests, leaves hundreds under other names."""
    return {name: str(SHARED_MEMORY / name) for name in _names(SHARED_MEMORY) if name.startswith("headrace")}


def _names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder)) if folder.is_dir() else []
