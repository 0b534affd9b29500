"""Mixes of very many parts: what is computed for all of them at once is what each would give by
itself.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import IndexSampler, MixSampler
from headrace.samplers.mix.order import MixOrder
from headrace.samplers.mix.shuffles import Shuffles
from headrace.samplers.mix.weights import MAX_POSITION
from headrace.samplers.permutation import permute

SIZES = [1, 2, 3, 97, (1 << 14) - 1, 1 << 14, (1 << 14) + 1, 10**6, 1 << 40]


@pytest.mark.parametrize("in_order", [True, False])
def test_several_shuffles_at_once_are_those_of_each(in_order):
    """Of sizes on both sides of where the number of rounds changes, of any epochs,
    grouped or not.
    """
    random = np.random.default_rng(0)
    seeds = random.integers(0, 1 << 32, len(SIZES)).tolist()
    which, epochs = random.integers(0, len(SIZES), 40_000), random.integers(0, 5, 40_000)
    which = np.sort(which) if in_order else which
    places = random.integers(0, np.array(SIZES)[which])
    found = Shuffles(SIZES, seeds).permute(places, epochs, which)
    for number, (size, seed) in enumerate(zip(SIZES, seeds)):
        own = which == number
        np.testing.assert_array_equal(found[own], permute(places[own], epochs[own], size, seed))


@pytest.mark.parametrize("when_exhausted", ["first", "repeat"])
@pytest.mark.parametrize("count", [40, 3000])
def test_keys_of_many_parts_are_those_of_each_part_alone(when_exhausted, count):
    """Parts with an order of their own, without a shuffle or with many records at the positions,
    among them.
    """
    own = {
        "own": IndexSampler(50, shuffle=True, seed=9, num_epochs=None),
        "plain": IndexSampler(50, num_epochs=None),
    }
    sampler = MixSampler(
        {**{f"p{n}": 20 + n for n in range(60)}, **own},
        shuffle=True,
        seed=3,
        when_exhausted=when_exhausted,
    )
    positions = np.arange(min(count, len(sampler)))
    keys = sampler.record_keys(positions)
    parts, indices = sampler.order.places(positions)
    assert len(np.unique(parts)) == min(62, len(parts))
    records, part_numbers = np.divmod(keys, 62)
    for number in np.unique(parts).tolist():
        name, here = sampler.order.names[number], parts == number
        assert set(part_numbers[here].tolist()) == {sampler.names.index(name)}
        told = sampler.fingerprint[f"part {name!r}"]
        alone = IndexSampler(
            told["records"], shuffle=told["shuffle"], seed=told["seed"], num_epochs=None
        )
        np.testing.assert_array_equal(records[here], alone.record_keys(indices[here]))


weights = st.lists(
    st.sampled_from([0.0, 1.0, 1.0, 0.3, 7.0, 1e-6]), min_size=1, max_size=30
).filter(any)


@pytest.mark.slow
@given(weights, weights, st.integers(1, 5000), st.data())
def test_the_position_of_an_element_is_found_without_searching(first, second, begins, data):
    """It is the one before which the part's count grows to more than the element's number, in any
    stage.
    """
    second = (second * 30)[: len(first)]
    stages = [(0, first), (begins, second)] if any(second) else [(0, first)]
    order = MixOrder.of(stages)
    part = data.draw(st.integers(0, len(first) - 1))
    index = data.draw(st.one_of(st.integers(0, 40), st.integers(0, 10**12)))
    position = order.position_of(part, index)
    if position is None:
        assert order.count(part, MAX_POSITION) <= index
    else:
        assert (order.count(part, position), order.count(part, position + 1)) == (index, index + 1)
