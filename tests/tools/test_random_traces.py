"""What is traced of random chains is what they deliver, from wherever one asks."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pipelines import tries
from support.random_programs import Recipe, recipes, stream_of, tokens

from headrace import ShardOptions
from headrace.errors import CheckpointError, EmptyStreamError
from headrace.tools.provenance.elements import Search
from headrace.tools.provenance.streams import Described, states_of

IN_PART = {"flat_map", "rebatch", "pack"}
"""What an element has of a record may be a part of it."""


def _is_whole(names: set[str]) -> bool:
    """Whether all that was put into an element can be seen in it; of a zip, also what a filter made
    None.
    """
    return not (names & IN_PART or {"zip", "filter"} <= names)


def _names(recipe: Recipe) -> set[str]:
    steps = (*recipe.before, *recipe.after)
    return {step.name for step in steps} | {
        name for step in steps for other in step.others for name in _names(other)
    }


def _own(element: Any) -> set[float]:
    """The tokens of an element, as the sources had them."""
    return set((tokens(element) % 1000).tolist())


def _traced(stream: Any, step: int, states: list[bytes]) -> set[float]:
    """The tokens of the records that a trace tells of."""
    search = Search.at(
        Described.of(stream), [state for each in states for state in states_of(each)], False, True
    )
    element = search.found(step)
    return {float(found.used.source[found.used.key]) for found in element.records}


@pytest.mark.long
@given(recipe=recipes(), seed=st.integers(0, 1000), shards=st.integers(1, 2))
@tries(200)
def test_random_chains_are_traced_as_they_are_delivered(recipe, seed, shards):
    """From the beginning, from any checkpoint, and where other shards go on."""
    names, chosen = _names(recipe), random.Random(seed)
    if "own" in names:
        return  # it is not known what these make their elements of
    stream = stream_of(recipe, ShardOptions(0, shards))
    states, elements = [], []
    try:
        iterator = iter(stream)
        states.append(iterator.get_state())
        for element in itertools.islice(iterator, 12):
            elements.append(_own(element))
            states.append(iterator.get_state())
    except EmptyStreamError:
        return
    for _ in range(4 if elements else 0):
        step = chosen.randrange(len(elements))
        for at in ([], [states[chosen.randrange(len(elements))]]):
            traced = _traced(stream, step, at)
            assert elements[step] <= traced
            assert elements[step] == traced or not _is_whole(names)
    other = stream_of(recipe, ShardOptions(0, 1))
    if shards == 1 or not elements:
        return
    second = iter(stream_of(recipe, ShardOptions(1, shards)))
    every = [states[chosen.randrange(len(states))], second.get_state()]
    after = iter(other)
    try:
        after.set_states(every)
    except CheckpointError:
        return
    first = after.step
    for number, element in enumerate(itertools.islice(after, 5)):
        traced = _traced(other, first + number, every)
        assert _own(element) <= traced
        assert _own(element) == traced or not _is_whole(names)
