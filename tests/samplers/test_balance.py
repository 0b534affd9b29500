"""Records of a global batch are dealt so that shards have sums of cost as equal as can be."""

from __future__ import annotations

import hashlib
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace
from headrace import Balance, IndexSampler
from headrace.errors import LengthsError
from headrace.samplers.balance import Dealing
from headrace.samplers.dealing import Blocks, dealt


def _sums(costs, places, shards, batches=1):
    """The sum of each shard in each batch, `[batches, shards]`."""
    return costs[places].reshape(batches, -1, shards).sum(axis=1)


def _lengths(count, seed=0):
    """As in texts: many short, few long."""
    return np.clip(np.random.default_rng(seed).lognormal(5, 1, count), 16, 1024).astype(np.int64)


@pytest.mark.slow
@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=12),
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(0, 9),
)
def test_a_deal_is_a_permutation_with_equal_counts(costs, shards, batches, turn):
    """Whatever the costs; all 0 as well. Records of a shard in a batch stay in their order."""
    costs = np.array(costs * shards, np.int64)
    places = dealt(costs, shards, batches, turn)
    assert sorted(places.tolist()) == list(range(len(costs)))
    if batches == 1:
        assert (np.diff(places.reshape(-1, shards), axis=0) > 0).all()
    assert dealt(costs, shards, batches, turn).tolist() == places.tolist()


def _best_of_two(costs):
    """The least possible larger sum of two halves, by all of them."""
    half = len(costs) // 2
    of_one = [sum(some) for some in combinations(costs.tolist(), half)]
    return min(max(one, int(costs.sum()) - one) for one in of_one)


@pytest.mark.slow
def test_two_halves_are_nearly_the_best_there_are():
    """Beside all halves of 12 records: never more than 10 % above the best, and 1 % in the mean."""
    ratios = []
    for seed in range(60):
        costs = _lengths(12, seed) ** 2
        ratios.append(_sums(costs, dealt(costs, 2), 2).max() / _best_of_two(costs))
    assert max(ratios) <= 1.1
    assert np.mean(ratios) <= 1.01


@pytest.mark.parametrize(("a", "b"), [(1, 0), (500, 1), (0, 1)])
def test_64_ranks_of_a_batch_of_2048_finish_together(a, b):
    """The largest sum is within 2 % of the mean; in turn, it is far above."""
    for seed in range(8):
        costs = headrace.attention(a, b)(_lengths(2048, seed)).astype(np.int64)
        sums = _sums(costs, dealt(costs, 64, turn=seed), 64)
        assert sums.max() <= 1.02 * sums.mean()
        assert b == 0 or _sums(costs, np.arange(2048), 64).max() > 1.5 * sums.mean()


def test_several_batches_together_hide_long_records():
    """The slowest shards of all batches take less time together, though each batch is small."""
    costs = _lengths(8 * 4 * 8) ** 2
    one = sum(_sums(part, dealt(part, 8), 8).max() for part in costs.reshape(8, -1))
    together = _sums(costs, dealt(costs, 8, batches=8), 8, batches=8).max(axis=1).sum()
    assert together <= 1.1 * costs.sum() / 8 < 1.5 * costs.sum() / 8 < one


@pytest.mark.parametrize(
    ("shards", "count", "batches", "turn", "digest"),
    [
        (64, 2048, 1, 3, "62361ce7d842"),
        (3, 96, 1, 0, "a3862833d61a"),
        (8, 256, 8, 5, "880a60c90af2"),
        (2, 4096, 1, 1, "de8d633ba8d8"),
        (5, 20, 4, 2, "5093f8c9c4c9"),
    ],
)
def test_deals_stay_what_they_are(shards, count, batches, turn, digest):
    """States outlive releases: what is left of a block that was begun depends on its deal."""
    costs = (np.arange(count, dtype=np.int64) * 2654435761 % 100003) ** 2 // 7
    places = dealt(costs, shards, batches, turn).astype("<i8")
    assert hashlib.sha256(places.tobytes()).hexdigest()[:12] == digest


@pytest.mark.parametrize("count", [4096, 4096 * 3])
def test_large_shares_are_balanced_in_few_deals(count):
    """Two shards of thousands of records."""
    costs = _lengths(count) ** 2
    sums = _sums(costs, dealt(costs, 2), 2)
    assert sums.max() <= 1.001 * sums.mean()


