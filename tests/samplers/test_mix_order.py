"""The arithmetic of mixes: which part stands at a position, how many of each came before, and what
a change does to it.
"""

import itertools
import json
import pickle

import numpy as np
import pytest

from headrace import MixSampler
from headrace.errors import CheckpointError
from headrace.samplers.mix import stage
from headrace.samplers.mix.order import MANY, MixOrder
from headrace.samplers.mix.tree import best_tree, deviation
from headrace.samplers.mix.weights import RAMP, changed_stages

FAR = 10**15


def deviations(order, stop):
    """How far the counts of all parts are from their shares, before each of the first positions."""
    parts, _ = order.places(np.arange(stop))
    shares, counts = np.zeros((len(order.names), stop + 1)), np.zeros((len(order.names), stop + 1))
    starts = [start for start, _ in order.stages]
    for (start, weights), end in itertools.zip_longest(order.stages, starts[1:], fillvalue=stop):
        shares[:, start + 1 : end + 1] = np.array(weights)[:, None] / np.sum(weights)
    counts[:, 1:] = parts == np.arange(len(order.names))[:, None]
    return np.abs(np.cumsum(shares, axis=1) - np.cumsum(counts, axis=1))


@pytest.mark.parametrize("count", [2, 3, 5, 8, 13, 35, 64])
def test_equal_parts_are_within_one_of_their_share(count):
    """With equal weights, the count of every part is within one of its share before
    every position.
    """
    assert deviations(MixOrder.of([1.0] * count), 5000).max() < 1


@pytest.mark.parametrize(
    "weights", [(0.25, 0.25, 0.25, 0.24, 0.01), (0.9, *[0.1 / 40] * 40), (0.6, 0.3, 0.1)]
)
def test_uneven_parts_are_within_one_of_their_share(weights):
    """The count of every part is within one of its share where some weigh little."""
    assert deviations(MixOrder.of(weights), 20_000).max() < 1


def test_two_parts_are_within_a_half_of_their_share():
    """With two parts, counts are rounded shares."""
    assert deviations(MixOrder.of([0.7, 0.3]), 5000).max() <= 0.5 + 1e-9


@pytest.mark.parametrize("weights", [(7, 3), (5, 3, 2), (50, 20, 13, 9, 7, 1)])
def test_no_part_is_further_from_its_share_than_the_deviation_of_the_tree(weights):
    """By which the best of several trees is chosen."""
    weights = dict(enumerate(weights))
    limit = deviation(best_tree(weights), weights)
    assert deviations(MixOrder.of([*weights.values()]), 20_000).max() < limit + 1e-6


@pytest.mark.parametrize("alpha", [0.1, 1, 10])
def test_parts_of_any_weights_are_near_their_share(alpha):
    """Whatever the weights, no count is further from its share than the documented limit."""
    generator = np.random.default_rng(7)
    for count in (3, 5, 17, 35, 64):
        order = MixOrder.of(generator.dirichlet([alpha] * count))
        assert deviations(order, 5000).max() < 1.4


def test_counts_are_exact_at_far_positions():
    """At position 10^15 counts are as near to the shares as at the beginning."""
    weights = np.random.default_rng(3).dirichlet([1] * 35)
    order = MixOrder.of(weights)
    shares = weights / weights.sum() * FAR
    assert np.abs(order.counts(FAR) - shares).max() < 1.5  # a float of 10^15 has steps of an eighth
    assert order.counts(FAR).sum() == FAR


@pytest.mark.parametrize("first", [0, 990, FAR])
def test_many_positions_at_once_and_one_by_one_agree(first):
    """`places`, `place`, `count` and `counts` tell the same of every position, near and far, in all
    stages.
    """
    generator = np.random.default_rng(5)
    order = MixOrder.of([(start, generator.dirichlet([0.5] * 9)) for start in range(0, 1000, 10)])
    parts, indices = order.places(np.arange(first, first + 300))
    counts = order.counts(first)
    for position, part, index in zip(range(first, first + 300), parts.tolist(), indices.tolist()):
        assert order.place(position) == (part, index)
        assert index == counts[part] == order.count(part, position)
        counts[part] += 1
    assert counts.tolist() == order.counts(first + 300).tolist()


