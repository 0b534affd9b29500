"""An iterator that is moved from one run to another, whose shards had other histories, continues
the second run.
"""

from __future__ import annotations

import pytest

import headrace
from headrace import ShardOptions
from headrace.errors import CheckpointError

RECORDS = 60


def _iterator(index, count, workers=0):
    shard = ShardOptions(index, count)
    return iter(
        headrace.load(
            range(RECORDS),
            num_epochs=2,
            shuffle=True,
            seed=4,
            worker_count=workers,
            shard_options=shard,
        )
    )


def _states(*steps):
    """The states of as many shards as there are steps, each after its number of steps."""
    states = []
    for index, step in enumerate(steps):
        with _iterator(index, len(steps)) as iterator:
            for _ in range(step):
                next(iterator)
            states.append(iterator.get_state())
    return states


@pytest.mark.parametrize("workers", [0, 1])
def test_states_of_another_run_are_continued_by_the_same_iterator(workers):
    """Its workers do not go on with positions of the run before."""
    first, second = _states(9, 4), _states(3, 8, 5)
    with _iterator(0, 1) as fresh:
        fresh.set_states(second)
        expected = list(fresh)
    assert len(expected) == 2 * RECORDS - 16
    with _iterator(0, 1, workers) as iterator:
        iterator.set_states(first)
        assert len([next(iterator) for _ in range(5)]) == 5
        iterator.set_states(second)
        assert list(iterator) == expected


def test_a_state_of_epochs_says_where_it_belongs():
    """Restored in an iterator of the whole stream, the error names `loader.epochs`; a state of
    another seed does not.
    """
    loader = headrace.load(range(RECORDS), num_epochs=2, batch_size=4)
    with loader.epochs(2) as epochs:
        next(iter(next(iter(epochs))))
        state = epochs.get_state()
    with (
        iter(loader) as iterator,
        pytest.raises(CheckpointError, match=r"Restore it in loader\.epochs"),
    ):
        iterator.set_state(state)
    with (
        iter(
            headrace.load(range(RECORDS), num_epochs=2, batch_size=4, shuffle=True, seed=1)
        ) as other,
        iter(loader) as iterator,
    ):
        with pytest.raises(CheckpointError) as caught:
            iterator.set_state(other.get_state())
        assert "loader.epochs" not in str(caught.value)
