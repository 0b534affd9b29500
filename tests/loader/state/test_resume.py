"""Resuming is exact, everywhere, for every kind of pipeline."""

from __future__ import annotations

import functools
import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.damage import ODD_VALUES, paths_in, sealed, with_value
from support.pipelines import PIPELINES, loader, plain, stream, tries

import headrace
from headrace import Batch, DataLoader, Filter, FlatMap, IndexSampler, ShardOptions
from headrace.errors import CheckpointError


@pytest.mark.one_in(18)
@pytest.mark.parametrize("name", PIPELINES)
def test_resume_at_every_step_gives_the_rest_of_the_stream(name):
    """A new iterator, given the state of any step, goes on with exactly the elements that were
    still to come.
    """
    one = loader(name)
    iterator = iter(one)
    states, elements = [iterator.get_state()], []
    for element in iterator:
        elements.append(plain(element))
        states.append(iterator.get_state())
    assert len(elements) > 3
    for step, state in enumerate(states):
        resumed = iter(loader(name))
        resumed.set_state(state)
        assert resumed.get_state() == state
        assert stream(resumed) == elements[step:]


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.one_in(4)
def test_a_loader_gives_the_same_stream_every_time(name):
    """Iterating a loader twice gives two independent, equal runs."""
    one = loader(name)
    first, second = iter(one), iter(one)
    interleaved = [(plain(a), plain(b)) for a, b in zip(first, second)]
    assert all(a == b for a, b in interleaved)
    assert [a for a, _ in interleaved] == stream(one)


@pytest.mark.parametrize("name", PIPELINES)
def test_len_counts_the_elements_where_it_is_known(name):
    """len(loader) is exact for aligned pipelines, and a TypeError that says why for the others."""
    one = loader(name)
    planned = any(getattr(operation, "lengths", None) is not None for operation in PIPELINES[name])
    ragged = any(not getattr(operation, "one_to_one", True) for operation in PIPELINES[name])
    if ragged and not planned:
        with pytest.raises(TypeError, match="a Filter, FlatMap"):
            len(one)
    else:
        assert len(one) == len(list(one))


def test_state_at_step_a_billion_is_small_and_reads_nothing_before_it():
    """Restoring at step 10^9 reads only the records of the next batch, and the state stays under
    1,000 bytes.
    """
    read = []

    class Source:
        def __len__(self):
            return 1000

        def __getitem__(self, key):
            read.append(key)
            return key

    sampler = IndexSampler(1000, shuffle=True, seed=1)
    one = DataLoader(
        data_source=Source(),
        sampler=sampler,
        operations=[Batch(8)],
        read_options=headrace.ReadOptions(num_threads=0),
    )
    iterator = iter(one)
    state = json.loads(iterator.get_state())
    state["step"], state["cursor"] = 10**9, [[8 * 10**9], [0]]
    iterator.set_state(sealed(state))
    batch = next(iterator)
    assert batch.tolist() == sampler.record_keys(np.arange(8 * 10**9, 8 * 10**9 + 8)).tolist()
    assert read == batch.tolist()
    assert len(iterator.get_state()) < 1000
    assert json.loads(iterator.get_state())["step"] == 10**9 + 1


def test_the_state_tells_where_the_user_stands_not_the_prefetch():
    """Reading ahead leaves the state as it is."""

    class Source:
        def __len__(self):
            return 100

        def __getitem__(self, key):
            return key

    iterator = iter(headrace.load(Source(), batch_size=4, num_epochs=1))
    before = iterator.get_state()
    iterator.start_prefetch()
    assert iterator.get_state() == before
    next(iterator)
    assert json.loads(iterator.get_state())["cursor"] == [[4], [0]]
    iterator.close()


@pytest.mark.parametrize("operation", [FlatMap(lambda x: [x, x]), Filter(lambda x: x % 3)])
def test_a_state_does_not_depend_on_how_many_rows_a_task_takes(operation):
    """A task takes more rows of joined streams if it is quick: only what a record still owes is
    inside a record.
    """
    parts = [
        headrace.MapDataset.range(40).to_iter_dataset(),
        headrace.MapDataset.range(40).to_iter_dataset(),
    ]
    iterator = iter(headrace.IterDataset.mix(parts).then(operation))
    for step, _ in enumerate(iterator, 1):
        delivered = json.loads(iterator.get_state())["cursor"][1][-1]
        assert delivered == (step % 2 if isinstance(operation, FlatMap) else 0)


def test_set_state_may_be_called_again_and_again():
    """set_state works before the first next, after some, twice in a row, and backwards."""
    one = loader("filter, batch")
    iterator = iter(one)
    start = iterator.get_state()
    elements = [plain(next(iterator)) for _ in range(4)]
    fourth = iterator.get_state()
    iterator.set_state(start)
    iterator.set_state(start)
    assert [plain(next(iterator)) for _ in range(4)] == elements
    assert iterator.get_state() == fourth
    list(iterator)
    iterator.set_state(start)
    assert plain(next(iterator)) == elements[0]


