"""Compare batches by budget with Lhotse's `DynamicBucketingSampler`: same lengths and budget, in turns; and resume both.

    pip install lhotse torch        # the CPU build
    python bench/speed.py lhotse [--rounds 3]

A rate is the number of batches per second that are planned; nothing is read. A run on two ranks is
stopped after 50 steps, and resumed from its states on two ranks and on one. The output shows how many
records are lost, and how many are repeated.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import lhotse
import numpy as np
from lhotse.cut import CutSet, MonoCut
from lhotse.dataset.sampling import DynamicBucketingSampler
from lhotse.supervision import SupervisionSegment
from measurements.pipelines.balance import BUDGET, RECORDS, lengths_like_texts
from measuring import medians

import headrace

LENGTHS = lengths_like_texts(RECORDS)
FEW, STEPS = 20_000, 50
"""Records of the resumed runs, and the steps after which they are cut."""

Batch = list[int]
"""The numbers of its records."""


def headrace_loader(shard: int, shards: int, count: int) -> headrace.DataLoader:
    """Batches of 8 shapes."""
    return headrace.load(
        RECORDS_READ[:count],
        transformations=[headrace.BudgetBatch(BUDGET, pad_to=8, lengths=LENGTHS[:count])],
        shuffle=True,
        seed=0,
        num_epochs=1,
        shard_options=headrace.ShardOptions(shard, shards),
    )


RECORDS_READ = [{"tokens": np.zeros(length, np.int8), "id": number} for number, length in enumerate(LENGTHS.tolist())]


def headrace_batches() -> Iterator[Batch]:
    """The plan alone."""
    loader = headrace_loader(0, 1, RECORDS)
    return (loader.records_at(step).tolist() for step in range(len(loader)))


def ids(batch: Any) -> Batch:
    """The records of a batch that was read."""
    return batch["id"][batch["lengths"] > 0].tolist()


def cuts(count: int) -> CutSet:
    """Cuts of as many seconds as a record has tokens."""
    return CutSet.from_cuts(
        MonoCut(str(number), 0, float(length), 0, supervisions=[SupervisionSegment(str(number), "", 0, float(length))])
        for number, length in enumerate(LENGTHS[:count].tolist())
    )


def lhotse_sampler(shard: int, shards: int, count: int) -> DynamicBucketingSampler:
    """8 buckets, and buffers of Lhotse's default size."""
    return DynamicBucketingSampler(
        CUTS[count], max_duration=float(BUDGET), num_buckets=8, shuffle=True, seed=0, world_size=shards, rank=shard
    )


def lhotse_batches() -> Iterator[Batch]:
    """Its numbers, in its order."""
    return map(numbers, lhotse_sampler(0, 1, RECORDS))


def numbers(batch: Any) -> Batch:
    """The records of a batch of Lhotse's."""
    return [int(cut.id) for cut in batch]


CUTS = {count: cuts(count).to_eager() for count in (RECORDS, FEW)}


def rate(batches: Callable[[], Iterator[Batch]]) -> float:
    """Batches a second, from the first call on."""
    began = time.perf_counter()
    count = sum(1 for _ in batches())
    return count / (time.perf_counter() - began)


def padding(shapes: list[tuple[int, int]]) -> str:
    """The share of padding in batches of these shapes, and the number of shapes."""
    size = sum(rows * length for rows, length in shapes)
    return f"{1 - int(LENGTHS.sum()) / size:.3f} padding in {len(set(shapes))} shapes"


def headrace_padding() -> str:
    """As the batches are padded."""
    return padding([batch["mask"].shape for batch in headrace_loader(0, 1, RECORDS)])


def lhotse_padding() -> str:
    """Each batch padded to its longest record."""
    return padding([(len(batch), int(LENGTHS[batch].max())) for batch in lhotse_batches()])


def lost_and_twice(batches: list[Batch]) -> str:
    """Records that never came, and that came again."""
    came = Counter(number for batch in batches for number in batch)
    return f"{FEW - len(came)} lost, {sum(count - 1 for count in came.values())} twice"


def headrace_resumed(shards: int) -> str:
    """Records that are lost by a run on two shards that goes on with so many."""
    begun = [iter(headrace_loader(shard, 2, FEW)) for shard in range(2)]
    came = [ids(batch) for iterator in begun for batch in islice(iterator, STEPS)]
    states = [iterator.get_state() for iterator in begun]
    for shard in range(shards):
        further = iter(headrace_loader(shard, shards, FEW))
        further.set_states(states)
        came += map(ids, further)
    return lost_and_twice(came)


def lhotse_resumed(shards: int) -> str:
    """Likewise; each rank takes its own state, as there is no other way."""
    samplers = [lhotse_sampler(shard, 2, FEW) for shard in range(2)]
    came = [numbers(batch) for sampler in samplers for batch in islice(iter(sampler), STEPS)]
    states = [sampler.state_dict() for sampler in samplers]
    for shard in range(shards):
        further = lhotse_sampler(shard, shards, FEW)
        try:
            further.load_state_dict(states[shard])
        except AssertionError as error:
            return f"refused: {str(error).splitlines()[0]}"
        came += map(numbers, further)
    return lost_and_twice(came)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--rounds", type=int, default=3, help="turns of each; medians are printed")


def main(options: argparse.Namespace) -> None:
    """Print all rows."""
    rates = medians(options.rounds, {"us": lambda: rate(headrace_batches), "lhotse": lambda: rate(lhotse_batches)})
    print(f"headrace {headrace.__version__}: {rates['us']:.0f} batches/s, {headrace_padding()}")
    print(f"Lhotse {lhotse.__version__}: {rates['lhotse']:.0f} batches/s, {lhotse_padding()}")
    for shards in (2, 1):
        print(f"two ranks, then {shards}: headrace {headrace_resumed(shards)}; Lhotse {lhotse_resumed(shards)}")
