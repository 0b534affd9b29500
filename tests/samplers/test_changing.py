"""Orders that change at positions: by records that are appended, and by some that are left out."""

from __future__ import annotations

import pickle
import random
from itertools import pairwise

import numpy as np
import pytest

from headrace import BlockShuffle, IndexSampler, SequentialSampler, ShardOptions
from headrace.errors import CheckpointError, EmptyStreamError
from headrace.samplers.changing.history import RecordsChange, RecordsHistory
from headrace.samplers.changing.living import OmittedKeys
from headrace.samplers.changing.orders import changing
from headrace.samplers.changing.sampler import ChangingSampler
from headrace.samplers.history import OrderChange, SavedOrder

SHUFFLES = {
    "none": {},
    "all": {"shuffle": True, "seed": 3},
    "blocks": {"shuffle": BlockShuffle(block=2, window=3, lanes=2), "seed": 3},
    "grain": {"shuffle": True, "seed": 3, "algorithm": "grain"},
}


def _changed(seed, shuffle, num_epochs=None, omits=True, grows=True):
    """A sampler after some random changes, and what was changed: `(position, records, omitted,
    joins)`.
    """
    draw = random.Random(seed)
    records, omitted, position = draw.randint(3, 40), set(), 0
    if omits and draw.random() < 0.5:
        omitted = set(draw.sample(range(records), draw.randint(0, records - 1)))
    told = [(0, records, set(omitted), False)]
    made = ChangingSampler(
        IndexSampler(records, num_epochs=num_epochs, **shuffle), OmittedKeys(list(omitted))
    )
    for number in range(draw.randint(1, 6)):
        step = draw.choice([0, 1, draw.randint(0, 15), draw.randint(0, 120)])
        position += step
        if draw.random() < 0.3:  # the beginning of the next epoch
            position = made.epoch_start(made.epoch_at(position) + 1)
        joins = draw.random() < 0.5
        if grows and draw.random() < 0.6:
            records += draw.randint(1, 12)
        if omits and draw.random() < 0.6:
            omitted |= set(draw.sample(range(records), draw.randint(0, 4)))
        if len(omitted) == records:
            break
        told.append((position, records, set(omitted), joins))
        sampler = IndexSampler(records, num_epochs=num_epochs, **shuffle)
        # as a state does: nothing but its description, its changes and the place
        made = ChangingSampler(sampler, OmittedKeys(list(omitted)), number + 1).with_records_from(
            made.saved, position, made.place(position), joins=joins
        )
        made = pickle.loads(pickle.dumps(made))
    return made, told


class Ledger:
    """Who is still to come in an epoch; knows nothing of orders."""

    def __init__(self, records, omitted):
        self.records, self.omitted, self.epoch = records, omitted, 0
        self.due, self.read, self.in_epoch = set(range(records)) - omitted, 0, records

    def change(self, records, omitted, joins):
        # the epoch that has ended becomes longer
        if self.read == 0 and joins and self.epoch and self.before < records:
            self.epoch, self.read, self.due = self.epoch - 1, 1, set(range(self.before, records))
            self.in_epoch = records
        elif self.read == 0:
            self.due, self.in_epoch = set(range(records)) - omitted, records
        elif joins:
            self.due |= set(range(self.in_epoch, records))
            self.in_epoch = records
        self.due -= omitted
        self.records, self.omitted = records, omitted
        self.roll()

    def roll(self):
        if not self.due:
            self.before = self.in_epoch  # records that the epoch before had
            self.epoch, self.read, self.in_epoch = self.epoch + 1, 0, self.records
            self.due = set(range(self.records)) - self.omitted

    def take(self, key):
        assert key in self.due, f"record {key} comes twice in epoch {self.epoch}, or must not come"
        self.due.remove(key)
        self.read += 1
        epoch = self.epoch
        self.roll()
        return epoch


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", SHUFFLES)
@pytest.mark.parametrize("seed", range(10))
def test_every_living_record_comes_once_in_each_epoch(name, seed):
    """After any changes by growth alone: of the last sampler, which knows all of the history."""
    made, told = _changed(seed, SHUFFLES[name], omits=False)
    ledger, length = Ledger(told[0][1], told[0][2]), told[-1][0] + 300
    keys = made.record_keys(np.arange(length)).tolist()
    changes = told[1:]
    for position in range(length):
        while changes and changes[0][0] == position:
            ledger.change(*changes.pop(0)[1:])
        assert made.epoch_at(position) == ledger.take(keys[position])


