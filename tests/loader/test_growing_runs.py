"""Runs that take in what is appended to their source while they go on."""

from __future__ import annotations

import itertools
import logging
import threading
import time

import numpy as np
import pytest
from support.growing_files import FORMATS
from support.growing_source import GrowingKeys, append, begin_writing, write

import headrace
from headrace import (
    Batch,
    BudgetBatch,
    DataLoader,
    Filter,
    GrowthOptions,
    IndexSampler,
    ShardOptions,
    load,
)
from headrace.errors import CheckpointError, SourceError
from headrace.loader.state.decisions import Decision, DecisionLog


@pytest.fixture
def path(tmp_path):
    """The file of a source of ten records."""
    append(tmp_path / "sizes.json", 10)
    return tmp_path / "sizes.json"


def _take(iterator, steps):
    return [key for _ in range(steps) for key in next(iterator).tolist()]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"worker_count": 2},
        {"worker_count": 2, "worker_kind": "thread"},
        pytest.param({"worker_count": 2, "worker_kind": "ray"}, marks=pytest.mark.ray),
    ],
    ids=str,
)
def test_appended_records_come_with_the_next_epoch(path, options):
    """By default: the epoch under way stays what it is, and each later one has all records once. One
    shard writes no log.
    """
    with iter(load(GrowingKeys(path), batch_size=4, shuffle=True, seed=1, **options)) as iterator:
        keys = _take(iterator, 1)
        append(path, 5)
        keys += _take(iterator, 9)
        assert sorted(keys[:10]) == list(range(10))
        assert sorted(keys[10:25]) == sorted(keys[25:40]) == list(range(15))
        assert iterator.epoch == 2
    assert [*path.parent.iterdir()] == [path]


def test_appended_records_come_in_the_epoch_under_way(path):
    """With growth="now", at the next look, or where the epoch would end."""
    growth = GrowthOptions(at="now", every=4)
    with iter(
        load(GrowingKeys(path), batch_size=2, shuffle=True, seed=1, num_epochs=2, growth=growth)
    ) as iterator:
        keys = _take(iterator, 1)
        append(path, 5)
        keys += _take(iterator, 6)
        append(path, 3)
        keys += [key for batch in iterator for key in batch.tolist()]
    assert sorted(keys[:18]) == sorted(keys[18:]) == list(range(18))
    assert {*range(10, 15)} & {*keys[4:10]}


def test_what_is_appended_in_the_last_epoch_is_no_part_of_the_run(path):
    """So the state at the end is that of a run during which nothing is appended."""
    states = []
    for more in (0, 5):
        with iter(load(GrowingKeys(path), batch_size=5, num_epochs=2)) as iterator:
            keys = _take(iterator, 3)
            if more:
                append(path, more)
            keys += [key for batch in iterator for key in batch.tolist()]
            states.append(iterator.get_state())
        assert keys == [*range(10)] * 2
    assert states[0] == states[1]


def test_by_hand_a_run_stays_what_it_is(path):
    """What is appended comes in when a loader is made, and goes on from the state."""
    with iter(load(GrowingKeys(path), batch_size=5, growth="hand")) as iterator:
        _take(iterator, 1)
        append(path, 5)
        assert _take(iterator, 3) == [*range(5, 10), *range(10)]
        state = iterator.get_state()
    with iter(load(GrowingKeys(path), batch_size=5, growth="hand")) as iterator:
        iterator.set_state(state)
        assert _take(iterator, 4) == [*range(15), *range(5)]


def test_a_batch_over_the_end_of_an_epoch_has_records_of_both(path):
    """The change is at the end of the epoch, wherever batches end."""
    with iter(load(GrowingKeys(path), batch_size=7)) as iterator:
        assert _take(iterator, 1) == list(range(7))
        append(path, 2)
        assert _take(iterator, 3) == [7, 8, 9, *range(12), *range(6)]


@pytest.mark.slow
def test_rows_that_wait_for_their_batch_come_once(path):
    """After a filter: rows before the change that are in no batch yet are read again, and no
    others.
    """
    odd = Filter(lambda key: key % 2 == 1)
    for batch in (1, 3, 4):
        sizes = path.read_text()
        with iter(load(GrowingKeys(path), transformations=[odd], batch_size=batch)) as iterator:
            keys = _take(iterator, 1)
            append(path, 4)
            keys += _take(iterator, 20)
            assert keys == ([*range(1, 10, 2)] + [*range(1, 14, 2)] * 12)[: len(keys)]
        path.write_text(sizes)


