"""Random histories of runs whose data live: against an account of the records still to come, which
knows no orders.
"""

from __future__ import annotations

from unittest.mock import patch

import pytest
from support.living import History

from headrace import MixSampler
from headrace.samplers.changing.sampler import ChangingSampler

WAYS = [{"worker_count": 2}, {"worker_count": 3}, {"worker_count": 1, "worker_kind": "ray"}]
"""Three shards at a time need three actors; the cluster of the tests has four processors."""


def _check(seed, folder, parts, **options):
    """Play a history. Returns what came, and how many changes the run knows of."""
    history = History(seed, folder, parts, **options)
    came = []
    for _ in range(5):
        came.append(history.run())
        history.change()
    _check_size(history)
    return came, history.changes


def _check_size(history):
    """A state has at most some integers for each change, part and shard, and the texts of its
    program.
    """
    places = len(history.states) * (1 + len(history.names))
    limit = 500 + 250 * (len(history.names) - 1) + 40 * history.changes + 60 * places
    for state in history.states:
        assert len(state) < limit, f"{len(state)} bytes, of {history.changes} changes"


def _check_block(block, folder, parts):
    changes = [_check(seed, folder, parts)[1] for seed in range(3 * block, 3 * block + 3)]
    assert sum(changes) > 2


@pytest.mark.slow
@pytest.mark.one_in(16)
@pytest.mark.parametrize("block", range(16))
def test_each_living_record_comes_once_in_each_epoch(block, tmp_path):
    """Histories of appending, leaving out, other numbers of shards, kills and resumes, in blocks of
    three.
    """
    _check_block(block, tmp_path, parts=1)


@pytest.mark.one_in(16)
@pytest.mark.parametrize("block", range(16))
@pytest.mark.slow
def test_each_living_record_of_a_mix_comes_once_in_each_epoch_of_its_part(block, tmp_path):
    """Of a mix whose weights change, too, and whose parts come as their weights say."""
    _check_block(block, tmp_path, parts=3)


@pytest.mark.long
@pytest.mark.parametrize("block", range(50))
@pytest.mark.parametrize("parts", [1, 3])
def test_each_living_record_comes_once_in_a_thousand_histories(block, parts, tmp_path):
    """A thousand others: half of them of one source, half of a mix."""
    for seed in range(1000 + 10 * block, 1010 + 10 * block):
        _check(seed, tmp_path, parts)


def _assert_same_on(ways, seed, folder, parts):
    came = []
    for number, way in enumerate([{}, *ways]):
        (folder / str(number)).mkdir()
        came.append(_check(seed, folder / str(number), parts, **way))
    assert all(other == came[0] for other in came)
    assert any(map(any, came[0][0]))
    assert came[0][1] > 1


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.parametrize("seed", [3, 8, 14])
@pytest.mark.parametrize("parts", [1, 3])
def test_histories_are_the_same_on_any_number_of_workers(seed, parts, tmp_path):
    """None, two and three worker processes, and actors of Ray, give the same elements."""
    _assert_same_on(WAYS, seed, tmp_path, parts)


def _always_joins(answer):
    """Records that are appended join the epoch under way, or the next one, whatever was
    asked for.
    """
    with_records_from = ChangingSampler.with_records_from

    def changed(self, saved, position, place=None, joins=False):
        return with_records_from(self, saved, position, place, answer)

    return patch.object(ChangingSampler, "with_records_from", changed)


def _skips_a_record():
    """At each change a record is passed over."""
    place = ChangingSampler.place
    return patch.object(ChangingSampler, "place", lambda self, position: place(self, position) + 1)


def _ignores_the_weights():
    """A mix whose weights have changed goes on by the former ones."""
    resumed = MixSampler.resumed
    return patch.object(
        MixSampler,
        "resumed",
        lambda self, saved, position, *_: resumed(self, saved, position, False),
    )


FAULTS = {
    "comes an epoch late": (1, lambda: _always_joins(False)),
    "comes an epoch early": (1, lambda: _always_joins(True)),
    "skips a record": (1, _skips_a_record),
    "ignores the weights": (3, _ignores_the_weights),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault, tmp_path):
    """The account sees what is wrong: otherwise the histories would prove nothing."""
    parts, planted = FAULTS[fault]
    with planted(), pytest.raises(AssertionError):
        for seed in range(100):
            _check(seed, tmp_path, parts)
