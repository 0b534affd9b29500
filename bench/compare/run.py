"""Compare headrace, Grain, PyTorch's DataLoader and plain loops on the same work, in turns, in one
process.

    python bench/speed.py compare
    python bench/speed.py compare --rounds 2 --seconds 0.15
    python bench/speed.py compare --workloads mnist,images --contenders limit,bare,headrace

The first command takes less than eight minutes. The second measures coarsely, in a minute and a
half.

First batches of all contenders in one common order must have the same checksum; else the exit
status is 1. Rates are medians of the rounds, ratios medians of the ratios within each round. p50
and p99 are over all `next()` of all rounds; CPU time includes threads and child processes. Writes
bench/output/results.json.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from compare.summary import report, show
from compare.verify import DifferentWorkError, verify
from compare.work import Contender, Work, Workload, contenders_for
from compare.workloads import WORKLOADS
from libraries import SETTINGS
from machine import facts_with_versions
from measuring import Turn, keep_bytecode, settle_allocator, take_turn, turns
from rich.console import Console

WIDTH = 120
OUTPUT = Path(__file__).parent.parent / "output"
KNOWN = {"workloads": [workload.name for workload in WORKLOADS], "contenders": [*SETTINGS]}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    for option, known in KNOWN.items():
        parser.add_argument(
            f"--{option}",
            type=lambda text: text.split(","),
            default=known,
            help=f"some of {','.join(known)}",
        )
    parser.add_argument(
        "--workers", default="0", help="worker counts of the libraries, as 0,1,2 (default 0)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contender (default 5)")
    parser.add_argument(
        "--seconds", type=float, default=1.5, help="measured seconds of a turn (default 1.5)"
    )
    parser.add_argument("--out", type=Path, default=OUTPUT, help="folder for the results")


def main(options: argparse.Namespace) -> int:
    """Run the comparison; the exit status."""
    for option, known in KNOWN.items():
        if unknown := {*getattr(options, option)} - {*known}:
            raise SystemExit(
                f"--{option}: unknown: {', '.join(unknown)}; there are {', '.join(known)}"
            )
    settle_allocator()
    keep_bytecode()
    console = Console(width=max(Console().width, WIDTH))
    workers = [int(count) for count in options.workers.split(",")]
    lacking = [
        key
        for key in options.contenders
        if importlib.util.find_spec(SETTINGS[key].requires) is None
    ]
    for key in lacking:
        told = f"{key} takes no part: the module {SETTINGS[key].requires} is not installed"
        console.print(told, style="yellow")
    started, facts = time.monotonic(), facts_with_versions()
    reports: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="headrace-compare-") as folder:
        for workload in [workload for workload in WORKLOADS if workload.name in options.workloads]:
            contenders = contenders_for(workload, {*options.contenders} - {*lacking}, workers)
            try:
                reports.append(_compare(workload, contenders, Path(folder), options))
            except DifferentWorkError as error:
                console.print(f"not the same work: {error}", style="bold red", soft_wrap=True)
                return 1
            show(console, reports[-1])
    facts |= {
        "load after": f"{os.getloadavg()[0]:.1f}",
        "rounds": f"{options.rounds} of {options.seconds:g} s for each contender",
        "whole run": f"{time.monotonic() - started:.0f} s",
    }
    options.out.mkdir(parents=True, exist_ok=True)
    content = {"facts": facts, "workloads": reports}
    (options.out / "results.json").write_text(
        json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    )
    console.print(f"{facts['whole run']}; written to {options.out}/results.json", highlight=False)
    return 0


def _compare(
    workload: Workload, contenders: list[Contender], folder: Path, options: Any
) -> dict[str, Any]:
    work = Work(workload, workload.make_data(folder))
    checksum = verify(work, contenders)
    measured = {
        contender: partial(_turn, work, contender, options.seconds) for contender in contenders
    }
    return report(workload, checksum, turns(options.rounds, measured))


def _turn(work: Work, contender: Contender, seconds: float) -> Turn:
    try:
        return take_turn(contender.loader(work), work.workload.batch_size, seconds)
    except Exception as error:
        error.add_note(f"while {contender.label} worked on {work.workload.name}")
        raise
