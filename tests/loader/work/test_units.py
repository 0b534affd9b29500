"""Tasks of several batches in the user's thread, each batch of which is made when it is
asked for.
"""

from __future__ import annotations

import threading
from itertools import pairwise

import numpy as np
import pytest

import headrace
from headrace.loader.executors import local
from headrace.loader.executors.reading.read_pace import ReadPace
from headrace.loader.work.units import InlineUnits


@pytest.fixture
def long_tasks(monkeypatch):
    """After the first batch all tasks have as many batches as may be, however long they take; some
    had at the end.
    """
    tasks = []

    def long_task(executor, task, unit):
        tasks.append(task)
        return InlineUnits(executor, task, unit)

    monkeypatch.setattr(local, "more_or_fewer", lambda done, seconds, most: most)
    monkeypatch.setattr(local, "InlineUnits", long_task)
    yield
    assert tasks


class Records:
    """Records that are their keys; notes each key that is read, and the thread that reads it."""

    def __init__(self, count, bad=()):
        self._count, self._bad, self.read = count, bad, []

    def __len__(self):
        return self._count

    def __getitem__(self, key):
        self.read.append((key, threading.current_thread().name))
        if key in self._bad:
            raise OSError("gone")
        return np.int64(key)


def numbers(source, operations, threads=0):
    """Batches of 4 of the records in their order, once."""
    options = headrace.ReadOptions(num_threads=threads, prefetch_buffer_size=8)
    sampler = headrace.SequentialSampler(len(source))
    return iter(
        headrace.DataLoader(
            data_source=source,
            sampler=sampler,
            operations=[*operations, headrace.Batch(4)],
            read_options=options,
        )
    )