@pytest.mark.parametrize("name", SHUFFLES)
@pytest.mark.parametrize("seed", range(16))
@pytest.mark.one_in(6)
def test_omitted_records_never_come_and_the_others_still_come_once(name, seed):
    """Growth and omission in any order: what follows each change, read by the sampler
    of that time.
    """
    draw = random.Random(seed)
    records = draw.randint(4, 40)
    omitted = set(draw.sample(range(records), draw.randint(0, 2)))
    made = ChangingSampler(IndexSampler(records, **SHUFFLES[name]), OmittedKeys(list(omitted)))
    ledger, position = Ledger(records, omitted), 0
    for _ in range(8):
        stop = position + draw.choice([0, 1, draw.randint(0, 60)])
        if draw.random() < 0.3:
            stop = made.epoch_start(made.epoch_at(position) + 1)
        for key in made.record_keys(np.arange(position, stop)).tolist():
            assert made.epoch_at(position) == ledger.take(key)
            assert made.position_of(key, made.epoch_at(position)) == position
            position += 1
        records += draw.choice([0, draw.randint(1, 9)])
        omitted = omitted | set(draw.sample(range(records), draw.choice([0, draw.randint(0, 3)])))
        if len(omitted) == records:
            return
        joins = draw.random() < 0.5
        now = ChangingSampler(IndexSampler(records, **SHUFFLES[name]), OmittedKeys(list(omitted)))
        changes = len(made.changes)
        made = pickle.loads(
            pickle.dumps(now.with_records_from(made.saved, position, made.place(position), joins))
        )
        if not position and not made.changes:
            ledger = Ledger(records, omitted)
        elif len(made.changes) > changes:
            ledger.change(records, omitted, joins)


@pytest.mark.parametrize("name", SHUFFLES)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.one_in(3)
def test_leaving_out_records_keeps_the_order_of_all_others(name, seed):
    """From its place on, the order is that of all records without those that are left out, also
    with records that are new.
    """
    made, told = _changed(seed, SHUFFLES[name])
    last = made.history.last
    count = 200
    whole = made.order.keys(np.arange(last.place, last.place + 20 * count)).tolist()
    left = [key for key in whole if key not in told[-1][2]][:count]
    assert made.record_keys(np.arange(last.position, last.position + count)).tolist() == left


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", SHUFFLES)
@pytest.mark.parametrize("seed", range(10))
def test_what_was_read_before_a_change_is_what_the_changed_order_tells(name, seed):
    """Also of positions before its changes, by growth alone."""
    made, told = _changed(seed, SHUFFLES[name], omits=False)
    for number, (start, stop) in enumerate(pairwise([position for position, *_ in told])):
        before = made.with_history(made.history._replace(changes=made.history.changes[:number]))
        positions = np.arange(start, stop)
        if len(made.history.changes) >= number:
            assert before.record_keys(positions).tolist() == made.record_keys(positions).tolist()


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", SHUFFLES)
@pytest.mark.parametrize("seed", range(10))
def test_blocks_of_positions_are_what_single_ones_are(name, seed):
    """In any order, over changes and ends of epochs."""
    made, told = _changed(seed, SHUFFLES[name])
    start = told[-1][0]
    positions = np.random.default_rng(seed).permutation(np.arange(start, start + 150))
    assert made.record_keys(positions).tolist() == [
        made[int(position)].record_key for position in positions
    ]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", SHUFFLES)
@pytest.mark.parametrize("seed", range(10))
def test_places_in_epochs_are_the_inverse(name, seed):
    """`position_of` finds each record of an epoch, `epoch_start` its beginning, and no others."""
    made, told = _changed(seed, SHUFFLES[name])
    first = made.epoch_at(told[-1][0]) + 1
    for epoch in range(first, first + 3):
        start, stop = made.epoch_start(epoch), made.epoch_start(epoch + 1)
        keys = made.record_keys(np.arange(start, stop)).tolist()
        assert [made.position_of(key, epoch) for key in keys] == list(range(start, stop))
        assert {made.epoch_at(position) for position in range(start, stop)} == {epoch}
        assert all(made.position_of(key, epoch) is None for key in told[-1][2])
        assert made.position_of(made.num_records, epoch) is None


