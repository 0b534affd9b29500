"""The speed league: it measures the speed of loaders in several workloads. Needs nothing but Python.

    python league/speed.py --loaders headrace grain

Prints a figure for each cell, i.e. a loader and a workload, and stores it as JSON with `--results`.
First, each cell runs a small epoch. It gets no figure if a record is lost, repeated or damaged. Then
the loaders take turns.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from environments import LOADERS, Loader, python_of
from facts import facts
from workloads import WORKLOADS, Workload

HERE = Path(__file__).parent
PART = 40
"""The check goes through so small a part of the records."""

LIMIT = float(os.environ.get("LEAGUE_SECONDS", "40"))
"""The longest that a cell may take until its first batch, or for the check."""

TICK = os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Checks the cells, measures them in turns, and prints them."""
    options = _arguments()
    noted = facts() | {"turns": options.turns, "seconds of a turn": options.seconds, "workers": options.workers}
    results: dict[str, Any] = {name: {"versions": {}, "speed": {}, "facts": noted} for name in options.loaders}
    with tempfile.TemporaryDirectory(prefix="league-speed-") as folder:
        right = []
        for workload in options.workloads:
            for name in options.loaders:
                found = play(LOADERS[name], name, workload, Path(folder), 0, options.workers)
                results[name]["versions"] |= found.pop("versions", {})
                results[name]["speed"][workload.name] = found
                if "wrong" in found and not found["wrong"]:
                    right.append((workload, name))
                    print(f"check:  {name:12} {workload.name:10} each record came once", flush=True)
                else:
                    _show(name, workload, found)
        for turn in range(options.turns):
            for workload, name in right:
                found = play(LOADERS[name], name, workload, Path(folder), options.seconds, options.workers)
                results[name]["speed"][workload.name].setdefault("runs", []).append(found)
                print(f"turn {turn + 1}: {name:12} {workload.name:10} {_as_text(found)}", flush=True)
    for workload, name in right if options.turns else ():
        cell = results[name]["speed"][workload.name]
        cell |= summary(cell.pop("runs"))
        _show(name, workload, cell)
    if options.results:
        keep(options.results, results)
    return 0


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians of what was measured; what was wrong in any run is wrong."""
    wrong = [one["wrong"] for one in runs if one.get("wrong")]
    if wrong:
        return {"wrong": wrong[0]}
    return {key: statistics.median(one[key] for one in runs) for key in ("rate", "first", "cpu", "memory")}


def play(
    loader: Loader, name: str, workload: Workload, folder: Path, seconds: float, workers: int, adapter: str = ""
) -> dict[str, Any]:
    """One cell: `unclaimed` with a sentence, or `wrong` with what is, and what was measured in a process of its own.

    `rate` is in units a second, `first` seconds from the start of the program to the first batch, `cpu` seconds of processor
    for each second of the loop, of all its processes, `memory` their bytes at the end of it, shared ones counted once, without
    the numbers of the records that came, which the check keeps.
    """
    python = python_of(loader)
    if python is None:
        return {"missing": f"not installed: python3 league/environments.py {name}"}
    count = workload.count if seconds else workload.count // PART
    place = folder / f"{name}-{workload.name}-{count}"
    called = [adapter or f"speed_{name}", workload.name, str(place), str(workers), str(seconds), str(count)]
    command = [python, str(HERE / "timing.py"), *called]
    with open(os.environ.get("LEAGUE_ERRORS", os.devnull), "a") as errors:
        if seconds and not place.exists():
            _run(command, errors, 0)  # writes the data, so that `first` does not count it
        return _run(command, errors, seconds)


def _run(command: list[str], errors: Any, seconds: float) -> dict[str, Any]:
    """What `timing.py` tells; then nothing of it is left."""
    begun = time.time()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    settings: Any = {
        "env": environment,
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "text": True,
        "start_new_session": True,
    }
    with subprocess.Popen(command, stderr=errors, **settings) as process:
        alarm = _Alarm(process, LIMIT + seconds)
        try:
            found = _follow(process)
        finally:
            alarm.stop()
            _kill(process.pid)
    if "wrong" not in found and "unclaimed" not in found:
        found["wrong"] = "a hang" if alarm.rang else "the program ended"
    return found | ({"first": found["first"] - begun} if "first" in found else {})


def _follow(process: Any) -> dict[str, Any]:
    """Reads its lines, and looks at its processes where it waits."""
    found: dict[str, Any] = {}
    before = 0.0
    for line in process.stdout:
        told = json.loads(line)
        at = told.pop("at", "")
        if at == "begin":
            before = processor_seconds(process.pid)
        elif at == "end":
            told["cpu"] = (processor_seconds(process.pid) - before) / told.pop("seconds")
            told["memory"] = memory(process.pid) - told.pop("kept")
        found.update(told)
        if at:
            process.stdin.write("\n")
            process.stdin.flush()
    return found


class _Alarm:
    """Kills a process that takes too long."""

    def __init__(self, process: Any, seconds: float) -> None:
        self.rang = False
        self._process = process
        self._timer = threading.Timer(seconds, self._ring)
        self._timer.start()

    def _ring(self) -> None:
        self.rang = True
        _kill(self._process.pid)

    def stop(self) -> None:
        """It does not ring any more."""
        self._timer.cancel()


def _processes() -> dict[int, tuple[int, int, float]]:
    """For each process its parent, its session, and seconds of processor, those of children that ended included."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            found[int(entry.name)] = int(fields[1]), int(fields[3]), sum(map(int, fields[11:15])) / TICK
    return found


