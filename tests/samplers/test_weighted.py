"""Weighted and class-balanced orders: chances, exact counts, every position alone, states, shards,
changed weights.
"""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from itertools import permutations
from math import factorial, sqrt

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.pipelines import tries

import headrace
from headrace import (
    BalancedSampler,
    Batch,
    DataLoader,
    Filter,
    FlatMap,
    MixSampler,
    Pack,
    ShardOptions,
    WeightedSampler,
)
from headrace.errors import CheckpointError, TraceError
from headrace.samplers.weighted.alias import AliasTable
from headrace.samplers.weighted.draws import exponentials, key_of, permute_each, words
from headrace.samplers.weighted.orders import STREAM

WEIGHTS = st.lists(st.just(0.0) | st.floats(1e-9, 1e9), min_size=1, max_size=40).filter(any)


def keys_of(sampler, count, start=0):
    """Those of consecutive positions."""
    return sampler.record_keys(np.arange(start, start + count))


def deviations(counts, chances):
    """How many standard deviations a chi-square lies above its mean."""
    total = sum(counts)
    square = sum(
        (count - total * chance) ** 2 / (total * chance)
        for count, chance in zip(counts, chances)
        if chance
    )
    freedom = sum(chance > 0 for chance in chances) - 1
    return (square - freedom) / sqrt(2 * freedom) if freedom else 0.0


@tries(200)
@given(WEIGHTS)
@example([1e-30, 1.0])
def test_the_table_gives_each_record_its_exact_chance(weights):
    """The columns of a record and of those that it is the alias of, summed up as fractions."""
    table = AliasTable.of(np.array(weights))
    chances = [Fraction(0)] * len(weights)
    for column, (threshold, alias) in enumerate(
        zip(table.thresholds.tolist(), table.aliases.tolist())
    ):
        chances[column] += Fraction(threshold, 2**64)
        chances[alias] += 1 - Fraction(threshold, 2**64)
    total = sum(map(Fraction, weights))
    for chance, weight in zip(chances, weights):
        assert (chance > 0) == (weight > 0)
        assert abs(chance - Fraction(weight) * len(weights) / total) < Fraction(len(weights), 2**50)


@pytest.mark.parametrize("seed", range(3))
def test_with_replacement_records_come_as_often_as_their_weights_say(seed):
    """By a chi-square over records, and over pairs of positions that follow one another."""
    weights = np.array([0.0, 1.0, 5.0, 0.5, 0.0, 3.5, 1e-12, 10.0])
    chances = weights / weights.sum()
    keys = keys_of(WeightedSampler(weights, seed=seed), 100_000, start=10**12)
    counts = np.bincount(keys, minlength=8)
    assert counts[[0, 4, 6]].sum() == 0
    drawn = np.array([1, 2, 3, 5, 7])
    assert deviations(counts[drawn], chances[drawn]) < 5
    pairs = np.bincount(keys[:-1] * 8 + keys[1:], minlength=64).reshape(8, 8)[np.ix_(drawn, drawn)]
    assert deviations(pairs.ravel(), np.outer(chances[drawn], chances[drawn]).ravel()) < 5


def test_without_replacement_orders_come_as_often_as_drawing_one_after_another_gives_them():
    """Each order of four records, by the product of its chances; each epoch has each record once,
    none of weight 0.
    """
    weights = np.array([1.0, 2.0, 0.0, 4.0, 0.5])
    positive = [record for record, weight in enumerate(weights) if weight]
    epochs = 20_000
    orders = keys_of(WeightedSampler(weights, replacement=False, seed=2), 4 * epochs).reshape(
        epochs, 4
    )
    assert (np.sort(orders, axis=1) == positive).all()
    expected = {}
    for order in permutations(positive):
        left, chance = weights.sum(), 1.0
        for record in order:
            chance, left = chance * weights[record] / left, left - weights[record]
        expected[order] = chance
    counts = Counter(map(tuple, orders.tolist()))
    assert deviations([counts[order] for order in expected], list(expected.values())) < 5


