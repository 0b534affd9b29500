"""The loader: streams, lengths, failures, and what is left when it is done."""

from __future__ import annotations

import gc
import itertools
import threading
import traceback
import weakref

import numpy as np
import pytest
from support.damage import sealed
from support.pipelines import PIPELINES, chosen, loader, stream

import headrace
from headrace import (
    Batch,
    DataLoader,
    Filter,
    FlatMap,
    IndexSampler,
    MemorySource,
    ReadOptions,
    ShardOptions,
    load,
)
from headrace.errors import ClosedError, NothingPassesError


class Slow:
    """A source without facts: it is read ahead on threads."""

    def __init__(self, length=100, bad=(), error=OSError):
        self.length, self.bad, self.error = length, set(bad), error
        self.threads = set()

    def __len__(self):
        return self.length

    def __getitem__(self, key):
        self.threads.add(threading.current_thread().name)
        if key in self.bad:
            raise self.error(f"cannot read {key}")
        return key


def make(operations, records=10, num_epochs=1, **more):
    """A loader over the numbers below `records`, in order."""
    sampler = IndexSampler(records, num_epochs=num_epochs, seed=0)
    return DataLoader(
        data_source=list(range(records)), sampler=sampler, operations=operations, **more
    )


SOME = [("random", 1), ("filter, batch", 7), ("random", None)]
"""Every pipeline on every executor is the matrix of `test_executors.py`."""


@pytest.mark.parametrize(
    ("name", "workers"), chosen(itertools.product(PIPELINES, [1, 2, 3, 7, None]), *SOME)
)
def test_the_stream_does_not_depend_on_the_worker_count(name, workers):
    """Byte for byte the same elements for every worker count."""
    assert stream(loader(name, worker_count=workers)) == stream(loader(name))


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.one_in(6)
def test_the_stream_does_not_depend_on_how_records_are_read(name):
    """Reading ahead on threads, or not, from any kind of source, gives the same stream."""

    def read(source, options):
        sampler = IndexSampler(40, shuffle=True, seed=3, num_epochs=2)
        return stream(
            DataLoader(
                data_source=source,
                sampler=sampler,
                operations=PIPELINES[name],
                read_options=options,
            )
        )

    expected = read(list(range(40)), ReadOptions(0, 0))
    assert read(Slow(40), ReadOptions(4, 16)) == expected
    assert read(Slow(40), ReadOptions(2, 2)) == expected
    assert read(Slow(40), ReadOptions(0, 0)) == expected


@pytest.mark.parametrize("shards", [2, 3, 5])
def test_shards_together_give_the_unsharded_batch(shards):
    """At each step the shards' batches, interleaved, are the global batch of the
    unsharded loader.
    """
    whole = list(load(range(60), shuffle=True, seed=1, num_epochs=2, batch_size=4 * shards))
    parts = [
        list(
            load(
                range(60),
                shuffle=True,
                seed=1,
                num_epochs=2,
                batch_size=4,
                shard_options=ShardOptions(shard, shards, drop_remainder=True),
            )
        )
        for shard in range(shards)
    ]
    assert len({len(part) for part in parts}) == 1
    for step, batches in enumerate(zip(*parts)):
        assert np.stack(batches, axis=1).ravel().tolist() == whole[step].tolist()


def test_shard_options_of_the_loader_win_over_those_of_the_sampler():
    """shard_options=None takes the sampler's shard; given ones replace it."""
    sampler = IndexSampler(10, ShardOptions(0, 2), num_epochs=1)
    assert list(DataLoader(data_source=range(10), sampler=sampler)) == [0, 2, 4, 6, 8]
    assert list(
        DataLoader(data_source=range(10), sampler=sampler, shard_options=ShardOptions(2, 5))
    ) == [2, 7]