@pytest.mark.slow
@pytest.mark.parametrize("at", ["epoch", "now"])
def test_all_shards_change_at_the_same_step(path, at):
    """Those that come later to the end of the epoch find what the first one found, also if there is
    more by then.
    """
    growth = GrowthOptions(at=at, every=6)

    def shard(index):
        options = ShardOptions(index, 3)
        return iter(
            load(
                GrowingKeys(path),
                batch_size=1,
                shuffle=True,
                seed=5,
                shard_options=options,
                growth=growth,
            )
        )

    keys, shards, states = {}, [shard(index) for index in range(3)], []
    for index, iterator in enumerate(shards):
        keys[index] = _take(iterator, 7)
        append(path, 2)
        keys[index] += _take(iterator, 8)
        states.append(iterator.get_state())
    order = [keys[index][step] for step in range(15) for index in range(3)]
    again = [_take(shard(index), 15) for index in range(3)]
    assert again == [keys[index] for index in range(3)]
    with iter(
        load(
            GrowingKeys(path),
            batch_size=1,
            shuffle=True,
            seed=5,
            growth=GrowthOptions(at, 6, log=path.parent / "decisions"),
        )
    ) as one:
        assert _take(one, 45) == order
        one.set_states(states)
        _take(one, 30)


def test_a_run_waits_where_all_was_read_and_a_writer_is_at_work(path, caplog):
    """With one line in the log; what comes then belongs to the same epoch."""
    begin_writing(path)

    def finish():
        time.sleep(0.3)
        append(path, 3)
        begin_writing(path)
        time.sleep(0.3)
        append(path, 2)

    writer = threading.Thread(target=finish)
    with (
        caplog.at_level(logging.INFO, "headrace"),
        iter(load(GrowingKeys(path), batch_size=5, num_epochs=2)) as iterator,
    ):
        keys = _take(iterator, 1)
        writer.start()
        keys += [key for batch in iterator for key in batch.tolist()]
        writer.join()
    assert keys == [*range(15)] * 2
    waited = [record for record in caplog.records if "waiting for more records" in record.message]
    assert 1 <= len(waited) <= 2


def test_a_source_that_shrank_is_an_error_at_its_place(path):
    """What was read before it comes; once it is mended, the run goes on."""
    with iter(load(GrowingKeys(path), batch_size=5)) as iterator:
        assert _take(iterator, 1) == list(range(5))
        write(path, [10, 8])
        with pytest.raises(SourceError, match="fewer records"):
            assert _take(iterator, 1) == list(range(5, 10))
            next(iterator)
        write(path, [10, 12])
        assert _take(iterator, 2) == [*range(10)]


def test_the_log_needs_a_place_that_all_shards_can_write_to(path):
    """Without one, several shards are refused; one shard needs none."""
    source = GrowingKeys(path, writable=False)
    with pytest.raises(
        ValueError, match=r'Pass growth=headrace\.GrowthOptions\(.epoch., log="a folder'
    ):
        load(source, shard_options=ShardOptions(0, 2))
    load(source, shard_options=ShardOptions(0, 2), growth="hand")
    load(source, shard_options=ShardOptions(0, 2), growth=GrowthOptions(log=path.parent))
    load(source)


def test_what_does_not_grow_is_refused():
    """A plain source; values that are none; samplers without such an order, or of a part of the
    records.
    """
    with pytest.raises(ValueError, match="growing=True"):
        load(range(10), growth="now")
    with pytest.raises(ValueError, match="growth='later' is not a known value"):
        load(range(10), growth="later")
    with pytest.raises(ValueError, match="at='later' is not a known value"):
        GrowthOptions("later")
    with pytest.raises(TypeError, match="growth=3 is not a known value"):
        load(range(10), growth=3)


def test_other_samplers_are_refused(path):
    """With the remedy."""
    with pytest.raises(ValueError, match="num_records=len"):
        DataLoader(data_source=GrowingKeys(path), sampler=IndexSampler(8), operations=[Batch(2)])
    with pytest.raises(ValueError, match="IndexSampler"):
        DataLoader(
            data_source=GrowingKeys(path), sampler=headrace.WeightedSampler([1.0] * 10, seed=1)
        )


