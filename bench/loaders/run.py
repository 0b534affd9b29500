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

BENCH = Path(__file__).parent.parent
PART = 40
"""The check goes through so small a part of the records."""

LIMIT = float(os.environ.get("BENCH_SECONDS", "40"))
"""The longest that a cell may take until its first batch, or for the check."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--loaders", nargs="+", default=list(LIBRARIES), choices=list(LIBRARIES))
    everything = [one.name for one in WORKLOADS]
    parser.add_argument("--workloads", nargs="+", choices=everything, default=everything)
    parser.add_argument(
        "--workers",
        type=int,
        default=2,
        help="worker processes, or threads where a loader has these",
    )
    parser.add_argument(
        "--turns", type=int, default=3, help="runs of each cell; the figure is their median"
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="how long a run is measured")
    parser.add_argument(
        "--results", type=Path, help="a JSON file to add the figures to; the same as of resume.py"
    )


def main(options: argparse.Namespace) -> int:
    """Checks the cells, measures them in turns, and prints them."""
    noted = facts() | {
        "turns": options.turns,
        "seconds of a turn": options.seconds,
        "workers": options.workers,
    }
    results: dict[str, Any] = {
        name: {"versions": {}, "speed": {}, "speed_facts": noted} for name in options.loaders
    }
    with tempfile.TemporaryDirectory(prefix="bench-speed-") as folder:
        right = []
        for workload in [one for one in WORKLOADS if one.name in options.workloads]:
            for name in options.loaders:
                found = play(LIBRARIES[name], name, workload, Path(folder), 0, options.workers)
                results[name]["versions"] |= found.pop("versions", {})
                results[name]["speed"][workload.name] = found
                if "wrong" in found and not found["wrong"]:
                    right.append((workload, name))
                    print(f"check:  {name:12} {workload.name:10} each record came once", flush=True)
                else:
                    _show(name, workload, found)
        for turn in range(options.turns):
            for workload, name in right:
                found = play(
                    LIBRARIES[name], name, workload, Path(folder), options.seconds, options.workers
                )
                results[name]["speed"][workload.name].setdefault("runs", []).append(found)
                print(
                    f"turn {turn + 1}: {name:12} {workload.name:10} {_as_text(found)}", flush=True
                )
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
    return {
        key: statistics.median(one[key] for one in runs)
        for key in ("rate", "first", "cpu", "memory")
    }


def play(
    library: Library, name: str, workload: Workload, folder: Path, seconds: float, workers: int
) -> dict[str, Any]:
    """One cell: `unclaimed` with a sentence, or `wrong` with what is, and what was measured in a
    process of its own.

    `rate` is in units a second, `first` seconds from the start of the program to the first batch,
    `cpu` seconds of processor for each second of the loop, of all its processes, `memory` their
    bytes at the end of it, shared ones counted once, without the numbers of the records that came,
    which the check keeps.
    """
    python = python_of(library)
    if python is None:
        return {"missing": f"not installed: python3 bench/environments.py {name}"}
    count = workload.count if seconds else workload.count // PART
    place = folder / f"{name}-{workload.name}-{count}"
    called = [library.adapter, workload.name, str(place), str(workers), str(seconds), str(count)]
    command = [python, str(BENCH / "speed.py"), "cell", *called]
    with open(os.environ.get("BENCH_ERRORS", os.devnull), "a") as errors:
        if seconds and not place.exists():
            _run(command, errors, 0)  # writes the data, so that `first` does not count it
        return _run(command, errors, seconds)


def _run(command: list[str], errors: Any, seconds: float) -> dict[str, Any]:
    """Run `cell.py`, return what it tells, and leave nothing of it."""
    begun, rang = time.time(), threading.Event()
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    pipes: Any = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "text": True,
        "start_new_session": True,
    }
    with subprocess.Popen(command, stderr=errors, env=environment, **pipes) as process:
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
    before = 0.0
    for line in process.stdout:
        told = json.loads(line)
        at = told.pop("at", "")
        if at == "begin":
            before = processor_seconds(process.pid)
        elif at == "end":
            told["cpu"] = processor_seconds(process.pid) - before
            told["memory"] = memory(process.pid) - told["kept"]
        found.update(told)
        if at:
            process.stdin.write("\n")
            process.stdin.flush()
    found.pop("kept", None)
    if "seconds" in found:
        found["cpu"] /= found.pop("seconds")
    return found


def _as_text(found: dict[str, Any]) -> str:
    if "rate" not in found or found.get("wrong"):
        return found.get("unclaimed") or found.get("missing") or f"WRONG: {found.get('wrong')}"
    each = 1e6 * found["cpu"] / found["rate"]
    beside = f"first batch {found['first']:.2f} s  {found['memory'] / 2**20:,.0f} MiB"
    return f"{found['rate']:12,.0f}/s  {each:9.2f} µs of processor each  {beside}"


def _show(name: str, workload: Workload, found: dict[str, Any]) -> None:
    print(f"{name:12} {workload.name:10} {_as_text(found)}", flush=True)
    if found.get("wrong"):
        print(
            f"             again: python3 bench/speed.py loaders --loaders {name} --workloads "
            f"{workload.name}"
        )