@pytest.mark.slow
def test_columns_and_records_give_the_same_batches():
    """A dict of arrays, batched column by column, gives what its records give one by one."""
    columns = {"x": np.arange(50).reshape(25, 2), "y": {"z": np.arange(25, dtype=np.float32)}}
    records = [{"x": columns["x"][i], "y": {"z": columns["y"]["z"][i]}} for i in range(25)]
    for operations in (
        [Batch(4)],
        [Batch(4, drop_remainder=True)],
        [Batch(2), Batch(3)],
        [Batch(3), Filter(lambda b: b["x"].sum() % 2 == 0), Batch(2)],
        [Batch(3), FlatMap(lambda b: [b["x"]] * (int(b["x"][0, 0]) % 3))],
        [Batch(4), headrace.RandomMapTransform(lambda b, rng: b["x"] + rng.random())],
        [Batch(2), headrace.MapWithIndexTransform(lambda i, b: (i, b["x"])), Batch(2)],
        [Batch(25)],
        [Batch(100)],
    ):
        sampler = IndexSampler(25, shuffle=True, seed=2, num_epochs=2)
        one, other = (
            stream(DataLoader(data_source=source, sampler=sampler, operations=operations))
            for source in (columns, records)
        )
        assert one == other


@pytest.mark.one_in(2)
@pytest.mark.parametrize("worker_count", [0, 2])
@pytest.mark.parametrize("kind", [str, bytes])
def test_columns_of_text_are_batches_of_objects_as_records_of_text_are(kind, worker_count):
    """So their dtype does not depend on the longest text of a batch; also in a mix. Rows of texts
    stay arrays.
    """
    texts = np.array(["a", "bbb", "", "cc", "d"]).astype(kind)
    columns = {"text": texts, "x": np.arange(5), "pair": np.stack([texts, texts], axis=1)}
    records = [{name: column[key] for name, column in columns.items()} for key in range(5)]
    datasets = [headrace.MapDataset.source(source) for source in (columns, records)]
    mixes = [headrace.MapDataset.mix([one, one]).to_iter_dataset().batch(2) for one in datasets]
    found = [
        load(source, batch_size=2, num_epochs=1, worker_count=worker_count)
        for source in (columns, records)
    ]
    for one, other in (found, mixes):
        for batch, wanted in zip(one, other, strict=True):
            assert batch["text"].dtype == wanted["text"].dtype == object
            assert batch["pair"].dtype == wanted["pair"].dtype == columns["pair"].dtype
            np.testing.assert_equal(batch, wanted)


def test_an_endless_stream_goes_on_over_the_epochs():
    """num_epochs=None never ends, and every epoch has every record once."""
    numbers = list(itertools.islice(load(range(5), shuffle=True, seed=1), 50))
    assert all(sorted(numbers[start : start + 5]) == list(range(5)) for start in range(0, 50, 5))
    assert numbers[:5] != numbers[5:10]


@pytest.mark.slow
def test_a_filter_that_drops_a_whole_epoch_of_an_endless_stream_is_an_error():
    """Instead of spinning for ever, the loader says that nothing passes."""
    for operations in (
        [Filter(lambda x: x > 99)],
        [Filter(lambda x: False), Batch(4)],
        [FlatMap(lambda x: [])],
        [Batch(2), Filter(lambda b: False)],
        [Filter(lambda x: True), Batch(2), Filter(lambda b: False), Batch(2)],
    ):
        with pytest.raises(NothingPassesError, match="an epoch has 10"):
            next(iter(make(operations, num_epochs=None)))
    assert list(make([Filter(lambda x: False), Batch(4)])) == []


DATASETS = {"a": range(1000), "b": range(1000, 2000)}


def _mix_of_streams(seed):
    datasets = [
        headrace.MapDataset.source(records).seed(seed).shuffle().repeat()
        for records in (range(1000, 1010), range(1000))
    ]
    return headrace.IterDataset.mix([dataset.to_iter_dataset() for dataset in datasets]).filter(
        lambda x: x == 777
    )


def _drawn(sampler, source=range(1000)):
    return DataLoader(data_source=source, sampler=sampler, operations=[Filter(lambda x: x == 777)])


