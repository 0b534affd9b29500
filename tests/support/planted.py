"""Pipelines that are slow for one reason each, which is known.

In: a name. Out: a loader, and what its steps wait for: the kind of thing and its name.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import headrace
from headrace import Batch, ImageFolderDataSource, ParquetDataSource
from headrace.sources import ArrayRecordDataSource


@dataclass(frozen=True)
class Plant:
    """A loader, what its step takes, and what it waits for."""

    loader: Any
    kind: str
    stage: str
    step_seconds: float | None = None
    steps: int = 30


PIXELS = [np.full((32, 32), number % 256, np.uint8) for number in range(512)]


def wait(x):
    """Blocks, as a remote call does."""
    time.sleep(2e-3)
    return x


def burn(x):
    """Holds the interpreter's lock."""
    return x + 0 * sum(range(40_000))


def digest(x):
    """Works without the interpreter's lock."""
    hashlib.sha256(BLOCK).digest()
    return x


BLOCK = bytes(1_000_000)


def shift(x):
    """Does next to nothing."""
    return x + 1


def label(record):
    """What a record is."""
    return record["label"]


def normalize(batch):
    """Works on a whole batch."""
    time.sleep(20e-3)
    return batch


def rarely(x):
    """Takes long for one record in a thousand."""
    if x % 1000 == 500:
        time.sleep(0.15)
    return x


def ragged(x):
    """Objects that cannot be shared: they are pickled."""
    return {"boxes": [{"label": f"{x} {number}", "box": (number, x, 0.5)} for number in range(600)]}


class Slow:
    """A source that answers after some time, as a store does."""

    facts = headrace.SourceFacts(reads_ahead=2)

    def __len__(self):
        return 10_000

    def __getitem__(self, key):
        time.sleep(3e-3)
        return key


def _load(source, *operations, batch=16, **options):
    return headrace.load(
        source, transformations=operations, shuffle=True, seed=0, batch_size=batch, **options
    )


def _row_groups(folder):
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table(
        {"x": np.arange(2_000_000), "noise": np.random.default_rng(0).random(2_000_000)}
    )
    pyarrow.parquet.write_table(table, folder / "rows.parquet", row_group_size=1_000_000)
    return Plant(
        _load(ParquetDataSource(folder / "rows.parquet", cache_bytes=0)), "groups", "reading"
    )


def _group_size(folder):
    from array_record.python.array_record_module import ArrayRecordWriter

    noise = np.random.default_rng(0)
    writer = ArrayRecordWriter(str(folder / "groups.array_record"), "group_size:512")
    for _ in range(16 * 512):
        writer.write(noise.bytes(8192))
    writer.close()
    return Plant(
        _load(ArrayRecordDataSource(str(folder / "groups.array_record"))), "groups", "reading"
    )


def _small_files(folder):
    (folder / "images/cat").mkdir(parents=True)
    for number in range(1000):
        (folder / f"images/cat/{number}.png").write_bytes(bytes(100_000))
    return Plant(
        _load(ImageFolderDataSource(folder / "images"), label, batch=64),
        "small files",
        "reading",
        steps=20,
    )


def _on_device():
    import jax

    loader = _load(range(10_000)).to_device(jax.devices()[0], transform=normalize)
    return Plant(loader, "transform", "transform=", 5e-3)


PLANTED = {
    "a call that waits": lambda _: Plant(_load(range(10_000), wait), "operation", "wait", 10e-3),
    "a call that waits, on workers": lambda _: Plant(
        _load(range(10_000), wait, worker_count=2), "operation", "wait", 10e-3
    ),
    "a call that waits, on threads": lambda _: Plant(
        _load(range(10_000), wait, worker_count=2, worker_kind="thread"), "operation", "wait", 10e-3
    ),
    "work": lambda _: Plant(_load(range(10_000), burn), "operation", "burn"),
    "work that holds the lock": lambda _: Plant(
        _load(range(10_000), burn, worker_count=2, worker_kind="thread"), "lock", "burn"
    ),
    "work without the lock": lambda _: Plant(
        _load(range(10_000), digest, worker_count=2, worker_kind="thread"), "operation", "digest"
    ),
    "work on batches": lambda _: Plant(
        headrace.DataLoader(
            data_source=range(10_000),
            sampler=headrace.IndexSampler(10_000, shuffle=True, seed=0),
            operations=[shift, Batch(16), normalize],
        ),
        "operation",
        "normalize",
    ),
    "small calls": lambda _: Plant(
        _load(np.arange(10_000), shift, shift, shift, batch=1024), "small calls", "shift"
    ),
    "large row groups": _row_groups,
    "large groups": _group_size,
    "a slow store": lambda _: Plant(_load(Slow()), "waiting source", "reading"),
    "small files": _small_files,
    "objects to hand over": lambda _: Plant(
        _load(range(10_000), ragged, batch=None, worker_count=2),
        "hand-over",
        "hand-over",
        steps=200,
    ),
    "one slow record in a thousand": lambda _: Plant(
        _load(range(2_000), rarely), "slow record", "rarely", steps=180
    ),
    "the user's own step": lambda _: Plant(
        _load(range(10_000), shift, worker_count=1), "step", "your step", 20e-3
    ),
    "tiny batches": lambda _: Plant(
        _load(np.arange(10_000), batch=2, worker_count=2), "small batches", "hand-over", steps=2000
    ),
    "stacking": lambda _: Plant(_load(PIXELS * 20, batch=512), "stacking", "Batch"),
    "a feeder's transform": lambda _: _on_device(),
}
