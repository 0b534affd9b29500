"""Chains of any methods, some of which fail: each failure at its place, nothing lost or repeated
before or after it.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.failing_chains import SHARDS, failing, held, leaving_out
from support.pipelines import tries
from support.random_programs import failing_recipes

RUNS: list[dict[str, Any]] = [
    {"worker_count": 0},
    {"worker_count": 2, "worker_kind": "thread"},
    {"worker_count": 2},
]
pytestmark = pytest.mark.filterwarnings("ignore:.*this is a slice of a shuffled dataset")


@pytest.mark.slow
@given(recipe=failing_recipes(), shard=st.sampled_from(SHARDS), run=st.sampled_from(RUNS[:2]))
@tries(150)
def test_a_failure_comes_at_its_place_in_any_chain(recipe, shard, run):
    """All before it comes first; `next` gives it again; every state, once it is repaired, goes on
    with what comes next.
    """
    held(failing, recipe, shard, run)


@pytest.mark.slow
@given(recipe=failing_recipes(), shard=st.sampled_from(SHARDS), run=st.sampled_from(RUNS[:2]))
@tries(120)
def test_what_fails_is_left_out_of_any_chain(recipe, shard, run):
    """That alone, and counted; every state goes on with what comes next."""
    held(leaving_out, recipe, shard, run)


@pytest.mark.long
@given(
    recipe=failing_recipes(),
    shard=st.sampled_from(SHARDS),
    hold=st.sampled_from([failing, leaving_out]),
)
@tries(40)
def test_what_fails_in_processes_comes_at_its_place_or_is_left_out(recipe, shard, hold):
    """As in one's own thread."""
    held(hold, recipe, shard, RUNS[2])