SELDOM = {
    "drawn with replacement": lambda seed: _drawn(
        headrace.WeightedSampler([1.0] * 1000, seed=seed)
    ),
    "some of the records in an epoch": lambda seed: _drawn(
        headrace.WeightedSampler([1.0] * 1000, 100, replacement=False, seed=seed)
    ),
    "a large class": lambda seed: _drawn(
        headrace.BalancedSampler([0] * 900 + [*range(1, 101)], seed=seed)
    ),
    "classes by weight": lambda seed: _drawn(
        headrace.BalancedSampler([0] * 900 + [1] * 100, {0: 1, 1: 9}, seed=seed)
    ),
    "a part of small weight": lambda seed: _drawn(
        headrace.MixSampler(
            DATASETS, {"a": 0.05, "b": 0.95}, shuffle=True, seed=seed, when_exhausted="repeat"
        ),
        DATASETS,
    ),
    "a part drawn with replacement": lambda seed: _drawn(
        headrace.MixSampler(
            {"a": headrace.WeightedSampler([1.0] * 1000, seed=seed), "b": 1000},
            seed=seed,
            when_exhausted="repeat",
        ),
        DATASETS,
    ),
    "a long stream beside a short one": _mix_of_streams,
    "a repeated mix that ends with its short part": lambda seed: (
        headrace.MapDataset.mix(
            [headrace.MapDataset.range(1000), headrace.MapDataset.range(1000, 1010)]
        )
        .repeat()
        .to_iter_dataset()
        .filter(lambda x: x == 777)
    ),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", SELDOM)
def test_a_record_that_comes_seldom_is_enough_for_an_endless_stream(kind):
    """Of a stream with one good record, each source must have shown all records before nothing
    passes.
    """
    assert [int(next(iter(SELDOM[kind](seed)))) for seed in range(4)] == [777] * 4


def test_a_record_that_each_epoch_of_a_part_has_late_comes_again():
    """Since it came last, a whole epoch of the part must have passed, not only the end of one."""
    sources = {"a": range(100), "b": range(1000, 1100)}
    sampler = headrace.MixSampler(sources, {"a": 0.04, "b": 0.96}, when_exhausted="repeat")
    loader = DataLoader(
        data_source=sources, sampler=sampler, operations=[Filter(lambda x: x == 90)]
    )
    assert list(itertools.islice(loader, 2)) == [90, 90]


@pytest.mark.slow
@pytest.mark.parametrize(
    "weights", [{"a": 1e-5, "b": 1}, [(0, {"a": 0, "b": 1}), (150_000, {"a": 1, "b": 1})]], ids=str
)
def test_a_part_of_a_mix_that_comes_later_is_waited_for(weights):
    """Its weight is small, or a schedule draws it from a later step on."""
    sources = {"a": np.full(1000, 777), "b": np.arange(1000, 2000)}
    sampler = headrace.MixSampler(sources, weights, shuffle=True, seed=1, when_exhausted="repeat")
    assert next(iter(_drawn(sampler, sources))) == 777


@pytest.mark.parametrize(
    "other",
    [{"weights": {"a": 0.1, "b": 0.9}}, {"weights": {"a": 0, "b": 1}}, {"max_epochs": {"a": 2}}],
)
def test_a_mix_that_nothing_passes_is_an_error(other):
    """Also if a part has ended, or is never drawn."""
    sampler = headrace.MixSampler(DATASETS, shuffle=True, seed=1, when_exhausted="repeat", **other)
    loader = DataLoader(data_source=DATASETS, sampler=sampler, operations=[Filter(lambda x: False)])
    with pytest.raises(NothingPassesError, match="an epoch has 2000"):
        next(iter(loader))


def test_a_stream_that_nothing_passes_is_soon_an_error():
    """Within few epochs."""
    seen = []
    with pytest.raises(NothingPassesError):
        next(iter(load(range(2000), transformations=[Filter(seen.append)])))
    assert len(seen) <= 4 * 2000


TAKES_NO_MORE = [(0, [1, 1]), (4, [0, 1])]
LONG = pytest.mark.long


@pytest.mark.parametrize("is_endless", [True, False])
@pytest.mark.parametrize(
    "weights", [[1, 2], pytest.param([0, 1], marks=LONG), pytest.param(TAKES_NO_MORE, marks=LONG)]
)
def test_joined_streams_that_nothing_passes_are_an_error(is_endless, weights):
    """Also if no more records of one of them are taken, whether it has an end or not."""
    short, long = (headrace.MapDataset.source(range(count)) for count in (10, 300))
    streams = [
        each.to_iter_dataset() for each in (short.repeat() if is_endless else short, long.repeat())
    ]
    with pytest.raises(NothingPassesError, match="an epoch has 300"):
        next(
            iter(
                headrace.IterDataset.mix(streams, weights, when_exhausted="all").filter(
                    lambda x: False
                )
            )
        )


def _stream(count=10):
    return headrace.MapDataset.range(count).to_iter_dataset()


REPEATED = {
    "a stream": lambda: _stream().repeat(),
    "kept in memory": lambda: _stream().cache().repeat(),
    "a batch at a time": lambda: _stream().batch(2).repeat(),
    "two in a mix": lambda: headrace.IterDataset.mix([_stream().repeat(), _stream(3).repeat()]),
    "repeated inside": lambda: headrace.IterDataset.mix([_stream(2).repeat(), _stream(3)]).repeat(),
    "beside an endless dataset": lambda: headrace.IterDataset.mix(
        [
            headrace.MapDataset.range(300).shuffle(seed=1).repeat().to_iter_dataset(),
            _stream(3).repeat(),
        ],
        [1, 9],
    ),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.slow] if number > 1 else [])
        for number, kind in enumerate(REPEATED)
    ],
)
def test_a_stream_that_is_repeated_and_that_nothing_passes_is_an_error(kind):
    """Its repetitions are counted; other sources must have shown all of their records."""
    with pytest.raises(
        NothingPassesError, match=r"an endless stream, and an epoch has|repeat\(\) is endless"
    ):
        next(iter(REPEATED[kind]().filter(lambda x: False)))


