"""Measure batches that are balanced or budgeted by cost. Each row is a function.

    python bench/speed.py balance [--plot FILE] [ROW …]

Lengths are lognormal(5, 1), clamped to 16…1,024. A row has the measured value and a remark.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tables import Row, print_rows

import headrace

RANKS, GLOBAL_BATCH, RECORDS = 64, 2048, 100_000
BUDGET = 16_384
ROW, ROWS_OF_A_RANK = 2048, 8
TWO_RANK_RECORDS, TWO_RANK_BATCH = 1_600, 32
SEEDS = range(20)


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
    lengths = lengths_like_texts(RECORDS)

    def sums(cost: headrace.attention, balance: object) -> NDArray[np.float64]:
        return cost(batches_of_ranks(lengths, RANKS, 20, GLOBAL_BATCH, balance)).sum(axis=2)

    return _slowest(sums)


def packed_ranks() -> Row:
    """The same of packed rows of 2,048 tokens, 8 a rank: sums over the segments of the rows of a rank."""
    packed = headrace.MapDataset.range(RECORDS).pack(ROW, lengths=lengths_like_texts(RECORDS))

    def sums(cost: headrace.attention, balance: object) -> NDArray[np.float64]:
        costs = packed.packed_costs(cost)
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
        return np.array([[costs[loader.records_at(step)].sum() for loader in loaders] for step in range(20)])

    return _slowest(sums)


def _slowest(sums_of: Callable[[headrace.attention, object], NDArray[np.float64]]) -> Row:
    """The worst step of balanced ranks, and the median one of ranks in turn, of `[steps, ranks]` sums of costs."""
    balanced, in_turn = [], []
    for a in (0, 100, 1000):
        cost = headrace.attention(a, 1)
        for balance, found in ((cost, balanced), (None, in_turn)):
            sums = sums_of(cost, balance)
            found += (sums.max(axis=1) / sums.mean(axis=1)).tolist()
    return max(balanced), f"{np.median(in_turn):.2f} in turn"


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
    return planned, f"then {later:.1f} ms for any step"


def _gain(time_of: Callable[[NDArray[np.int64]], NDArray[np.float64]]) -> tuple[float, float]:
    """The factor by which balanced steps are faster than random ones; and the most that there is to gain."""
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
    return gain, f"{most:.3f} is the most that there is: no order changes the sum of L²"


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
    return float(np.median(gains)), "batches of 16, padded to their longest, in random order"


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
    return float(np.median(took)), f"{max(took):.1f} at most"


def _padding(count: int) -> Row:
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
    return found[1], f"{least:.3f} is the least that {count} lengths allow; {others} shards"


ROWS: dict[str, Callable[[], Row]] = {
    "ranks": ranks,
    "packed_ranks": packed_ranks,
    "packed_plan": packed_plan,
    "two_ranks": two_ranks,
    "two_ranks_padded": two_ranks_padded,
    "plan": plan,
    **{f"padding_{count}": partial(_padding, count) for count in (4, 8, 16, 32)},
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


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("rows", nargs="*", choices=[[], *ROWS], metavar="ROW")
    parser.add_argument("--plot", type=Path, help="draws docs/rank-times.png")


def main(options: argparse.Namespace) -> None:
    """Print the rows that are named, or all, and draw the plot."""
    print_rows(ROWS, options.rows)
    if options.plot is not None:
        draw(options.plot)
