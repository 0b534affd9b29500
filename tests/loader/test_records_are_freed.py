"""Records, batches and sources are freed with the last reference to them, without the cyclic
garbage collector.
"""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from contextlib import suppress

import jax
import numpy as np
import pytest

from headrace import (
    Batch,
    BudgetBatch,
    DataLoader,
    Filter,
    FlatMap,
    IndexSampler,
    IterDataset,
    MapDataset,
    MixSampler,
    Pack,
    ReadOptions,
)

AHEAD = 8
READING = {
    "threads": ReadOptions(num_threads=2, prefetch_buffer_size=AHEAD),
    "in place": ReadOptions(num_threads=0),
}


class Tracked:
    """Records are new arrays of this source's own, which knows how many of them are alive in this
    process.
    """

    def __init__(self, count=400, bad=()):
        self.count, self.bad, self._made = count, bad, []

    def __len__(self):
        return self.count

    def __getitem__(self, key):
        gc.disable()  # in worker processes, too
        if key in self.bad:
            raise ValueError("a bad record")
        record = np.full(1 + key % 4, key, dtype=np.int64)
        self._made.append(weakref.ref(record))
        return record

    def __getstate__(self):
        return self.count, self.bad

    def __setstate__(self, state):
        self.__init__(*state)

    def alive(self):
        """The records that somebody still holds."""
        return [record for made in self._made if (record := made()) is not None]


class TrackedMany(Tracked):
    """… read many at a time."""

    def __getitems__(self, keys):
        return [self[key] for key in keys]


class TrackedSlow(Tracked):
    """… which wait for a disk."""

    def __getitem__(self, key):
        time.sleep(2e-4)
        return super().__getitem__(key)


class TrackedAsync(Tracked):
    """… read in an event loop."""

    async def __getitem__(self, key):
        await asyncio.sleep(0)
        return super().__getitem__(key)


def _loader(operations, **more):
    def build(source, reading):
        sampler = IndexSampler(len(source), shuffle=True, seed=0)
        return DataLoader(
            data_source=source,
            sampler=sampler,
            operations=operations,
            read_options=READING[reading],
            **more,
        )

    return build


def _chain(build):
    return lambda source, reading: build(
        MapDataset.source(source).seed(1).shuffle().repeat(), READING[reading]
    )


def _mixed(source, reading):
    parts = {"a": source, "b": source}
    return DataLoader(
        data_source=parts,
        sampler=MixSampler(parts),
        operations=[_first, Batch(4)],
        read_options=READING[reading],
    )


def _first(record):
    return record[:1]


def _even(record):
    return int(record[0]) % 2 == 0


def _twice(record):
    return [record, record + 1]


def _stream(dataset, reading):
    return dataset.to_iter_dataset(reading)


PIPELINES = {
    "records": _loader([]),
    "map, batch": _loader([_first, Batch(4)]),
    "filter, batch": _loader([Filter(_even), _first, Batch(4)]),
    "flat map, batch": _loader([FlatMap(_twice), _first, Batch(4)]),
    "batch of lists": _loader([Batch(4, batch_fn=list)]),
    "pack": _loader([Pack(8, window=16), Batch(2)]),
    "best fit": _loader([Pack(8, "best_fit", window=16), Batch(2)]),
    "budget": _loader([BudgetBatch(16, pad_to=(2, 4), window=16)]),
    "threads": _loader([_first, Batch(4)], worker_count=2, worker_kind="thread"),
    "threads, filter": _loader(
        [Filter(_even), _first, Batch(4)], worker_count=2, worker_kind="thread"
    ),
    "mix": _mixed,
    "chain": _chain(lambda dataset, reading: _stream(dataset.map(_first).batch(4), reading)),
    "evaluated chain": _chain(
        lambda dataset, reading: _stream(
            dataset.map(_first).batch(2).slice(slice(1, None)).map(_lowest).batch(4), reading
        )
    ),
    "chain of windows": _chain(
        lambda dataset, reading: (
            _stream(dataset, reading).window_shuffle(16, seed=1).map(_first).batch(4)
        )
    ),
    "zip": _chain(lambda dataset, reading: _stream(MapDataset.zip([dataset, dataset]), reading)),
    "stream mix": _chain(
        lambda dataset, reading: IterDataset.mix(
            [_stream(dataset, reading), _stream(dataset, reading).filter(_even)]
        )
    ),
    "stream interleave": _chain(
        lambda dataset, reading: IterDataset.interleave(
            [_stream(dataset, reading), _stream(dataset, reading)]
        )
    ),
    "stream pack": _chain(
        lambda dataset, reading: _stream(dataset, reading).filter(_even).pack(8, window=16)
    ),
}