def test_a_stream_that_is_repeated_a_number_of_times_just_ends():
    """However often that is."""
    assert list(_stream(2).repeat(300).filter(lambda x: False)) == []


@pytest.mark.slow
def test_an_element_that_seldom_passes_is_enough_for_a_repeated_stream():
    """Each repetition draws anew. A record of a dataset beside the stream may come late, too."""
    drawn = _stream(1).seed(3).repeat().random_map(lambda x, rng: rng.integers(40))
    assert list(drawn.filter(lambda x: x == 7).limit(6)) == [7] * 6
    late = headrace.MapDataset.range(300).map(lambda x: x + 1).repeat().to_iter_dataset()
    mixed = headrace.IterDataset.mix([late, _stream(1).repeat()], [1, 9])
    assert next(iter(mixed.filter(lambda x: x == 299))) == 299


@pytest.mark.parametrize("count", [1, 3])
def test_few_records_of_which_one_draw_in_forty_passes_are_enough_for_an_endless_stream(count):
    """Each epoch draws anew."""

    class Draw(headrace.RandomMapTransform):
        def random_map(self, element, rng):
            return int(rng.integers(40))

    for seed in range(2):
        loader = headrace.load(
            range(count), seed=seed, transformations=[Draw(), Filter(lambda x: x == 7)]
        )
        assert list(itertools.islice(iter(loader), 8)) == [7] * 8


def test_a_rare_record_is_enough_for_an_endless_stream():
    """One record that passes in each epoch fills batches larger than an epoch."""
    batches = iter(make([Filter(lambda x: x == 3), Batch(25)], num_epochs=None))
    assert next(batches).tolist() == [3] * 25
    assert next(batches).tolist() == [3] * 25


def fail_on(bad, error=ValueError):
    """A map that fails on one record."""

    def failing(x):
        if x == bad:
            raise error(f"no {x}")
        return x

    return failing


