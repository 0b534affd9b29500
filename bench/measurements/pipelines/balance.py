"""Measure batches that are balanced or budgeted by cost.

    python bench/speed.py balance [--plot FILE] [TABLE …]

Lengths are lognormal(5, 1), clamped to 16…1,024. `--plot docs/rank-times.png` draws the picture of docs/how-to/lengths-and-cost.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from measurement import Table
from measuring import seconds_of
from numpy.typing import NDArray

import headrace

OPTIONS = {"records": 100_000, "plot": ""}
RANKS, GLOBAL_BATCH, STEPS = 64, 2048, 20
BUDGET = 16_384
ROW, ROWS_OF_A_RANK = 2048, 8
TWO_RANK_RECORDS, TWO_RANK_BATCH = 1_600, 32
SEEDS = range(20)

Sums = NDArray[np.float64]
"""Costs, `[steps, ranks]`."""


def lengths_like_texts(count: int, seed: int = 0) -> NDArray[np.int64]:
    """Many short, few long."""
    return np.clip(np.random.default_rng(seed).lognormal(5, 1, count), 16, 1024).astype(np.int64)


def loader_of(source: Any, rank: int, ranks: int, seed: int = 0, **options: Any) -> headrace.DataLoader:
    """The loader of a rank."""
    shard = headrace.ShardOptions(rank, ranks)
    return headrace.load(source, shuffle=True, seed=seed, shard_options=shard, **options)


def batches_of_ranks(
    lengths: NDArray[np.int64], ranks: int, steps: int, size: int, balance: object, seed: int = 0
) -> NDArray[np.int64]:
    """The lengths that each rank gets at each step, `[steps, ranks, records]`."""
    options = {"batch_size": size // ranks, "balance": balance, "lengths": None if balance is None else lengths}
    loaders = [loader_of(lengths, rank, ranks, seed, **options) for rank in range(ranks)]
    return np.array([[lengths[loader.records_at(step)] for loader in loaders] for step in range(steps)])


def _slowest(title: str, sums_of: Callable[[headrace.attention, object], Sums]) -> Table:
    """The cost of the slowest rank over the mean, for costs a·L + L² of several a."""
    found: dict[str, list[float]] = {"in turn": [], "balanced": []}
    for a in (0, 100, 1000):
        cost = headrace.attention(a, 1)
        for told, balance in (("in turn", None), ("balanced", cost)):
            sums = sums_of(cost, balance)
            found[told] += (sums.max(axis=1) / sums.mean(axis=1)).tolist()
    return Table(f"{title}: the slowest of {RANKS} ranks / the mean", found)


def ranks(options: Any) -> Iterator[Table]:
    """Records of unequal cost."""
    lengths = lengths_like_texts(options.records)

    def sums(cost: headrace.attention, balance: object) -> Sums:
        return cost(batches_of_ranks(lengths, RANKS, STEPS, GLOBAL_BATCH, balance)).sum(axis=2)

    yield _slowest("records", sums)


def packed_ranks(options: Any) -> Iterator[Table]:
    """Packed rows of 2,048 tokens, 8 a rank; their costs are sums over the segments."""
    packed = headrace.MapDataset.range(options.records).pack(ROW, lengths=lengths_like_texts(options.records))

    def sums(cost: headrace.attention, balance: object) -> Sums:
        costs, settings = packed.packed_costs(cost), {"batch_size": ROWS_OF_A_RANK, "balance": balance}
        loaders = [loader_of(packed, rank, RANKS, **settings) for rank in range(RANKS)]
        return np.array([[costs[loader.records_at(step)].sum() for loader in loaders] for step in range(STEPS)])

    yield _slowest("packed rows", sums)


def plans(options: Any) -> Iterator[Table]:
    """The time until a rank knows its records of a far step, each with a loader of its own; and its packed rows."""
    lengths, cost = lengths_like_texts(options.records), headrace.attention(100, 1)
    settings = {"batch_size": GLOBAL_BATCH // RANKS, "balance": cost, "lengths": lengths}
    loaders = [loader_of(lengths, rank, RANKS, **settings) for rank in range(RANKS)]
    took = [1e3 * seconds_of(partial(each.records_at, 10**9 + rank))[0] for rank, each in enumerate(loaders)]
    yield Table("the records of a rank at step 10^9 (ms)", {"": took})

    documents = lengths_like_texts(10 * options.records)
    settings = {"transformations": [headrace.Pack(ROW)], "batch_size": ROWS_OF_A_RANK, "num_epochs": 1}
    packing = partial(loader_of, range(len(documents)), 5, RANKS, balance=cost, lengths=documents, **settings)
    made = seconds_of(lambda: packing())
    loader = packing()
    last = seconds_of(lambda: loader.records_at(len(loader) - 1))
    yield Table(f"packed rows of {len(documents):,} documents (s)", {"the loader": made, "its last step": last})


def two_ranks(options: Any) -> Iterator[Table]:
    """The time of an epoch on two ranks, of which the slower one decides, as a rank takes ΣL²."""
    steps, cost = TWO_RANK_RECORDS // TWO_RANK_BATCH, headrace.attention(0, 1)
    found: dict[str, list[float]] = {
        "balanced": [],
        "the most that there is": [],
        "BudgetBatch, padding costs, too": [],
    }
    for seed in SEEDS:
        lengths = lengths_like_texts(TWO_RANK_RECORDS, seed)
        drawn = [
            batches_of_ranks(lengths, 2, steps, TWO_RANK_BATCH, balance, seed).astype(np.float64)
            for balance in (None, cost)
        ]
        in_turn, balanced = ((each**2).sum(axis=2).max(axis=1).sum() for each in drawn)
        found["balanced"].append(in_turn / balanced)
        found["the most that there is"].append(in_turn / ((lengths.astype(np.float64) ** 2).sum() / 2))
        padded = (drawn[0].shape[2] * drawn[0].max(axis=2) ** 2).max(axis=1).sum()
        found["BudgetBatch, padding costs, too"].append(padded / _epoch_by_budget(lengths, seed))
    yield Table("two ranks of 16 records: speed relative to random order", found)


def _epoch_by_budget(lengths: NDArray[np.int64], seed: int) -> float:
    """The time of an epoch of `BudgetBatch` on two ranks."""
    source, work = [np.ones(length, np.bool_) for length in lengths], [headrace.BudgetBatch(4096, pad_to=8)]
    loaders = [loader_of(source, rank, 2, seed, num_epochs=1, transformations=work) for rank in range(2)]
    shapes = np.array([[batch["mask"].shape for batch in loader] for loader in loaders], np.float64)
    return (shapes[..., 0] * shapes[..., 1] ** 2).max(axis=0).sum()


def padding(options: Any) -> Iterator[Table]:
    """The padding of batches by budget on some shards, and the least that so many lengths allow."""
    lengths = lengths_like_texts(options.records)
    for count in (4, 8, 16, 32):
        windows = headrace.BudgetBatch(BUDGET, pad_to=count).windows(lengths)
        padded = np.array(windows.shapes.lengths)
        found = {"the least": 1 - lengths.sum() / padded[windows.shapes.numbers(lengths)].sum()}
        for shards in (1, 2, 7, RANKS):
            steps = np.diff(windows.steps_on(shards).steps[0], prepend=0)[::-1]
            found[f"{shards} shards"] = 1 - lengths.sum() / (steps * padded * windows.shapes.rows * shards).sum()
        yield Table(f"share of padding, pad_to={count}", found)


def plot(options: Any) -> Iterator[Table]:
    """The time of each of 64 ranks in one step, in turn and balanced; a picture, if a file is given."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    lengths, cost = lengths_like_texts(options.records), headrace.attention(100, 1)
    figure, panels = plt.subplots(1, 2, figsize=(9, 2.8), sharey=True, layout="constrained")
    for axes, title, balance in zip(panels, ("in turn", "balanced"), (None, cost)):
        sums = cost(batches_of_ranks(lengths, RANKS, 1, GLOBAL_BATCH, balance)).sum(axis=2)[0]
        slowest = sums.max() / sums.mean()
        axes.bar(range(RANKS), sums / sums.mean(), color="#3f7af0" if balance else "#d9822b", width=0.8)
        axes.axhline(slowest, color="#7b8087", linewidth=1)
        axes.set_title(f"{title}: the step takes {slowest:.2f} × the mean", fontsize=10)
        axes.set_xlabel("rank")
        yield Table(f"one step, {title}: the slowest rank / the mean", {"": slowest})
    panels[0].set_ylabel("time of the rank / mean")
    if options.plot:
        figure.savefig(options.plot, dpi=110)


TABLES = {each.__name__: each for each in (ranks, packed_ranks, plans, two_ranks, padding, plot)}
