"""Reads under way are records: as many as there are readers, whatever the batch, the pipeline and
where the work is done.
"""

from __future__ import annotations

import itertools
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.crowds import AsyncCounted, AsyncSlow, Counted, Crowd, Slow, SlowMany, SlowManyOf
from support.pipelines import PIPELINES, chosen, stream, tries
from support.reads_at_once import BAD, LIMIT_SECONDS, WHERE, endless, most_under_way

import headrace
from headrace import (
    Batch,
    DataLoader,
    Filter,
    FlatMap,
    IndexSampler,
    IterDataset,
    MapDataset,
    MixSampler,
    ReadOptions,
    SourceFacts,
)
from headrace.loader.executors.pace import reads_under_way
from headrace.loader.executors.reading import read_pace
from headrace.loader.plan.build import make_pipeline


@pytest.mark.one_in(8)
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("batch_size", chosen([None, 1, 32, 512], 1, 512))
def test_as_many_reads_are_under_way_as_there_are_threads(where, batch_size):
    """Whatever the batch; in each worker process."""
    loader = endless(
        Slow(2000, Crowd(16)), [] if batch_size is None else [Batch(batch_size)], **WHERE[where]
    )
    workers = 2 if where == "processes" else 1
    assert most_under_way(loader, 16, workers) == [16] * workers


def _all(record):
    return True


def _twice(record):
    return [record, record]


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize(
    "operations",
    [[Filter(_all), Batch(100)], [FlatMap(_twice), Batch(100)]],
    ids=["filter", "flat map"],
)
@pytest.mark.one_in(6)
def test_as_many_reads_are_under_way_below_a_filter(where, operations):
    """What makes no whole batches is read ahead likewise."""
    workers = 2 if where == "processes" else 1
    assert (
        most_under_way(endless(Slow(2000, Crowd(16)), operations, **WHERE[where]), 16, workers)
        == [16] * workers
    )


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("where", WHERE)
def test_the_parts_of_a_mix_share_the_threads(where):
    """A mix of sources that are read one by one is read so, too."""
    crowd = Crowd(16)
    parts = {str(number): Slow(500, crowd) for number in range(8)}
    loader = DataLoader(
        data_source=parts, sampler=MixSampler(parts), operations=[Batch(64)], **WHERE[where]
    )
    workers = 2 if where == "processes" else 1
    assert most_under_way(loader, 16, workers) == [16] * workers


def _same(element):
    return element


def chains(crowd):
    """Datasets of slow sources, in every shape that is read in its own way."""
    one, other = (MapDataset.source(Slow(1000, crowd)) for _ in range(2))
    return {
        "line": one.shuffle(seed=1).repeat().map(_same).batch(64),
        "mix": MapDataset.mix([one.repeat(), other.repeat()]).batch(64),
        "zip": MapDataset.zip([one, other]).map(_first).repeat().batch(64),
        "shuffled random map": one.random_map(_drawn, seed=1).shuffle(seed=2).repeat().batch(64),
        "stream": one.repeat().to_iter_dataset().batch(64),
        "stream mix": IterDataset.mix(
            [one.repeat().to_iter_dataset(), other.repeat().to_iter_dataset()]
        ).batch(64),
        "stream zip": IterDataset.zip(
            [one.repeat().to_iter_dataset(), other.repeat().to_iter_dataset()]
        )
        .map(_first)
        .batch(64),
    }


def _first(pair):
    return pair[0]


def _drawn(element, rng):
    rng.random()
    return element


@pytest.mark.one_in(9)
@pytest.mark.parametrize("shape", chains(Crowd(16)))
@pytest.mark.parametrize("where", ["inline", pytest.param("processes", marks=pytest.mark.slow)])
def test_chains_have_as_many_reads_under_way(shape, where):
    """Also where they are evaluated, and where several are joined."""
    chain = chains(Crowd(16))[shape]
    chain = chain if isinstance(chain, IterDataset) else chain.to_iter_dataset()
    workers = 2 if where == "processes" else 1
    found = most_under_way(chain.mp_prefetch(2) if workers == 2 else chain, 16, workers)
    assert found == [16] * workers