@pytest.mark.parametrize(
    ("operations", "delivered"),
    [
        ([fail_on(7)], [0, 1, 2, 3, 4, 5, 6]),
        ([fail_on(7), Batch(3)], [[0, 1, 2], [3, 4, 5]]),
        ([Filter(lambda x: True), fail_on(7), Batch(3)], [[0, 1, 2], [3, 4, 5]]),
        (
            [Filter(lambda x: True), Batch(3), lambda b: fail_on(7)(b[1]) and b],
            [[0, 1, 2], [3, 4, 5]],
        ),
        ([FlatMap(lambda x: [x, fail_on(7)(x)])], [x for x in range(7) for _ in range(2)]),
        ([Batch(2), lambda b: fail_on(6)(b[0]) is None or b], [[0, 1], [2, 3], [4, 5]]),
    ],
)
def test_a_failure_comes_at_its_place_with_its_own_type(operations, delivered):
    """All that precedes the failing record is delivered; then the user's own exception is raised,
    and again on retry.
    """
    got = []
    iterator = iter(make(operations))
    with pytest.raises(ValueError, match=r"no [67]") as caught:
        for element in iterator:
            got.append(element.tolist() if hasattr(element, "tolist") else element)
    assert got == delivered
    state = iterator.get_state()
    with pytest.raises(ValueError, match="no"):
        next(iterator)
    assert iterator.get_state() == state
    assert len(caught.value.__notes__) == 1
    assert "headrace: operation" in caught.value.__notes__[0]


def test_the_traceback_ends_in_the_users_function_without_our_machinery():
    """Between the loop and the user's function stand at most the iterator's own two frames."""
    with pytest.raises(ValueError, match="no 2") as caught:
        list(make([fail_on(2), Batch(4)]))
    files = [
        frame.filename.rsplit("/", 2)[-2:]
        for frame in traceback.extract_tb(caught.value.__traceback__)
    ]
    assert files[-1] == ["loader", "test_loader.py"]
    assert ["loader", "work.py"] not in files
    assert ["operations", "transforms.py"] not in files


def test_after_a_failure_set_state_goes_on():
    """A failed iterator can be sent past the record at fault."""
    iterator = iter(make([fail_on(4), Batch(3)]))
    next(iterator)
    with pytest.raises(ValueError, match="no 4"):
        next(iterator)
    state = iterator.state_dict()
    iterator.set_state(sealed({**state, "cursor": [[6], [0]]}))
    assert next(iterator).tolist() == [6, 7, 8]


@pytest.mark.parametrize("options", [ReadOptions(0, 0), ReadOptions(4, 20)])
def test_a_record_that_cannot_be_read_is_named_and_the_ones_before_it_come(options):
    """A source's error keeps its type and says which key and position could not be read."""
    source = Slow(20, bad=[13])
    loader = DataLoader(
        data_source=source, sampler=IndexSampler(20, num_epochs=1), read_options=options
    )
    got = []
    with pytest.raises(OSError, match="cannot read 13") as caught:
        for element in loader:
            got.append(element)
    assert got == list(range(13))
    assert caught.value.__notes__ == ["headrace: reading failed on record key 13 at position 13."]


def test_keyboard_interrupt_goes_through():
    """Ctrl-C in an operation is raised as it is, and the iterator can go on."""
    interrupted = []

    def operation(x):
        if x == 5 and not interrupted:
            interrupted.append(x)
            raise KeyboardInterrupt
        return x

    iterator = iter(make([operation, Batch(3)]))
    next(iterator)
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    assert next(iterator).tolist() == [3, 4, 5]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"dataset": [1]}, TypeError, "data_source="),
        ({"num_workers": 2}, TypeError, "worker_count="),
        ({"batch_size": 2}, TypeError, "headrace.Batch"),
        ({"drop_last": True}, TypeError, "drop_remainder=True"),
        ({"collate_fn": list}, TypeError, "batch_fn="),
        ({"prefetch_factor": 2}, TypeError, "worker_buffer_size="),
        ({"shuffle": True}, TypeError, "IndexSampler"),
        ({"nonsense": 1}, TypeError, "nonsense="),
        ({"sampler": None}, TypeError, "needs sampler="),
        ({"data_source": None}, TypeError, "needs data_source="),
        ({"data_source": (x for x in [1])}, TypeError, "__len__"),
        ({"data_source": []}, ValueError, "empty"),
        ({"sampler": [0, 1]}, TypeError, "IndexSampler"),
        ({"sampler": IndexSampler(3)}, ValueError, "3 records, but the source has 2"),
        ({"worker_count": -1}, ValueError, "worker_count=-1"),
        ({"worker_count": "2"}, TypeError, "str"),
        ({"worker_buffer_size": 0}, ValueError, "worker_buffer_size=0"),
    ],
)
def test_wrong_arguments_get_an_error_that_names_ours(arguments, error, message):
    """Keywords of other libraries, missing parts and impossible values are refused when the loader
    is made.
    """
    with pytest.raises(error, match=message):
        DataLoader(**{"data_source": [1, 2], "sampler": IndexSampler(2), **arguments})