def test_state_dict_is_the_same_state_as_a_dict():
    """state_dict and load_state_dict do what get_state and set_state do, with plain values."""
    one = loader("flat map, batch")
    iterator = iter(one)
    next(iterator)
    saved = iterator.state_dict()
    assert json.loads(iterator.get_state()) == saved
    rest = stream(iterator)
    again = iter(one)
    again.load_state_dict(saved)
    assert stream(again) == rest


def test_the_end_of_the_stream_can_be_saved_and_restored():
    """A state taken after the last element restores to an iterator that has none left."""
    one = loader("batch")
    iterator = iter(one)
    list(iterator)
    again = iter(one)
    again.set_state(iterator.get_state())
    assert list(again) == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: headrace.load(range(39), batch_size=4, num_epochs=1, shuffle=True, seed=1),
            "records 40 → 39",
        ),
        (
            lambda: headrace.load(range(40), batch_size=4, num_epochs=1, shuffle=True, seed=2),
            "seed 1 → 2",
        ),
        (
            lambda: headrace.load(
                range(40), batch_size=4, drop_remainder=True, num_epochs=1, shuffle=True, seed=1
            ),
            "operations: number 0",
        ),
        (lambda: headrace.load(range(40), num_epochs=1, shuffle=True, seed=1), "operations: 1 → 0"),
    ],
)
def test_the_state_of_another_pipeline_is_refused_and_the_difference_named(make, message):
    """set_state says what differs and leaves the iterator where it was."""
    original = iter(headrace.load(range(40), batch_size=4, num_epochs=1, shuffle=True, seed=1))
    next(original)
    other = iter(make())
    expected = stream(make())
    with pytest.raises(CheckpointError, match=message):
        other.set_state(original.get_state())
    assert stream(other) == expected


@pytest.mark.parametrize("strict", [True, False])
def test_the_state_of_one_source_is_refused_by_joined_streams(strict):
    """With an error of checkpoints, as any other pipeline."""
    iterator = iter(
        headrace.IterDataset.mix([headrace.MapDataset.range(9).to_iter_dataset()] * 2, [1, 1])
    )
    message = "another pipeline" if strict else "of a pipeline with 1 sources, but this one has 2"
    with pytest.raises(CheckpointError, match=message):
        iterator.set_state(iter(headrace.load(range(9))).get_state(), strict)


@pytest.mark.parametrize("kind", ["weights", "weights, then omit", "omit"])
def test_changes_of_another_kind_of_order_are_neither_damage_nor_an_error_of_its_own(kind):
    """strict=False restores the position, as without the change."""
    if kind.startswith("weights"):
        run = iter(
            headrace.DataLoader(data_source=range(9), sampler=headrace.WeightedSampler([1.0] * 9))
        )
        next(run)
        run.change(weights=[1.0] * 8 + [0.0])
        other = iter(headrace.load(range(9), omit=[8] if "omit" in kind else None))
    else:
        run = iter(headrace.load(range(9), omit=[3]))
        other = iter(headrace.MapDataset.range(9)[1:].to_iter_dataset())
    next(run)
    other.set_state(run.get_state(), strict=False)
    assert next(other) == 2


def test_the_state_of_another_shard_is_refused():
    """A state taken as shard 0 of 2 is not taken for shard 1's."""
    first, second = (
        headrace.load(
            range(40), batch_size=4, num_epochs=1, shard_options=headrace.ShardOptions(s, 2)
        )
        for s in (0, 1)
    )
    with pytest.raises(
        CheckpointError,
        match=r"another shard \(0 of 2 → 1 of 2\)\. Restore the state of this process",
    ):
        iter(second).set_state(iter(first).get_state())


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b"{}", b"\xff\xfe", b'{"cursor": 1}', "x", b"[" * 100_000, 7, None],
)
def test_bytes_that_are_no_state_are_refused(data):
    """Damaged or foreign bytes give a CheckpointError, and the iterator stays usable."""
    iterator = iter(loader("batch"))
    with pytest.raises(CheckpointError):
        iterator.set_state(data)
    assert len(list(iterator)) == 12


