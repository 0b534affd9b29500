"""The default shuffle is a good one at every size."""

from __future__ import annotations

from collections import Counter
from math import factorial

import numpy as np
import pytest

from headrace import IndexSampler
from headrace.samplers.grain.grain_order import shuffled
from headrace.samplers.permutation import permute, permute_one, place_of

SIZES = [60_000, 1_281_167, 10**7, 10**9, 10**10, 10**12]
WINDOW, BUCKETS, SEEDS = 1024, 64, range(8)


def _windows(records: int) -> list[np.ndarray]:
    """1,024 consecutive positions from the start and from a third, for eight seeds, as fractions of
    the range.
    """
    return [
        IndexSampler(records, shuffle=True, seed=seed).record_keys(np.arange(start, start + WINDOW))
        / records
        for seed in SEEDS
        for start in (0, records // 3)
    ]


@pytest.mark.parametrize("records", SIZES)
def test_consecutive_positions_are_spread_evenly(records):
    """The keys of 1,024 consecutive positions fill 64 buckets as random ones would."""
    expected = WINDOW / BUCKETS
    counts = [
        np.bincount((keys * BUCKETS).astype(int), minlength=BUCKETS) for keys in _windows(records)
    ]
    chi = np.array([((count - expected) ** 2 / expected).sum() / (BUCKETS - 1) for count in counts])
    assert ((chi > 0.45) & (chi < 1.75)).all()
    assert 0.9 < chi.mean() < 1.1


@pytest.mark.parametrize("records", SIZES)
def test_neighbours_are_as_far_apart_as_random_ones(records):
    """The mean distance of neighbouring keys is a third of the range."""
    distance = np.array([np.abs(np.diff(keys)).mean() * 3 for keys in _windows(records)])
    assert ((distance > 0.9) & (distance < 1.1)).all()
    assert 0.97 < distance.mean() < 1.03


@pytest.mark.parametrize("records", SIZES)
def test_epochs_and_seeds_are_uncorrelated(records):
    """The orders of consecutive epochs, and of consecutive seeds, have nothing to do with one
    another.
    """
    positions = np.arange(20_000)
    orders = [
        IndexSampler(records, shuffle=True, seed=seed).record_keys(positions + epoch * records)
        / records
        for seed in (0, 1, 2)
        for epoch in (0, 1, 2)
    ]
    correlation = np.corrcoef(orders) - np.eye(len(orders))
    assert np.abs(correlation).max() < 5 / np.sqrt(len(positions))


@pytest.mark.parametrize("records", [2, 3, 4, 5])
def test_all_permutations_of_few_records_are_equally_likely(records):
    """Over many epochs every order of a few records comes as often as any other."""
    epochs = 24_000
    order = IndexSampler(records, shuffle=True, seed=11).record_keys(np.arange(records * epochs))
    counts = Counter(map(tuple, order.reshape(epochs, records).tolist()))
    expected = epochs / factorial(records)
    assert len(counts) == factorial(records)
    freedom = factorial(records) - 1
    chi = sum((count - expected) ** 2 / expected for count in counts.values())
    assert abs(chi - freedom) < 5 * np.sqrt(2 * freedom)


@pytest.mark.one_in(10)
@pytest.mark.parametrize("records", [1, 2, 6, 7, 9, 25, 64, 100, 257, 1000])
def test_cycles_are_those_of_random_permutations(records):
    """Fixed points, number of cycles and parity, averaged over epochs, are those of random
    permutations.
    """
    epochs = 600
    orders = (
        IndexSampler(records, shuffle=True, seed=2)
        .record_keys(np.arange(records * epochs))
        .reshape(epochs, -1)
    )
    assert (np.sort(orders, axis=1) == np.arange(records)).all()
    cycles = np.array([_cycles(order.tolist()) for order in orders])
    harmonic = sum(1 / k for k in range(1, records + 1))
    variance = harmonic - sum(1 / k**2 for k in range(1, records + 1))
    assert abs(cycles.mean() - harmonic) <= 5 * np.sqrt(variance / epochs) + 1e-9
    fixed = (orders == np.arange(records)).sum(axis=1)
    assert abs(fixed.mean() - 1) <= 5 / np.sqrt(epochs)
    if records > 1:
        assert abs(((records - cycles) % 2).mean() - 0.5) <= 5 * 0.5 / np.sqrt(epochs)


def _cycles(order: list[int]) -> int:
    seen, count = [False] * len(order), 0
    for start in range(len(order)):
        count += not seen[start]
        while not seen[start]:
            seen[start] = True
            start = order[start]
    return count


@pytest.mark.parametrize("records", [4093, 16_383, 16_384, 60_000, 1_281_167])
def test_large_epochs_are_permutations(records):
    """Every record comes once, on both sides of the sizes where the method changes."""
    for epoch in (0, 5):
        order = IndexSampler(records, shuffle=True, seed=4).record_keys(
            np.arange(records) + epoch * records
        )
        assert (np.bincount(order, minlength=records) == 1).all()


def test_grains_order_is_a_permutation_even_where_its_cipher_has_one_number_too_few():
    """With 65,537 records, each record is read once in each epoch, and is found where
    it is read.
    """
    records = 2**16 + 1
    sampler = IndexSampler(records, shuffle=True, seed=4, algorithm="grain")
    order = sampler.record_keys(np.arange(records) + records)
    assert (np.bincount(order, minlength=records) == 1).all()
    assert sampler.position_of(records - 1, epoch=1) == records + order.argmax()


@pytest.mark.parametrize("size", [2, 41, 1714, 16_383, 16_384, 1 << 20, (1 << 20) + 5000, 10**9])
@pytest.mark.parametrize("count", [3, 700, 20_000])
def test_many_places_and_single_ones_are_sent_alike(size, count):
    """Whether hashes are kept or not, in one epoch or over the ends of many; and back again."""
    positions = np.arange(size // 2, size // 2 + count)
    found = permute(positions % size, positions // size, size, seed=5)
    for number in {0, 1, 2, count // 2, count - 1}:
        epoch, place = divmod(int(positions[number]), size)
        assert permute_one(place, epoch, size, 5) == found[number]
        assert place_of(int(found[number]), epoch, size, 5) == place


def test_an_order_of_grains_whose_last_place_has_an_odd_number_of_bits():
    """As Grain gives it."""
    assert shuffled(np.arange(3), 2**31 - 1, 2**32 - 1).tolist() == [
        503722993,
        258372712,
        751219907,
    ]