@pytest.mark.parametrize("records", [100, 5000])
def test_without_replacement_an_epoch_of_few_samples_has_each_record_at_most_once(records):
    """Heavy records are among them more often; a small table and a large one are made in different
    ways.
    """
    weights = np.arange(records) % 10
    sampler = WeightedSampler(weights, records // 4, replacement=False, num_epochs=6, seed=0)
    epochs = keys_of(sampler, len(sampler)).reshape(6, -1)
    for epoch in epochs:
        assert len(set(epoch.tolist())) == records // 4
    assert (weights[epochs] > 0).all()
    assert weights[epochs].mean() > 6


def test_a_large_order_is_that_of_sorted_times():
    """The pieces in which it is sorted make one order, also where weights differ by orders of
    magnitude.
    """
    weights = np.random.default_rng(0).lognormal(0, 5, 20_000)
    weights[::7] = 0
    count = int((weights > 0).sum())
    drawn = words(words(key_of(3, STREAM), np.array([5]))[0], np.arange(len(weights)))
    with np.errstate(divide="ignore"):
        expected = np.argsort(exponentials(drawn) / weights, kind="stable")[:count]
    sampler = WeightedSampler(weights, replacement=False, seed=3)
    assert (keys_of(sampler, count, start=5 * count) == expected).all()


def test_exponentials_are_logarithms():
    """To the last digits or so, and of the smallest and largest words too."""
    some = np.random.default_rng(0).integers(0, 2**64, 10_000, np.uint64)
    drawn = np.concatenate([some, np.array([0, 2**64 - 1, 2**63], dtype=np.uint64)])
    uniform = ((drawn >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53
    assert np.allclose(exponentials(drawn), -np.log(uniform), rtol=1e-14, atol=1e-16)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6, 40, 1000])
def test_permutations_by_key_are_permutations_and_come_equally_often(size):
    """Of few elements, all of them."""
    tries = 24_000 if size <= 6 else 3
    keys = np.random.default_rng(1).integers(0, 2**64, tries, np.uint64)
    places, of_key = np.tile(np.arange(size), tries), np.repeat(keys, size)
    orders = permute_each(places, np.full(len(places), size), of_key).reshape(tries, size)
    assert (np.sort(orders, axis=1) == np.arange(size)).all()
    if 1 < size <= 6:
        counts = Counter(map(tuple, orders.tolist()))
        assert len(counts) == factorial(size)
        assert deviations(counts.values(), [1 / factorial(size)] * factorial(size)) < 5


SAMPLERS = {
    "with replacement": lambda **more: WeightedSampler(np.arange(50) % 7, seed=1, **more),
    "without": lambda **more: WeightedSampler(np.arange(50) % 7, replacement=False, seed=1, **more),
    "without, large": lambda **more: WeightedSampler(
        np.arange(5000) % 7, 30, replacement=False, seed=1, **more
    ),
    "balanced": lambda **more: BalancedSampler(np.arange(50) % 7 % 3, seed=1, **more),
    "balanced by weights": lambda **more: BalancedSampler(
        np.arange(50) % 7 % 3, [1, 2, 0.5], seed=1, **more
    ),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_any_position_is_that_of_the_whole_order(name):
    """Alone, backwards, in a copy, after pickling, and by shard; at a far position too."""
    sampler = SAMPLERS[name]()
    keys = keys_of(sampler, 700)
    scattered = np.random.default_rng(0).permutation(700)
    for other in (
        sampler,
        copy.copy(sampler),
        copy.deepcopy(sampler),
        pickle.loads(pickle.dumps(sampler, protocol=5)),
    ):
        assert (other.record_keys(scattered) == keys[scattered]).all()
        assert other.fingerprint == sampler.fingerprint
    assert [sampler[place].record_key for place in (0, 699, 30)] == keys[[0, 699, 30]].tolist()
    assert (
        sampler.with_shard_options(ShardOptions(1, 3)).record_keys(np.arange(700)) == keys
    ).all()
    far = 10**15 + np.arange(5)
    assert (sampler.record_keys(far[::-1])[::-1] == sampler.record_keys(far)).all()
    assert len(sampler.record_keys(far[:0])) == 0
    assert json.loads(json.dumps(sampler.fingerprint)) == sampler.fingerprint


OPERATIONS = {
    "batch": [Batch(4)],
    "filter, batch": [Filter(lambda record: record % 3), Batch(4)],
    "flat map": [FlatMap(lambda record: [record] * (record % 3))],
    "pack": [lambda record: np.full(record % 5 + 1, record), Pack(8, window=6)],
}


def loader_of(name, operations="batch", **more):
    """Three epochs or so of records that are their own keys."""
    sampler = SAMPLERS[name](num_epochs=3)
    return DataLoader(
        data_source=range(sampler.num_records),
        sampler=sampler,
        operations=OPERATIONS[operations],
        **more,
    )


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize(("before", "after"), [(3, 2), (2, 5)])
@pytest.mark.one_in(4)
def test_other_shards_and_batch_sizes_read_what_is_left(name, before, after):
    """Every position once, wherever each shard was."""
    total = len(SAMPLERS[name](num_epochs=3))
    read, states = [], []
    for shard in range(before):
        batches = iter(loader_of(name, shard_options=ShardOptions(shard, before)))
        for _ in range(2 + shard):
            read += next(batches).tolist()
        states.append(batches.get_state())
    for shard in range(after):
        loader = loader_of(name, shard_options=ShardOptions(shard, after)).with_batch_size(3)
        batches = iter(loader)
        batches.set_states(states)
        read += [record for batch in batches for record in batch.tolist()]
    assert Counter(read) == Counter(keys_of(SAMPLERS[name](num_epochs=3), total).tolist())


def test_classes_come_equally_often_and_all_their_records_before_one_repeats():
    """In every round of classes, and in every epoch of a class; classes and records in random
    order.
    """
    labels = np.array(list("aaaaaaaaaaaabbbbbc"))
    sampler = BalancedSampler(labels, seed=3)
    keys = keys_of(sampler, 3 * 60)
    assert (np.sort(labels[keys].reshape(60, 3), axis=1) == list("abc")).all()
    assert len({*map(tuple, labels[keys].reshape(60, 3).tolist())}) == 6
    for label, count in (("a", 12), ("b", 5), ("c", 1)):
        own = keys[labels[keys] == label].reshape(-1, count)
        assert (np.sort(own, axis=1) == np.flatnonzero(labels == label)).all()
        assert count == 1 or len({*map(tuple, own.tolist())}) > 1


def test_classes_come_as_often_as_their_weights_say():
    """At every position within one of their share; by name, and in the order of sorted classes."""
    labels = np.array([7] * 30 + [3] * 2 + [5] * 9)
    sampler = BalancedSampler(labels, {3: 1, 5: 0, 7: 3}, seed=0)
    drawn = np.cumsum(labels[keys_of(sampler, 1000)] == 3)
    assert np.abs(drawn - np.arange(1, 1001) / 4).max() <= 1
    other = BalancedSampler(labels, [1, 0, 3], seed=0)
    assert (keys_of(other, 1000) == keys_of(sampler, 1000)).all()
    assert BalancedSampler(labels, seed=0).fingerprint != sampler.fingerprint


def test_an_endless_order_has_epochs_of_num_samples():
    """Also where an epoch has more samples than there are records."""
    sampler = WeightedSampler(np.ones(10), num_samples=30)
    loader = headrace.DataLoader(
        data_source=range(10), sampler=sampler, operations=[headrace.Batch(10)]
    )
    assert [len(list(epoch)) for epoch in loader.epochs(2)] == [3, 3]
    assert loader.find(9, epoch=1).step in (3, 4, 5)


def test_a_part_of_a_mix_can_be_weighted():
    """Its records come by weight, at its share of the mix; other epochs draw other records."""
    parts = {"web": WeightedSampler([0, 1, 1, 8], num_epochs=1, seed=0), "books": 5}
    sampler = MixSampler(parts, [3, 1], when_exhausted="repeat")
    sources = {"web": list("abcd"), "books": ["B"] * 5}
    records = [
        record for record, _ in zip(DataLoader(data_source=sources, sampler=sampler), range(8000))
    ]
    counts = Counter(records)
    assert counts["B"] == 2000
    assert "a" not in counts
    assert deviations([counts["b"], counts["c"], counts["d"]], [0.1, 0.1, 0.8]) < 5


@pytest.mark.parametrize("replacement", [True, False])
def test_weights_from_a_file_are_those_of_an_array(tmp_path, replacement):
    """Of any dtype; the state tells one file from another."""
    weights = np.random.default_rng(0).random(6000).astype(np.float32)
    path = tmp_path / "weights.npy"
    np.save(path, weights)
    sampler = WeightedSampler(path, replacement=replacement)
    other = WeightedSampler(weights.tolist(), replacement=replacement)
    assert (keys_of(sampler, 9000) == keys_of(other, 9000)).all()
    assert sampler.fingerprint == other.fingerprint
    assert sampler.fingerprint != WeightedSampler(weights * 2, replacement=replacement).fingerprint


@pytest.mark.parametrize("operations", ["batch", "filter, batch"])
@pytest.mark.parametrize("step", [0, 1, 5])
def test_changed_weights_hold_from_the_position_of_the_state(operations, step):
    """Deliberately; the state notes them, and goes on from there strictly. The same weights need
    nothing.
    """

    def loader(weights):
        sampler = WeightedSampler(weights, num_epochs=2, seed=1)
        return DataLoader(data_source=range(40), sampler=sampler, operations=OPERATIONS[operations])

    one, other = np.ones(40), np.arange(40) % 2
    first = iter(loader(one))
    for _ in range(step):
        next(first)
    strict = iter(loader(other))
    if step:
        with pytest.raises(CheckpointError, match="sampler: weights"):
            strict.set_state(first.get_state())
    batches = iter(loader(other))
    batches.set_state(first.get_state(), strict=False)
    expected = [batch.tolist() for batch in loader(other)][step:]
    if operations == "batch":
        assert [next(batches).tolist(), next(batches).tolist()] == expected[:2]
    else:
        assert (next(batches) % 2 == 1).all()
        assert (next(batches) % 2 == 1).all()
    changes = json.loads(batches.get_state()).get("history", {}).get("orders", [])
    digests = [WeightedSampler(weights).fingerprint["weights"] for weights in (one, other)]
    assert [values["weights"] for _, _, values in changes] == digests * (step > 0)
    again = iter(loader(other))
    again.set_state(batches.get_state())
    assert [batch.tolist() for batch in again] == [batch.tolist() for batch in batches]


def test_weights_are_not_changed_inside_a_window():
    """Its rest would be made of other records."""

    def run(weights):
        sampler = WeightedSampler(weights, seed=1)
        return iter(
            DataLoader(data_source=range(40), sampler=sampler, operations=OPERATIONS["pack"])
        )

    first = run(np.ones(40))
    next(first)
    with pytest.raises(CheckpointError, match="another step"):
        run(np.arange(40)).set_state(first.get_state(), strict=False)


def test_a_part_of_a_mix_takes_other_weights_where_no_shard_owes_records():
    """As for a sampler alone: what a shard has not read yet is to be drawn by the
    former weights.
    """

    def run(weights, shard):
        sources = {"a": range(40), "b": range(100, 120)}
        sampler = MixSampler(
            {"a": WeightedSampler(weights, seed=1), "b": 20}, when_exhausted="repeat"
        )
        return iter(
            DataLoader(data_source=sources, sampler=sampler, shard_options=ShardOptions(shard, 2))
        )

    new, states = np.arange(40) % 2, []
    for shard, steps in enumerate((4, 5)):
        iterator = run(np.ones(40), shard)
        for _ in range(steps):
            next(iterator)
        states.append(iterator.get_state())
        if shard == 1:
            with pytest.raises(
                CheckpointError,
                match=r"the order of part 'a' changed, .* shard 0 of 2 must still read",
            ):
                run(new, 0).set_states(states, strict=False)
    next(first := run(new, 0))
    first.set_states([states[0]], strict=False, equal_steps=True)
    assert all(key >= 100 or key % 2 for key in (next(first) for _ in range(40)))


def test_trace_tells_the_weights():
    """Which drew a step, and that others drew one of before."""

    def loader(weights):
        return DataLoader(
            data_source=range(40), sampler=WeightedSampler(weights, seed=1), operations=[Batch(4)]
        )

    first = iter(loader(np.ones(40)))
    for _ in range(3):
        next(first)
    second = loader(np.arange(40))
    batches = iter(second)
    batches.set_state(first.get_state(), strict=False)
    expected = next(batches).tolist()
    found = headrace.trace(second, 3, batches.get_state())
    assert [record.key for record in found.records] == expected
    assert "from position 12 on" in str(found)
    assert found.to_dict()["weights"] == found.weights
    with pytest.raises(TraceError, match="other weights"):
        headrace.trace(second, 1, batches.get_state())
    assert "Drawn by weights" in str(headrace.trace(loader(np.ones(40)), 1))


@pytest.mark.parametrize(
    ("weights", "error", "match"),
    [
        ([], ValueError, "shape"),
        ([[1.0, 2.0]], ValueError, "shape"),
        ([1.0, float("nan")], ValueError, "record 1 is nan"),
        ([1.0, float("inf")], ValueError, "record 1 is inf"),
        ([0.0, 1.0, -2.0], ValueError, r"record 2 is -2\.0"),
        ([0.0, 0.0], ValueError, "all weights are 0"),
        (["a"], TypeError, "not numbers. Pass one int or float"),
        ({"a": 1}, TypeError, "not numbers. Pass one int or float"),
        (None, TypeError, "not numbers. Pass one int or float"),
        ([True], TypeError, "not numbers. Pass one int or float"),
    ],
)
def test_weights_that_are_none_are_refused(weights, error, match):
    """Value, limit and remedy."""
    with pytest.raises(error, match=match):
        WeightedSampler(weights)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"num_samples": 0}, "num_samples"),
        ({"num_samples": 3, "replacement": False}, "at most as many as weights are above 0"),
        ({"num_epochs": 0}, "num_epochs"),
        ({"seed": -1}, "seed"),
    ],
)
def test_numbers_outside_their_range_are_refused(arguments, match):
    """As by other samplers."""
    with pytest.raises(ValueError, match=match):
        WeightedSampler([1.0, 0.0, 2.0], **arguments)


