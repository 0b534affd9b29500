"""What runs on other numbers of shards have left of an order that becomes longer in between."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pipelines import tries

from headrace.errors import CheckpointError
from headrace.loader.plan.lineage import ReshardHistory


@tries(300)
@given(st.data())
def test_each_position_comes_once_although_the_order_grows_between_the_runs(data):
    """Shards stop anywhere, also at the end; the order then gets more positions, and other shards
    read what is left.
    """
    history, total, read = ReshardHistory(), data.draw(st.integers(0, 30)), []
    for _ in range(data.draw(st.integers(1, 5))):
        shards = data.draw(st.integers(1, 5))
        length = history.length(total)
        places = []
        for shard in range(shards):
            local = data.draw(st.integers(0, len(range(shard, length, shards))))
            read += history.positions(shard + shards * np.arange(local)).tolist()
            places.append((local, 0))
        history = history.followed_by(places, total)
        history = ReshardHistory.from_values(json.loads(json.dumps(history.values)))
        total += data.draw(st.sampled_from([0, 0, 1, 2, 7]))
    left = history.positions(np.arange(history.length(total))).tolist()
    assert sorted([*read, *left]) == list(range(total))


@pytest.mark.parametrize(
    ("total", "is_refused"), [(10, False), (9, False), (8, False), (7, True), (0, True)]
)
def test_an_order_may_not_become_shorter_than_its_shards_have_read(total, is_refused):
    """Two shards have read four positions each, so eight must be there."""
    history = ReshardHistory().followed_by([(4, 0), (4, 0)], 10)
    if is_refused:
        with pytest.raises(
            CheckpointError, match=f"10 records .* but this sampler has only {total}, fewer"
        ):
            history.check_total(total)
    else:
        history.check_total(total)
        assert history.positions(np.arange(history.length(total))).tolist() == list(range(8, total))


@pytest.mark.parametrize(("total", "is_refused"), [(12, False), (10, False), (9, True), (8, True)])
def test_an_order_may_not_become_shorter_than_later_runs_have_read(total, is_refused):
    """The first run left the positions 1, 3, 5, 7, 8 and 9, of which the second run's first shard
    has read half.
    """
    history = ReshardHistory().followed_by([(4, 0), (0, 0)], 10).followed_by([(3, 0), (0, 0)], 10)
    assert len(history.layers) == 2
    if is_refused:
        with pytest.raises(CheckpointError, match=f"this sampler has only {total}, fewer"):
            history.check_total(total)
    else:
        history.check_total(total)
        assert history.positions(np.arange(history.length(total))).tolist() == [
            3,
            7,
            9,
            *range(10, total),
        ]


def test_states_that_read_more_than_there_is_are_refused_with_numbers_since_the_last_change_of_shards():
    """The first run read 8 of 10 records, so the second has two."""
    with pytest.raises(
        CheckpointError,
        match=r"shards had read \[6, 6\] records each, .* only 10 records in all epochs and shards together\.",
    ):
        ReshardHistory().followed_by([(6, 0), (6, 0)], 10)
    history = ReshardHistory().followed_by([(4, 0), (4, 0)], 10)
    message = (
        r"had, since their number last changed, read \[3\] records each, .* only 2 records in .* not read "
        r"before this change\."
    )
    with pytest.raises(CheckpointError, match=message):
        history.followed_by([(3, 0)], 10)


@pytest.mark.parametrize(
    "grown", [[[0, 1.5]], [[0, True]], [[0, 0]], [3], [["a", 1]], [[0, 1, 2]], [[-1, 1]]]
)
def test_a_damaged_growth_is_refused(grown):
    """Whatever is there in place of pairs of numbers."""
    with pytest.raises(CheckpointError, match="the state is damaged: lineage="):
        ReshardHistory.from_values([10, [[1, 1, [0, 1]]], [], False, 0, None, *grown])


@pytest.mark.parametrize(
    "values",
    [
        [10, [[1, 1, [0, 1]]], [], 0, 0],
        [10, [], [], False, 2],
        [10, [[6, 1, [0, 0]]], [], False, 0],
        [10, [[1, 1 << 62, [0, 4]]], [], False, 0],
        [10, [[1, -1, [0, 1]]], [], False, 0],
    ],
    ids=["no bool", "shards without layers", "more read than there is", "too far", "backwards"],
)
def test_a_damaged_history_is_refused(values):
    """Each value by itself could be one of a history."""
    with pytest.raises(CheckpointError, match="the state is damaged: lineage="):
        ReshardHistory.from_values(values)
