"""Chains of any methods in actors of a Ray cluster: from any state on, and with records
that fail.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.failing_chains import SHARDS, failing, held, leaving_out
from support.pipelines import plain, tries
from support.random_chains import opened, taken
from support.random_programs import failing_recipes, recipes

ON_RAY: dict[str, Any] = {"worker_count": 2, "worker_kind": "ray"}


@pytest.mark.ray
@pytest.mark.long
@given(recipe=recipes(), data=st.data())
@tries(8)
def test_the_stream_of_any_chain_does_not_depend_on_actors(recipe, data):
    """The same elements as without workers; a state that was taken with actors goes on without
    them, and the other way.
    """
    expected = taken(opened(recipe))
    assert taken(opened(recipe, **ON_RAY)) == expected
    if not expected:
        return
    step = data.draw(st.integers(0, len(expected)))
    for one, other in [(ON_RAY, {}), ({}, ON_RAY)]:
        with opened(recipe, **one) as iterator:
            assert [plain(next(iterator)) for _ in range(step)] == expected[:step]
            state = iterator.get_state()
        iterator = opened(recipe, **other)
        iterator.set_state(state)
        # the last elements of `expected` may not be the last ones of the chain
        rest = taken(iterator, 3)
        assert rest[: len(expected) - step] == expected[step : step + 3]


@pytest.mark.ray
@pytest.mark.long
@given(
    recipe=failing_recipes(),
    shard=st.sampled_from(SHARDS),
    hold=st.sampled_from([failing, leaving_out]),
)
@tries(8)
def test_a_failure_in_an_actor_comes_at_its_place_in_any_chain(recipe, shard, hold):
    """Or is left out, that alone, and counted."""
    held(hold, recipe, shard, ON_RAY)
