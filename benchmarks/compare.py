"""Compare headrace, Grain, PyTorch's DataLoader and two plain loops on the same work, in turns, in one run.

    python benchmarks/compare.py                              all workloads, in less than eight minutes
    python benchmarks/compare.py --quick                      the same, coarsely, in less than a minute and a half
    python benchmarks/compare.py --workloads mnist,images --contenders limit,bare,headrace --rounds 9

Writes results.json and results.md. The exit status is 1 if two contenders do not do the same work.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import machine
import report as reporting
from contender import Contender, label_of
from measure import Turn, frozen, keep_bytecode, settle_allocator, take_turn
from rich.console import Console
from roster import KEYS, contenders_for, missing
from summary import Report, Standing
from tqdm import tqdm
from verify import DifferentWorkError, verify
from workloads import WORKLOADS, Data, Workload

QUICK_ROUNDS, QUICK_SECONDS = 2, 0.15
WIDTH = 120


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; the exit status."""
    options = _parsed(arguments)
    settle_allocator()
    keep_bytecode()
    console = Console(width=max(Console().width, WIDTH))
    for key, module in missing(options.contenders).items():
        console.print(f"{key} takes no part: the module {module} is not installed", style="yellow")
        options.contenders.remove(key)
    started, facts, reports = time.monotonic(), machine.facts(), []
    with tempfile.TemporaryDirectory(prefix="headrace-compare-") as folder:
        for workload in [workload for workload in WORKLOADS if workload.name in options.workloads]:
            try:
                reports.append(_compare(workload, Path(folder), options))
            except DifferentWorkError as error:
                console.print(f"not the same work: {error}", style="bold red", soft_wrap=True)
                return 1
            reporting.show(console, reports[-1])
    facts |= {
        "load after": f"{os.getloadavg()[0]:.1f}",
        "rounds": f"{options.rounds} of {options.seconds:g} s for each contender",
        "whole run": f"{time.monotonic() - started:.0f} s",
    }
    reporting.write(options.out, facts, reports)
    console.print(f"{facts['whole run']}; written to {options.out}/results.json and results.md", highlight=False)
    return 0


def _compare(workload: Workload, folder: Path, options: argparse.Namespace) -> Report:
    data = workload.make_data(folder)
    contenders = contenders_for(workload, options.contenders, options.workers)
    checksum = verify(workload, data, contenders)
    turns: list[list[Turn]] = [[] for _ in contenders]
    # A bar that draws between turns only; a thread that draws would take part in what is measured.
    with frozen(), tqdm(total=options.rounds * len(contenders), desc=workload.name, leave=False, disable=None) as bar:
        for number in range(options.rounds):
            for index in _order(len(contenders), number):
                turns[index].append(_turn(workload, data, contenders[index], options.seconds))
                bar.update()
    standings = tuple(Standing(contender, tuple(own)) for contender, own in zip(contenders, turns))
    return Report(workload, checksum, standings)


def _order(count: int, number: int) -> list[int]:
    """Who follows whom in a round; every round begins with another contender."""
    return [(place + number) % count for place in range(count)]


def _turn(workload: Workload, data: Data, contender: Contender, seconds: float) -> Turn:
    try:
        return take_turn(contender.loader(workload, data, "own"), workload.batch_size, seconds)
    except Exception as error:
        error.add_note(f"while {label_of(contender)} worked on {workload.name}")
        raise


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [workload.name for workload in WORKLOADS]
    parser.add_argument("--workloads", type=_names(names), default=names, help=f"some of {','.join(names)}")
    parser.add_argument("--contenders", type=_names(KEYS), default=list(KEYS), help=f"some of {','.join(KEYS)}")
    parser.add_argument(
        "--workers", type=_counts, default=[0], help="worker counts of the libraries, as 0,1,2 (default 0)"
    )
    parser.add_argument("--rounds", type=int, help="turns of each contender (default 5)")
    parser.add_argument("--seconds", type=float, help="measured seconds of a turn (default 1.5)")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds of {QUICK_SECONDS} s")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output", help="folder for the results")
    options = parser.parse_args(arguments)
    options.rounds = options.rounds or (QUICK_ROUNDS if options.quick else 5)
    options.seconds = options.seconds or (QUICK_SECONDS if options.quick else 1.5)
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds and --seconds must be positive")
    return options


class _names:  # noqa: N801 (argparse shows the name of a type in its errors)
    """Names from a comma-separated list, all of them known."""

    def __init__(self, known: Sequence[str]) -> None:
        self._known = known

    def __call__(self, text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in self._known:
                raise argparse.ArgumentTypeError(f"{name!r} is unknown; there are {', '.join(self._known)}")
        return names


def _counts(text: str) -> list[int]:
    return [int(count) for count in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