@pytest.mark.parametrize("arguments", [(-1, 0), (0, -1)])
def test_impossible_read_options_are_refused(arguments):
    """Thread and buffer counts are not negative."""
    with pytest.raises(ValueError, match="at least 0"):
        ReadOptions(*arguments)


def test_an_endless_loader_has_no_length():
    """len() of an endless loader is a TypeError that says how to end it."""
    with pytest.raises(TypeError, match="num_epochs="):
        len(make([], num_epochs=None))


def test_a_loader_cannot_be_changed_after_it_was_made():
    """A loader is a description; another stream takes another loader."""
    with pytest.raises(AttributeError):
        make([]).worker_count = 3


def test_a_closed_iterator_says_so():
    """Next after close is an error; the state stays readable; closing twice is fine."""
    with iter(load(Slow(), batch_size=4, num_epochs=1)) as iterator:
        next(iterator)
    iterator.close()
    assert b'"step":1' in iterator.get_state()
    with pytest.raises(ClosedError, match="iter"):
        next(iterator)


def test_start_prefetch_begins_to_read():
    """After start_prefetch the records of the first batches are being read before anybody asks."""
    begun = threading.Event()

    class Source(Slow):
        def __getitem__(self, key):
            begun.set()
            return key

    with iter(load(Source(), batch_size=4, num_epochs=1)) as iterator:
        iterator.start_prefetch()
        assert begun.wait(10)
        assert next(iterator).tolist() == [0, 1, 2, 3]


def test_a_batch_that_is_kept_is_never_overwritten():
    """Large batches share reused memory only when nobody looks at it any more; a view
    keeps it too.
    """
    batches = list(load([np.full(10_000, i) for i in range(50)], batch_size=5, num_epochs=2))
    kept = [batch[2, 5:] for batch in batches[::3]]
    expected = [view.copy() for view in kept]
    del batches
    gc.collect()
    for batch in load([np.full(10_000, -1) for _ in range(50)], batch_size=5, num_epochs=2):
        assert (batch == -1).all()
    assert all((view == copy).all() for view, copy in zip(kept, expected))
    assert not any((view == -1).any() for view in kept)


def test_a_dropped_batch_is_memory_for_the_next():
    """A loop that keeps nothing uses the same few pieces of memory over and over."""
    addresses = {
        batch.__array_interface__["data"][0]
        for batch in load([np.full(100_000, i) for i in range(20)], batch_size=2, num_epochs=5)
    }
    assert len(addresses) <= 3


def test_large_batches_are_aligned_for_xla():
    """Arrays of large batches begin at multiples of 64 bytes, so that jax takes them without a
    copy.
    """
    for batch in load(
        {"a": np.ones((64, 999)), "b": np.ones((64, 777), np.float32)}, batch_size=32, num_epochs=1
    ):
        assert all(array.ctypes.data % 64 == 0 for array in batch.values())


def test_a_batch_handed_to_jax_keeps_its_values():
    """A jax.Array made of a batch, without a copy or with one, stays what it was while later
    batches are made.
    """
    import jax

    arrays = []
    for batch in load(
        [np.full(50_000, i, np.float32) for i in range(40)], batch_size=4, num_epochs=1
    ):
        arrays.append(jax.device_put(batch))
    for step, array in enumerate(arrays):
        assert np.asarray(array)[:, ::1000].tolist() == [[4 * step + row] * 50 for row in range(4)]


