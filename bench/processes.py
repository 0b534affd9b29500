"""Processor time and memory of a program with all its processes, and their end. Reads /proc; needs
nothing but Python.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")


def _processes() -> dict[int, tuple[int, int, float]]:
    """For each process its parent, its session, and seconds of processor, those of children that
    ended included.
    """
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            found[int(entry.name)] = (
                int(fields[1]),
                int(fields[3]),
                sum(map(int, fields[11:15])) / TICK,
            )
    return found


def _tree(root: int) -> dict[int, float]:
    """The processes of a program: its session, and all that descend from it; for each the seconds
    of processor.
    """
    processes = _processes()
    inside = {pid for pid, (_, session, _) in processes.items() if pid == root or session == root}
    while more := {pid for pid, (parent, *_) in processes.items() if parent in inside} - inside:
        inside |= more
    return {pid: processes[pid][2] for pid in inside if pid in processes}


def kill(root: int) -> None:
    """Kill a program and all its processes."""
    for pid in {root, *_tree(root)}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def processor_seconds(root: int) -> float:
    """Of a program and all its processes, user and system."""
    return sum(_tree(root).values())


def own_processor_seconds() -> float:
    """Of this process and its children, the living and the dead; its own in microseconds, not in
    ticks.
    """
    dead = resource.getrusage(resource.RUSAGE_CHILDREN)
    processes, found = _processes(), time.process_time() + dead.ru_utime + dead.ru_stime
    parents = {os.getpid()}
    while parents := {pid for pid, (parent, *_) in processes.items() if parent in parents}:
        found += sum(processes[pid][2] for pid in parents)
    return found


def memory(root: int) -> int:
    """Bytes of a program and all its processes; memory that several of them share is
    counted once.
    """
    total = 0
    for pid in _tree(root):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) << 10
    return total
