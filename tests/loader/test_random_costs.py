"""Random programs of batches by cost: samplers that draw, weigh and balance; packs, budgets,
filters, mixes, failing records.

The oracle asks the sampler for its record keys, and leaves out what a filter or a failing record
leaves out. It does not know loaders.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pipelines import plain, tries

import headrace
from headrace import (
    Balance,
    BalancedSampler,
    Batch,
    BudgetBatch,
    DataLoader,
    Filter,
    IndexSampler,
    MapTransform,
    MixSampler,
    Pack,
    RandomMapTransform,
    ShardOptions,
    WeightedSampler,
)
from headrace.errors import EmptyStreamError, LengthsError, ShardingError

REFUSED = (LengthsError, ShardingError, ValueError)
"""What a program may say when it is made, or asked for its first batch: it is not to be had."""


class Program(NamedTuple):
    """A loader, drawn at random.

    Attributes:
        lengths: of its records.
        sampler: a name, and numbers for it.
        before: names of operations before the batches.
        end: how batches are made.
        skips: whether failing records are left out.
        shards: how many there are at first, and after the interruption.
        steps: after which it is interrupted.
    """

    lengths: np.ndarray
    sampler: tuple[str, int, int]
    before: tuple[str, ...]
    end: str
    skips: bool
    shards: tuple[int, int]
    steps: int


SAMPLERS = (
    "in order",
    "shuffled",
    "weighted",
    "without replacement",
    "balanced classes",
    "balanced cost",
    "mix",
)
ENDS = ("batch", "budget", "known budget", "pack")
BEFORE = ("map", "random", "filter", "fails")


def drawn(seed: int) -> Program:
    """A program."""
    rng = random.Random(seed)
    count, sampler = rng.choice([1, 2, 7, 23, 60]), rng.choice(SAMPLERS)
    count = max(count, 3) if sampler == "mix" else count
    end = rng.choice(ENDS)
    before = tuple(rng.sample(BEFORE, rng.choice([0, 0, 1, 2])))
    if end == "known budget":  # a filter is refused; a record that fails takes its batch along
        before = tuple(name for name in before if name in ("map", "random"))
    shards = rng.choice([(1, 1), (1, 1), (2, 3), (3, 1), (1, 2)])
    if end == "budget" and (before or rng.random() < 0.7):
        shards = (1, 1)  # others are refused
    return Program(
        np.array([rng.randint(1, rng.choice([4, 30])) for _ in range(count)]),
        (sampler, rng.randint(1, 3), rng.randint(0, 99)),
        before,
        end,
        "fails" in before,
        shards,
        rng.randint(0, 7),
    )


def sampler_of(program: Program) -> Any:
    """The whole order, of all shards."""
    name, epochs, seed = program.sampler
    count, some = len(program.lengths), {"num_epochs": epochs, "seed": seed}
    match name:
        case "in order":
            return IndexSampler(count, **some)
        case "shuffled":
            return IndexSampler(count, shuffle=True, **some)
        case "weighted":
            return WeightedSampler(np.arange(1, count + 1), **some)
        case "without replacement":
            return WeightedSampler(
                np.arange(1, count + 1), max(count // 2, 1), replacement=False, **some
            )
        case "balanced classes":
            return BalancedSampler([number % 3 for number in range(count)], **some)
        case "balanced cost":
            return IndexSampler(
                count,
                shuffle=True,
                balance=Balance(program.lengths, headrace.attention(1, 1)),
                **some,
            )
    first = first_of(program)
    parts = {
        "a": IndexSampler(first, shuffle=True, **some),
        "b": IndexSampler(count - first, **some),
    }
    return MixSampler(parts, {"a": 2, "b": 1}, when_exhausted="all")


def first_of(program: Program) -> int:
    """The number of records in the first part of a mix."""
    return len(program.lengths) // 3


def fails(number: int) -> bool:
    """Whether the record fails."""
    return number % 7 == 5


def _mapped(record):
    return {"tokens": record["tokens"] + 0.25}


def _noisy(record, rng):
    return {"tokens": record["tokens"] + rng.random() / 2}


def _kept(record):
    return int(record["tokens"][0]) % 4 != 3


def _checked(record):
    if fails(int(record["tokens"][0])):
        raise ArithmeticError(f"record {int(record['tokens'][0])}")
    return record


def _first(record):
    return {"tokens": record["tokens"][:1]}


MADE = {
    "map": lambda: MapTransform(_mapped),
    "random": lambda: RandomMapTransform(_noisy),
    "filter": lambda: Filter(_kept),
    "fails": lambda: MapTransform(_checked),
}


def source_of(program: Program) -> Any:
    """Records that say their number in each token; of a mix, parts."""
    records = [
        {"tokens": np.full(n, number, float)} for number, n in enumerate(program.lengths.tolist())
    ]
    return (
        {"a": records[: first_of(program)], "b": records[first_of(program) :]}
        if program.sampler[0] == "mix"
        else records
    )


def operations_of(program: Program) -> list[Any]:
    """The operations of a program."""
    before = [MADE[name]() for name in program.before]
    longest = int(program.lengths.max())
    budget = {
        "max_tokens": max(longest, 12) * 3,
        "pad_to": sorted({max(longest // 2, 1), longest}),
        "window": 17,
    }
    match program.end:
        case "batch":
            return [*before, MapTransform(_first), Batch(4)]
        case "budget":
            return [*before, BudgetBatch(**budget)]
        case "known budget":
            return [*before, BudgetBatch(lengths=program.lengths, **budget)]
    return [*before, Pack(max(longest, 12), window=9), Batch(2)]


def loader_of(program: Program, shard: int, shards: int, **more: Any) -> DataLoader:
    """A shard of a program."""
    return DataLoader(
        data_source=source_of(program),
        sampler=sampler_of(program),
        operations=operations_of(program),
        shard_options=ShardOptions(shard, shards),
        on_error="skip" if program.skips else "raise",
        **more,
    )


def numbers(batches: list[Any]) -> Counter[int]:
    """How often each token is there, by the record that it is of; masks and segments tell what is
    padding.
    """
    found: Counter[int] = Counter()
    for batch in batches:
        there = next(
            (batch[name] > 0 for name in ("mask", "tokens_segment_ids") if name in batch), None
        )
        tokens = batch["tokens"] if there is None else batch["tokens"][there]
        found.update(np.floor(tokens).astype(int).ravel().tolist())
    return found


def wanted_of(program: Program) -> Counter[int]:
    """How often each token should be there."""
    sampler = sampler_of(program)
    keys = sampler.record_keys(np.arange(len(sampler))).tolist()
    if program.sampler[0] == "mix":  # its keys tell the part, too; both parts come to their ends
        keys = [*range(len(program.lengths))] * program.sampler[1]
    found: Counter[int] = Counter()
    for key in keys:
        left_out = ("filter" in program.before and key % 4 == 3) or (
            "fails" in program.before and fails(key)
        )
        if not left_out:
            found[key] += 1 if program.end == "batch" else int(program.lengths[key])
    return found


def rest_of(iterator: Any) -> list[Any]:
    """What comes yet; of a shard that has nothing, nothing."""
    try:
        return list(iterator)
    except EmptyStreamError:
        return []


def run(program: Program) -> bool:
    """Check a program; False: it was refused."""
    begun, ended = program.shards
    try:
        loaders = [loader_of(program, shard, begun) for shard in range(begun)]
        others = [loader_of(program, shard, ended) for shard in range(ended)]
        iterators = [iter(loader) for loader in loaders]
        came = [batch for iterator in iterators for batch in islice(iterator, program.steps)]
    except REFUSED:
        return False
    except EmptyStreamError:
        assert len(wanted_of(program)) < 8 * begun, "there are records for each shard"
        return True
    states = [iterator.get_state() for iterator in iterators]
    same = [iter(loader) for loader in loaders]
    for iterator, state in zip(same, states):
        iterator.set_state(state)
    for iterator, again in zip(iterators, same):
        assert plain(rest_of(iterator)) == plain(rest_of(again))
    further = [iter(loader) for loader in others]
    for iterator in further:
        iterator.set_states(states)
    rest = [batch for iterator in further for batch in rest_of(iterator)]
    assert numbers(came) + numbers(rest) == wanted_of(program)
    return True


@given(seed=st.integers(0, 1 << 31))
@tries(300)
@pytest.mark.filterwarnings("ignore")
def test_any_program_gives_each_record_once_on_any_shards(seed):
    """Begun on some shards, interrupted at any step, ended on others; and the same stream from the
    state.
    """
    run(drawn(seed))


@pytest.mark.slow
def test_few_programs_are_refused():
    """Most programs are checked to their end."""
    checked = [run(drawn(seed)) for seed in range(20)]
    assert checked.count(False) < 8
