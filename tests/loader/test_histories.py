"""Random histories of runs whose data live: against an account of the records still to come, which knows no orders."""

from __future__ import annotations

import json
import random

import pytest
from growing_source import GrowingKeys, append

from headrace import Batch, DataLoader, GrowthOptions, IndexSampler, ReadOptions, ShardOptions


class Account:
    """The records of each epoch that are still to come. It is told what is left out, and sees each record."""

    def __init__(self, records, joins):
        self.records, self.joins = records, joins
        self.epochs = [set(range(records))]  # the records of each epoch that were not seen
        self.members = [records]  # records that an epoch has, at least
        self.omitted = set()

    def see(self, key, epoch, known):
        """A record came in an epoch, when so many records were known to the run."""
        while len(self.epochs) <= epoch:
            self.epochs.append(None)
            self.members.append(0)
        if self.epochs[epoch] is None:
            self.epochs[epoch] = set(range(known))
            self.members[epoch] = known
        if known > self.members[epoch] and self.joins:
            self.epochs[epoch] |= set(range(self.members[epoch], known))
            self.members[epoch] = known
        assert key not in self.omitted, f"record {key} was left out"
        assert key in self.epochs[epoch], f"record {key} comes twice in epoch {epoch}, or not yet"
        self.epochs[epoch].remove(key)

    def check(self, epoch):
        """All epochs before one have come to their ends, but for what was left out."""
        for number in range(epoch):
            left = (self.epochs[number] or set()) - self.omitted
            assert not left, f"records {sorted(left)} never came in epoch {number}"


class History:
    """A run of one stream on some shards, killed and begun again on others, while its records change."""

    def __init__(self, seed, folder, workers=0):
        self.draw = random.Random(seed)
        self.path = folder / f"{seed}.json"
        append(self.path, self.draw.randint(4, 30))
        at = self.draw.choice(["epoch", "now"])
        self.growth = GrowthOptions(at, every=self.draw.randint(1, 20), log=folder / f"log {seed}")
        self.shuffle, self.seed, self.workers = self.draw.random() < 0.8, seed, workers
        self.omitted, self.states = set(), []
        self.account = Account(len(GrowingKeys(self.path)), at == "now")

    def loader(self, batch, shard):
        source = GrowingKeys(self.path)
        return DataLoader(
            data_source=source,
            sampler=IndexSampler(len(source), shuffle=self.shuffle, seed=self.seed),
            omit=self.omitted,
            operations=[Batch(batch)],
            shard_options=ShardOptions(*shard),
            growth=self.growth,
            worker_count=self.workers,
            read_options=ReadOptions(num_threads=0),
        )

    def run(self):
        """One run, until it is killed. Returns what came, by step."""
        shards, batch = self.draw.choice([1, 1, 2, 3]), self.draw.randint(1, 4)
        iterators = [iter(self.loader(batch, (shard, shards))) for shard in range(shards)]
        for iterator in iterators:
            if self.states:
                iterator.set_states(self.states)
        came = []
        for _ in range(self.draw.randint(0, 10)):
            rows = [next(iterator).tolist() for iterator in iterators]
            came.append(rows)
            if self.draw.random() < 0.2:
                append(self.path, self.draw.randint(1, 6))
            self._see(iterators, rows)
        self.states = [iterator.get_state() for iterator in iterators]
        for iterator in iterators:
            iterator.close()
        return came

    def _see(self, iterators, rows):
        """Tell the account of a step, in the order of positions; the shard that has come furthest knows all changes."""
        stop, batch = iterators[0].here().cursor.positions[0], len(rows[0])
        order = max(
            (iterator.pipeline.leaf.sampler for iterator in iterators), key=lambda sampler: len(sampler.changes)
        )
        for row in range(batch):
            for shard, iterator in enumerate(iterators):
                position = iterator.pipeline.leaf.position(stop - batch + row)
                epoch = order.epoch_at(position)
                self.account.see(rows[shard][row], epoch, self._records_at(order, position))
                self.account.check(epoch)

    def _records_at(self, sampler, position):
        return GrowingKeys(self.path).generation_records(sampler.generation_at(position))

    def omit(self):
        """Leave out some more of the records that the run knows."""
        known = json.loads(self.states[0])["fingerprint"]["sampler"] if self.states else {}
        records = ([known.get("records", 2)] + [change[2] for change in known.get("history", [])])[-1]
        if records > len(self.omitted) + 3:
            self.omitted |= set(self.draw.sample(range(records), self.draw.randint(1, 2)))
            self.account.omitted = self.omitted


def _check(seed, folder, workers=0):
    history = History(seed, folder, workers)
    came = []
    for _ in range(5):
        came.append(history.run())
        if history.draw.random() < 0.4:
            history.omit()
    changes = json.loads(history.states[0])["fingerprint"]["sampler"].get("history", [])
    assert len(history.states[0]) < 900 + 70 * len(changes) + 100 * len(history.states)
    return came, len(changes)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("block", range(10))
def test_each_living_record_comes_once_in_each_epoch(block, tmp_path):
    """A hundred histories of appending, leaving out, other numbers of shards, kills and resumes, in blocks of ten."""
    changes = [_check(seed, tmp_path)[1] for seed in range(10 * block, 10 * block + 10)]
    assert sum(changes) > 5


def test_a_shard_that_knows_a_change_tells_the_place(tmp_path):
    """A change between two shards' positions of one step is known to one of them; then more records are left out."""
    _check(1181, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("block", range(100))
def test_each_living_record_comes_once_in_a_thousand_histories(block, tmp_path):
    """A thousand others."""
    for seed in range(1000 + 10 * block, 1010 + 10 * block):
        _check(seed, tmp_path)


@pytest.mark.parametrize("seed", [3])
@pytest.mark.long
def test_histories_are_the_same_on_any_number_of_workers(seed, tmp_path):
    """None, two and three worker processes give the same elements."""
    came = []
    for workers in (0, 2, 3):
        folder = tmp_path / str(workers)
        folder.mkdir()
        came.append(_check(seed, folder, workers))
    assert came[0] == came[1] == came[2]
    assert any(came[0][0])
    assert came[0][1] > 1
