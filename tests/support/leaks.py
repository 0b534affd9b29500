"""What a test may leave behind. In: what there was before it. Out: what there is more of now, named
and cleared away.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path

import psutil

from headrace.testing import left_over
from headrace.testing.left_over import Things

NOT_OURS = ("zarr_io", "zarr_pool", "tqdm_monitor", "grain-")
"""Threads of libraries: some live as long as the process, and those of Grain end when they like."""
OF_RAY = ("ray::IDLE", "default_worker.py", "setup_worker.py", "runtime_env/agent")
"""Processes that Ray starts when it likes. An actor is called by its class."""
OF_MATPLOTLIB = "/mpl-data/fonts/"
"""Files that it keeps open once it has written a text."""
PATIENCE_SECONDS = 30


def present(temporary: Path) -> Things:
    """All that could be left behind, as it is now."""
    return {
        "thread": _threads(),
        "process": _processes(),
        "descriptor": descriptors(),
        "temporary file": _files(temporary),
        "shared memory": left_over.shared_memory(),
    }


def more_than(before: Things, temporary: Path) -> Things:
    """What there is now and was not there before; what is about to end is given time for it."""
    return left_over.new_things(before, lambda: present(temporary), PATIENCE_SECONDS)


def clear(left: Things) -> None:
    """Ends processes and removes temporary files.

    A descriptor may have an owner, who would later close another of its number, and shared memory
    may be somebody else's.
    """
    for key in left.get("process", {}):
        _end(int(key.partition(" ")[0]))
    for path in map(Path, left.get("temporary file", {}).values()):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _threads() -> dict[str, str]:
    ours = left_over.threads().items()
    return {key: text for key, text in ours if not any(f"({name}" in text for name in NOT_OURS)}


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
    """By number and what it stands for, but for those that Ray opens when it likes, and those of
    fonts.
    """
    in_ray = _in_ray()
    found = left_over.descriptors().items()
    return {
        key: text
        for key, text in found
        if OF_MATPLOTLIB not in text
        and not (in_ray and " → socket:" in text)  # Ray connects to its processes
    }


def _in_ray() -> bool:
    ray = sys.modules.get("ray")
    return ray is not None and ray.is_initialized()


def _files(folder: Path) -> dict[str, str]:
    return {
        name: str(folder / name) for name in (sorted(os.listdir(folder)) if folder.is_dir() else ())
    }