def test_no_shard_always_has_the_largest_record():
    """Shards take turns."""
    costs = np.array([100, *[1] * 15])
    owners = {int(np.flatnonzero(dealt(costs, 4, turn=turn) == 0)[0]) % 4 for turn in range(4)}
    assert owners == {0, 1, 2, 3}


@pytest.mark.parametrize(
    "blocks", [Blocks(3, 0, 12), Blocks(4, 8, 16), Blocks(5, 0, 40), Blocks(2, 7, 4)]
)
@pytest.mark.parametrize("total", [12, 50, 101])
def test_each_block_keeps_its_records(blocks, total):
    """The positions of a run are those of the sampler, block by block; `place_of` is
    the inverse.
    """
    costs = _lengths(total)
    dealing = Dealing(Balance(costs), lambda positions: positions, total, blocks)
    places = np.arange(total)
    found = dealing.positions(places)
    for start in range(blocks.first, total, blocks.size):
        assert (
            sorted(found[start : start + blocks.size])
            == places[start : start + blocks.size].tolist()
        )
    assert found[: blocks.first].tolist() == places[: blocks.first].tolist()
    assert [dealing.place_of(position) for position in found.tolist()] == places.tolist()
    some = np.array([total - 1, 0, total // 2])
    assert dealing.positions(some).tolist() == found[some].tolist()


def test_costs_of_any_size_are_dealt():
    """Fractions, and numbers that no integer holds, by their proportions."""
    lengths = _lengths(256)
    for scale in (1e-9, 0.37, 1e30):
        balance = Balance(lengths, lambda lengths, scale=scale: lengths * scale)
        sums = _sums(lengths, dealt(balance.costs, 8), 8)
        assert sums.max() <= 1.01 * sums.mean()
    assert Balance([0, 0, 0]).costs.tolist() == [0, 0, 0]
    assert Balance([3, 5]).costs.tolist() == [3, 5]


def test_balances_are_equal_by_what_they_balance():
    """As samplers are compared, and kept in sets."""
    assert Balance([1, 2]) == Balance(np.array([1, 2])) != Balance([2, 1])
    assert Balance([1, 2]) != Balance([1, 2], batches=2)
    assert hash(IndexSampler(2, balance=Balance([1, 2]))) == hash(
        IndexSampler(2, balance=Balance([1, 2]))
    )
    assert "balance" not in IndexSampler(2).fingerprint
    assert repr(Balance([1, 2])) == "Balance(2 lengths, global_batch=None, batches=1)"


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Balance(3), TypeError, r"lengths=3 is an int\. Pass an array"),
        (
            lambda: Balance([[1], [2, 3]]),
            TypeError,
            r"lengths=\[\[1\], \[2, 3\]\] is a list\. Pass an array",
        ),
        (lambda: Balance([1, -1]), LengthsError, "record 1 has length -1"),
        (lambda: Balance([1, np.nan]), LengthsError, "record 1 has length nan"),
        (lambda: Balance([1, 2], global_batch=0), ValueError, "global_batch=0 must be in"),
        (lambda: Balance([1, 2], batches=1.5), TypeError, "batches=1.5 is a float"),
        (
            lambda: IndexSampler(3, balance=Balance([1, 2])),
            LengthsError,
            "2 lengths, but there are 3 records",
        ),
        (lambda: IndexSampler(2, balance=[1, 2]), TypeError, r"balance=\[1, 2\] is a list\. Pass"),
        (
            lambda: IndexSampler(2, algorithm="grain", balance=Balance([1, 2])),
            ValueError,
            'algorithm="grain" gives each shard an order of its own. Leave out',
        ),
        (
            lambda: headrace.load([1, 2], balance=[1, 2]),
            TypeError,
            r"balance=\[1, 2\] is a list\. Pass True, a cost",
        ),
        (lambda: headrace.load([1, 2], lengths=[1, 2]), TypeError, "leave lengths= out"),
        (lambda: headrace.load([1, 2], balance=True), LengthsError, "does not know the lengths"),
        (
            lambda: headrace.load([1, 2], balance=Balance([1, 2])),
            ValueError,
            "how many records of the source are in one batch.*Pass Balance",
        ),
        (
            lambda: headrace.load([1, 2], balance=Balance([1, 2], global_batch=4), batch_size=2),
            ValueError,
            r"global batches of 2, but global_batch=4\. Leave global_batch= out, or pass 2",
        ),
    ],
)
def test_what_cannot_be_balanced_is_refused(make, error, message):
    """With the value, the limit and the remedy."""
    with pytest.raises(error, match=message) as caught:
        make()
    assert len(str(caught.value)) < 500
