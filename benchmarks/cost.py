"""Measure batches that are balanced or budgeted by cost, beside their limits. Each row is a function.

    python benchmarks/cost.py [--plot FILE] [ROW …]

Lengths are lognormal(5, 1), clamped to 16…1,024. A row has the measured value, its limit, and a remark.
Results on 2 cores that were busy with other work:

    ranks                 1.0005   ≤ 1.02  1.82 in turn
    packed_ranks          1.0042   ≤ 1.02  1.46 in turn
    packed_plan           0.6660   none    then 0.8 ms for any step
    two_ranks             1.2739   ≥ 1.6   1.275 is the most that there is: no order changes the sum of L²
    two_ranks_padded      6.2948   ≥ 1.6   batches of 16, padded to their longest, in random order
    plan                  0.7066   ≤ 10    32.9 at most
    padding_4             0.3033   ≤ 0.08  0.303 is the least that 4 lengths allow; 0.304 on 2, 0.306 on 7, 0.317 on 64 shards
    padding_8             0.1654   ≤ 0.04  0.164 is the least that 8 lengths allow; 0.166 on 2, 0.169 on 7, 0.217 on 64 shards
    budget_plan           0.4220   ≤ 10    41.7 at most, the first
    budget_plans       1071.8503   none    batches/s whose records become known
    budget_speed        358.4359   none    batches/s, made in one process

Lhotse 1.33 (DynamicBucketingSampler, same lengths and budget) plans 366 batches/s. Its padding is 0.192
with 8 buckets, in 190 shapes, and 0.061 with 30 buckets, in 149 shapes. In random order, padded to the
longest record of each batch, padding is 0.77.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import growing
import numpy as np
import orders
from numpy.typing import NDArray

import headrace

RANKS, GLOBAL_BATCH, RECORDS = 64, 2048, 100_000
BUDGET = 16_384
ROW, ROWS_OF_A_RANK = 2048, 8
TWO_RANK_RECORDS, TWO_RANK_BATCH = 1_600, 32
SEEDS = range(20)


class Row(NamedTuple):
    """What was measured: the number, the limit, and what it is beside."""

    measured: float
    limit: str
    beside: str


def lengths_like_texts(count: int, seed: int = 0) -> NDArray[np.int64]:
    """Many short, few long."""
    return np.clip(np.random.default_rng(seed).lognormal(5, 1, count), 16, 1024).astype(np.int64)


def batches_of_ranks(
    lengths: NDArray[np.int64], ranks: int, steps: int, size: int, balance: object, seed: int = 0
) -> NDArray[np.int64]:
    """The lengths that each rank gets at each step, `[steps, ranks, records]`."""
    found = []
    for rank in range(ranks):
        loader = headrace.load(
            lengths,
            shuffle=True,
            seed=seed,
            batch_size=size // ranks,
            shard_options=headrace.ShardOptions(rank, ranks),
            balance=balance,
            lengths=None if balance is None else lengths,
        )
        found.append([lengths[loader.records_at(step)] for step in range(steps)])
    return np.array(found).transpose(1, 0, 2)


def ranks() -> Row:
    """Largest over mean sum of a·L + L², for several a; the worst of 20 steps."""
    lengths, worst, in_turn = lengths_like_texts(RECORDS), 0.0, []
    for a in (0, 100, 1000):
        cost = headrace.attention(a, 1)
        for balance in (cost, None):
            sums = cost(batches_of_ranks(lengths, RANKS, 20, GLOBAL_BATCH, balance)).sum(axis=2)
            ratios = sums.max(axis=1) / sums.mean(axis=1)
            worst = max(worst, ratios.max()) if balance else worst
            in_turn += [] if balance else ratios.tolist()
    return Row(worst, "≤ 1.02", f"{np.median(in_turn):.2f} in turn")


def packed_ranks() -> Row:
    """The same of packed rows of 2,048 tokens, 8 a rank: sums over the segments of the rows of a rank."""
    packed = headrace.MapDataset.range(RECORDS).pack(ROW, lengths=lengths_like_texts(RECORDS))
    worst, in_turn = 0.0, []
    for a in (0, 100, 1000):
        cost = headrace.attention(a, 1)
        costs = packed.packed_costs(cost)
        for balance in (cost, None):
            loaders = [
                headrace.load(
                    packed,
                    shuffle=True,
                    seed=0,
                    batch_size=ROWS_OF_A_RANK,
                    shard_options=headrace.ShardOptions(rank, RANKS),
                    balance=balance,
                )
                for rank in range(RANKS)
            ]
            sums = np.array([[costs[loader.records_at(step)].sum() for loader in loaders] for step in range(20)])
            ratios = sums.max(axis=1) / sums.mean(axis=1)
            worst = max(worst, ratios.max()) if balance else worst
            in_turn += [] if balance else ratios.tolist()
    return Row(worst, "≤ 1.02", f"{np.median(in_turn):.2f} in turn")


def packed_plan() -> Row:
    """Seconds until a loader knows its packed rows, a million documents."""
    lengths = lengths_like_texts(10 * RECORDS)
    began = time.perf_counter()
    loader = headrace.load(
        range(len(lengths)),
        num_epochs=1,
        shuffle=True,
        seed=0,
        transformations=[headrace.Pack(ROW)],
        batch_size=ROWS_OF_A_RANK,
        balance=headrace.attention(100, 1),
        lengths=lengths,
        shard_options=headrace.ShardOptions(5, RANKS),
    )
    planned = time.perf_counter() - began
    loader.records_at(len(loader) - 1)
    later = (time.perf_counter() - began - planned) * 1e3
    return Row(planned, "none", f"then {later:.1f} ms for any step")


def _gain(time_of: Callable[[NDArray[np.int64]], NDArray[np.float64]]) -> tuple[float, float]:
    """How much sooner balanced steps end than random ones; and the most that there is to gain."""
    gains, most = [], []
    for seed in SEEDS:
        lengths, steps = lengths_like_texts(TWO_RANK_RECORDS, seed), TWO_RANK_RECORDS // TWO_RANK_BATCH
        seconds = {}
        for balance in (headrace.attention(0, 1), None):
            drawn = batches_of_ranks(lengths, 2, steps, TWO_RANK_BATCH, balance, seed)
            seconds[balance is None] = time_of(drawn).max(axis=1).sum()
        gains.append(seconds[True] / seconds[False])
        most.append(seconds[True] / ((lengths.astype(np.float64) ** 2).sum() / 2))
    return float(np.median(gains)), float(np.median(most))


def two_ranks() -> Row:
    """Tokens a second beside the random order; a rank takes ΣL², and the slower one decides."""
    gain, most = _gain(lambda drawn: (drawn.astype(np.float64) ** 2).sum(axis=2))
    return Row(gain, "≥ 1.6", f"{most:.3f} is the most that there is: no order changes the sum of L²")


def two_ranks_padded() -> Row:
    """The same where batches are padded and padding costs as tokens do: `BudgetBatch` beside batches of 16 in random order."""
    gains = []
    for seed in SEEDS:
        lengths, steps = lengths_like_texts(TWO_RANK_RECORDS, seed), TWO_RANK_RECORDS // TWO_RANK_BATCH
        drawn = batches_of_ranks(lengths, 2, steps, TWO_RANK_BATCH, None, seed).astype(np.float64)
        in_turn = (drawn.shape[2] * drawn.max(axis=2) ** 2).max(axis=1).sum()
        shapes = []
        for rank in range(2):
            batches = headrace.load(
                [np.ones(length, np.bool_) for length in lengths],
                shuffle=True,
                seed=seed,
                num_epochs=1,
                transformations=[headrace.BudgetBatch(4096, pad_to=8)],
                shard_options=headrace.ShardOptions(rank, 2),
            )
            shapes.append([batch["mask"].shape for batch in batches])
        rows, padded = np.array(shapes, np.float64).transpose(2, 0, 1)
        gains.append(in_turn / (rows * padded**2).max(axis=0).sum())
    return Row(float(np.median(gains)), "≥ 1.6", "batches of 16, padded to their longest, in random order")


def plan() -> Row:
    """Milliseconds until a rank knows its records at step 10^9; the median, each with a loader of its own."""
    lengths, took = lengths_like_texts(RECORDS), []
    for rank in range(RANKS):
        loader = headrace.load(
            lengths,
            shuffle=True,
            seed=0,
            batch_size=GLOBAL_BATCH // RANKS,
            shard_options=headrace.ShardOptions(rank, RANKS),
            balance=headrace.attention(100, 1),
            lengths=lengths,
        )
        began = time.perf_counter()
        loader.records_at(10**9 + rank)
        took.append((time.perf_counter() - began) * 1e3)
    return Row(float(np.median(took)), "≤ 10", f"{max(took):.1f} at most")


def _padding(count: int, limit: str) -> Row:
    """The padding of batches by budget on one shard; beside it, the least that so many lengths allow, and other shards."""
    lengths = lengths_like_texts(RECORDS)
    windows = headrace.BudgetBatch(BUDGET, pad_to=count).windows(lengths)
    tokens = np.array(windows.shapes.lengths) * windows.shapes.rows
    least = 1 - lengths.sum() / np.array(windows.shapes.lengths)[windows.shapes.numbers(lengths)].sum()
    found = {}
    for shards in (1, 2, 7, RANKS):
        steps = np.diff(windows.steps_on(shards).steps[0], prepend=0)[::-1]
        found[shards] = 1 - lengths.sum() / (steps * tokens * shards).sum()
    others = ", ".join(f"{share:.3f} on {shards}" for shards, share in found.items() if shards > 1)
    return Row(found[1], limit, f"{least:.3f} is the least that {count} lengths allow; {others} shards")


def padding_4() -> Row:
    """With four lengths to pad to."""
    return _padding(4, "≤ 0.08")


def padding_8() -> Row:
    """With eight."""
    return _padding(8, "≤ 0.04")


def _budget_loader(shard: int, shards: int, num_epochs: int | None) -> headrace.DataLoader:
    lengths = lengths_like_texts(RECORDS)
    records = [np.zeros(length, np.int32) for length in lengths]
    batches = headrace.BudgetBatch(BUDGET, pad_to=8, lengths=lengths)
    options = headrace.ShardOptions(shard, shards)
    return headrace.load(
        records, transformations=[batches], shuffle=True, seed=0, num_epochs=num_epochs, shard_options=options
    )


def budget_plan() -> Row:
    """Milliseconds until a rank knows the records of its batch at step 10^9; the median of 20 steps."""
    loader, took = _budget_loader(5, RANKS, None), []
    for step in range(20):
        began = time.perf_counter()
        loader.records_at(10**9 + step)
        took.append((time.perf_counter() - began) * 1e3)
    return Row(float(np.median(took)), "≤ 10", f"{max(took):.1f} at most, the first")


def budget_plans() -> Row:
    """Batches a second of which the records become known."""
    loader = _budget_loader(0, 1, 1)
    began = time.perf_counter()
    for step in range(len(loader)):
        loader.records_at(step)
    return Row(len(loader) / (time.perf_counter() - began), "none", f"{len(loader)} batches")


def budget_speed() -> Row:
    """Batches a second in one process, without workers."""
    iterator, count = iter(_budget_loader(0, 1, 1)), 0
    next(iterator)
    began = time.perf_counter()
    for _ in iterator:
        count += 1
    took = time.perf_counter() - began
    return Row(count / took, "none", f"{count} batches in {took:.1f} s")


ROWS: dict[str, Callable[[], Row]] = {
    "ranks": ranks,
    "packed_ranks": packed_ranks,
    "packed_plan": packed_plan,
    "two_ranks": two_ranks,
    "two_ranks_padded": two_ranks_padded,
    "plan": plan,
    "padding_4": padding_4,
    "padding_8": padding_8,
    "budget_plan": budget_plan,
    "budget_plans": budget_plans,
    "budget_speed": budget_speed,
    **{name: lambda row=row: Row(*row()) for name, row in (orders.ROWS | growing.ROWS).items()},
}


def draw(path: Path) -> None:
    """The time of each of 64 ranks in one step, in turn and balanced."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    lengths, cost = lengths_like_texts(RECORDS), headrace.attention(100, 1)
    figure, panels = plt.subplots(1, 2, figsize=(9, 2.8), sharey=True, layout="constrained")
    for axes, title, balance in zip(panels, ("in turn", "balanced"), (None, cost)):
        sums = cost(batches_of_ranks(lengths, RANKS, 1, GLOBAL_BATCH, balance)).sum(axis=2)[0]
        axes.bar(range(RANKS), sums / sums.mean(), color="#3f7af0" if balance else "#d9822b", width=0.8)
        axes.axhline(sums.max() / sums.mean(), color="#7b8087", linewidth=1)
        axes.set_title(f"{title}: the step takes {sums.max() / sums.mean():.2f} × the mean", fontsize=10)
        axes.set_xlabel("rank")
    panels[0].set_ylabel("time of the rank / mean")
    figure.savefig(path, dpi=110)


def main() -> None:
    """Measures the rows that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", choices=[[], *ROWS], metavar="ROW")
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    for name in options.rows or ROWS:
        row = ROWS[name]()
        print(f"{name:<18}{row.measured:>10.4f}   {row.limit:<8}{row.beside}", flush=True)
    if options.plot is not None:
        draw(options.plot)


if __name__ == "__main__":
    main()