def _tree(root: int) -> dict[int, float]:
    """The processes of a program: its session, and all that descend from it; for each the seconds of processor."""
    processes = _processes()
    inside = {pid for pid, (_, session, _) in processes.items() if pid == root or session == root}
    while more := {pid for pid, (parent, *_) in processes.items() if parent in inside} - inside:
        inside |= more
    return {pid: processes[pid][2] for pid in inside if pid in processes}


def _kill(root: int) -> None:
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
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) << 10
    return total


def keep(path: Path, results: dict[str, Any]) -> None:
    """Adds to what the file has of other loaders and workloads."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    for name, found in results.items():
        old = kept.setdefault(name, {"cells": {}})
        old["speed"] = old.get("speed", {}) | found["speed"]
        old["versions"] = old.get("versions", {}) | found["versions"]
        old["speed_facts"] = found["facts"]
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


def _as_text(found: dict[str, Any]) -> str:
    if "rate" not in found or found.get("wrong"):
        return found.get("unclaimed") or found.get("missing") or f"WRONG: {found.get('wrong')}"
    each = 1e6 * found["cpu"] / found["rate"]
    beside = f"first batch {found['first']:.2f} s  {found['memory'] / 2**20:,.0f} MiB"
    return f"{found['rate']:12,.0f}/s  {each:9.2f} µs of processor each  {beside}"


def _show(name: str, workload: Workload, found: dict[str, Any]) -> None:
    print(f"{name:12} {workload.name:10} {_as_text(found)}", flush=True)
    if found.get("wrong"):
        print(f"             again: python league/speed.py --loaders {name} --workloads {workload.name}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [name for name in LOADERS if (HERE / "speed_adapters" / f"speed_{name}.py").exists()]
    parser.add_argument("--loaders", nargs="+", default=names, choices=names)
    everything = [one.name for one in WORKLOADS]
    parser.add_argument("--workloads", nargs="+", choices=everything, default=everything)
    parser.add_argument("--workers", type=int, default=2, help="worker processes, or threads where a loader has these")
    parser.add_argument("--turns", type=int, default=3, help="runs of each cell; the figure is their median")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long a run is measured")
    parser.add_argument("--results", type=Path, help="a JSON file to add the figures to; the same as of resume.py")
    options = parser.parse_args()
    options.workloads = [one for one in WORKLOADS if one.name in options.workloads]
    return options


if __name__ == "__main__":
    sys.exit(main())
