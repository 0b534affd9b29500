"""Chains of any methods in any order: the same stream wherever it is made, from every step on, and
on other shards.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.pipelines import plain, stream, tries
from support.random_chains import opened, taken
from support.random_programs import (
    AFTER,
    BEFORE,
    COUNTS,
    LOSSY,
    MOST_ELEMENTS,
    SUMMED,
    Recipe,
    Step,
    before,
    counted,
    lossless,
    names_in,
    recipes,
    stream_of,
)

from headrace import ShardOptions
from headrace.errors import CheckpointError, EmptyStreamError, NothingPassesError

pytestmark = pytest.mark.filterwarnings("ignore:.*this is a slice of a shuffled dataset")


@given(recipe=recipes(after=AFTER | SUMMED))
@tries(150)
def test_the_stream_of_any_chain_does_not_depend_on_workers(recipe):
    """Threads, however many, give what the calling thread does."""
    expected = taken(opened(recipe))
    for count in (1, 2, 3):
        assert taken(opened(recipe, worker_count=count, worker_kind="thread")) == expected


@pytest.mark.long
@given(recipe=recipes(after=AFTER | SUMMED))
@tries(20)
def test_the_stream_of_any_chain_does_not_depend_on_processes(recipe):
    """However many."""
    expected = taken(opened(recipe))
    for count in (1, 2, 3):
        assert taken(opened(recipe, worker_count=count)) == expected


@given(recipe=recipes(after=AFTER | SUMMED), data=st.data())
@tries(150)
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
                assert (
                    stream(itertools.islice(other, count))[: len(expected) - step]
                    == expected[step : step + count]
                )
            next(iterator)


@given(recipe=recipes())
@tries(150)
def test_the_element_at_an_index_is_that_of_the_stream(recipe):
    """Without those that a filter left out; one by one, and many in one call."""
    dataset = before(recipe)
    indices = range(min(len(dataset), MOST_ELEMENTS))
    one_by_one = [plain(dataset[index]) for index in indices]
    assert [
        plain(element) for element in dataset.__getitems__(np.arange(len(indices)))
    ] == one_by_one
    there = [element for element in one_by_one if element != plain(None)]
    assert taken(opened(recipe._replace(after=())), len(there)) == there
    assert stream(itertools.islice(dataset, len(there))) == there
    with_nones = (
        itertools.islice(dataset.to_iter_dataset(allow_nones=True), len(indices))
        if len(dataset)
        else ()
    )
    assert [element for element in stream(with_nones) if element != plain(None)][
        : len(there)
    ] == there


@pytest.mark.parametrize("examples", [150, pytest.param(2000, marks=pytest.mark.long)])
@pytest.mark.long
def test_what_draws_by_its_place_draws_the_same_at_an_index_and_in_a_stream(examples):
    """Random maps above whatever moves elements to other places, makes several of one, or one of
    several.
    """

    @settings(max_examples=examples, deadline=None)
    @given(recipe=recipes(after=()), step=st.integers(0, 10))
    def hold(recipe, step):
        recipe = recipe._replace(before=(*recipe.before, Step("random_map", 3)))
        dataset = before(recipe)
        there = [
            element
            for element in map(plain, dataset[range(len(dataset))])
            if element != plain(None)
        ]
        assert [
            element
            for element in map(plain, map(dataset.__getitem__, range(len(dataset))))
            if element != plain(None)
        ] == there
        assert taken(opened(recipe), len(there) + 1) == there
        iterator = opened(recipe)
        if iterator is not None:
            list(itertools.islice(iterator, step))
            with opened(recipe, worker_count=2, worker_kind="thread") as other:
                other.set_state(iterator.get_state())
                assert stream(other) == there[step:]

    hold()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:repeat. this is a slice of a shuffled dataset")
@given(
    recipe=recipes(BEFORE.keys() - {"filter", "flat_map"}, ()),
    size=st.integers(1, 4),
    drops=st.booleans(),
)
@tries(200)
def test_any_chain_is_batched_as_its_elements_are(recipe, size, drops):
    """At an index, in the stream, and over two epochs."""
    dataset = before(recipe)
    batched = dataset.batch(size, drop_remainder=drops, batch_fn=list)
    elements = dataset[range(len(dataset))]
    stop = len(elements) - len(elements) % size if drops else len(elements)
    expected = [plain(elements[start : start + size]) for start in range(0, stop, size)]
    assert [plain(element) for element in batched[range(len(batched))]] == expected
    if expected:
        assert stream(batched) == expected
        twice = batched.repeat(2)
        assert stream(twice) == [plain(twice[index]) for index in range(2 * len(expected))]


@pytest.mark.slow
@given(
    recipe=recipes(before=BEFORE.keys() - {"drop"}),
    counts=st.lists(st.integers(1, 3), min_size=2, max_size=3),
    data=st.data(),
)
@tries(150)
def test_any_chain_goes_on_with_other_shards(recipe, counts, data):
    """At unequal steps, again and again: each token once; or an error that says why it cannot."""
    exact = not names_in(recipe) & LOSSY
    seen: list[Any] = []
    try:
        every = [_all_tokens(recipe if exact else lossless(recipe), count) for count in counts]
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
    whole = every[0]
    if any(other != whole for other in every):
        return  # batches that were cut to their first rows: they are others on other shards
    if exact:
        assert counted(seen) == whole
    elif "mix repeat" not in names_in(recipe):  # has other tokens where nothing is left out
        assert counted(seen) <= whole


def _all_tokens(recipe: Recipe, count: int) -> Any:
    return counted(
        itertools.chain.from_iterable(stream_of(recipe, shard) for shard in shards(count))
    )


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