@pytest.mark.parametrize(
    "change",
    [
        {"cursor": [[-1], [0]]},
        {"cursor": [[1.5], [0]]},
        {"cursor": [[10**6], [0]]},
        {"cursor": [[0], []]},
        {"cursor": [[0], [0, 1]]},
        {"cursor": [[0, 0], [0, 0]]},
        {"cursor": [0, 0]},
        {"history": []},
        {"history": {"colour": 1}},
        {"history": {"shards": [[[], [], False, 0]] * 2}},
        {"history": {"orders": [[1, 0, {}]]}},
        {"history": {"orders": [[0, -1, {}]]}},
        {"history": {"orders": [[0, 0, 3]]}},
        {"history": {"orders": [[0, 0, {}, 3]]}},
        {"identity": {}},
        {"identity": {"sources": [{}], "orders": []}},
        {"identity": {"sources": 1, "orders": 2, "operations": 3, "sizes": []}},
        {"identity": {"sources": [1], "orders": [2], "operations": []}},
        {"identity": {"sources": [{}], "orders": [{}], "sizes": [0]}},
        {
            "identity": {
                "sources": [{}],
                "orders": [{}],
                "joins": [{"kind": "mix", "names": ["a"], "sizes": []}],
            }
        },
        {"identity": {"sources": [{}], "orders": [{}], "colour": [1]}},
        {"marks": {"3": {"place": [0, 0]}}},
        {"marks": {"0": {"colour": 1}}},
        {"skipped": [[[3, 2]], []]},
        {"skipped": 3},
        {"cursor": "ab"},
        {"step": True},
        {"step": -1},
        {"shard": [0]},
        {"version": 99},
        {"identity": []},
        {"more": 1},
    ],
)
def test_states_with_impossible_values_are_refused(change):
    """Each field of a state is checked before anything is done with it."""
    iterator = iter(loader("batch"))
    state = {**json.loads(iterator.get_state()), **change}
    with pytest.raises(CheckpointError):
        iterator.set_state(sealed(state))
    assert len(list(iterator)) == 12


def _sharded(name, index, count):
    """One shard of a pipeline; `"grain"` is one in whose order each shard has its own."""
    operations = [
        Filter(lambda x: x % 3 != 1),
        Batch(4),
        FlatMap(lambda batch: batch.tolist()),
        Batch(3),
    ]
    algorithm = "grain" if name == "grain" else "headrace"
    epochs = 2 if name == "grain" else None
    sampler = IndexSampler(
        40, ShardOptions(index, count), True, epochs, seed=4, algorithm=algorithm
    )
    loader_ = DataLoader(
        data_source=range(40), sampler=sampler, operations=operations[: 2 if name == "grain" else 4]
    )
    return iter(loader_.skip([(9, 11)]) if name == "grain" else loader_)


@functools.cache
def _states_to_damage():
    """States of runs on one shard after three, whose fields all say something."""
    states = []
    for name in ("grain", "taken apart"):
        shards = [_sharded(name, index, 3) for index in range(3)]
        for steps, shard in enumerate(shards, start=1):
            stream(itertools.islice(shard, steps))
        whole = _sharded(name, 0, 1)
        whole.set_states([shard.get_state() for shard in shards])
        next(whole)
        states.append((name, json.loads(whole.get_state())))
    return states


@tries(100)
@given(data=st.data())
def test_a_damaged_state_is_refused_or_a_place_in_the_stream(data):
    """Whatever values are put into it: a CheckpointError, or elements come and the state can be
    taken again; no hang.
    """
    name, state = data.draw(st.sampled_from(_states_to_damage()))
    for _ in range(data.draw(st.integers(1, 2))):
        paths = list(paths_in(state))
        state = with_value(
            state, data.draw(st.sampled_from(paths)), data.draw(st.sampled_from(ODD_VALUES))
        )
    with _sharded(name, 0, 1) as iterator:
        try:
            iterator.set_state(sealed(state))
        except CheckpointError:
            return
        taken = [
            iterator.get_state(),
            *(iterator.get_state() for _ in itertools.islice(iterator, 3)),
        ]
        for again in taken:
            iterator.set_state(again)


@pytest.mark.parametrize("order_shards", [2, 41, 2**32])
def test_the_shards_of_former_orders_are_checked(order_shards):
    """A number of shards that the records are too few for, or with a sampler that has one order for
    all: an error at once.
    """
    for name, state in _states_to_damage():
        if name == "grain" and order_shards == 2:
            continue
        damaged = with_value(
            {"history": {"shards": [[[], [], False, 0]]}, **state},
            ("history", "shards", 0, 3),
            order_shards,
        )
        with pytest.raises(
            CheckpointError, match=f"order_shards={order_shards}|shard {order_shards - 1} of"
        ):
            _sharded(name, 0, 1).set_state(sealed(damaged))


@pytest.mark.parametrize("part", [0, 1, 2])
def test_every_part_of_a_mix_is_checked_when_a_state_is_read(part):
    """Not only the first one that is right."""
    sizes = {"a": 5, "b": 6, "c": 7}
    sampler = headrace.MixSampler(sizes, when_exhausted="repeat")
    iterator = iter(
        DataLoader(data_source={name: range(size) for name, size in sizes.items()}, sampler=sampler)
    )
    state = json.loads(iterator.get_state())
    order = state["identity"]["orders"][0]
    names = sorted(name for name in order if name.startswith("part "))
    assert len(names) == 3
    order[names[part]] = 5
    with pytest.raises(CheckpointError):
        iterator.set_state(sealed(state))


