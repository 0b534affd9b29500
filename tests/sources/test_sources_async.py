"""Sources whose reads are coroutines: ordinary sources to all who read them, with many reads under
way.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import threading
import traceback

import numpy as np
import pytest
from support.crowds import (
    AsyncCounted,
    AsyncCountedBoth,
    AsyncCountedMany,
    AsyncSlow,
    Counted,
    Crowd,
    Slow,
)
from support.pipelines import chosen
from support.reads_at_once import BAD, LIMIT_SECONDS, WHERE, endless, most_under_way

import headrace
from headrace import (
    Batch,
    DataLoader,
    IndexSampler,
    IterDataset,
    MapDataset,
    MixSampler,
    ReadOptions,
)
from headrace.errors import RecordKeyError, SourceError
from headrace.sources import MixedSource, as_source, fingerprint_of
from headrace.sources.asynchronous.event_loop import event_loop
from headrace.sources.facts import facts_of

KINDS = [AsyncCounted, AsyncCountedMany, AsyncCountedBoth]


@pytest.mark.slow
@pytest.mark.one_in(12)
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("batch_size", chosen([None, 1, 32, 512], 1, 512))
def test_as_many_reads_are_under_way_as_the_buffer_holds(where, batch_size):
    """On no thread of their own; in each worker process."""
    operations = [] if batch_size is None else [Batch(batch_size)]
    count = 16 if batch_size in (None, 1) else 64  # a worker gets few tasks at first
    options = ReadOptions(num_threads=1, prefetch_buffer_size=count)
    loader = endless(
        AsyncSlow(4000, Crowd(count)), operations, read_options=options, **WHERE[where]
    )
    workers = 2 if where == "processes" else 1
    assert most_under_way(loader, count, workers) == [count] * workers


@pytest.mark.slow
def test_a_mix_of_asynchronous_sources_is_one():
    """With as many reads under way as a single one; beside another source its reads wait on
    threads.
    """
    crowd = Crowd(64)
    parts = {str(number): AsyncSlow(500, crowd) for number in range(5)}
    options = ReadOptions(num_threads=1, prefetch_buffer_size=64)
    loader = DataLoader(
        data_source=parts, sampler=MixSampler(parts), operations=[Batch(32)], read_options=options
    )
    assert most_under_way(loader, 64) == [64]
    crowd = Crowd(16)
    parts = {"one": AsyncSlow(500, crowd), "other": Slow(500, crowd)}
    loader = DataLoader(data_source=parts, sampler=MixSampler(parts), operations=[Batch(32)])
    assert most_under_way(loader, 16) == [16]


def test_chains_and_joins_of_asynchronous_sources_read_many_at_a_time():
    """Lines and mixes with as many as the buffer holds, and the inputs of a join together."""
    options = ReadOptions(num_threads=1, prefetch_buffer_size=64)
    crowd = Crowd(64)
    one, other = (MapDataset.source(AsyncSlow(1000, crowd)) for _ in range(2))
    assert most_under_way(one.shuffle(seed=1).repeat().batch(8).to_iter_dataset(options), 64) == [
        64
    ]
    assert most_under_way(
        MapDataset.mix([one.repeat(), other.repeat()]).batch(8).to_iter_dataset(options), 64
    ) == [64]
    streams = [each.repeat().to_iter_dataset(options) for each in (one, other)]
    assert most_under_way(IterDataset.mix(streams).batch(64), 64) == [64]


@pytest.mark.parametrize("kind", KINDS)
def test_an_asynchronous_source_is_an_ordinary_one(kind):
    """One record or many, keys that are none, its identity, and what it has besides."""
    source = as_source(kind(100))
    assert len(source) == 100
    assert source[np.int64(3)] == 3
    assert list(source.__getitems__(np.array([5, 3, 5]))) == [5, 3, 5]
    assert list(source.__getitems__([])) == []
    for read in (lambda: source[100], lambda: source[-1], lambda: source.__getitems__([1, 100])):
        with pytest.raises(RecordKeyError, match=kind.__name__):
            read()
    assert (
        fingerprint_of(source)
        == fingerprint_of(kind(100))
        == {"kind": kind.__name__, "records": 100}
    )
    assert source.source.keys[0] == 3
    assert as_source(source) is source


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", chosen(KINDS, AsyncCountedBoth))
@pytest.mark.parametrize("where", WHERE)
def test_its_stream_is_that_of_its_records(kind, where):
    """In loaders, chains, mixes, one by one and by index."""
    sampler = IndexSampler(40, shuffle=True, seed=3, num_epochs=2)

    def elements(source, **more):
        return [
            batch.tolist()
            for batch in DataLoader(
                data_source=source, sampler=sampler, operations=[Batch(7)], **more
            )
        ]

    assert elements(kind(40), **WHERE[where]) == elements(range(40))
    chain, plain = (
        MapDataset.mix(
            [MapDataset.source(source).shuffle(seed=1), MapDataset.source(range(40))]
        ).map(_double)
        for source in (kind(40), range(40))
    )
    assert list(chain) == list(plain) == [chain[i] for i in range(len(chain))]


def _double(number):
    return 2 * number


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", KINDS)
def test_states_are_those_of_the_same_records_read_otherwise(kind):
    """A source that becomes asynchronous goes on from its states; of whatever number of workers."""
    loader = headrace.load(kind(40), shuffle=True, seed=1, num_epochs=2, batch_size=4)
    headrace.check_resume(loader, steps=6, worker_counts=(0, 1))
    with iter(loader) as iterator:
        whole = [batch.tolist() for batch in iterator]
    with iter(loader) as iterator:
        first = [next(iterator).tolist() for _ in range(3)]
        state = iterator.get_state()
    with iter(loader) as iterator:
        iterator.set_state(state)
        assert first + [batch.tolist() for batch in iterator] == whole


def test_a_trace_tells_what_was_in_a_step():
    """It reads nothing of the source."""
    source = AsyncCounted(40)
    loader = headrace.load(source, shuffle=True, seed=1, num_epochs=1, batch_size=4)
    steps = [batch.tolist() for batch in loader]
    read = len(source.keys)
    assert [record.key for record in headrace.trace(loader, step=3).records] == steps[3]
    assert len(source.keys) == read


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning", "ignore:.*fork.*:RuntimeWarning")
def test_it_goes_to_other_processes_without_its_loop():
    """Pickled, and in a fork of a process that used it."""
    source = as_source(AsyncCounted(10))
    assert source[3] == 3
    assert pickle.loads(pickle.dumps(source))[4] == 4
    child = os.fork()
    if child == 0:
        os._exit(0 if source[5] == 5 and list(source.__getitems__([1, 2])) == [1, 2] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert source[6] == 6


class WithSession(Counted):
    """Opens on first use what belongs to the loop that it is opened in."""

    session = None

    async def __getitem__(self, key):
        if self.session is None:
            self.session = asyncio.Lock(), asyncio.get_running_loop()
        lock, loop = self.session
        assert loop is asyncio.get_running_loop()
        async with lock:
            await asyncio.sleep(0)
            return self.note(key)


def test_what_a_source_opens_in_the_loop_lasts_as_long_as_the_source():
    """Over epochs, iterators and loaders, of which several may read at the same time."""
    source = WithSession(20)
    loader = headrace.load(source, num_epochs=2, batch_size=3)
    for _ in range(2):
        assert sum(len(batch) for batch in loader) == 40
        gc.collect()
    one, two = iter(loader), iter(loader)
    for first, second in zip(one, two):
        assert first.tolist() == second.tolist()
    assert len(source.keys) >= 160


def test_the_loop_ends_with_the_last_source_that_uses_it():
    """And a source that is read later has a new one."""
    source, other = as_source(AsyncCounted(10)), as_source(AsyncCounted(10))
    assert source[1] == other[1] == 1
    del source
    gc.collect()
    assert other[2] == 2
    del other
    gc.collect()
    assert not [thread for thread in threading.enumerate() if thread.name == "headrace-loop"]
    assert as_source(AsyncCounted(10))[3] == 3


def _explode(key):
    raise LookupError(f"there is no {key}")


class Failing(Counted):
    """Fails two calls deep."""

    async def __getitem__(self, key):
        await asyncio.sleep(0)
        if key == BAD:
            _explode(key)
        return key


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("batch_size", [1, 64])
@pytest.mark.one_in(6)
def test_errors_are_the_users_own_with_their_frames(where, batch_size):
    """Named with the record's key, and no frame of ours, or of asyncio, before theirs."""
    with pytest.raises(LookupError, match=f"there is no {BAD}") as caught:
        list(headrace.load(Failing(100), num_epochs=1, batch_size=batch_size, **WHERE[where]))
    assert f"record key {BAD}" in str(caught.value.__notes__)
    if where != "processes":
        names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert names[-2:] == ["__getitem__", "_explode"]
        assert not {"run", "result", "_run", "_read_one"} & set(names)


