"""Run the pipelines of the tests that have a known bottleneck, and show whether the verdict of `headrace bench` finds it.

    python benchmarks/verdicts.py [NAME …]

The default is all pipelines. Prints a line for each. The result depends on time, so this is a command
for a quiet machine, not a test. The tests use recordings of these pipelines.
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