@pytest.mark.parametrize("batch_size", [8, 100, 512])
def test_a_source_of_many_keys_is_asked_for_pieces_as_many_as_it_says(batch_size):
    """`reads_ahead=4`: four calls at a time, which share a batch, or take several small ones."""
    source = SlowManyOf(4096, Crowd(4))
    loader = endless(source, [Batch(batch_size)])
    assert most_under_way(loader, 4) == [4]
    with iter(loader) as iterator:
        longest = max(int(batch["together"].max()) for batch in itertools.islice(iterator, 8))
    assert longest <= 125 + batch_size


@pytest.mark.one_in(4)
@pytest.mark.parametrize("calls", [1, 4])
@pytest.mark.parametrize("batch_size", [1, 8, 32])
def test_small_batches_are_read_in_one_call(calls, batch_size):
    """A source that says how many calls help gets keys of several batches in a call, but no more
    than the buffer holds.
    """
    source = Together(calls, pause=1e-3)
    with iter(endless(source, [Batch(batch_size)], read_options=ReadOptions(16, 400))) as iterator:
        taken = [
            key
            for batch in itertools.islice(iterator, 1600 // batch_size)
            for key in batch.tolist()
        ]
    assert taken == list(range(1600))
    assert batch_size < max(map(len, source.calls)) <= 400 // calls + batch_size


class Together:
    """Many keys in a call; the calls are noted, and the threads that made them."""

    def __init__(self, calls, bad=(), error=OSError, pause=0):
        self.facts = SourceFacts(reads_ahead=calls)
        self.bad, self.error, self.pause = bad, error, pause
        self.calls, self.threads = [], []

    def __len__(self):
        return 4000

    def __getitem__(self, key):
        return self.__getitems__([key])[0]

    def __getitems__(self, keys):
        self.calls.append(list(keys))
        self.threads.append(threading.current_thread().name)
        time.sleep(self.pause)
        if bad := [key for key in keys if key in self.bad]:
            raise self.error(f"cannot read {bad[0]}")
        return list(keys)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("calls", [1, 4])
@pytest.mark.parametrize("where", ["inline", "threads"])
def test_a_record_that_cannot_be_read_fails_alone_where_batches_are_read_together(calls, where):
    """Batches before it come, the error names it, and without it all others come."""
    sampler = IndexSampler(4000, num_epochs=1)
    more = {"sampler": sampler, "operations": [Batch(8)], **WHERE[where]}
    found = []
    with pytest.raises(OSError, match="cannot read 3001") as caught:
        for batch in DataLoader(data_source=Together(calls, bad=(3001,)), **more):
            found += batch.tolist()
    assert found == list(range(3000))
    assert "record key 3001" in str(caught.value.__notes__)
    skipping = DataLoader(data_source=Together(calls, bad=(37, 3001)), on_error="skip", **more)
    assert np.concatenate(list(skipping)).tolist() == [
        key for key in range(4000) if key not in (37, 3001)
    ]


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_what_is_no_exception_comes_out_of_a_call_in_the_thread_that_needs_the_records(error):
    """And the loop can be begun again."""
    source = Together(1, bad=(1000,), error=error)
    loader = endless(source, [Batch(10)])
    with iter(loader) as iterator:
        with pytest.raises(error):
            list(iterator)
        source.bad = ()
    assert next(iter(loader)).tolist() == list(range(10))


def test_one_call_at_a_time_is_made_by_the_thread_that_needs_the_records_unless_it_is_busy():
    """Threads read ahead once a loop works for longer than the calls take."""
    source, main = Together(1), threading.current_thread().name
    with iter(endless(source, [Batch(8)])) as iterator:
        next(iterator)
        assert set(source.threads) == {main}
        until = time.monotonic() + LIMIT_SECONDS
        while set(source.threads) == {main} and time.monotonic() < until:
            time.sleep(1e-3)
            next(iterator)
    assert set(source.threads) > {main}


def test_a_batch_is_divided_into_equal_shares():
    """Of 512 records, with four calls, one reads 128."""
    loader = endless(SlowManyOf(4096, Crowd(4)), [Batch(512)], read_options=ReadOptions(16, 512))
    with iter(loader) as iterator:
        assert next(iterator)["together"].tolist() == [128] * 512


def test_a_source_of_many_keys_that_says_nothing_is_asked_for_whole_batches():
    """Then it is up to the source to divide them."""
    loader = endless(SlowMany(4096, Crowd(16)), [Batch(64)])
    with iter(loader) as iterator:
        batches = list(itertools.islice(iterator, 4))
    assert all(batch["together"].tolist() == [64] * 64 for batch in batches)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("batch_size", [1, 7, 10])
@pytest.mark.parametrize("ahead", [16, 33, 100])
def test_no_more_records_are_begun_ahead_than_the_buffer_holds(batch_size, ahead, monkeypatch):
    """`prefetch_buffer_size` counts records, exactly, and all of them are begun."""
    # now and then one is left to the thread that needs it
    monkeypatch.setattr(read_pace, "TRIAL_SHARE", 0)
    source = Counted(1000)
    loader = endless(source, [Batch(batch_size)], read_options=ReadOptions(16, ahead))
    with iter(loader) as iterator:
        for _ in range(20):
            next(iterator)
        taken, until = 20 * batch_size, time.monotonic() + LIMIT_SECONDS
        while len(source.keys) < taken + ahead and time.monotonic() < until:
            time.sleep(1e-3)
        time.sleep(0.02)  # more would come now
        assert sorted(source.keys) == list(range(taken + ahead))


@pytest.mark.slow
def test_a_worker_process_begins_no_more_records_than_the_buffer_holds():
    """Beside those of the batch that it works on: each record tells how many reads had begun before
    its own ended.
    """
    loader = endless(Begun(4000), [Batch(10)], worker_count=1, read_options=ReadOptions(8, 40))
    with iter(loader) as iterator:
        found = np.concatenate(list(itertools.islice(iterator, 50)))
    ahead = [int(begun) - key for key, begun in enumerate(found.tolist())]
    assert 8 <= max(ahead) <= 10 + 40


class Begun(Counted):
    """A record is the number of reads that have begun before its own ends."""

    def __getitem__(self, key):
        self.note(key)
        time.sleep(1e-3)
        return len(self.keys)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Counted, AsyncCounted])