class Wrong(Counted):
    """Returns one record too few."""

    __getitem__ = None

    async def __getitems__(self, keys):
        return keys[1:]


def test_a_wrong_number_of_records_is_refused():
    """As of any source."""
    with pytest.raises(SourceError, match=r"Wrong.__getitems__ returned 0 records for 1 keys"):
        list(headrace.load(Wrong(100), num_epochs=1, batch_size=8))


class Modern(Counted):
    """Uses what asyncio offers."""

    async def __getitem__(self, key):
        async with asyncio.timeout(LIMIT_SECONDS), asyncio.TaskGroup() as group:
            parts = [group.create_task(asyncio.sleep(0, part)) for part in (key, 2 * key)]
        thread = await asyncio.to_thread(threading.current_thread)
        assert thread is not threading.current_thread()
        return sum(part.result() for part in parts)


def test_coroutines_may_use_task_groups_timeouts_and_threads():
    """Nothing of them is left after the source."""
    assert np.concatenate(list(headrace.load(Modern(60), num_epochs=1, batch_size=7))).tolist() == [
        3 * key for key in range(60)
    ]


class Late(Counted):
    """Some reads run out of time."""

    async def __getitem__(self, key):
        async with asyncio.timeout(1e-3 if key == BAD else LIMIT_SECONDS):
            await asyncio.sleep(LIMIT_SECONDS if key == BAD else 0)
        return key


