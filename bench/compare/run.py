"""Compare headrace, Grain, PyTorch's DataLoader and plain loops on the same work, in turns, in one process.

    python bench/speed.py compare                             all workloads, in less than eight minutes
    python bench/speed.py compare --quick                     the same, coarsely, in less than a minute and a half
    python bench/speed.py compare --workloads mnist,images --contenders limit,bare,headrace --rounds 9

First batches of all contenders in one common order must have the same checksum; else the exit status is 1.
Rates are medians of the rounds, ratios medians of the ratios within each round. p50 and p99 are over all `next()`
of all rounds; CPU time includes threads and child processes. Writes bench/output/results.json.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from compare.summary import report, show
from compare.verify import DifferentWorkError, verify
from compare.work import Contender, Work, Workload, contenders_for, missing
from compare.workloads import WORKLOADS
from libraries import SETTINGS
from machine import facts_with_versions
from measuring import Turn, frozen, in_turn, keep_bytecode, settle_allocator, take_turn
from rich.console import Console
from tqdm import tqdm

QUICK_ROUNDS, QUICK_SECONDS = 2, 0.15
WIDTH = 120
OUTPUT = Path(__file__).parent.parent / "output"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    names = [workload.name for workload in WORKLOADS]
    keys = list(SETTINGS)
    parser.add_argument("--workloads", type=_names(names), default=names, help=f"some of {','.join(names)}")
    parser.add_argument("--contenders", type=_names(keys), default=keys, help=f"some of {','.join(keys)}")
    parser.add_argument(
        "--workers", type=_counts, default=[0], help="worker counts of the libraries, as 0,1,2 (default 0)"
    )
    parser.add_argument("--rounds", type=int, help="turns of each contender (default 5)")
    parser.add_argument("--seconds", type=float, help="measured seconds of a turn (default 1.5)")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds of {QUICK_SECONDS} s")
    parser.add_argument("--out", type=Path, default=OUTPUT, help="folder for the results")


def main(options: argparse.Namespace) -> int:
    """Run the comparison; the exit status."""
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else 5)
    seconds = options.seconds or (QUICK_SECONDS if options.quick else 1.5)
    settle_allocator()
    keep_bytecode()
    console = Console(width=max(Console().width, WIDTH))
    keys = set(options.contenders)
    for key, module in missing(options.contenders).items():
        console.print(f"{key} takes no part: the module {module} is not installed", style="yellow")
        keys.remove(key)
    started, facts = time.monotonic(), facts_with_versions()
    reports: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="headrace-compare-") as folder:
        for workload in [workload for workload in WORKLOADS if workload.name in options.workloads]:
            contenders = contenders_for(workload, list(keys), options.workers)
            try:
                reports.append(_compare(workload, contenders, Path(folder), rounds, seconds))
            except DifferentWorkError as error:
                console.print(f"not the same work: {error}", style="bold red", soft_wrap=True)
                return 1
            show(console, reports[-1])
    facts |= {
        "load after": f"{os.getloadavg()[0]:.1f}",
        "rounds": f"{rounds} of {seconds:g} s for each contender",
        "whole run": f"{time.monotonic() - started:.0f} s",
    }
    options.out.mkdir(parents=True, exist_ok=True)
    content = {"facts": facts, "workloads": reports}
    (options.out / "results.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    console.print(f"{facts['whole run']}; written to {options.out}/results.json", highlight=False)
    return 0


def _compare(
    workload: Workload, contenders: list[Contender], folder: Path, rounds: int, seconds: float
) -> dict[str, Any]:
    work = Work(workload, workload.make_data(folder))
    checksum = verify(work, contenders)
    turns: dict[Contender, list[Turn]] = {contender: [] for contender in contenders}
    # A bar that draws between turns only; a thread that draws would take part in what is measured.
    with frozen(), tqdm(total=rounds * len(contenders), desc=workload.name, leave=False, disable=None) as bar:
        for number in range(rounds):
            for contender in in_turn(contenders, number):
                turns[contender].append(_turn(work, contender, seconds))
                bar.update()
    return report(workload, checksum, turns)


def _turn(work: Work, contender: Contender, seconds: float) -> Turn:
    try:
        return take_turn(contender.loader(work), work.workload.batch_size, seconds)
    except Exception as error:
        error.add_note(f"while {contender.label} worked on {work.workload.name}")
        raise


def _names(known: Sequence[str]) -> Callable[[str], list[str]]:
    """A parser of a comma-separated list of names, all of them known."""

    def names(text: str) -> list[str]:
        found = text.split(",")
        if unknown := [name for name in found if name not in known]:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is unknown; there are {', '.join(known)}")
        return found

    return names


def _counts(text: str) -> list[int]:
    return [int(count) for count in text.split(",")]
