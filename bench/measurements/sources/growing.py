"""Measure sources to which files are added, beside the same sources without growth.

Each row is a function.

    python bench/speed.py growing [ROW …]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from tables import Row, print_rows

import headrace

RECORDS, BATCH, RUNS = 600_000, 256, 5
CONVERTER = """
import sys, headrace
headrace.convert([[number] for number in range(20_000)], sys.argv[1], "tokens", shards=4, workers=0, progress=False)
"""


def _seconds(source: Any, growth: Any) -> float:
    """An epoch in random order, on one thread, in seconds of the processor: other programs may use it, too."""
    options = headrace.ReadOptions(num_threads=0)
    loader = headrace.load(
        source, batch_size=BATCH, shuffle=True, seed=0, num_epochs=1, growth=growth, read_options=options
    )
    began = time.process_time()
    for _ in loader:
        pass
    return time.process_time() - began


def _beside_plain(growth: Any) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        with headrace.TokenWriter(Path(folder, "0.npy"), dtype=np.uint16) as writer:
            writer.extend([[0]] * RECORDS)
        plain, grows = headrace.TokenSource(folder), headrace.TokenSource(folder, growing=True)
        took = [(_seconds(plain, None), _seconds(grows, growth)) for _ in range(RUNS)]
    without, with_growth = map(statistics.median, zip(*took))
    return with_growth / without, f"{with_growth:.2f} s against {without:.2f} s for {RECORDS:,} records"


def growth_epoch() -> Row:
    """Time of an epoch that looks for more records at its end, beside one of a source that does not grow."""
    return _beside_plain("epoch")


def growth_now() -> Row:
    """The same, looking every 65,536 positions."""
    return _beside_plain("now")


def growth_first_batch() -> Row:
    """Seconds from the first file of a conversion to the first batch of it."""
    took = []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder, "out")
            with subprocess.Popen([sys.executable, "-c", CONVERTER, str(target)]):
                while not (target / ".conversion" / "plan.json").exists():
                    time.sleep(0.01)
                with iter(headrace.load(headrace.TokenSource(target, growing=True), batch_size=BATCH)) as batches:
                    next(batches)
                    began = min(path.stat().st_mtime for path in target.glob("*.npy"))
                    took.append(time.time() - began)
    return statistics.median(took), f"{max(took):.2f} at most"


ROWS = {"growth_epoch": growth_epoch, "growth_now": growth_now, "growth_first_batch": growth_first_batch}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("rows", nargs="*", choices=[[], *ROWS], metavar="ROW")


def main(options: argparse.Namespace) -> None:
    """Print the rows that are named, or all."""
    print_rows(ROWS, options.rows)
