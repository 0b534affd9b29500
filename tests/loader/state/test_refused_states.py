"""States that are refused, and what the messages tell to do."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.damage import sealed

from headrace import BudgetBatch, DataLoader, IndexSampler, ShardOptions, load
from headrace.errors import CheckpointError
from headrace.loader.state.files import process_of
from headrace.loader.state.live.places import step_of


def _loader(seed=1, shard=0):
    """A shard of two."""
    options = {"batch_size": 2, "num_epochs": 1, "shuffle": True, "seed": seed}
    return load(range(20), shard_options=ShardOptions(shard, 2), **options)


def _state():
    with iter(_loader()) as iterator:
        next(iterator)
        return iterator.get_state()


@pytest.mark.parametrize(
    ("count", "message"),
    [(2**63 - 1, "the state does not fit this loader"), (2**63, "the state is damaged: cursor=")],
)
def test_a_count_that_does_not_fit_in_64_bits_is_damage(count, message):
    """A smaller one that the loader does not reach is a state of another loader."""
    state = json.loads(_state())
    state["cursor"][0] = [count]
    with iter(_loader()) as iterator, pytest.raises(CheckpointError, match=message):
        iterator.set_state(sealed(state))


@pytest.mark.parametrize(("seed", "more"), [(1, False), (2, True)])
def test_a_state_of_another_shard_is_refused_with_a_remedy_for_each_change(seed, more):
    """If the pipeline has changed, too, the remedy says what to do about that."""
    with (
        iter(_loader(seed, 1)) as iterator,
        pytest.raises(CheckpointError, match="the state belongs to another") as caught,
    ):
        iterator.set_state(_state())
    assert "set_states(…) with the states of all shards" in str(caught.value)
    assert ("or with strict=False if the other changes are on purpose" in str(caught.value)) is more


@pytest.mark.parametrize(("skipped", "is_refused"), [((1, 3), False), ((5, 7), True)])
def test_shapes_of_planned_batches_do_not_change_before_steps_that_are_still_to_be_left_out(
    skipped, is_refused
):
    """They may change after these steps."""
    arrays = [np.full(3, key) for key in range(24)]

    def opened(tokens):
        planned = BudgetBatch(tokens, pad_to=(3,), lengths=[3] * 24)
        sampler = IndexSampler(24, num_epochs=1)
        return iter(
            DataLoader(data_source=arrays, sampler=sampler, operations=[planned]).skip([skipped])
        )

    with opened(6) as before, opened(12) as after:
        seen = [
            key for batch in itertools.islice(before, 2) for key in batch["tokens"][:, 0].tolist()
        ]
        if is_refused:
            with pytest.raises(CheckpointError, match="the shapes of the batches cannot change"):
                after.set_state(before.get_state(), strict=False)
        else:
            after.set_state(before.get_state(), strict=False)
            rest = [key for batch in after for key in batch["tokens"][:, 0].tolist()]
            assert len({*seen, *rest}) == len([*seen, *rest]) == 24 - 4


def test_a_change_begins_after_the_steps_that_were_read_ahead():
    """An earlier step is refused; the message names the first one that is possible."""
    here = SimpleNamespace(step=5)
    assert [step_of(here, at_step, 2) for at_step in (None, 7, 9)] == [7, 7, 9]
    with pytest.raises(ValueError, match=r"the next step is 5, .* 2 steps ahead\. Pass 7 or more"):
        step_of(here, 6, 2)


def test_the_name_of_a_file_tells_the_process_that_wrote_it():
    """Its index and the number of processes; other files are of no process."""
    names = ("process_3-of-12.json", "process_3.json", "loader.json")
    assert [process_of(Path("states", name)) for name in names] == [(3, 12), None, None]