@pytest.mark.parametrize("step", [2**62, 2**63 - 1])
def test_a_step_that_no_stream_reaches_is_refused(step):
    """The states after it could not be read again."""
    iterator = iter(loader("batch"))
    state = {**json.loads(iterator.get_state()), "step": step}
    with pytest.raises(CheckpointError, match="damaged"):
        iterator.set_state(sealed(state))


WORKER_COUNTS = (0, 1, 2, 3, 7)


@pytest.mark.long
@pytest.mark.parametrize("before", WORKER_COUNTS)
@pytest.mark.parametrize("name", ["random", "flat map, random, batch, random"])
def test_a_state_taken_with_any_number_of_workers_is_resumed_with_any_other(name, before):
    """Every pair of worker counts, with other buffers and threads in place of processes for some:
    the rest of the stream.
    """
    expected = stream(loader(name))
    with iter(loader(name, worker_count=before, worker_buffer_size=2)) as iterator:
        first = stream(itertools.islice(iterator, 5))
        state = iterator.get_state()
    for after in WORKER_COUNTS:
        kind = "thread" if (before + after) % 3 == 0 else "process"
        options = headrace.ReadOptions(num_threads=after)
        with iter(
            loader(name, worker_count=after, worker_kind=kind, read_options=options)
        ) as iterator:
            iterator.set_state(state)
            assert first + stream(iterator) == expected


def _parquet(folder):
    import pyarrow
    import pyarrow.parquet

    for part in range(2):
        table = pyarrow.table({"x": list(range(20 * part, 20 * part + 20))})
        pyarrow.parquet.write_table(table, folder / f"part-{part}.parquet")
    return headrace.ParquetDataSource(str(folder / "*.parquet"))


def _array_record(folder):
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(str(folder / "all.array_record"), "group_size:1")
    for number in range(40):
        writer.write(bytes([number]))
    writer.close()
    return headrace.ArrayRecordDataSource(str(folder / "all.array_record"))


@pytest.mark.parametrize("make", [_parquet, _array_record])
def test_files_that_were_moved_are_still_the_same_source(make, tmp_path):
    """The state of a run on one folder goes on with the same files in another one."""
    old, new = tmp_path / "old", tmp_path / "new" / "place"
    old.mkdir()
    new.parent.mkdir()
    source = make(old)
    with iter(headrace.load(source, shuffle=True, seed=1, num_epochs=1)) as iterator:
        first = stream(itertools.islice(iterator, 15))
        state = iterator.get_state()
        expected = stream(iterator)
    old.rename(new)
    kind = type(source)
    moved = (
        kind(str(new / "*.parquet")) if make is _parquet else kind(str(new / "all.array_record"))
    )
    with iter(headrace.load(moved, shuffle=True, seed=1, num_epochs=1)) as iterator:
        iterator.set_state(state)
        assert stream(iterator) == expected
    assert len(first + expected) == 40


class LoadsLater(headrace.MapTransform):
    """Loads what it needs when it is first called, and remembers what it has seen."""

    def __init__(self):
        self.table, self.cache = None, {}

    def map(self, x):
        """Doubles."""
        self.table = self.table or {"factor": 2}
        return self.cache.setdefault(x, x * self.table["factor"])


def test_an_operation_may_change_itself_while_it_works():
    """What it loads or remembers is no part of its identity."""

    def opened():
        return iter(
            headrace.load(range(20), transformations=[LoadsLater()], batch_size=4, num_epochs=1)
        )

    one = opened()
    next(one)
    other = opened()
    other.set_state(one.get_state())
    assert stream(other) == stream(one)


def test_a_run_that_died_of_a_bad_record_goes_on_without_it():
    """Its state is taken up by the same pipeline with on_error="skip"."""

    def opened(**more):
        sampler = IndexSampler(12, num_epochs=1)
        operations = [lambda x: 1 // (x - 6) and x, Batch(3)]
        return iter(
            DataLoader(data_source=range(12), sampler=sampler, operations=operations, **more)
        )

    one = opened()
    with pytest.raises(ZeroDivisionError):
        list(one)
    other = opened(on_error="skip")
    other.set_state(one.get_state())
    assert 6 not in np.concatenate(list(other))


def test_a_mismatch_says_how_to_go_on_deliberately():
    """The message names strict=False."""
    one = iter(loader("batch"))
    with pytest.raises(CheckpointError, match="strict=False"):
        iter(loader("batch", records=41)).set_state(one.get_state())