@pytest.mark.parametrize(("name", "workers"), [*((name, 0) for name in FORMATS), ("tokens", 2)])
@pytest.mark.one_in(5)
def test_a_folder_of_files_grows(tmp_path, name, workers):
    """A new file is read from the next epoch on by all shards, and any state goes on with what came
    since.
    """
    kind = FORMATS[name]
    kind.write(tmp_path / f"0.{kind.suffix}", *range(10))

    def make(index, growth=None):
        source = kind.source(tmp_path, growing=True)
        options = {
            "shard_options": ShardOptions(index, 2),
            "growth": growth,
            "worker_count": workers,
        }
        return iter(load(source, transformations=[kind.number_of], batch_size=2, **options))

    shards = [make(index) for index in range(2)]

    def step():
        rows = [_take(shard, 1) for shard in shards]
        return [rows[shard][row] for row in range(2) for shard in range(2)]

    keys = step()
    state = shards[0].get_state()
    kind.write(tmp_path / f"1.{kind.suffix}", *range(100, 104))
    keys += [key for _ in range(5) for key in step()]
    for shard in shards:
        shard.close()
    assert keys == [*range(10), *range(10), 100, 101, 102, 103]
    with make(0, "hand") as iterator:
        iterator.set_states([state], equal_steps=True)
        assert _take(iterator, 5) == keys[4::2]


