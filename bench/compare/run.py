"""Compare headrace, Grain, PyTorch's DataLoader and plain loops on the same work, in turns, in one
process.

    python bench/speed.py compare
    python bench/speed.py compare --rounds 2 --seconds 0.15
    python bench/speed.py compare --workloads mnist,images --contenders limit,bare,headrace

The first command takes less than eight minutes. The second measures coarsely, in a minute and a
half.

First batches of all contenders in one common order must be the same; else the exit status is 1.
Rates are medians of the rounds, ratios medians of the ratios within each round, as most changes of
a shared machine cancel out in these. The first batch is timed from `iter()`; CPU time includes
threads and child processes. Writes bench/output/results.json.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import tempfile
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from compare.verify import verify
from compare.work import Contender, DifferentWorkError, Work, Workload, contenders_for
from compare.workloads import WORKLOADS
from libraries import SETTINGS
from machine import facts
from measurement import print_table
from measuring import Turn, settle_process, take_turn, turns

BENCH = Path(__file__).parent.parent
KNOWN = {"workloads": [workload.name for workload in WORKLOADS], "contenders": [*SETTINGS]}
PACKAGES = ("headrace", "numpy", "grain", "torch", "array_record", "pillow")
HEAD = ("contender", "records/s", "min", "max", "× limit", "first batch, ms", "CPU, µs/record")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    for option, known in KNOWN.items():
        names = partial(_names, option)
        about = f"some of {','.join(known)}"
        parser.add_argument(f"--{option}", type=names, default=known, help=about)
    workers = "worker counts of the libraries, as 0,1,2 (default 0)"
    parser.add_argument("--workers", default="0", help=workers)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contender (default 5)")
    seconds = "measured seconds of a turn (default 1.5)"
    parser.add_argument("--seconds", type=float, default=1.5, help=seconds)
    out = "folder for the results"
    parser.add_argument("--out", type=Path, default=BENCH / "output", help=out)


def _names(option: str, text: str) -> list[str]:
    if unknown := {*text.split(",")} - {*KNOWN[option]}:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}")
    return text.split(",")


def main(options: argparse.Namespace) -> int:
    """Run the comparison; the exit status."""
    settle_process()
    began, noted = time.monotonic(), facts_and_versions()
    workers = [int(count) for count in options.workers.split(",")]
    absent = tuple(f"{name}:" for name in ("grain", "torch") if find_spec(name) is None)
    lacking = {key for key in options.contenders if SETTINGS[key].loader.startswith(absent)}
    if lacking:
        print(f"not installed, so they take no part: {', '.join(lacking)}")
    reports = []
    with tempfile.TemporaryDirectory(prefix="headrace-compare-") as folder:
        for workload in WORKLOADS:
            contenders = contenders_for(workload, {*options.contenders} - lacking, workers)
            if workload.name not in options.workloads or not contenders:
                continue
            try:
                reports.append(_compare(workload, contenders, Path(folder), options))
            except DifferentWorkError as error:
                print(f"not the same work: {error}")
                return 1
            rows = [_row(**found) for found in reports[-1]["contenders"]]
            print_table(workload.name, HEAD, rows)
    noted |= {
        "load after": f"{os.getloadavg()[0]:.1f}",
        "rounds": f"{options.rounds} of {options.seconds:g} s for each contender",
        "whole run": f"{time.monotonic() - began:.0f} s",
    }
    options.out.mkdir(parents=True, exist_ok=True)
    written = json.dumps({"facts": noted, "workloads": reports}, indent=1, ensure_ascii=False)
    (options.out / "results.json").write_text(written + "\n")
    print(f"{noted['whole run']}; written to {options.out}/results.json")
    return 0


def facts_and_versions() -> dict[str, str]:
    """Return facts about the machine, the commit, and the versions of installed packages."""
    described = ["git", "-C", str(BENCH), "describe", "--always", "--dirty"]
    commit = subprocess.run(described, capture_output=True, text=True).stdout.strip()
    installed = {each.name: each.version for each in importlib.metadata.distributions()}
    versions = {name: installed.get(name, "not installed") for name in PACKAGES}
    return facts() | {"Python": platform.python_version(), "commit": commit} | versions


def _compare(
    workload: Workload, contenders: list[Contender], folder: Path, options: Any
) -> dict[str, Any]:
    """The figures of one workload, as plain values."""
    work = Work(workload, workload.make_data(folder))
    verify(work, contenders)
    measured = {one: partial(_turn, work, one, options.seconds) for one in contenders}
    found = turns(options.rounds, measured)
    limit = [turn.rate for turn in found.get(Contender("limit"), [])]
    return {
        "workload": workload.name,
        "about": workload.about,
        "contenders": [_figures(contender, own, limit) for contender, own in found.items()],
    }


def _turn(work: Work, contender: Contender, seconds: float) -> Turn:
    try:
        return take_turn(contender.loader(work), work.workload.batch_size, seconds)
    except Exception as error:
        error.add_note(f"while {contender.label} worked on {work.workload.name}")
        raise


def _figures(contender: Contender, own: list[Turn], limit: list[float]) -> dict[str, Any]:
    rates = [turn.rate for turn in own]
    return {
        "name": contender.name,
        "label": contender.label,
        "rate": float(np.median(rates)),
        "rate_low": min(rates),
        "rate_high": max(rates),
        "to_limit": float(np.median(np.divide(rates, limit))) if limit else None,
        "first_batch_ms": 1e3 * float(np.median([turn.first_batch_seconds for turn in own])),
        "cpu_us": 1e6 * float(np.median([turn.cpu_seconds / turn.records for turn in own])),
    }


def _row(label: str, to_limit: float | None, name: str, **figures: float) -> list[str]:
    rates = [f"{figures[each]:,.0f}" for each in ("rate", "rate_low", "rate_high")]
    times = "–" if to_limit is None else f"{to_limit:.3g}"
    return [label, *rates, times, f"{figures['first_batch_ms']:,.1f}", f"{figures['cpu_us']:,.2f}"]