def test_an_array_longer_than_a_block_gives_the_same():
    """The size of the array that is asked for changes nothing."""
    order = MixOrder.of([0.5, 0.3, 0.2])
    long = order.places(np.arange(20_000))
    parts = [order.places(np.arange(start, start + 1000)) for start in range(0, 20_000, 1000)]
    for number in (0, 1):
        assert np.array_equal(long[number], np.concatenate([some[number] for some in parts]))


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 700, FAR])
@pytest.mark.one_in(3)
def test_positions_that_follow_one_another_are_found_part_by_part(first):
    """Many in a stage at once, also in one that makes up for another, and over the ends of stages,
    as `places` finds each.
    """
    for seed in range(20):
        generator = np.random.default_rng(seed)
        starts = [0, *np.cumsum(generator.integers(1, 50_000, seed % 4)).tolist()]
        order = MixOrder.of([(start, generator.dirichlet([0.4] * 35)) for start in starts])
        positions = np.arange(first, first + 70_000)
        parts, indices = np.full(70_000, -1), np.full(70_000, -1)
        for part, some, places in order.by_part(positions):
            assert (parts[places] == -1).all()
            parts[places], indices[places] = part, some
        expected = order.places(positions)
        assert np.array_equal(parts, expected[0])
        assert np.array_equal(indices, expected[1])


def test_position_of_is_the_inverse():
    """`position_of` finds every element, near and far, also in a stage that makes up
    for another.
    """
    generator = np.random.default_rng(11)
    order = MixOrder.of([(start, generator.dirichlet([0.3] * 6)) for start in range(0, 2000, 50)])
    for position in [*range(2100), *range(FAR, FAR + 50)]:
        assert order.position_of(*order.place(position)) == position


def test_a_part_without_weight_is_never_drawn():
    """Weight 0 draws nothing, and `position_of` says that it is never."""
    order = MixOrder.of({"a": 1, "b": 0, "c": 3})
    assert order.counts(1000).tolist() == [250, 0, 750]
    assert order.position_of(1, 0) is None


def test_many_positions_are_divided_among_the_parts_that_are_drawn_there():
    """The others are not looked at: a part that comes later may not be there yet."""
    order = MixOrder.of([9000, 1, 1])
    for start in range(0, 10 * MANY, MANY):
        positions = np.arange(start, start + MANY)
        drawn, _ = order.places(positions)
        assert sorted(part for part, _, _ in order.by_part(positions)) == [*np.unique(drawn)]


def test_a_single_part_is_its_own_order():
    """A mix of one part is that part."""
    parts, indices = MixOrder.of([5]).places(np.array([0, 7, FAR]))
    assert parts.tolist() == [0, 0, 0]
    assert indices.tolist() == [0, 7, FAR]


def test_a_schedule_of_100_stages_keeps_to_its_shares():
    """Counts follow the sum of all stages' shares, and errors do not add up from stage to stage."""
    generator = np.random.default_rng(2)
    starts = [0, *np.cumsum(generator.integers(1, 400, 99)).tolist()]
    far = deviations(
        MixOrder.of([(start, generator.dirichlet([1] * 12)) for start in starts]), starts[-1] + 3000
    )
    assert far.max() < 2.5
    assert far[:, -1].max() < 1.4


def test_a_ramp_changes_the_weights_bit_by_bit():
    """With `ramp`, the counts between two stages are those of weights that change linearly."""
    order = MixOrder.of(
        [(0, {"a": 1, "b": 0}), (100, {"a": 0, "b": 10})], ramp=True, records_per_step=100
    )
    assert len(order.stages) == RAMP + 1
    for position in range(0, 10_000, 500):
        share = position - position**2 / 20_000
        assert abs(order.counts(position)[0] - share) < 5
    assert order.counts(20_000)[0] == order.counts(10_000)[0]


def test_a_part_that_ends_is_drawn_no_longer():
    """After `without` the others go on in their proportions, from where they were; None if there
    are none.
    """
    order = MixOrder.of({"a": 2, "b": 1, "c": 1})
    rest = order.without(0, 101)
    assert np.array_equal(rest.places(np.arange(101)), order.places(np.arange(101)))
    assert rest.count(0, FAR) == order.count(0, 101)
    grown = rest.counts(1101) - order.counts(101)
    assert grown[0] == 0
    assert abs(grown[1] - 500) <= 1
    assert rest.without(1, 200).without(2, 300) is None


def test_the_end_of_a_part_leaves_out_stages_that_draw_nobody_else():
    """Where a later stage would draw nobody, the one before it goes on."""
    order = MixOrder.of([(0, [1, 1]), (100, [1, 0]), (200, [1, 3])])
    assert order.without(0, 50).stages == ((0, (1.0, 1.0)), (50, (0.0, 1.0)), (200, (0.0, 3.0)))


