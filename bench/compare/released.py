"""Compare the last ratios that `compare` measured with those of the last release. Print those that
fell by over 10 %.

    python bench/speed.py compare --workers 0,2   measure, and write bench/output/results.json
    python bench/speed.py released                compare with bench/released.json
    python bench/speed.py released --keep         store the present ratios as the release's

If a ratio fell, the exit status is 1.

A ratio is a rate divided by a reference's rate in the same run, so it can be compared between
similar machines. A rate could not.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BENCH, LARGEST_FALL = Path(__file__).parent.parent, 0.1
LOOPS = ("limit", "bare")
OURS = ("headrace", "chain", "mix", "packing", "asynchronous")
"""The contenders whose ratios are kept begin with one of these words."""

Ratios = Mapping[str, float]


def ratios_of(results: Mapping[str, Any]) -> dict[str, float]:
    """The rate of each of our contenders, as a multiple of the plain loops and of others with as
    many workers.

    Args:
        results: the content of the file that `compare` wrote.
    """
    found = {}
    for workload in results["workloads"]:
        contenders = workload["contenders"]
        for ours in (one for one in contenders if one["name"].startswith(OURS)):
            for other in (one for one in contenders if not one["name"].startswith(OURS)):
                if other["name"] in LOOPS or other["worker_count"] == ours["worker_count"]:
                    found[f"{workload['workload']}: {ours['name']} / {other['name']}"] = (
                        ours["rate"] / other["rate"]
                    )
    return dict(sorted(found.items()))


def falls(before: Ratios, now: Ratios) -> list[str]:
    """A line for each ratio that is less than nine tenths of what it was, and for each that was not
    measured.

    >>> falls({"a": 1.0, "b": 2.0, "c": 1.0}, {"a": 0.95, "b": 1.5})
    ['b: 2.00 → 1.50', 'c: 1.00 → not measured']
    """
    lines = []
    for name, ratio in before.items():
        if name not in now:
            lines.append(f"{name}: {ratio:.2f} → not measured")
        elif now[name] < (1 - LARGEST_FALL) * ratio:
            lines.append(f"{name}: {ratio:.2f} → {now[name]:.2f}")
    return lines


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("results", nargs="?", type=Path, default=BENCH / "output" / "results.json")
    parser.add_argument(
        "--released", type=Path, default=BENCH / "released.json", help="ratios of the last release"
    )
    parser.add_argument("--keep", action="store_true", help="write the ratios of the results there")


def main(options: argparse.Namespace) -> int:
    """Print the ratios of the release and of the last results, then those that fell. Return the
    exit status.
    """
    results = json.loads(options.results.read_text())
    now = ratios_of(results)
    if options.keep:
        kept = {
            "facts": results["facts"],
            "ratios": {name: round(ratio, 3) for name, ratio in now.items()},
        }
        options.released.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
        return 0
    before = json.loads(options.released.read_text())["ratios"]
    for name in sorted(before.keys() | now.keys()):
        was, found = (f"{ratios[name]:.2f}" if name in ratios else "–" for ratios in (before, now))
        print(f"{name}: {was} at the release, now {found}")
    fallen = falls(before, now)
    print("\n".join(["", f"{len(fallen)} fell by more than a tenth", *fallen]))
    return 1 if fallen else 0
