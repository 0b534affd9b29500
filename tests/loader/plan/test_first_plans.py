"""A first plan is as quick as later ones: it imports nothing, reads nothing, and looks at no batch
but its own.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from headrace import BudgetBatch, IndexSampler, ReadOptions, ShardOptions, SourceFacts, load
from headrace.common.distinct import distinct
from headrace.planned.budget.order import BudgetOrder

PLANNING = """
import sys
import numpy as np
import headrace
lengths = np.arange(1, 400) % 60 + 1
records = [np.zeros(length, np.int8) for length in lengths]
budget = headrace.BudgetBatch(120, pad_to=(30, 60), lengths=lengths)
sharded = dict(shuffle=True, seed=0, shard_options=headrace.ShardOptions(1, 3))
loaders = [
    headrace.load(records, transformations=[budget], **sharded),
    headrace.load(records, batch_size=8, balance=True, **sharded),
]
for sampler in (headrace.WeightedSampler(lengths, seed=0), headrace.WeightedSampler(lengths, replacement=False, seed=0)):
    loaders.append(headrace.DataLoader(data_source=records, sampler=sampler, operations=[headrace.Batch(8)]))
before = {*sys.modules}
for loader in loaders:
    loader.records_at(10**6)
print(sorted(name for name in {*sys.modules} - before if not name.startswith("headrace")))
"""


def test_a_first_plan_imports_nothing():
    """Else it would take ten times as long as a later one, in each process."""
    found = subprocess.run(
        [sys.executable, "-c", PLANNING], capture_output=True, text=True, check=True
    )
    assert found.stdout == "[]\n"


def test_distinct_values_are_those_of_numpy():
    """In order, of whatever array."""
    rng = np.random.default_rng(0)
    for size in (0, 1, 2, 50):
        values = rng.integers(-3, 4, size)
        assert distinct(values) == np.unique(values).tolist() == distinct(np.sort(values))


@pytest.mark.parametrize("windows", [None, 7])
def test_what_is_left_of_a_run_is_that_of_each_shard(windows):
    """By asking each shard for the keys of its own steps, one by one."""
    lengths = np.random.default_rng(1).integers(1, 64, 200)
    order = BudgetOrder(BudgetBatch(128, pad_to=4, window=windows).windows(lengths), 2, 1, {})
    layers = ()
    for shards, reached in [(3, [2, 5, 2]), (2, [1, 0]), (4, [3, 3, 4, 3])]:
        run = order.after(layers, ShardOptions(0, shards))
        layers = (*(run.layers or ((0, 0),)), tuple(reached))
        begun = order.after(layers, ShardOptions(0, 5)).start.begun
        first, _, before = run.start
        end = len(before)
        if max(reached) > end:
            window = run._window_of(max(reached) - 1) + 1
            end += run._steps_before(window) - run._steps_before(first)
        expected = [
            int(run.record_keys(np.array([run.first_position + step * shards + shard]))[0])
            for shard, start in enumerate(reached)
            for step in range(start, end)
        ]
        there = [key for key in expected if run.plans.batch_keys(np.array([key])).records[0]]
        found = [
            key
            for key in begun.ravel().tolist()
            if run.plans.batch_keys(np.array([key])).records[0]
        ]
        assert sorted(found) == sorted(there)


class Counted:
    """Arrays that count how many were read."""

    def __init__(self, lengths):
        self.lengths, self.read, self.lock = lengths, 0, threading.Lock()
        self.facts = SourceFacts(lengths=lambda: lengths)

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, key):
        with self.lock:
            self.read += 1
        return np.zeros(self.lengths[key], np.int8)


def test_batches_are_read_ahead_by_their_records():
    """So many records as `prefetch_buffer_size` says, not so many batches; but a batch for each
    thread.
    """
    for threads, buffer, most in ((2, 100, 100 + 3 * 32), (4, 8, 5 * 32)):
        source = Counted(np.full(3200, 2))
        iterator = iter(
            load(
                source,
                transformations=[BudgetBatch(64, pad_to=(2,))],
                read_options=ReadOptions(num_threads=threads, prefetch_buffer_size=buffer),
                num_epochs=1,
            )
        )
        next(iterator)
        seen = -1
        while seen != source.read:  # until the threads have nothing to do
            seen = source.read
            time.sleep(0.05)
        iterator.close()
        assert 32 <= source.read <= most


def test_a_record_is_found_without_looking_at_all_of_them(monkeypatch):
    """By the inverse of the sampler; the same place as in its order."""
    lengths = np.random.default_rng(1).integers(1, 64, 200)
    records = [np.zeros(length, np.int8) for length in lengths]
    loader = load(
        records,
        transformations=[BudgetBatch(256, pad_to=4, lengths=lengths)],
        shuffle=True,
        seed=3,
        num_epochs=1,
    )
    places = {
        key: (step, row)
        for step in range(len(loader))
        for row, key in enumerate(loader.records_at(step).tolist())
    }
    monkeypatch.delattr(IndexSampler, "record_keys")
    assert {key: tuple(loader.find(key, 0)) for key in range(200)} == places
    with pytest.raises(LookupError):
        loader.find(200, 0)
