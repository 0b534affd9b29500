"""Runs the planted pipelines of the tests, and says whether the verdict finds what was planted.

In: names of plants (default: all). Out: a line for each. Times decide here, so this is a command for a quiet machine, and
no test; the tests judge what was recorded of these pipelines. `python benchmarks/verdicts.py`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import headrace

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from planted import PLANTED


def main(names: list[str]) -> int:
    """How many were not found."""
    missed = 0
    for name, plant_in in PLANTED.items():
        if names and name not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            plant = plant_in(Path(folder))
            finding = headrace.diagnose(plant.loader, steps=plant.steps, step_seconds=plant.step_seconds).finding
        right = (finding.kind, finding.stage) == (plant.kind, plant.stage)
        missed += not right
        print(
            f"{name:40} {'found' if right else f'{finding.kind}, {finding.stage}; planted: {plant.kind}, {plant.stage}'}",
            flush=True,
        )
    return missed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