def test_a_run_of_a_fixed_number_of_epochs_ends_after_the_last_one():
    """Epochs that grow are longer; those from which records are left out are shorter."""
    made = ChangingSampler(IndexSampler(10, num_epochs=3))
    assert len(made) == 30
    grown = made.changed_at(14, IndexSampler(15, num_epochs=3), joins=True)
    assert len(grown) == 10 + 15 + 15
    assert len(made.changed_at(14, IndexSampler(15, num_epochs=3))) == 10 + 10 + 15
    fewer = grown.changed_at(25, omitted=OmittedKeys([0, 14]))
    assert len(fewer) == 10 + 15 + 13
    assert len(fewer.with_shard_options(ShardOptions(0, 4, drop_remainder=True))) == 36


def test_appended_records_join_the_epoch_in_order_without_a_shuffle():
    """After its rest; with `joins=False` from the next epoch on."""
    made = ChangingSampler(IndexSampler(4))
    now = made.changed_at(2, IndexSampler(6), joins=True)
    assert now.record_keys(np.arange(12)).tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]
    later = made.changed_at(2, IndexSampler(6))
    assert later.record_keys(np.arange(10)).tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 4, 5]
    at_the_end = made.changed_at(4, IndexSampler(6))
    assert (
        at_the_end.record_keys(np.arange(10)).tolist() == later.record_keys(np.arange(10)).tolist()
    )
    thrice = now.changed_at(3, IndexSampler(8), joins=True).changed_at(
        5, IndexSampler(9), joins=True
    )
    assert [thrice.position_of(key, 0) for key in range(9)] == [*range(9)]


@pytest.mark.slow
def test_appended_records_are_shuffled_together_with_the_rest():
    """A new record comes early as often as late: over many seeds its mean place is the middle of
    what is left.
    """
    places = []
    for seed in range(300):
        made = ChangingSampler(IndexSampler(100, shuffle=True, seed=seed))
        grown = made.changed_at(50, IndexSampler(150, shuffle=True, seed=seed), joins=True)
        places += [grown.position_of(key, 0) - 50 for key in (100, 149)]
    assert 45 < np.mean(places) < 54
    assert min(places) < 5
    assert max(places) > 94


def test_records_that_come_back_come_where_their_place_is_still_ahead():
    """Those whose place in the epoch has passed come in the next one."""
    made = ChangingSampler(IndexSampler(6), OmittedKeys([1, 4]))
    back = ChangingSampler(IndexSampler(6)).with_records_from(made.saved, 2, made.place(2))
    assert [int(key) for key in back.record_keys(np.arange(2, 12))] == [
        3,
        4,
        5,
        0,
        1,
        2,
        3,
        4,
        5,
        0,
    ]


def test_growth_at_the_beginning_of_an_epoch_holds_in_it_though_its_first_records_are_left_out():
    """The place is the beginning of the epoch, not that of the first record that is left."""
    made = ChangingSampler(IndexSampler(4), OmittedKeys([0, 3]))
    grown = made.changed_at(2, IndexSampler(6))
    assert grown.record_keys(np.arange(2, 10)).tolist() == [1, 2, 4, 5, 1, 2, 4, 5]


def test_an_order_without_changes_has_the_identity_of_the_other_sampler():
    """States of runs that knew of no changes go on, and those of unchanged runs are
    read without.
    """
    plain = IndexSampler(7, shuffle=True, seed=1)
    made = ChangingSampler(plain)
    assert made.fingerprint == plain.fingerprint
    assert made.record_keys(np.arange(30)).tolist() == plain.record_keys(np.arange(30)).tolist()
    grown = ChangingSampler(IndexSampler(9, shuffle=True, seed=1)).with_records_from(plain.saved, 9)
    assert grown.record_keys(np.arange(14)).tolist() == plain.record_keys(np.arange(14)).tolist()
    assert sorted(grown.record_keys(np.arange(14, 23)).tolist()) == list(range(9))
    assert grown.fingerprint["records"] == 7
    of_one_epoch = ChangingSampler(SequentialSampler(3))
    assert of_one_epoch.fingerprint == SequentialSampler(3).fingerprint
    assert len(of_one_epoch) == 3


def test_an_order_keeps_a_history_only_if_the_run_changed_its_records():
    """Where a run neither omitted nor appended records, the order stays as it is."""
    plain = IndexSampler(7, shuffle=True, seed=1)
    assert changing(plain, plain.saved, True) is None
    grown = ChangingSampler(plain).changed_at(3, IndexSampler(9, shuffle=True, seed=1), joins=True)
    for run in (grown, ChangingSampler(plain, OmittedKeys([2]))):
        assert isinstance(changing(plain, run.saved, True), ChangingSampler)