@pytest.mark.parametrize("where", ["inline", "threads"])
@pytest.mark.parametrize("batch_size", chosen([None, 1, 32, 512], 1, 512))
@pytest.mark.one_in(6)
def test_a_record_that_cannot_be_read_ends_the_same_stream(kind, where, batch_size):
    """What comes before it comes; the error tells its key; no other record is read twice."""
    source = kind(700, bad=(BAD,))
    operations = [] if batch_size is None else [Batch(batch_size)]
    loader = DataLoader(
        data_source=source,
        sampler=IndexSampler(700, num_epochs=1),
        operations=operations,
        **WHERE[where],
    )
    elements = []
    with iter(loader) as iterator, pytest.raises(OSError, match=f"cannot read {BAD}") as caught:
        for element in iterator:
            elements.append(element)
    assert len(elements) == BAD // (batch_size or 1)
    assert f"record key {BAD}" in str(caught.value.__notes__)
    assert {key for key in source.keys if source.keys.count(key) > 1} == {BAD}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", [Counted, AsyncCounted])
@pytest.mark.parametrize("batch_size", chosen([None, 1, 32, 512], 1, 512))
def test_skipping_leaves_out_the_record_and_reads_no_other_twice(kind, batch_size):
    """Of a batch of 512 records, too."""
    source = kind(100, bad=(BAD, 64))
    loader = DataLoader(
        data_source=source,
        sampler=IndexSampler(100, num_epochs=1),
        operations=[] if batch_size is None else [Batch(batch_size)],
        on_error="skip",
    )
    with iter(loader) as iterator:
        found = list(iterator)
        assert iterator.skipped_count == 2
    found = found if batch_size is None else np.concatenate(found).tolist()
    assert found == [key for key in range(100) if key not in source.bad]
    assert {key for key in range(100) if source.keys.count(key) != 1} == set(source.bad)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", [Counted, AsyncCounted])
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
@pytest.mark.parametrize("where", ["inline", "threads"])
def test_what_is_no_exception_comes_out_of_next(kind, error, where):
    """A source may ask the program to end; readers outlive that."""
    source = kind(100, bad=(BAD,), error=error)
    found = []
    with iter(endless(source, [Batch(4)], **WHERE[where])) as iterator, pytest.raises(error):
        for batch in iterator:
            found += batch.tolist()
    assert found == list(range(36))
    if kind is AsyncCounted:
        assert headrace.sources.as_source(source)[0] == 0  # the loop runs


