"""Processor time and memory of a program with all its processes, and their end, from /proc."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")


def _tree(root: int) -> dict[int, float]:
    """The processes of a session, and all that descend from it or from the process `root`.

    Each has its seconds of processor, with those of its children that ended.
    """
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            found[int(entry.name)] = [*map(int, (*fields[1:4:2], *fields[11:15]))]
    inside = {pid for pid, (_, session, *_) in found.items() if root in (pid, session)}
    while more := {pid for pid, (parent, *_) in found.items() if parent in inside} - inside:
        inside |= more
    return {pid: sum(found[pid][2:]) / TICK for pid in inside}


def kill(root: int) -> None:
    """Kill a program and all its processes."""
    for pid in {root, *_tree(root)}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def processor_seconds(root: int) -> float:
    """Of a program and all its processes, user and system."""
    return sum(_tree(root).values())


def memory(root: int) -> int:
    """Bytes of a program and all its processes; what several of them share is counted once."""
    total = 0
    for pid in _tree(root):
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) << 10
    return total