def test_a_read_that_runs_out_of_time_is_a_record_that_cannot_be_read():
    """And can be left out."""
    loader = DataLoader(
        data_source=Late(60),
        sampler=IndexSampler(60, num_epochs=1),
        operations=[Batch(7)],
        on_error="skip",
    )
    assert np.concatenate(list(loader)).tolist() == [key for key in range(60) if key != BAD]


class Quitting(Counted):
    """A task of a coroutine's own asks the program to end."""

    async def __getitem__(self, key):
        async def quit_():
            raise SystemExit(7)

        if key == BAD:
            await asyncio.create_task(quit_())
        return key


def test_a_task_that_asks_the_program_to_end_does_not_end_the_loop():
    """Who awaits the task is told, and so is the user."""
    source = as_source(Quitting(100))
    with pytest.raises(SystemExit):
        list(headrace.load(source, num_epochs=1, batch_size=8))
    assert source[1] == 1


class Cancelling(Counted):
    """One of its records awaits a task that was cancelled."""

    async def __getitem__(self, key):
        if key == 11:
            task = asyncio.ensure_future(asyncio.sleep(60))
            task.cancel()
            await task
        return key


@pytest.mark.one_in(3)
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("operations", [[], [Batch(4)]])
@pytest.mark.slow
def test_a_cancelled_error_of_a_coroutine_is_the_failure_of_its_record(where, operations):
    """It is skipped or raised as any other, with workers and without."""

    def loader(**more):
        sampler = IndexSampler(20, num_epochs=1)
        return DataLoader(
            data_source=Cancelling(20),
            sampler=sampler,
            operations=operations,
            **WHERE[where],
            **more,
        )

    def records(batches):
        return [record for batch in batches for record in np.atleast_1d(batch).tolist()]

    assert records(loader(on_error="skip")) == [key for key in range(20) if key != 11]
    found = []
    with (
        iter(loader()) as iterator,
        pytest.raises(SourceError, match="raised CancelledError") as caught,
    ):
        found.extend(iterator)
    assert records(found) == list(range(8 if operations else 11))
    assert any("record key 11 at position 11" in note for note in caught.value.__notes__)
    with pytest.raises(SourceError, match="raised CancelledError"):
        as_source(Cancelling(20))[11]


class Nested(Counted):
    """Reads from another source, in a way that waits."""

    def __init__(self, length):
        super().__init__(length)
        self.other = as_source(AsyncCounted(length))

    async def __getitem__(self, key):
        return self.other[key]


def test_a_coroutine_that_would_wait_for_its_own_loop_is_told():
    """It would hang for ever."""
    with pytest.raises(RuntimeError, match="wait for itself"):
        list(headrace.load(Nested(10), num_epochs=1))


def test_only_what_is_a_coroutine_is_used():
    """A source may have an ordinary method beside."""

    class Half(AsyncCounted):
        def __getitems__(self, keys):
            pytest.fail("it waits")

    class OtherHalf(AsyncCountedMany):
        def __getitem__(self, key):
            pytest.fail("it waits")

    for kind in (Half, OtherHalf):
        assert np.concatenate(
            list(headrace.load(kind(40), num_epochs=1, batch_size=8))
        ).tolist() == list(range(40))
        assert as_source(kind(40))[3] == 3


def test_a_source_without_a_length_is_refused():
    """An asynchronous one needs no more than that, and one of the two methods."""

    class NoLength:
        async def __getitem__(self, key):
            return key

    with pytest.raises(TypeError, match="NoLength has no __len__"):
        as_source(NoLength())


def test_parts_that_fail_end_the_reads_of_the_others():
    """No task of a mix is left behind."""
    mixed = MixedSource({"good": AsyncCountedMany(10), "bad": AsyncCountedMany(10, bad=(2,))})
    assert facts_of(mixed).read_in_loop is not None
    assert not facts_of(mixed).reads_singly
    loop = event_loop()
    with pytest.raises(BaseExceptionGroup, match="TaskGroup"):
        loop.run(mixed.read_in_loop(np.array([0, 5, 2])))
    assert list(loop.run(mixed.read_in_loop(np.array([6, 3, 2, 0])))) == [3, 1, 1, 0]


def test_an_interrupt_while_a_read_is_waited_for_cancels_it():
    """And the source can be read after it."""
    import signal

    class Waiting(Counted):
        cancelled = threading.Event()
        begun = threading.Event()

        async def __getitem__(self, key):
            if key:
                return key
            self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()

    source = as_source(Waiting(10))

    def interrupt():
        assert source.source.begun.wait(LIMIT_SECONDS)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        source[0]
    thread.join()
    assert source.source.cancelled.wait(LIMIT_SECONDS)
    assert source[3] == 3