def test_what_is_no_file_of_weights_is_refused(tmp_path):
    """With its name."""
    (tmp_path / "weights.npy").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"weights\.npy"):
        WeightedSampler(tmp_path / "weights.npy")
    with pytest.raises(FileNotFoundError):
        WeightedSampler(tmp_path / "missing.npy")


@pytest.mark.parametrize(
    ("labels", "more", "error", "match"),
    [
        ([], {}, ValueError, "shape"),
        ([1.5], {}, TypeError, "all integers or all strings"),
        ([[1]], {}, ValueError, "shape"),
        ([1, 2], {"class_weights": {1: 1}}, ValueError, r"2\. Pass a weight for each class"),
        ([1, 2], {"class_weights": {1: 1, 2: 1, 3: 1}}, ValueError, "3, but no"),
        ([1, 2], {"class_weights": [1, float("nan")]}, ValueError, "the weight of '2' is nan"),
        ([1, 2], {"class_weights": [1]}, ValueError, "1 weights"),
    ],
)
def test_labels_that_are_none_are_refused(labels, more, error, match):
    """Value, limit and remedy."""
    with pytest.raises(error, match=match):
        BalancedSampler(labels, **more)


@pytest.mark.parametrize("kind", [WeightedSampler, BalancedSampler])
def test_one_record_and_endless_orders(kind):
    """The smallest source, and the length of what never ends."""
    sampler = kind([1], num_epochs=4)
    assert keys_of(sampler, 4).tolist() == [0, 0, 0, 0]
    assert (len(sampler), len(kind([1]))) == (4, sys.maxsize)
    assert (
        len(kind([1, 1, 1], num_epochs=1, shard_options=ShardOptions(0, 2, drop_remainder=True)))
        == 2
    )
    with pytest.raises(IndexError):
        sampler[4]
    with pytest.raises(ValueError, match="the source has 2"):
        DataLoader(data_source=range(2), sampler=kind([1, 1, 1]))


