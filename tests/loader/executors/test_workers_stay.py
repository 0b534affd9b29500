"""Worker processes of an iterator stay when it goes to another place; the stream is what it would
be with new ones.
"""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest
from support import own_processes

import headrace.compat.grain as grain
from headrace import (
    Batch,
    DataLoader,
    Filter,
    FlatMap,
    IndexSampler,
    IterDataset,
    MapDataset,
    ReadOptions,
    ShardOptions,
)
from headrace.loader.interrupts import wait_until


class Once(IterDataset):
    """Counts, in an iterator that can only be run through."""

    def __iter__(self):
        return Counting()


class Counting:
    """Its iterator."""

    def __init__(self):
        self.at = 0

    def __next__(self):
        if self.at == 300:
            raise StopIteration
        self.at += 1
        return self.at - 1

    def get_state(self):
        return {"at": self.at}

    def set_state(self, state):
        self.at = state["at"]


def _loader(operations=(), **more):
    return DataLoader(
        data_source=range(300),
        sampler=IndexSampler(300, shuffle=True, seed=4, num_epochs=1),
        operations=[lambda record: record, *operations],
        worker_count=2,
        read_options=ReadOptions(num_threads=0),
        **more,
    )


def _grain_chain():
    chain = (
        grain.MapDataset.range(300)
        .shuffle(seed=4)
        .map(lambda record: record)
        .to_iter_dataset()
        .batch(4)
    )
    return chain.mp_prefetch(grain.MultiprocessingOptions(num_workers=2))


def _grain_loader():
    sampler = grain.samplers.IndexSampler(300, shuffle=True, seed=4, num_epochs=1)
    return grain.DataLoader(
        data_source=range(300),
        sampler=sampler,
        operations=[grain.transforms.Batch(4)],
        worker_count=2,
    )


STREAMS = {
    "loader": lambda: _loader([Batch(4)]),
    "ragged loader": lambda: _loader(
        [FlatMap(lambda record: [record] * 2), Filter(lambda record: record % 2 == 0), Batch(4)]
    ),
    "map dataset": lambda: (
        MapDataset.range(300).map(lambda record: record).batch(4).to_iter_dataset().mp_prefetch(2)
    ),
    "run through": lambda: Once().map(lambda record: record).mp_prefetch(2),
    "Grain's chain": _grain_chain,
    "Grain's loader": _grain_loader,
}


def _plain(element):
    return element.tolist() if hasattr(element, "tolist") else element


def _processes():
    return sorted(process.pid for process in [own_processes.zygote(), *own_processes.workers()])


@pytest.mark.slow
@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", STREAMS)
def test_workers_stay_when_the_iterator_goes_elsewhere(name):
    """After `set_state` the same processes work on, back or forth, in the middle of a run, and the
    elements are the same.
    """
    expected = [_plain(element) for element in STREAMS[name]()]
    with Closing(STREAMS[name]()) as iterator:
        states = [iterator.get_state()]
        for _ in range(20):
            next(iterator)
            states.append(iterator.get_state())
        before = _processes()
        assert len(before) == 3
        for place in (7, 20, 0, 3, 3):
            iterator.set_state(states[place])
            assert iterator.get_state() == states[place]
            assert [_plain(next(iterator)) for _ in range(5)] == expected[place : place + 5]
            assert _processes() == before
        assert [_plain(element) for element in iterator] == expected[8:]
    assert not own_processes.zygotes()


class Closing:
    """An iterator that is closed at the end; those of Grain's chains are no context managers."""

    def __init__(self, stream):
        self.iterator = iter(stream)

    def __enter__(self):
        return self.iterator

    def __exit__(self, *_):
        self.iterator.close()