def test_former_omissions_need_only_the_place():
    """A state tells the digest of the keys that were left out, not the keys: positions before
    cannot be told any more.
    """
    made = ChangingSampler(IndexSampler(9), OmittedKeys([2]))
    now = ChangingSampler(IndexSampler(9), OmittedKeys([2, 5]))
    with pytest.raises(CheckpointError, match="does not contain the keys"):
        now.with_records_from(made.saved, 3)
    went_on = now.with_records_from(made.saved, 3, made.place(3))
    assert went_on.record_keys(np.arange(3, 8)).tolist() == [4, 6, 7, 8, 0]
    with pytest.raises(CheckpointError, match="0 on were"):
        went_on.record_keys(np.arange(3))
    again = ChangingSampler(IndexSampler(9), OmittedKeys([2, 5])).with_records_from(
        went_on.saved, 6
    )
    assert again.fingerprint == went_on.fingerprint


def test_what_cannot_change_is_refused_with_a_remedy():
    """Fewer records, none left, shards with orders of their own, damaged fingerprints."""
    made = ChangingSampler(IndexSampler(9))
    with pytest.raises(CheckpointError, match="has 8 records, but the run has read a source of 9"):
        ChangingSampler(IndexSampler(8)).with_records_from(made.saved, 3)
    with pytest.raises(EmptyStreamError, match="all 2 records"):
        ChangingSampler(IndexSampler(2), OmittedKeys([0, 1]))
    with pytest.raises(ValueError, match="own"):
        ChangingSampler(IndexSampler(9, ShardOptions(0, 2), algorithm="grain")).record_keys(
            np.arange(3)
        )
    for damage in ({"records": 3}, {"joins": 1}, {"place": -1}, {"omitted": None}, {"unknown": 1}):
        with pytest.raises(CheckpointError, match="damaged"):
            made.with_records_from(made.saved._replace(changes=(OrderChange(1, damage),)), 3)
    for damage in ({"records": "x"}, {"omitted": 1}):
        with pytest.raises(CheckpointError, match="damaged"):
            made.with_records_from(SavedOrder({**made.fingerprint, **damage}), 3)


def test_many_omitted_keys_take_little_memory():
    """At most 16 bytes each, with the places of two epochs known; workers are sent the
    keys alone.
    """
    omitted = OmittedKeys(np.arange(0, 400_000, 2))
    made = ChangingSampler(IndexSampler(2_000_000, shuffle=True, seed=0), omitted)
    keys = made.record_keys(np.array([0, made.epoch_length - 1, made.epoch_length]))
    assert not np.isin(keys, omitted.keys).any()
    gaps = made._layer(0)._known
    assert len(gaps) == 2
    assert omitted.keys.nbytes + sum(known.nbytes for known in gaps.values()) <= 16 * len(omitted)
    assert len(pickle.dumps(made)) < 820_000


@pytest.mark.one_in(2)
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.long
def test_a_thousand_growths_join_one_epoch(shuffle):
    """Each record comes once in it, its position is found, and the order is pickled."""
    growths = 1200
    places = [growth // 20 for growth in range(1, growths + 1)]
    changes = tuple(
        RecordsChange(place, place, 101 + n, True, "", 1 + n) for n, place in enumerate(places)
    )
    order = ChangingSampler(
        IndexSampler(100 + growths, shuffle=shuffle, seed=1), generation=growths
    )
    order = order.with_history(RecordsHistory(100, changes=changes))
    order = pickle.loads(pickle.dumps(order))
    keys = order.record_keys(np.arange(100 + growths))
    assert sorted(keys.tolist()) == [*range(100 + growths)]
    assert [order.position_of(key, 0) for key in (0, 100, 99 + growths)] == [
        keys.tolist().index(key) for key in (0, 100, 99 + growths)
    ]


@pytest.mark.parametrize("shuffle", list(SHUFFLES))
def test_an_order_of_which_one_record_is_left_reads_it_in_each_epoch(shuffle):
    """However many epochs are asked for at once."""
    made = ChangingSampler(
        IndexSampler(5, num_epochs=6, **SHUFFLES[shuffle]), OmittedKeys([0, 1, 2, 4])
    )
    assert len(made) == 6
    for first in range(6):
        for stop in range(first + 1, 7):
            assert made.record_keys(np.arange(first, stop)).tolist() == [3] * (stop - first)