FORKED = """
import os, pickle
import numpy as np
from headrace.samplers.weighted.orders import Orders

def killed(epoch, table):
    os._exit(1)

def unneeded(epoch, table):
    raise AssertionError("it is there")

orders = pickle.loads(pickle.dumps(Orders(np.ones(5000), seed=1, count=5000)))
for make in (killed, orders.make):
    if os.fork() == 0:
        with orders.tables.of(0, make):
            os._exit(0)
    os.wait()
with orders.tables.of(0, unneeded) as table:
    assert sorted(table.tolist()) == list(range(5000))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_processes_share_the_order_of_an_epoch():
    """One makes it, and the others find it; one that is killed while it makes it holds
    nobody up.
    """
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=60)


def test_fewer_weights_above_0_without_replacement_than_a_run_has_read_are_refused():
    """They make its epochs shorter; the error tells the records, and that more epochs mend it."""

    def run(weights, epochs=1):
        sampler = WeightedSampler(weights, replacement=False, num_epochs=epochs, seed=1)
        return iter(DataLoader(data_source=range(40), sampler=sampler))

    first = run(np.ones(40))
    for _ in range(30):
        next(first)
    fewer = np.arange(40) % 2
    with pytest.raises(
        CheckpointError,
        match=r"draws 20 records in each of 1 epochs, 20 in all, but shard 0 of 1 has",
    ):
        run(fewer).set_state(first.get_state(), strict=False)
    longer = run(fewer, 2)
    longer.set_state(first.get_state(), strict=False)
    assert len(list(longer)) == 10