@pytest.mark.long
def test_a_thousand_histories_of_changes_lose_and_repeat_nothing():
    """However often weights are changed, parts added and removed: each part's elements come in
    order, each once.
    """
    generator = np.random.default_rng(13)
    names = [f"part {number}" for number in range(6)]
    for _ in range(1000):
        order, seen, position = None, dict.fromkeys(names, 0), 0
        for _ in range(4):
            some = generator.permutation(names)[: generator.integers(1, 7)].tolist()
            other = MixOrder.of(dict(zip(some, generator.dirichlet([1] * len(some)))))
            order = other if order is None else order.changed(position, other)
            stop = position + int(generator.integers(1, 30))
            parts, indices = order.places(np.arange(position, stop))
            for part, index in zip(parts.tolist(), indices.tolist()):
                name = order.names[part]
                assert name in some
                assert index == seen[name]
                seen[name] += 1
            position = stop
        assert {name: seen[name] for name in order.names} == dict(
            zip(order.names, order.counts(position).tolist())
        )


def test_a_change_leaves_what_came_before_as_it_was():
    """Positions before a change keep their elements, and parts their numbers."""
    order = MixOrder.of([(0, {"a": 1, "b": 2}), (70, {"a": 5, "b": 1})])
    changed = order.changed(50, MixOrder.of({"c": 1, "b": 1}))
    assert changed.names == ("a", "b", "c")
    assert np.array_equal(changed.places(np.arange(50)), order.places(np.arange(50)))
    assert changed.count(0, 10**6) == order.count(0, 50)


def test_an_order_is_plain_json_and_pickles():
    """An order that is written and read again is the same."""
    order = MixOrder.of([(0, {"a": 0.1, "b": 0.2}), (5, {"a": 1 / 3, "b": 1})])
    order.places(np.arange(100))
    assert MixOrder.from_values(json.loads(json.dumps(order.to_values()))) == order
    assert pickle.loads(pickle.dumps(order)) == order


@pytest.mark.parametrize(
    "values",
    [None, [], {}, {"names": ["a", "a"], "stages": []}, {"names": ["a"], "stages": [[1, [2]]]}],
)
def test_a_damaged_order_is_told(values):
    """What is no order is a CheckpointError."""
    with pytest.raises(CheckpointError, match="damaged"):
        MixOrder.from_values(values)


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ([1, -1], ValueError, r"the weight of 'b' is -1\. Pass a number from 0 to 1e308"),
        ([1, float("nan")], ValueError, r"is nan\. Pass a number from 0"),
        ([1, float("inf")], ValueError, r"is inf\. Pass a number from 0"),
        ([1, 10**400], ValueError, r"the weight of 'b' is 1000.* Pass a number from 0"),
        ([0, 0], ValueError, "all weights are 0"),
        ([1], ValueError, "has 1 values, but there are 2 parts"),
        ([1, "2"], TypeError, r"the weight of 'b' is '2', a str\. Pass an int or a float"),
        ([1, True], TypeError, "Pass an int or a float"),
        ("ab", TypeError, r"a list of numbers, or a dict with a number for each part\. A new mix"),
        (7, TypeError, r"a list of numbers, or a dict with a number for each part\. A new mix"),
        ({"a": 1, "c": 2}, ValueError, "'c', but the parts are 'a', 'b'"),
        ({"a": 1}, ValueError, r"'b'\. Pass a weight for each part"),
        ([(5, [1, 1])], ValueError, "first step of the schedule is 5"),
        (
            [(0, [1, 1]), (9, [1, 1]), (9, [1, 2])],
            ValueError,
            "the steps of the schedule are 0, 9, 9, but each must be larger",
        ),
        ([(0, [1, 1]), (-3, [1, 2])], ValueError, "step=-3"),
        ([(0, [1, 1]), (0.5, [1, 2])], TypeError, "step=0.5"),
        ([(0, [1, 1]), (5, {"a": 1, "x": 1})], ValueError, "'x', but the"),
    ],
)
def test_weights_that_are_none_are_refused(weights, error, message):
    """Each message says what was given and what to give."""
    with pytest.raises(error, match=message) as raised:
        MixOrder.of(weights, ["a", "b"])
    assert len(str(raised.value)) < 500