def test_subsets_chains_and_planned_batches_read_one_generation(path):
    """With growth="hand" they are read as they are; else an error says so."""
    source = GrowingKeys(path)
    with pytest.raises(ValueError, match="the records that existed when it began"):
        load(source, batch_size=5, growth="now").epochs(2)
    epochs = load(source, batch_size=5, growth="hand").epochs(2)
    assert [[batch.tolist() for batch in epoch] for epoch in epochs] == [
        [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    ] * 2
    parts = {"a": source, "b": range(5)}
    for growth in (None, "now"):
        with pytest.raises(ValueError, match='Pass growth="hand" to read'):
            load(headrace.sources.Subset(source, [1, 2]), growth=growth)
        with pytest.raises(ValueError, match='Pass growth="hand" to read'):
            load(headrace.MapDataset.source(source), growth=growth)
    DataLoader(data_source=parts, sampler=headrace.MixSampler(parts), growth="hand")
    load(headrace.MapDataset.source(source), growth="hand")
    planned = BudgetBatch(4, lengths=np.ones(10, dtype=np.int64))
    with pytest.raises(ValueError, match="planned from lengths"):
        load(source, transformations=[planned], shuffle=True, seed=1)
    load(source, transformations=[planned], shuffle=True, seed=1, growth="hand")


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_each_epoch_of_a_loop_has_the_records_that_it_began_with(path, workers):
    """Those that are appended meanwhile come with the next one, each once."""
    epochs, came = (
        load(GrowingKeys(path), batch_size=4, shuffle=True, seed=1, worker_count=workers).epochs(3),
        [],
    )
    for epoch in epochs:
        came.append(_take(epoch, 1))
        append(path, 5)
        came[-1] += [key for batch in epoch for key in batch.tolist()]
    assert [sorted(keys) for keys in came] == [[*range(records)] for records in (10, 15, 20)]
    assert came[2] != sorted(came[2])


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("omit", [(), (3,)], ids=["all", "omit"])
def test_a_loop_per_epoch_goes_on_with_the_records_of_its_epoch(path, omit):
    """From a state at any step, also one of before the source grew; the epochs after it have what
    there is then.
    """

    def epochs(generation=None, growth=None):
        options = {"omit": omit} if omit else {}
        source = GrowingKeys(path, generation)
        return load(source, batch_size=4, shuffle=True, seed=1, growth=growth, **options).epochs(3)

    states, keys = [], []
    with epochs(0) as loop:
        for epoch in loop:
            for batch in epoch:
                keys.append(batch.tolist())
                states.append(loop.get_state())
    steps, living = len(keys) // 3, {*range(15)} - {*omit}
    append(path, 5)
    for loop in [epochs(), epochs(growth="hand")]:
        for step, state in enumerate(states):
            loop.set_state(state)
            rest = [[batch.tolist() for batch in epoch] for epoch in loop]
            number = step // steps
            assert rest[0] == keys[step + 1 : (number + 1) * steps]
            assert [{*itertools.chain(*epoch)} for epoch in rest[1:]] == [living] * (2 - number)


def test_the_shards_of_a_loop_per_epoch_read_the_same_records(path):
    """Whoever begins an epoch first decides; two shards' states go on in their epoch on three."""

    def loop(index, count):
        options = {
            "shard_options": ShardOptions(index, count),
            "growth": GrowthOptions(log=path.parent / "log"),
        }
        return load(GrowingKeys(path), batch_size=1, shuffle=True, seed=1, **options).epochs(3)

    shards, came = [loop(index, 2) for index in range(2)], [[], []]
    for shard, epochs in enumerate(shards):
        next(epochs)
        append(path, 5)
        epoch = next(epochs)
        came[shard] = _take(epoch, 4)
        append(path, 3)
    states = [epochs.get_state() for epochs in shards]
    for index in range(3):
        epochs = loop(index, 3)
        epochs.set_states(states)
        came.append([key for batch in next(epochs) for key in batch.tolist()])
    assert sorted(itertools.chain(*came)) == list(range(15))


def test_a_trace_tells_the_generation(path):
    """Of any step, also before the change, from a state after it; the epochs are those of the order
    with its changes.
    """
    with iter(load(GrowingKeys(path), batch_size=4, shuffle=True, seed=1)) as iterator:
        came = [_take(iterator, 1)]
        append(path, 5)
        came += [_take(iterator, 1) for _ in range(6)]
        state = iterator.get_state()
    traces = [
        headrace.trace(load(GrowingKeys(path), batch_size=4, shuffle=True, seed=1), step, state)
        for step in range(7)
    ]
    assert [[record.key for record in trace.records] for trace in traces] == came
    assert traces[0].generations == ("generation 0, which holds from position 0 on",)
    assert len(traces[2].generations) == 2
    assert "Of generation 1, which holds from position 10 on" in str(traces[5])
    assert [trace.epochs[""] for trace in traces] == [0, 0, 1, 1, 1, 1, 2]


def test_a_difference_tells_the_generation(path):
    """Of two runs, of which one has seen more files: the step from which on they differ, and
    nothing else.
    """
    states = []
    for more in (0, 5):
        with iter(
            load(GrowingKeys(path, 0).at_generation(0), batch_size=5, growth="hand")
        ) as iterator:
            next(iterator)
            states.append(iterator.get_state())
        if more:
            append(path, more)
            with iter(load(GrowingKeys(path), batch_size=5, growth="hand")) as iterator:
                iterator.set_state(states[-1])
                states[-1] = iterator.get_state()
    found = headrace.diff(*states)
    assert [(reason.what, reason.step) for reason in found.reasons] == [("records", 1)]
    assert found.reasons[0].told == "generation 0 → 1, records 10 → 15 from position 5 on"
    assert not headrace.diff(states[1], states[1])


def test_an_empty_path_is_no_folder_for_what_a_run_finds(tmp_path):
    """It neither counts as True nor as the current folder."""
    with pytest.raises(ValueError, match=r'growing="" is not a folder\. Pass True'):
        headrace.TokenSource(tmp_path, growing="")
    with pytest.raises(ValueError, match='log="" is not a folder'):
        GrowthOptions(log="")
    with pytest.raises(ValueError, match="every=0"):
        GrowthOptions("now", every=0)


@pytest.mark.parametrize("beneath", [False, True])
def test_a_log_that_is_a_file_is_an_error_with_its_path(path, beneath):
    """Of the run that would write there, with the option to pass."""
    file = path.parent / "file"
    file.write_text("")
    log = file / "log" if beneath else file
    iterator = iter(load(GrowingKeys(path), batch_size=5, growth=GrowthOptions(log=log)))
    with (
        iterator,
        pytest.raises(
            CheckpointError, match=r"file.*GrowthOptions\(log=…\) with a folder"
        ) as caught,
    ):
        for _ in range(4):
            next(iterator)
    assert "Not a directory" in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("text", ['["1", true]', "[1, 1]", "[1]"])
def test_a_damaged_log_is_an_error_with_its_path(text, tmp_path):
    """If a number or a flag is none."""
    log = DecisionLog(str(tmp_path))
    log.first(4, {"": Decision(1, True)})
    (file,) = tmp_path.iterdir()
    file.write_text(text)
    with pytest.raises(CheckpointError, match=r"is damaged.*Pass growth="):
        log.read(4)