def test_any_dataset_with_len_and_getitem_is_a_source():
    """PyTorch-style datasets, with __getitems__ or without, work as they are."""

    class Many(Slow):
        def __getitems__(self, keys):
            assert all(type(key) is int for key in keys)
            return [key * 10 for key in keys]

    assert list(load(Many(5), num_epochs=1)) == [0, 10, 20, 30, 40]
    assert list(load(Slow(5), num_epochs=1)) == [0, 1, 2, 3, 4]


def test_a_getitems_that_returns_too_few_records_is_an_error():
    """The number of records is checked, so that none is lost in silence."""

    class Lossy(Slow):
        def __getitems__(self, keys):
            return [key for key in keys if key != 3]

        def __getitem__(self, key):
            return self.__getitems__([key])[0]

    with pytest.raises(Exception, match=r"3|index") as caught:
        list(load(Lossy(5), batch_size=5, num_epochs=1))
    assert "record key 3" in caught.value.__notes__[0]


def test_memory_source_is_what_lists_and_arrays_become():
    """A loader's repr tells what it runs."""
    text = repr(make([Batch(2), abs]))
    assert "MemorySource" in text
    assert "Batch(2)" in text
    assert "abs" in text
    assert isinstance(MemorySource([1]), MemorySource)


def test_a_record_that_comes_once_an_epoch_is_enough_when_shuffled_and_sharded():
    """A gap of almost two epochs is no error in a shuffle, and a shard may miss a rare record for
    some epochs.
    """
    for records in (100, 1000):
        rare = load(
            list(range(records)), shuffle=True, seed=0, transformations=[Filter(lambda x: x == 3)]
        )
        assert list(itertools.islice(rare, 20)) == [3] * 20
    shard = load(
        list(range(300)),
        shuffle=True,
        seed=0,
        shard_options=ShardOptions(1, 3),
        transformations=[Filter(lambda x: x == 3)],
    )
    assert list(itertools.islice(shard, 30)) == [3] * 30


class Shifted:
    """A user's sampler: position i gives record i + `by`."""

    def __init__(self, by=0, length=8, seeded=False):
        self.by, self.length, self.seeded = by, length, seeded

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if index == self.by == 5:
            raise LookupError("no fifth")
        rng = np.random.default_rng(index) if self.seeded else None
        return headrace.RecordMetadata(index, index + self.by, rng)


def test_an_endless_sampler_of_the_users_does_not_spin_either():
    """Nothing passes, the sampler never ends: an error after as many records as the source has."""
    loader = DataLoader(
        data_source=range(10),
        sampler=EndlessZero(),
        operations=[Filter(lambda x: x > 99), Batch(2)],
    )
    with pytest.raises(NothingPassesError, match="an epoch has 10"):
        next(iter(loader))


class EndlessZero:
    """A sampler that gives record 0 for ever."""

    def __len__(self):
        import sys

        return sys.maxsize

    def __getitem__(self, index):
        return headrace.RecordMetadata(index, 0)


@pytest.mark.parametrize("source", [list(range(8)), {"x": np.arange(8)}])
def test_a_key_outside_the_source_is_an_error_for_every_source(source):
    """A user's sampler that gives a key too large is told so, whether records or
    columns are read.
    """
    with pytest.raises(IndexError, match=r"record key 8, outside of \[0, 8\)") as caught:
        list(DataLoader(data_source=source, sampler=Shifted(3), operations=[Batch(4)]))
    assert "at position 5" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    "operations", [[Batch(2)], [Filter(lambda x: True), Batch(2)], [Batch(2), Batch(2)]]
)
def test_a_users_generators_seed_batches_like_their_first_records(operations):
    """Random operations after a batch draw by the seed of its first record, with columns as with
    records.
    """
    draw = headrace.RandomMapTransform(lambda batch, rng: rng.random())
    first, second = (
        list(
            DataLoader(
                data_source=source, sampler=Shifted(seeded=True), operations=[*operations, draw]
            )
        )
        for source in (list(range(8)), np.arange(8))
    )
    assert first == second
    assert len(set(first)) == len(first)