def _lowest(batch):
    return batch[0]


@pytest.fixture
def no_collector():
    """No cyclic garbage collection."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def holders(records):
    """Text that says what holds a record, for the message of a failed test."""
    if not records:
        return ""
    record, told = records[0], []
    for _ in range(8):
        others = [
            one
            for one in gc.get_referrers(record)
            if one is not records and not hasattr(one, "f_code")
        ]
        others = [
            one
            for one in others
            if not (isinstance(one, list) and one and one[0] is record and told)
        ]
        if not others:
            break
        told.append(
            " | ".join(
                f"{type(one).__module__}.{type(one).__qualname__} {str(one)[:80]}" for one in others
            )
        )
        record = others[0]
    return "\n".join(told)


def freed(source, most=0):
    """Assert that no more than `most` records are alive; threads that are about to drop some get
    time for it.
    """
    deadline = time.monotonic() + 30  # only a failed test takes so long
    while len(alive := source.alive()) > most and time.monotonic() < deadline:
        del alive
        time.sleep(0.01)
    assert len(alive) <= most, f"{len(alive)} records are alive:\n{holders(alive)}"


def gone(source):
    """Assert that nothing refers to a source any more, given by a weak reference; so its files are
    closed.
    """
    deadline = time.monotonic() + 30  # only a failed test takes so long
    while source() is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert source() is None, f"the source is alive:\n{holders([source()])}"


@pytest.mark.one_in(6)
@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("reading", READING)
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_records_are_freed_without_the_garbage_collector(pipeline, reading):
    """During a run, those that were delivered; after it, all."""
    source = TrackedSlow() if reading == "threads" else Tracked()
    iterator = iter(PIPELINES[pipeline](source, reading))
    for _ in range(30):
        element = next(iterator)
    state = iterator.get_state()
    del element
    freed(source, most=4 * AHEAD + 4 * 32)
    iterator.set_state(state)
    next(iterator)
    iterator.close()
    freed(source)
    iterator = iter(PIPELINES[pipeline](source, reading))
    next(iterator)
    del iterator  # without a close
    freed(source)
    source = weakref.ref(source)
    gone(source)


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("closes", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_run_with_worker_processes_leaves_no_source(closes):
    """Also if tasks were under way at the end."""
    source = Tracked()
    operations = [Filter(_even), _first, Batch(4)]
    loader = DataLoader(
        data_source=source, sampler=IndexSampler(400), operations=operations, worker_count=1
    )
    iterator = iter(loader)
    next(iterator)
    if closes:
        iterator.close()
    del iterator, loader
    source = weakref.ref(source)
    gone(source)


def _failing(record):
    if int(record[0]) % 5 == 0:
        raise ValueError("a record that fails")
    return record[:1]


PLACES = (("inline", "skip"), ("inline", "raise"), ("threads", "skip"))
"""Not threads with "raise": other tasks under way may fail, too. Nobody takes their errors, whose
tracebacks hold records.
"""
FAILING = [(kind, *place) for kind in (Tracked, TrackedMany, TrackedAsync) for place in PLACES]


@pytest.mark.one_in(6)
@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize(("kind", "where", "on_error"), FAILING)
def test_records_that_fail_are_freed_too(kind, where, on_error):
    """Also those that were read beside a record that failed, whether it is skipped or raised."""
    source = kind(bad=(7, 20))
    workers = {"worker_count": 2, "worker_kind": "thread"} if where == "threads" else {}
    sampler = IndexSampler(len(source), num_epochs=1)
    loader = DataLoader(
        data_source=source,
        sampler=sampler,
        operations=[_failing, Batch(4)],
        on_error=on_error,
        **workers,
    )
    iterator = iter(loader)
    with suppress(ValueError):
        while next(iterator, None) is not None:
            pass
    iterator.close()
    del iterator, loader
    freed(source)
    source = weakref.ref(source)
    gone(source)


class Reports(Tracked):
    """A record says how many records of its process are alive when it is read."""

    def __getitem__(self, key):
        record = super().__getitem__(key)
        record[:] = len(self.alive())
        return record


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "operations", [[_first, Batch(4)], [Filter(len), _first, Batch(4)], [Pack(8, window=16)]]
)
@pytest.mark.slow
def test_workers_free_their_records_without_the_garbage_collector(operations):
    """A worker process holds the records that it works on, and those that it reads ahead; no more
    with time.
    """
    source = Reports(4000)
    loader = DataLoader(
        data_source=source,
        sampler=IndexSampler(4000),
        operations=operations,
        worker_count=1,
        read_options=READING["threads"],
    )
    with iter(loader) as iterator:
        most = [_largest(next(iterator)) for _ in range(700)]
    assert max(most) < 600, "records of a worker are kept"


def _largest(element):
    return int(np.max(element["tokens"] if isinstance(element, dict) else element))


class Copies:
    """A map whose results are new arrays, of which it knows the living."""

    def __init__(self):
        self._made = []

    def __call__(self, batch):
        copy = np.array(batch)
        self._made.append(weakref.ref(copy))
        return copy

    alive = Tracked.alive


@pytest.mark.usefixtures("no_collector")
def test_a_device_feeder_frees_records_and_batches_without_the_garbage_collector():
    """During the run and after it."""
    source, copies = TrackedSlow(), Copies()
    build = _loader([_first, Batch(4), copies])
    iterator = iter(build(source, "threads").to_device(jax.devices()[0]))
    for _ in range(30):
        batch = next(iterator)
    del batch
    freed(copies, most=16)
    iterator.close()
    del iterator
    freed(copies)
    freed(source)


def test_reading_ahead_stops_at_the_bound_of_bytes():
    """However few records that are; without the bound, 500 are read."""
    source = TrackedLarge()
    for limit, wanted in ((1 << 20, 10), (None, 40)):
        options = ReadOptions(num_threads=2, prefetch_buffer_size=40, prefetch_buffer_bytes=limit)
        loader = DataLoader(
            data_source=source, sampler=IndexSampler(400), operations=[_first], read_options=options
        )
        with iter(loader) as iterator:
            next(iterator)
            freed_until = time.monotonic() + 10
            while len(source.alive()) < wanted and time.monotonic() < freed_until:
                time.sleep(0.01)
            time.sleep(0.1)  # more would come now
            assert wanted <= len(source.alive()) <= wanted + 4
        freed(source)


class TrackedLarge(TrackedSlow):
    """Records of 100 KB."""

    def __getitem__(self, key):
        time.sleep(2e-3)
        record = np.full(100_000, key, dtype=np.uint8)
        self._made.append(weakref.ref(record))
        return record


class ReportsLarge(Reports):
    """… of 4 MB each."""

    def __getitem__(self, key):
        time.sleep(1e-3)
        record = np.zeros(4 << 20, dtype=np.uint8)
        self._made.append(weakref.ref(record))
        record[0] = len(self.alive())
        return record


@pytest.mark.slow
def test_a_worker_holds_few_large_records_at_a_time():
    """However small what becomes of them: a task is as long as its records allow."""
    options = ReadOptions(num_threads=2, prefetch_buffer_size=40, prefetch_buffer_bytes=16 << 20)
    source = ReportsLarge(300)
    loader = DataLoader(
        data_source=source,
        sampler=IndexSampler(300, num_epochs=1),
        operations=[_first],
        worker_count=1,
        read_options=options,
    )
    assert max(int(record[0]) for record in loader) <= 20
