"""Measure sources to which files are added, beside the same sources without growth.

python bench/speed.py growing [--rounds 5] [TABLE …]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measurement import Table
from measuring import seconds_of

import headrace

OPTIONS = {"rounds": 5, "records": 600_000}
BATCH = 256
CONVERTER = """
import sys, headrace
rows = [[number] for number in range(20_000)]
headrace.convert(rows, sys.argv[1], "tokens", shards=4, workers=0, progress=False)
"""


def epochs(options: Any) -> Iterator[Table]:
    """The time of an epoch in random order, on one thread, in seconds of the processor."""
    settings = {"batch_size": BATCH, "shuffle": True, "seed": 0, "num_epochs": 1}
    settings["read_options"] = headrace.ReadOptions(num_threads=0)

    def epoch(source: Any, growth: Any) -> float:
        loader = headrace.load(source, growth=growth, **settings)
        return seconds_of(lambda: sum(1 for _ in loader), clock=time.process_time)

    with tempfile.TemporaryDirectory() as folder:
        with headrace.TokenWriter(Path(folder, "0.npy"), dtype=np.uint16) as writer:
            writer.extend([[0]] * options.records)
        plain, grows = headrace.TokenSource(folder), headrace.TokenSource(folder, growing=True)
        contenders = {
            "a source that does not grow": partial(epoch, plain, None),
            "a look for more records at the end": partial(epoch, grows, "epoch"),
            "a look every 65,536 positions": partial(epoch, grows, "now"),
        }
        title = f"an epoch of {options.records:,} records (s of the processor)"
        yield Table(title, contenders, "less")


def first_batch(options: Any) -> Iterator[Table]:
    """The time from the first file of a conversion to the first batch of it."""

    def first() -> float:
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder, "out")
            with subprocess.Popen([sys.executable, "-c", CONVERTER, str(target)]):
                while not (target / ".conversion" / "plan.json").exists():
                    time.sleep(0.01)
                source = headrace.TokenSource(target, growing=True)
                with iter(headrace.load(source, batch_size=BATCH)) as batches:
                    next(batches)
                    return time.time() - min(path.stat().st_mtime for path in target.glob("*.npy"))

    yield Table("from the first file of a conversion to the first batch (s)", {"": first})


TABLES = {"epochs": epochs, "first_batch": first_batch}
