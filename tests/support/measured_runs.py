"""Measurements of runs, from which the tools draw conclusions."""

from __future__ import annotations

import json
from pathlib import Path

from headrace.tools.diagnosis.measured import Feeding, Measured, Rare, SourceInUse, WorkPart

STORE = SourceInUse(
    "Store", 100_000, reads=16, threads=16, buffer=500, singly=True, random=20e-3, at_work=0.01
)


def measured_store(records=32, workers=0, source=STORE, elapsed=None, **more):
    """A loop that waits for a store, with as many reads under way as there may be."""
    places = max(workers, 1)
    read_seconds = records * source.random
    elapsed = elapsed or read_seconds / source.reads / places
    parts = (
        WorkPart("reading", "reading", places * elapsed, 1),
        WorkPart("Batch", "stacking", 50e-6),
    )
    numbers = {
        "waited": elapsed,
        "unready": elapsed,
        "records": records,
        "nbytes": 8 * records,
        "parts": parts,
    }
    numbers |= {
        "workers": workers,
        "source": source,
        "cores": 2,
        "step_known": False,
        "read_seconds": read_seconds,
    }
    return Measured(30, elapsed, **{**numbers, **more})


RECORDED = json.loads((Path(__file__).parent.parent / "planted.json").read_text())


def recorded_run(name):
    """What was measured of a planted pipeline."""
    plain = dict(RECORDED[name]["measured"])
    parts, rare, source, feeding = (
        plain.pop(part) for part in ("parts", "rare", "source", "feeding")
    )
    return Measured(
        **plain,
        parts=tuple(WorkPart(**part) for part in parts),
        rare=rare and Rare(**rare),
        source=SourceInUse(**source),
        feeding=feeding and Feeding(**feeding),
    )


LOOP = Measured(
    100,
    0.030,
    0.020,
    0.020,
    16,
    4096,
    (WorkPart("decode", "record", 0.040, 16),),
    at_work=0.0,
    workers=2,
)
