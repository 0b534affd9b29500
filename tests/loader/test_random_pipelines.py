"""Loaders with any operations in any order do what the plain model says, from every place on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pipelines import plain, tries
from support.plain_model import PlainModel
from support.random_programs import (
    FAILING_OPERATIONS,
    OPERATIONS,
    Recipe,
    loader_of,
    loader_recipes,
    names_in,
    operations_of,
    sampler_of,
)

from headrace import DataLoader, IndexSampler, ReadOptions, ShardOptions
from headrace.errors import EmptyStreamError
from headrace.loader.plan.joins import Apply, Read

pytestmark = pytest.mark.filterwarnings("ignore:this loader was run to its end")  # as is meant here


def model_of(
    loader: DataLoader, recipe: Recipe, sampler: IndexSampler, skips: bool = False
) -> PlainModel:
    """What a loader gives; its leaf has the records that its sampler says."""
    leaf, shard = iter(loader)._pipeline.leaf, sampler.shard_options
    keys = sampler.record_keys(np.arange(len(sampler)))[shard.shard_index :: shard.shard_count]
    assert leaf.record_keys(leaf.positions(0, leaf.total)).tolist() == keys.tolist()
    return PlainModel(Apply(Read(leaf), tuple(operations_of(recipe))), skips, sampler.seed)


def taken(elements):
    """All that comes, comparable; and the kind of failure at its end."""
    found = []
    try:
        for element in elements:
            found.append(plain(np.asarray(element)))
    except EmptyStreamError:
        raise
    except Exception as failure:
        return found, type(failure), str(failure)
    return found, None, ""


@given(recipe=loader_recipes(), epochs=st.integers(1, 2), shards=st.integers(1, 3), data=st.data())
@tries(200)
def test_any_pipeline_is_exact_and_resumes_anywhere(recipe, epochs, shards, data):
    """The stream is the model's; from the state of any step, the rest of it comes."""
    shard = ShardOptions(data.draw(st.integers(0, shards - 1)), shards)
    sampler = sampler_of(recipe, shard, epochs)
    states, elements = [], []
    expected = None
    try:
        loader = loader_of(recipe, sampler, read_options=ReadOptions(num_threads=0))
        expected, *_ = taken(model_of(loader, recipe, sampler))
        iterator = iter(loader)
        states.append(iterator.get_state())
        for element in iterator:
            elements.append(plain(np.asarray(element)))
            states.append(iterator.get_state())
    except EmptyStreamError:  # a batch dropped all that there was
        assert not expected
        assert expected == [] or "drop" in names_in(recipe) or recipe.count < shards
        return
    assert elements == expected
    step = data.draw(st.integers(0, len(elements)))
    resumed = iter(loader)
    resumed.set_state(states[step])
    assert taken(resumed)[0] == expected[step:]


@given(
    recipe=loader_recipes([*OPERATIONS, *FAILING_OPERATIONS]),
    skips=st.booleans(),
    workers=st.sampled_from([0, 2]),
)
@tries(200)
def test_any_pipeline_fails_at_the_record_at_fault_or_leaves_it_out(recipe, skips, workers):
    """What comes before a failure comes first; what is left out is counted; from any state, the
    rest of it comes.
    """
    try:
        on_error = "skip" if skips else "raise"
        loader = loader_of(
            recipe,
            sampler_of(recipe),
            worker_count=workers,
            worker_kind="thread",
            on_error=on_error,
        )
    except EmptyStreamError:  # too few records for a batch
        assert "drop" in names_in(recipe)
        return
    model = model_of(loader, recipe, sampler_of(recipe), skips)
    expected, *failure = taken(model)
    states, elements = [], []
    with iter(loader) as iterator:
        try:
            for _ in expected:
                states.append(iterator.get_state())
                elements.append(plain(np.asarray(next(iterator))))
            assert taken(iterator) == ([], *failure)
        except EmptyStreamError:
            assert not expected
            return
        assert iterator.skipped_count == model.skipped
    assert elements == expected
    for step in range(0, len(states), 1 + len(states) // 5):
        with iter(loader) as iterator:
            iterator.set_state(states[step])
            assert taken(iterator) == (expected[step:], *failure)