def test_a_broken_getitems_is_not_hidden_by_a_working_getitem():
    """When every single record can be read but many cannot, the error of reading many is raised."""

    class Broken(Slow):
        def __getitems__(self, keys):
            raise OSError("cannot read many")

    with pytest.raises(OSError, match="cannot read many"):
        list(load(Broken(5), batch_size=5, num_epochs=1))


def test_a_remainder_that_is_dropped_cannot_fail():
    """Per-device batches with a device axis: the ragged end is left out before anything is made of
    it.
    """
    loader = make([Batch(3), Batch(5, drop_remainder=True)], records=140)
    batches = list(loader)
    assert [batch.shape for batch in batches] == [(5, 3)] * 9
    assert len(loader) == 9
    ragged = make(
        [Filter(lambda x: x % 2 == 0), Batch(3), Batch(5, drop_remainder=True)], records=140
    )
    assert [batch.shape for batch in ragged] == [(5, 3)] * 4


def test_an_operation_that_makes_a_loader_fails_with_its_own_error():
    """A pipeline inside an operation keeps its own message."""
    inner = FlatMap(lambda x: load([1, 2], num_epochs=1, transformations=[3]))
    with pytest.raises(TypeError, match="an operation is 3"):
        list(make([inner]))


def test_a_batch_that_is_larger_than_the_data_takes_no_more_memory():
    """There is memory for the three records, not for as many as the batch might have."""
    (batch,) = load([1, 2, 3], batch_size=10**13, num_epochs=1)
    assert batch.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sampler": IndexSampler}, "class IndexSampler"),
        ({"shard_options": (0, 2)}, "ShardOptions"),
        ({"read_options": {"num_threads": 2}}, "ReadOptions"),
        ({"operations": [Filter(lambda x: True), FlatMap(lambda x: None)]}, "Return a list"),
    ],
)
def test_more_wrong_kinds_name_the_right_one(arguments, message):
    """Wrong kinds of options are refused by name."""
    with pytest.raises(TypeError, match=message):
        list(
            DataLoader(
                **{"data_source": [1, 2], "sampler": IndexSampler(2, num_epochs=1), **arguments}
            )
        )


def test_options_of_grain_are_taken_as_ours():
    """Grain's ShardOptions and ReadOptions work where ours do."""
    import grain

    loader = DataLoader(
        data_source=range(10),
        sampler=IndexSampler(10, grain.sharding.ShardOptions(1, 2), num_epochs=1),
        read_options=grain.ReadOptions(num_threads=0),
    )
    assert list(loader) == [1, 3, 5, 7, 9]


@pytest.mark.long
def test_an_iterator_left_open_at_exit_makes_no_noise(tmp_path):
    """A program may end with an open iterator, reading threads or worker processes: exit code 0,
    nothing on stderr.
    """
    import subprocess
    import sys

    for workers in (0, 2):
        program = tmp_path / f"left_open_{workers}.py"
        program.write_text(
            "import headrace\nclass Source:\n    def __len__(self): return 1000\n    def "
            "__getitem__(self, key): return key\nit = iter(headrace.load(Source(), batch_size=4, "
            f"num_epochs=1, worker_count={workers}))\nassert next(it).tolist() == [0, 1, 2, 3]\n"
        )
        result = subprocess.run(
            [sys.executable, str(program)], capture_output=True, text=True, timeout=60
        )
        assert (result.returncode, result.stderr) == (0, "")


def test_dropping_an_iterator_frees_it_at_once():
    """Iterators are in no reference cycle: they go when the last reference goes, not when the
    collector comes.
    """
    gc.disable()
    try:
        iterator = iter(make([Batch(2)]))
        next(iterator)
        gone = weakref.ref(iterator)
        del iterator
        assert gone() is None
    finally:
        gc.enable()


def test_load_refuses_foreign_keywords_too():
    """load(num_workers=…) names worker_count."""
    with pytest.raises(TypeError, match="worker_count"):
        load([1], num_workers=2)


def test_stop_iteration_in_an_operation_does_not_end_the_stream():
    """A stray StopIteration is an error, never a silent end."""
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(make([lambda x: next(iter([])) if x == 4 else x]))