def _of_sixty_that_end(monkeypatch):
    """A mix of 60 parts by weights from 10^-3 to 100 that all end, and the weights that trees were
    made for.
    """
    made, best_tree = [], stage.best_tree
    monkeypatch.setattr(
        stage, "best_tree", lambda weights: made.append(weights) or best_tree(weights)
    )
    weights = dict(zip(map(str, range(60)), np.geomspace(1e-3, 100, 60).tolist()))
    return MixSampler(dict.fromkeys(weights, 1000), weights, when_exhausted="all"), made


@pytest.mark.slow
def test_a_mix_whose_parts_end_makes_each_of_its_stages_once(monkeypatch):
    """Not all of them again whenever a part ends, which took seconds for 60 parts."""
    sampler, made = _of_sixty_that_end(monkeypatch)
    assert len(sampler) == 60_000
    assert len(sampler.record_keys(np.arange(0, 60_000, 7))) == 8572
    assert sorted(map(len, made)) == list(range(1, 61))


def test_a_change_of_weights_makes_one_stage(monkeypatch):
    """The stages before it are those of the mix that it changes; a mix that is made from what a
    state says draws the same.
    """
    made, best_tree = [], stage.best_tree
    monkeypatch.setattr(
        stage, "best_tree", lambda weights: made.append(weights) or best_tree(weights)
    )
    sampler, weights = (
        MixSampler(dict.fromkeys("abcd", 50), when_exhausted="repeat"),
        dict.fromkeys("abcd", 1.0),
    )
    for number in range(1, 9):
        weights["abcd"[number % 4]] += 1
        sampler = sampler.with_weights(weights, 10 * number)
        sampler.record_keys(np.arange(10 * number, 10 * number + 10))
    assert len(made) == 9
    again = MixSampler(dict.fromkeys("abcd", 50), when_exhausted="repeat").resumed(
        sampler.saved, 80, False
    )
    positions = np.arange(200)
    assert again.record_keys(positions).tolist() == sampler.record_keys(positions).tolist()


@pytest.mark.slow
def test_an_order_without_a_part_is_that_of_its_stages(monkeypatch):
    """What it takes over from the order before is what it would make itself, digit for digit."""
    sampler, _ = _of_sixty_that_end(monkeypatch)
    order = sampler._ended[0]
    anew = MixOrder(order.names, order.stages)
    assert (len(order.made), len(anew.made), order == anew) == (59, 0, True)
    assert order._stages == anew._stages
    positions = np.arange(0, 60_000, 11)
    assert [each.tolist() for each in order.places(positions)] == [
        each.tolist() for each in anew.places(positions)
    ]


def test_an_order_takes_over_the_stages_up_to_the_first_that_differs():
    """`begun_as` changes what is computed again, never what is drawn."""
    order = MixOrder.of([(0, {"a": 1, "b": 1}), (50, {"a": 3, "b": 1})])
    positions = np.arange(100)
    order.places(positions)
    for weights, same in (
        ([(0, {"a": 1, "b": 3}), (50, {"a": 3, "b": 1})], 0),
        ([(0, {"a": 1, "b": 1}), (50, {"a": 1, "b": 3})], 1),
        ([(0, {"a": 1, "b": 1}), (40, {"a": 3, "b": 1})], 1),
    ):
        anew = MixOrder.of(weights)
        begun = anew.begun_as(order)
        assert len(begun.made) == same
        assert [each.tolist() for each in begun.places(positions)] == [
            each.tolist() for each in anew.places(positions)
        ]


def test_a_change_at_the_first_position_of_a_stage_replaces_the_stage():
    """No stage is left that has no positions, because an order with one could not be read from a
    state.
    """
    order = MixOrder.of([(0, {"a": 1, "b": 1}), (50, {"a": 3, "b": 1})])
    for changed in (order.changed(50, MixOrder.of({"a": 1, "b": 2})), order.without(0, 50)):
        assert [start for start, _ in changed.stages] == [0, 50]
        assert MixOrder.from_values(changed.to_values()) == changed


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([(5, {"a": 0}), (9, {"b": 0})], "all weights are 0"),
        ([(5, {"c": 1})], "changes of weights name c, but the parts are a, b"),
        ([(5, {"a": -1})], "-1"),
        ([(9, {"a": 2}), (9, {"a": 3})], "not in ascending order of their positions"),
    ],
)
def test_damaged_changes_of_weights_are_refused(changes, message):
    """The message says what is wrong; right ones begin with the first."""
    assert changed_stages({"a": 1, "b": 2}, [(5, {"a": 3}), (9, {"b": 0})]) == (
        (0, (3, 2)),
        (9, (3, 0)),
    )
    with pytest.raises(ValueError, match=message):
        changed_stages({"a": 1, "b": 2}, changes)
