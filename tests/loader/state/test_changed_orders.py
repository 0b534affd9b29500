"""A kind of order whose values may change between two runs needs no code besides its own class."""

from __future__ import annotations

import json

import pytest

import headrace
from headrace import Batch, DataLoader, ShardOptions
from headrace.errors import CheckpointError
from headrace.samplers.history import OrderChange
from headrace.samplers.protocol import VectorSampler

RECORDS = 97


class Strided(VectorSampler):
    """Record `position * stride` at each position; the stride may change."""

    seed = None
    epoch_length = RECORDS

    def __init__(self, stride, changes=()):
        self.stride, self._changes = stride, tuple(changes)
        self.shard_options = headrace.NoSharding()

    def __len__(self):
        return RECORDS

    @property
    def fingerprint(self):
        return {"kind": "Strided", "stride": self.stride}

    @property
    def changes(self):
        return self._changes

    def record_keys(self, positions):
        strides = positions * 0 + self.stride
        for change in self._changes:
            strides[positions >= change.position] = change.values["stride"]
        return positions * strides % RECORDS

    def differs_from(self, saved):
        return "" if saved.described["stride"] == self.stride else "the stride changed"

    def resumed(self, saved, position, changes):
        if not changes or not self.differs_from(saved):
            return Strided(self.stride, saved.changes)
        began = saved.changes or (OrderChange(0, {"stride": saved.described["stride"]}),)
        return Strided(self.stride, (*began, OrderChange(position, {"stride": self.stride})))

    def as_it_was(self, saved, length):
        return Strided(saved.described["stride"], saved.changes)


def _shards(stride, count, states=None, strict=True):
    for shard in range(count):
        iterator = iter(
            DataLoader(
                data_source=range(RECORDS),
                sampler=Strided(stride),
                operations=[Batch(1)],
                shard_options=ShardOptions(shard, count),
            )
        )
        if states is not None:
            iterator.set_states(states, strict)
        yield iterator


def _take(iterators, steps):
    taken = [
        [int(next(iterator)[0]) for _ in range(count)] for iterator, count in zip(iterators, steps)
    ]
    return [key for keys in taken for key in keys], [iterator.get_state() for iterator in iterators]


def _rest(iterators):
    return [int(batch[0]) for iterator in iterators for batch in iterator]


def test_an_order_that_changes_is_one_class():
    """Two changes and two other numbers of shards: each position is read once, by the stride that
    is in force there.
    """
    first, states = _take(list(_shards(2, 2)), [5, 9])
    with pytest.raises(CheckpointError, match="stride 2 → 3"):
        list(_shards(3, 3, states))
    second, states = _take(list(_shards(3, 3, states, strict=False)), [4, 2, 3])
    assert json.loads(states[0])["history"]["orders"] == [
        [0, 0, {"stride": 2}],
        [0, 18, {"stride": 3}],
    ]
    third = _rest(_shards(5, 1, states, strict=False))
    again = _rest(_shards(3, 1, states))
    expected = [position * (2 if position < 18 else 3) % RECORDS for position in range(RECORDS)]
    assert sorted(first + second + again) == sorted(expected)
    changed = 18 + 3 * 4 - 4  # four positions before the first change were read by the second run
    expected[changed:] = [position * 5 % RECORDS for position in range(changed, RECORDS)]
    assert sorted(first + second + third) == sorted(expected)


def test_a_change_of_one_shard_alone_needs_the_states_of_all():
    """The others may be at other steps."""
    _, states = _take(list(_shards(2, 2)), [5, 9])
    (one, _) = _shards(3, 2)
    with pytest.raises(CheckpointError, match="the stride changed"):
        one.set_state(states[0], strict=False)