@pytest.mark.parametrize("where", WHERE)
@given(
    st.sampled_from(
        [
            "single records",
            "batch",
            "filter, batch",
            "flat map, batch",
            "random",
            "batch of batches",
        ]
    ),
    st.integers(0, 5),
    st.integers(0, 40),
    st.sampled_from([Slow, SlowMany, SlowManyOf, AsyncSlow]),
)
@tries(8)
@pytest.mark.slow
def test_the_stream_is_the_same_however_records_are_read(where, name, threads, ahead, kind):
    """Whatever the readers, the buffer, the source and the workers."""
    source = Values(kind)
    more = {"read_options": ReadOptions(threads, max(threads, ahead)), **WHERE[where]}
    sampler = IndexSampler(40, shuffle=True, seed=3, num_epochs=2)
    loaders = [
        DataLoader(data_source=data, sampler=sampler, operations=PIPELINES[name], **given)
        for data, given in ((list(range(40)), {}), (source, more))
    ]
    assert stream(loaders[0]) == stream(loaders[1])


class Values:
    """The keys, read as a source of some kind is."""

    def __new__(cls, kind):
        return {Slow: Singly, SlowMany: Many, SlowManyOf: ManyOf, AsyncSlow: Async}[kind](40)


class Singly(Counted):
    """One by one, some slow."""

    def __getitem__(self, key):
        if key % 7 == 0:
            time.sleep(1e-3)
        return key


class Many(Singly):
    """Many in a call."""

    def __getitems__(self, keys):
        return [self[key] for key in keys]


class ManyOf(Many):
    """Many in a call, three calls at a time."""

    facts = SourceFacts(reads_ahead=3)


class Async(Counted):
    """By coroutines."""

    async def __getitem__(self, key):
        import asyncio

        await asyncio.sleep(1e-3 * (key % 7 == 0))
        return key


def test_a_loader_that_is_closed_while_records_are_read_leaves_no_thread():
    """Close waits for reads under way, and begins no more of them."""
    source = Counted(100_000)
    iterator = iter(endless(source, [Batch(512)]))
    next(iterator)
    iterator.close()
    begun = len(source.keys)
    time.sleep(0.02)
    assert len(source.keys) == begun
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("headrace-")]


class Never(Counted):
    """A source whose reads never end after the first ones, unless they are cancelled."""

    begun = cancelled = 0

    async def __getitem__(self, key):
        import asyncio

        if key < 8:
            return key
        self.begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled += 1


@pytest.mark.parametrize("where", ["inline", "threads"])
def test_closing_cancels_coroutines_that_hang(where):
    """An asynchronous source that never answers does not hold close up."""
    source = Never(10_000)
    iterator = iter(endless(source, [Batch(8)], read_options=ReadOptions(16, 100), **WHERE[where]))
    assert next(iterator).tolist() == list(range(8))
    limit = time.monotonic() + 30
    while not source.begun and time.monotonic() < limit:
        time.sleep(1e-3)
    iterator.close()
    assert source.cancelled == source.begun >= 1


def test_readers_of_a_pipeline_are_as_many_as_its_leaves_want():
    """None for what is in memory, at most `num_threads`, and coroutines as many as the buffer
    holds.
    """

    def readers(source, **more):
        pipeline = make_pipeline(source, IndexSampler(len(source)), [Batch(4)], None)
        return sum(reads_under_way(leaf, ReadOptions(**more)) for leaf in pipeline.every_leaf)

    assert readers(headrace.sources.as_source([1, 2, 3])) == 0
    assert readers(Counted(10)) == 16
    assert readers(Counted(10), num_threads=3) == 3
    assert readers(Counted(10), prefetch_buffer_size=0) == 0
    assert readers(SlowManyOf(10, Crowd(4))) == 4
    assert readers(headrace.sources.as_source(AsyncCounted(10))) == 500
    assert (
        readers(
            headrace.sources.as_source(AsyncCounted(10)), num_threads=0, prefetch_buffer_size=30
        )
        == 30
    )