@pytest.mark.usefixtures("long_tasks")
@pytest.mark.parametrize("count", [200, 203])
def test_no_record_is_touched_before_its_batch_is_asked_for(count):
    """Neither read nor transformed nor counted in the stats, in tasks of many batches."""
    source, seen = Records(count), []
    iterator = numbers(source, [lambda x: seen.append(x) or x])
    for step, batch in enumerate(iterator, 1):
        done = min(4 * step, count)
        assert batch.tolist() == [*range(4 * step - 4, done)]
        assert len(source.read) == len(seen) == iterator.stats().records == done
    assert step == -(-count // 4)
    assert iterator.snapshot().stages[0].rows == step


@pytest.mark.usefixtures("long_tasks")
def test_an_operation_that_fails_within_a_long_task_is_told_of_and_tried_again():
    """The error names operation, record and position; the batches before it came, and the iterator
    goes on where it failed.
    """
    failing = [66]

    def operation(x):
        if x in failing:
            raise ValueError("no")
        return x

    iterator, batches = numbers(Records(200), [operation]), []
    with pytest.raises(ValueError, match="no") as caught:
        for batch in iterator:
            batches.append(batch.tolist())
    assert batches == [[*range(first, first + 4)] for first in range(0, 64, 4)]
    assert "operation 0" in caught.value.__notes__[0]
    assert "record key 66 at position 66" in caught.value.__notes__[0]
    failing.clear()
    assert np.concatenate([*iterator]).tolist() == [*range(64, 200)]


@pytest.mark.usefixtures("long_tasks")
def test_a_record_that_cannot_be_read_within_a_long_task_ends_the_stream_there():
    """Operations are given the records before it, and the error names its key."""
    seen = []
    iterator = numbers(Records(200, bad=(66,)), [lambda x: seen.append(int(x)) or x])
    with pytest.raises(OSError, match="gone") as caught:
        list(iterator)
    assert seen == [*range(66)]
    assert "record key 66 at position 66" in caught.value.__notes__[0]


@pytest.mark.usefixtures("long_tasks")
def test_a_source_that_begins_to_wait_within_a_long_task_is_read_by_threads(monkeypatch):
    """From the next batch on, of all batches of the task; the stream is the same."""
    source, quick = Records(400), [True]
    monkeypatch.setattr(ReadPace, "is_in_place", lambda pace, count: quick[0])
    monkeypatch.setattr(ReadPace, "in_place", lambda pace, count: count if quick[0] else 0)
    iterator, here = numbers(source, [], threads=2), threading.current_thread().name
    batches = [next(iterator).tolist() for _ in range(30)]
    before = len(source.read)
    assert {thread for _, thread in source.read} == {here}
    quick[0] = False
    batches += [batch.tolist() for batch in iterator]
    assert np.concatenate(batches).tolist() == [*range(400)]
    assert here not in {thread for _, thread in source.read[before:]}


def test_tasks_have_more_batches_while_they_take_little_time():
    """Twice as many each time, up to a limit; one alone where a batch takes longer than a task
    should.
    """
    iterator = numbers(Records(200), [])
    next(iterator)
    executor = iterator._running._executor
    sizes = []
    for _ in range(6):
        executor.note_units(max(executor._units, 1), 1e-4)
        sizes.append(executor._units)
    assert sizes[-1] == local.MOST_UNITS
    assert all(later <= 2 * former for former, later in pairwise(sizes))
    executor.note_units(16, 16 * 0.5)
    assert executor._units == 1
    iterator.close()


def of_columns(count, operations, batch_size=4):
    """Batches of the columns of `count` records, in their order, once."""
    columns = {"key": np.arange(count), "half": np.arange(count) / 2}
    sampler = headrace.SequentialSampler(count)
    return iter(
        headrace.DataLoader(
            data_source=columns,
            sampler=sampler,
            operations=[headrace.Batch(batch_size), *operations],
        )
    )


@pytest.mark.usefixtures("long_tasks")
@pytest.mark.parametrize("count", [200, 203])
def test_no_batch_of_columns_is_made_before_it_is_asked_for(count):
    """The operation after the batch has seen those that came, in tasks of many batches; the stats
    count the same records.
    """
    seen = []
    iterator = of_columns(count, [lambda batch: seen.append(len(batch["key"])) or batch])
    for step, batch in enumerate(iterator, 1):
        done = min(4 * step, count)
        assert batch["key"].tolist() == [*range(4 * step - 4, done)]
        assert batch["half"].tolist() == [key / 2 for key in batch["key"].tolist()]
        assert sum(seen) == iterator.stats().records == done
    assert step == -(-count // 4)


@pytest.mark.usefixtures("long_tasks")
@pytest.mark.parametrize("failing", [0, 4, 64, 66, 199])
def test_an_operation_that_fails_at_a_batch_of_columns_is_told_of_and_tried_again(failing):
    """The error names operation, key and position of the first record; the batches
    before it came.
    """
    bad = [failing]

    def operation(batch):
        if bad and bad[0] in batch["key"]:
            raise ValueError("no")
        return batch["key"]

    first = failing - failing % 4
    iterator, batches = of_columns(200, [operation]), []
    with pytest.raises(ValueError, match="no") as caught:
        for batch in iterator:
            batches += batch.tolist()
    assert batches == [*range(first)]
    assert "operation 1" in caught.value.__notes__[0]
    assert f"record key {first} at position {first}" in caught.value.__notes__[0]
    bad.clear()
    assert np.concatenate([*iterator]).tolist() == [*range(first, 200)]


@pytest.mark.usefixtures("long_tasks")
def test_batches_of_columns_that_are_kept_do_not_share_memory():
    """Each batch has its own arrays as long as somebody holds it, also where tasks have many
    batches.
    """
    batches = list(of_columns(4096, [lambda batch: batch], batch_size=64))
    assert np.concatenate([batch["key"] for batch in batches]).tolist() == [*range(4096)]


@pytest.mark.usefixtures("long_tasks")
@pytest.mark.parametrize("observe", [True, "each"])
def test_timed_and_untimed_batches_of_columns_are_the_same_stream(observe):
    """A batch that is timed is made in another way; none is left out or made twice."""
    columns = {"key": np.arange(6000)}
    sampler = headrace.IndexSampler(6000, shuffle=True, seed=3, num_epochs=1)
    operations = [headrace.Batch(4), lambda batch: batch["key"]]
    loader = headrace.DataLoader(
        data_source=columns, sampler=sampler, operations=operations, observe=observe
    )
    expected = sampler.record_keys(np.arange(6000))
    assert np.concatenate([*loader]).tolist() == expected.tolist()