@pytest.mark.parametrize("name", ["loader", "ragged loader", "run through"])
@pytest.mark.one_in(3)
@pytest.mark.slow
def test_workers_that_are_killed_around_a_move_leave_the_stream_as_it_is(name):
    """Whether a worker, or what makes workers, ends before the move or after it: the elements are
    the same, nothing is left.
    """
    expected = [_plain(element) for element in STREAMS[name]()]
    iterator = iter(STREAMS[name]())
    for place in range(4):
        state = iterator.get_state()
        assert [_plain(next(iterator)) for _ in range(6)] == expected[place : place + 6]
        assert wait_until(own_processes.workers, 10)
        dies = own_processes.zygote() if place == 3 else own_processes.workers()[-1]
        if place % 2:
            dies.kill()
        iterator.set_state(state)
        if not place % 2:
            dies.kill()
        assert _plain(next(iterator)) == expected[place]
    iterator.close()
    assert not own_processes.zygotes()


@pytest.mark.slow
def test_a_record_that_ends_its_worker_does_no_harm_once_the_iterator_is_elsewhere():
    """Work that was dropped is not done again: it ends one worker at most, and is no error of
    elements that do not need it.
    """

    def deadly(record):
        if record == 12:
            time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGKILL)
        return record

    loader = DataLoader(
        data_source=range(14), sampler=IndexSampler(14, num_epochs=1), operations=[deadly, Batch(2)], worker_count=1,
        worker_buffer_size=8,
    )  # fmt: skip
    with iter(loader) as iterator:
        start = iterator.get_state()
        for _ in range(4):
            next(iterator)
        for _ in range(4):
            iterator.set_state(start)
            assert [next(iterator).tolist() for _ in range(4)] == [[0, 1], [2, 3], [4, 5], [6, 7]]


@pytest.mark.slow
def test_workers_with_long_work_begin_anew():
    """Workers that are expected to take a second and more over what nobody wants any more are
    ended, and others made.
    """

    def slow(record):
        time.sleep(0.05)
        return record

    loader = DataLoader(
        data_source=range(99), sampler=IndexSampler(99), operations=[slow, Batch(1)], worker_count=1, worker_buffer_size=29
    )  # fmt: skip
    with iter(loader) as iterator:
        start = iterator.get_state()
        for _ in range(34):
            next(iterator)
        before = _processes()
        iterator.set_state(start)
        assert next(iterator).tolist() == [0]
        assert not set(before) & set(_processes())


@pytest.mark.long
def test_another_history_of_shards_has_workers_of_its_own():
    """After states of other shards the pipeline is another one, and so are its workers; going on
    within it keeps these.
    """

    def shard(index, count):
        return iter(_loader([Batch(2)], shard_options=ShardOptions(index, count)))

    halves = [shard(0, 2), shard(1, 2)]
    seen = [next(half).tolist() for half in halves] + [next(halves[0]).tolist()]
    states = [half.get_state() for half in halves]
    for half in halves:
        half.close()
    whole = shard(0, 1)
    next(whole)
    before = _processes()
    whole.set_states(states)
    rest = [next(whole).tolist() for _ in range(5)]
    between = _processes()
    assert not set(before) & set(between)
    whole.set_states(states)
    assert [next(whole).tolist() for _ in range(5)] == rest
    assert _processes() == between
    seen += rest + [element.tolist() for element in whole]
    assert sorted(record for batch in seen for record in batch) == list(range(300))


@pytest.mark.slow
def test_an_iterator_that_was_moved_and_dropped_leaves_nothing():
    """Workers that wait for the next run end with their iterator, whether it is closed or
    forgotten.
    """
    for closes in (True, False):
        iterator = iter(_loader([Batch(4)]))
        state = iterator.get_state()
        next(iterator)
        iterator.set_state(state)
        assert own_processes.zygotes()
        if closes:
            iterator.close()
        del iterator
        assert not own_processes.zygotes()


def test_counts_begin_anew_and_the_memory_that_is_shared_is_still_known():
    """`stats()` after a move counts what came since; workers that stayed did not start again."""
    large = lambda record: np.full(5000, record)  # noqa: E731
    with iter(_loader([large, Batch(4)], observe="each")) as iterator:
        state = iterator.get_state()
        kept = [next(iterator) for _ in range(5)]
        shared = iterator.stats().workers.slab_bytes
        iterator.set_state(state)
        kept += [next(iterator) for _ in range(20)]
        stats = iterator.stats()
        assert stats.steps == 20
        assert stats.workers.slab_bytes >= shared > 0
        assert not [event for event in stats.worker_events if event.what == "started"]
