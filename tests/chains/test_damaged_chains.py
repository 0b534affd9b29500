"""States of streams that come together, damaged: refused, or a place in the stream."""

from __future__ import annotations

import functools
import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.damage import ODD_VALUES, paths_in, sealed, with_value
from support.pipelines import tries

from headrace import IterDataset, MapDataset
from headrace.errors import CheckpointError


def three():
    """Streams of unequal length."""
    return [
        MapDataset.range(first, first + count).shuffle(1).to_iter_dataset().filter(lambda x: x % 3)
        for first, count in ((0, 9), (100, 30), (200, 20))
    ]


CHAINS = {
    "mix of all": lambda: IterDataset.mix(three(), [2, 1, 1], when_exhausted="all").batch(3),
    "mix of the first": lambda: IterDataset.mix(three()),
    "mix with a schedule": lambda: IterDataset.mix(
        three(), [(0, [1, 0, 0]), (4, [1, 1, 1])], when_exhausted="all"
    ),
    "mix that repeats": lambda: IterDataset.mix(three(), when_exhausted="repeat").limit(40),
    "zip": lambda: IterDataset.zip(three(), strict=False).map(sum),
    "interleave": lambda: IterDataset.interleave(three(), 2).random_map(
        lambda x, rng: x + rng.random(), seed=1
    ),
    "limit": lambda: three()[1].limit(15).batch(4),
    "repeat": lambda: three()[1].repeat(3).batch(4),
    "cache": lambda: three()[1].cache().repeat(2),
    "pack": lambda: (
        IterDataset.mix(three(), when_exhausted="all")
        .map(lambda x: np.full(3, x))
        .pack(8, window=4)
    ),
}


@functools.cache
def states_of(name):
    """Of several steps of a chain; in the last ones, inputs have ended."""
    iterator = iter(CHAINS[name]())
    states = [json.loads(iterator.get_state())]
    for _ in iterator:
        states.append(json.loads(iterator.get_state()))
    return states[:: max(len(states) // 4, 1)]


def taken(name, state):
    """Whether a state is taken; then elements come, and their states can be taken again."""
    with iter(CHAINS[name]()) as iterator:
        try:
            iterator.set_state(sealed(state))
        except CheckpointError:
            return False
        for again in [
            iterator.get_state(),
            *(iterator.get_state() for _ in itertools.islice(iterator, 40)),
        ]:
            iterator.set_state(again)
        return True


@pytest.mark.slow
@tries(400)
@given(data=st.data())
def test_a_damaged_cursor_of_a_chain_is_refused_or_a_place_in_the_stream(data):
    """Whatever values are put into it: a CheckpointError, or elements come, to the end; no hang, no
    other exception.
    """
    name = data.draw(st.sampled_from(sorted(CHAINS)))
    cursor = data.draw(st.sampled_from(states_of(name)))["cursor"]
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(list(paths_in(cursor))))
        cursor = with_value(cursor, path, data.draw(st.sampled_from(ODD_VALUES)))
    taken(name, {**states_of(name)[0], "cursor": cursor})


def test_a_mix_of_which_no_such_input_has_ended_is_refused():
    """Nor one of which all have."""
    for state in states_of("mix of all"):
        for note in ([9, 7, 3], [9, 0, 3, 1, 4, 2, 5, 2, 6]):
            assert not taken("mix of all", with_value(state, ("cursor", 2, 0), note))


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize(
    "note",
    [[], [-1], ["0"], [None], [0.5], [True], [[0]], [1, 2, 3, 4, 5, 6, 7], [0, 0, 5], [9, 7, 3], [9, -1, 3],
     [9, 0, 3, 0, 3], [9, 0, 3, 1, 3, 2, 3], [2**63], {}, "note", 7, None],
)  # fmt: skip
@pytest.mark.one_in(9)
def test_a_note_that_is_none_is_refused(name, note):
    """Of wrong length, kind or range."""
    for state in states_of(name):
        notes = state["cursor"][2]
        for number in range(len(notes)):
            assert not taken(name, with_value(state, ("cursor", 2, number), note))
    for changed in ([*notes, [0]], notes[1:], []):
        assert not taken(name, with_value(state, ("cursor", 2), changed))


@pytest.mark.parametrize(
    "damage",
    [{"names": ["a", "a"]}, {"names": ["a"]}, {"sizes": [[1, 1, 0], [1, 1]]}],
    ids=["one name twice", "a name less", "a number less"],
)
def test_a_damaged_description_of_a_mix_is_refused_though_the_mix_may_change(damage):
    """With `strict=False` other streams may be mixed, but each needs a name and its numbers."""
    streams = dict(zip("ab", three()))
    with iter(IterDataset.mix(streams)) as iterator:
        state = json.loads(iterator.get_state())
        state["identity"]["joins"][0] |= damage
        with pytest.raises(CheckpointError, match="damaged"):
            iterator.set_state(sealed(state), strict=False)
