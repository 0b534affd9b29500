"""Chains of any methods in any order: the same stream wherever it is made, from every step on, and on other shards."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipelines import plain, stream, tries
from random_chains import (
    BEFORE,
    COUNTS,
    LOSSY,
    MOST_ELEMENTS,
    ONE,
    Recipe,
    before,
    counted,
    lossless,
    names_in,
    recipes,
    stream_of,
)

from headrace import ShardOptions
from headrace.errors import CheckpointError, EmptyStreamError, NothingPassesError


def opened(recipe: Recipe, shard: ShardOptions = ONE, **options: Any) -> Any:
    """An iterator of a chain; None if it has not a single element."""
    try:
        return iter(stream_of(recipe, shard).with_options(**{"worker_count": 0, **options}))
    except EmptyStreamError:
        return None


def taken(iterator: Any, count: int = MOST_ELEMENTS) -> list[Any]:
    """The first elements, comparable; none if there is none at all."""
    if iterator is None:
        return []
    with iterator:
        try:
            return stream(itertools.islice(iterator, count))
        except EmptyStreamError:
            return []


@given(recipe=recipes())
@tries(300)
def test_the_stream_of_any_chain_does_not_depend_on_workers(recipe):
    """Threads, however many, give what the calling thread does."""
    expected = taken(opened(recipe))
    for count in (1, 2, 3):
        assert taken(opened(recipe, worker_count=count, worker_kind="thread")) == expected


@pytest.mark.long
@given(recipe=recipes())
@tries(20)
def test_the_stream_of_any_chain_does_not_depend_on_processes(recipe):
    """However many."""
    expected = taken(opened(recipe))
    for count in (1, 2, 3):
        assert taken(opened(recipe, worker_count=count)) == expected


@given(recipe=recipes(), data=st.data())
@tries(300)
def test_any_chain_goes_on_from_every_step(recipe, data):
    """With the same elements; and the state right after is the same state."""
    expected = taken(opened(recipe))
    iterator = opened(recipe)
    if not expected:
        return
    far = data.draw(st.integers(0, len(expected)))
    with iterator:
        for step in range(len(expected)):
            state = iterator.get_state()
            with opened(recipe) as other:
                other.set_state(state)
                assert other.get_state() == state
                count = MOST_ELEMENTS if step == far else 2
                assert stream(itertools.islice(other, count))[: len(expected) - step] == expected[step : step + count]
            next(iterator)


@given(recipe=recipes())
@tries(300)
def test_the_element_at_an_index_is_that_of_the_stream(recipe):
    """Without those that a filter left out; one by one, and many in one call."""
    dataset = before(recipe)
    indices = range(min(len(dataset), MOST_ELEMENTS))
    one_by_one = [plain(dataset[index]) for index in indices]
    assert [plain(element) for element in dataset.__getitems__(np.arange(len(indices)))] == one_by_one
    there = [element for element in one_by_one if element != plain(None)]
    assert taken(opened(recipe._replace(after=())), len(there)) == there


@given(
    recipe=recipes(before=BEFORE.keys() - {"drop"}),
    counts=st.lists(st.integers(1, 3), min_size=2, max_size=3),
    data=st.data(),
)
@tries(300)
def test_any_chain_goes_on_with_other_shards(recipe, counts, data):
    """At unequal steps, again and again: each token once; or an error that says why it cannot."""
    exact = not names_in(recipe) & LOSSY
    seen: list[Any] = []
    try:
        every = [list(stream_of(recipe if exact else lossless(recipe), shard)) for shard in shards(counts[0])]
        iterators = [iter(stream_of(recipe, shard)) for shard in shards(counts[0])]
        for count in counts[1:]:
            for iterator in iterators:
                seen += itertools.islice(iterator, data.draw(st.integers(0, 4)))
            iterators = gone_on(iterators, recipe, count)
    except (EmptyStreamError, NothingPassesError):
        return  # a shard has no batch, or no element at all of what it is to repeat
    if not iterators:
        assert names_in(recipe) & COUNTS
        return
    seen += itertools.chain.from_iterable(iterators)
    whole = counted(itertools.chain.from_iterable(every))
    if exact:
        assert counted(seen) == whole
    elif "mix repeat" not in names_in(recipe):  # has other tokens where nothing is left out
        assert counted(seen) <= whole


def shards(count: int) -> list[ShardOptions]:
    """All of so many."""
    return [ShardOptions(index, count) for index in range(count)]


def gone_on(former: list[Any], recipe: Recipe, count: int) -> list[Any]:
    """The iterators of so many shards, which go on after others; none if that is refused."""
    states = [iterator.get_state() for iterator in former]
    iterators = [iter(stream_of(recipe, shard)) for shard in shards(count)]
    try:
        for iterator in iterators:
            iterator.set_states(states)
    except CheckpointError:
        return []
    return iterators
