"""Measure the speed of all libraries in several workloads, each in an environment of its own. Needs
nothing but Python.

    python3 bench/speed.py loaders --loaders headrace grain

Prints a figure for each cell, i.e. a loader and a workload, and stores it as JSON with `--results`.
First, each cell runs a small epoch. It gets no figure if a record is lost, repeated or damaged.
Then the loaders take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from libraries import LIBRARIES, Library, python_of
from loaders.workloads import WORKLOADS, Workload
from machine import facts, keep
from processes import kill, memory, processor_seconds

SPEED = Path(__file__).parent.parent / "speed.py"
PART = 40
"""The check goes through so small a part of the records."""

LIMIT = float(os.environ.get("BENCH_SECONDS", "40"))
"""The longest that a cell may take until its first batch, or for the check."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--loaders", nargs="+", default=list(LIBRARIES), choices=list(LIBRARIES))
    everything = [one.name for one in WORKLOADS]
    parser.add_argument("--workloads", nargs="+", choices=everything, default=everything)
    about = "worker processes, or threads where a loader has these"
    parser.add_argument("--workers", type=int, default=2, help=about)
    about = "runs of each cell; the figure is their median"
    parser.add_argument("--turns", type=int, default=3, help=about)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long a run is measured")
    about = "a JSON file to add the figures to; the same as of resume.py"
    parser.add_argument("--results", type=Path, help=about)


def main(options: argparse.Namespace) -> None:
    """Check the cells, measure them in turns, and print them."""
    noted = facts() | {"turns": options.turns, "seconds of a turn": options.seconds}
    noted |= {"workers": options.workers}
    results: dict[str, Any] = {
        name: {"versions": {}, "speed": {}, "speed_facts": noted} for name in options.loaders
    }
    runs: dict[tuple[str, Workload], list[Any]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-speed-") as folder:
        for workload in [one for one in WORKLOADS if one.name in options.workloads]:
            for name in options.loaders:
                library = LIBRARIES[name]
                found = play(library, name, workload, Path(folder), 0, options.workers)
                results[name]["versions"] |= found.pop("versions", {})
                results[name]["speed"][workload.name] = found
                if found.get("wrong") == "":
                    runs[name, workload] = []
                _show("check", name, workload, found)
        for turn in range(options.turns):
            for (name, workload), own in runs.items():
                library, place = LIBRARIES[name], Path(folder)
                own.append(play(library, name, workload, place, options.seconds, options.workers))
                _show(f"turn {turn + 1}", name, workload, own[-1])
    for (name, workload), own in runs.items() if options.turns else ():
        results[name]["speed"][workload.name] = summary(own)
        _show("median", name, workload, results[name]["speed"][workload.name])
    if options.results:
        keep(options.results, results)


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians of what was measured; what was wrong in any run is wrong."""
    if wrong := [one["wrong"] for one in runs if one.get("wrong")]:
        return {"wrong": wrong[0]}
    figures = ("rate", "first", "cpu", "memory")
    return {key: statistics.median(one[key] for one in runs) for key in figures} | {"wrong": ""}


def play(
    library: Library, name: str, workload: Workload, folder: Path, seconds: float, workers: int
) -> dict[str, Any]:
    """Measure one loader in one workload, in a process of its own, and return the figures by name.

    * `rate`: units per second.
    * `first`: seconds from the start of the program to the first batch.
    * `cpu`: seconds of processor time for each second of the loop, of all its processes.
    * `memory`: bytes of these processes at the end of the loop. Shared memory is counted once. The
      numbers of the records, which the check keeps, are not counted.

    If there are no figures, the result has a text that says why: `wrong` (records are lost,
    repeated or damaged), `unclaimed` (the library does not offer this) or `missing` (it is not
    installed).
    """
    if library.unmeasured:
        return {"unclaimed": library.unmeasured}
    python = python_of(library)
    if python is None:
        return {"missing": f"not installed: python3 bench/environments.py {name}"}
    count = workload.count if seconds else workload.count // PART
    place = folder / f"{name}-{workload.name}-{count}"
    called = [library.adapter, workload.name, place, workers, seconds, count]
    command = [python, str(SPEED), "cell", *map(str, called)]
    if seconds and not place.exists():
        _run(command, 0)  # writes the data, so that `first` does not count it
    return _run(command, seconds)


def _run(command: list[str], seconds: float) -> dict[str, Any]:
    """Run `cell.py`, return what it tells, and leave nothing of it."""
    begun, rang = time.time(), threading.Event()
    environment = {**os.environ}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    pipes |= {"env": environment, "start_new_session": True}
    with (
        open(os.environ.get("BENCH_ERRORS", os.devnull), "a") as errors,
        subprocess.Popen(command, stderr=errors, **pipes) as process,
    ):
        alarm = threading.Timer(LIMIT + seconds, lambda: (rang.set(), kill(process.pid)))
        alarm.start()
        try:
            found = _follow(process)
        finally:
            alarm.cancel()
            kill(process.pid)
    if "wrong" not in found and "unclaimed" not in found:
        found["wrong"] = "a hang" if rang.is_set() else "the program ended"
    return found | ({"first": found["first"] - begun} if "first" in found else {})


def _follow(process: Any) -> dict[str, Any]:
    """Reads its lines, and looks at its processes where it waits."""
    found: dict[str, Any] = {}
    for line in process.stdout:
        found |= json.loads(line)
        if at := found.pop("at", ""):
            spent = processor_seconds(process.pid)
            found["cpu"] = spent - found.get("cpu", 0.0)
            found["memory"] = memory(process.pid) - found.pop("kept") if at == "end" else 0
            process.stdin.write("\n")
            process.stdin.flush()
    if "seconds" in found:
        found["cpu"] /= found.pop("seconds")
    return found


def _show(when: str, name: str, workload: Workload, found: dict[str, Any]) -> None:
    wrong = found.get("wrong")
    told = found.get("unclaimed") or found.get("missing") or "each record came once"
    if wrong:
        told = f"WRONG: {wrong}; again: python3 bench/speed.py loaders"
        told += f" --loaders {name} --workloads {workload.name}"
    elif "rate" in found:
        each = 1e6 * found["cpu"] / found["rate"]
        told = f"{found['rate']:12,.0f}/s  {each:9.2f} µs of processor each"
        told += f"  first batch {found['first']:.2f} s  {found['memory'] / 2**20:,.0f} MiB"
    print(f"{when:6}: {name:12} {workload.name:10} {told}", flush=True)
