"""Compare `BudgetBatch` with Lhotse's `DynamicBucketingSampler`: the same lengths and budget, 8
padded lengths or buckets.

    python bench/speed.py budgets [--rounds 3] [TABLE …]

It needs Lhotse: `python3 -m uv run --group bench --with lhotse bench/speed.py budgets`.

`planned` says how many batches are planned per second, in turns; nothing is read. `padded` says how
much of the batches is padding. `resumed` stops a run on two ranks after 50 steps, and resumes it
from its states on two ranks and on one. It counts the records that are lost or come twice. A run
that is refused loses all that is left.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import islice
from typing import Any

import numpy as np
from lhotse.cut import CutSet, MonoCut
from lhotse.dataset.sampling import DynamicBucketingSampler
from lhotse.supervision import SupervisionSegment
from measurement import Table

import headrace

OPTIONS = {"rounds": 3}
BUDGET, RECORDS = 16_384, 100_000
FEW, STEPS = 20_000, 50
"""Records of the resumed runs, and the steps after which they stop."""

LENGTHS = np.random.default_rng(0).lognormal(5, 1, RECORDS).astype(np.int64).clip(16, 1024)

Batch = list[int]
"""The numbers of its records."""


def headrace_loader(shard: int, shards: int, count: int) -> headrace.DataLoader:
    """Batches of 8 shapes."""
    return headrace.load(
        [
            {"tokens": np.zeros(length, np.int8), "id": number}
            for number, length in enumerate(LENGTHS[:count].tolist())
        ],
        transformations=[headrace.BudgetBatch(BUDGET, pad_to=8, lengths=LENGTHS[:count])],
        shuffle=True,
        seed=0,
        num_epochs=1,
        shard_options=headrace.ShardOptions(shard, shards),
    )


@cache
def cuts(count: int) -> CutSet:
    """Cuts of as many seconds as a record has tokens."""
    return CutSet.from_cuts(
        MonoCut(
            str(number),
            0,
            float(length),
            0,
            supervisions=[SupervisionSegment(str(number), "", 0, float(length))],
        )
        for number, length in enumerate(LENGTHS[:count].tolist())
    ).to_eager()


def lhotse_sampler(shard: int, shards: int, count: int) -> DynamicBucketingSampler:
    """8 buckets, and buffers of the default size."""
    return DynamicBucketingSampler(
        cuts(count),
        max_duration=float(BUDGET),
        num_buckets=8,
        shuffle=True,
        seed=0,
        world_size=shards,
        rank=shard,
    )


def numbers(batch: Any) -> Batch:
    """Return the numbers of the records in a batch of headrace or Lhotse."""
    return (
        batch["id"][batch["lengths"] > 0].tolist()
        if isinstance(batch, dict)
        else [int(cut.id) for cut in batch]
    )


def planned(options: Any) -> Iterator[Table]:
    """Batches per second, from the first call on."""

    def rate(batches: Callable[[], Iterable[Any]]) -> float:
        began = time.perf_counter()
        count = sum(1 for _ in batches())
        return count / (time.perf_counter() - began)

    loader = headrace_loader(0, 1, RECORDS)
    cuts(RECORDS)
    ways = {
        "Lhotse, 8 buckets": lambda: map(numbers, lhotse_sampler(0, 1, RECORDS)),
        "headrace, pad_to=8": lambda: map(loader.records_at, range(len(loader))),
    }
    yield Table(
        "batches planned per second",
        {label: partial(rate, way) for label, way in ways.items()},
        "more",
    )


def padded(options: Any) -> Iterator[Table]:
    """Lhotse's batches are padded to their longest record."""
    shapes = {
        "Lhotse, 8 buckets": [
            (len(batch), int(LENGTHS[batch].max()))
            for batch in map(numbers, lhotse_sampler(0, 1, RECORDS))
        ],
        "headrace, pad_to=8": [batch["mask"].shape for batch in headrace_loader(0, 1, RECORDS)],
    }
    sizes = {label: sum(rows * length for rows, length in found) for label, found in shapes.items()}
    shares = {label: 100 * (1 - int(LENGTHS.sum()) / size) for label, size in sizes.items()}
    yield Table("percent of padding", shares)
    yield Table(
        "number of shapes", {label: float(len(set(found))) for label, found in shapes.items()}
    )


def resumed(options: Any) -> Iterator[Table]:
    """Records that are lost, and that come twice."""
    for shards in (2, 1):
        lost, twice = {}, {}
        for label, come in {"Lhotse": _lhotse_resumed, "headrace": _headrace_resumed}.items():
            came = Counter(number for batch in come(shards) for number in batch)
            lost[label], twice[label] = float(FEW - len(came)), float(came.total() - len(came))
        yield Table(f"records lost: two ranks, then {shards}", lost)
        yield Table(f"records that come twice: two ranks, then {shards}", twice)


def _headrace_resumed(shards: int) -> Iterator[Batch]:
    begun = [iter(headrace_loader(shard, 2, FEW)) for shard in range(2)]
    for iterator in begun:
        yield from map(numbers, islice(iterator, STEPS))
    states = [iterator.get_state() for iterator in begun]
    for shard in range(shards):
        further = iter(headrace_loader(shard, shards, FEW))
        further.set_states(states)
        yield from map(numbers, further)


def _lhotse_resumed(shards: int) -> Iterator[Batch]:
    """Each rank takes its own state, as there is no other way."""
    begun = [lhotse_sampler(shard, 2, FEW) for shard in range(2)]
    for sampler in begun:
        yield from map(numbers, islice(iter(sampler), STEPS))
    states = [sampler.state_dict() for sampler in begun]
    for shard in range(shards):
        further = lhotse_sampler(shard, shards, FEW)
        try:
            further.load_state_dict(states[shard])
        except AssertionError as error:
            print(f"Lhotse refuses the state: {str(error).splitlines()[0]}")
            return
        yield from map(numbers, further)


TABLES = {function.__name__: function for function in (planned, padded, resumed)}
