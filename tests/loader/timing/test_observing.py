"""What an iterator tells of the work that was done for it: how much, by whom, and what it took."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support.own_streams import Count
from support.played_executors import SIGKILL, Played

from headrace import (
    Batch,
    DataLoader,
    Filter,
    IndexSampler,
    IterDataset,
    MapDataset,
    Pack,
    ReadOptions,
    load,
)
from headrace.common.units import format_bytes
from headrace.loader.iterator import DataLoaderIterator
from headrace.loader.options import ExecutionOptions
from headrace.loader.timing.observer import Observer
from headrace.loader.timing.times import OperationTimes, SlowestCall, TaskTimes
from headrace.loader.work import stopwatch
from headrace.loader.work.stopwatch import (
    CALL_SECONDS,
    OperationClock,
    most_memory,
    needed_seconds,
)
from headrace.reporting.metrics.families import LoopMetrics

WORKERS = [(0, "process"), (2, "thread"), (1, "process")]


def _even(number):
    return int(number) % 2 == 0


def _quick(element):
    return element


def _slow(element):
    time.sleep(20e-3)
    return element


def _slow_once(number):
    if number == 77:
        time.sleep(20e-3)
    return number


def _large_once(number):
    if number == 7:
        np.ones(300_000_000, np.uint8)
    return number


def _drained(loader):
    with iter(loader) as iterator:
        for _ in iterator:
            pass
        return iterator.stats()


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("workers", "kind"), WORKERS)
def test_records_rows_and_bytes_are_counted(workers, kind):
    """Each once, by stage: here rows that pass a filter, and then batches of them."""
    operations = [_quick, Filter(_even), Batch(8)]
    source = np.arange(100, dtype=np.int32)
    stats = _drained(
        load(
            source, transformations=operations, num_epochs=1, worker_count=workers, worker_kind=kind
        )
    )
    first, second = stats.stages
    assert (first.inputs, first.rows, first.nbytes) == (100, 50, 200)
    assert (second.inputs, second.rows, second.nbytes) == (50, 7, 200)
    assert (stats.records, stats.nbytes, stats.steps) == (100, 400, 7)
    assert [operation.name for operation in first.operations] == [
        "MapTransform(_quick)",
        "Filter(_even)",
    ]
    assert [operation.number for operation in second.operations] == [2]
    assert (first.reads, first.ends, second.reads, second.ends) == (True, False, False, True)


def test_bytes_of_records_that_an_operation_leaves_out_are_counted():
    """They were read, whatever became of them."""
    with iter(
        load(np.arange(100), transformations=[Filter(lambda number: number > 97)], num_epochs=1)
    ) as iterator:
        assert len(list(iterator)) == 2
        assert iterator.stats().nbytes == 800


def _chain():
    return MapDataset.source(np.arange(60))


ELEMENTS = {
    "map": (_chain().map(_quick).batch(7), 60),
    "columns": (_chain().batch(7), 60),
    "mix": (MapDataset.mix([_chain(), _chain()], weights=[1, 1]).batch(4), 120),
    "joined": (
        IterDataset.mix(
            [_chain().filter(_even).to_iter_dataset(), _chain().to_iter_dataset()]
        ).batch(4),
        120,
    ),
    "packed": (
        _chain()
        .map(lambda number: np.ones(1 + number % 5, np.int32))
        .to_iter_dataset()
        .pack(8, window=10),
        60,
    ),
    "run through": (Count(60).batch(7), 60),
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_chains_count_their_records_and_bytes(name):
    """Mixed, joined, packed, taken from columns: every record that was read, and its bytes."""
    chain, records = ELEMENTS[name]
    with iter(chain) as iterator:
        for _ in iterator:
            pass
        stats = iterator.stats()
    assert stats.nbytes == 8 * stats.records
    assert stats.records <= records  # the rest of a mix, once a part is at its end, is read or not
    assert stats.records == records or "mix" in name or "joined" in name


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("workers", "kind"), WORKERS)
def test_the_operation_that_takes_the_time_is_named(workers, kind):
    """What sleeps for 20 ms takes most of the work, is known not to compute, and is not taken for
    its neighbours.
    """
    operations = [_quick, _slow, Batch(2)]
    loader = load(
        range(20), transformations=operations, num_epochs=1, worker_count=workers, worker_kind=kind
    )
    (stage,) = _drained(loader).stages
    quick, slow, batch = stage.operations
    assert slow.timed > 0
    assert slow.per_input >= 20e-3
    assert slow.seconds > (quick.seconds + batch.seconds + stage.reading + stage.between)
    assert stage.cpu_share < 0.5
    assert stage.busy >= 20 * 20e-3


def test_the_slowest_record_is_known():
    """By its position, where calls are long enough to be timed one by one."""
    loader = load(range(100), transformations=[_quick, _slow_once, Batch(10)], num_epochs=1)
    with iter(loader) as iterator:
        for _ in iterator:
            time.sleep(0)
        (stage,) = iterator.stats().stages
        worst = stage.operations[1]
        if worst.timed == 90:  # all but the first task, unless the machine was busy elsewhere
            assert worst.slowest >= 20e-3
            assert iterator._pipeline.place_of(worst.slowest_tag)[1] == 77


@pytest.mark.slow
def test_tasks_are_told_one_by_one():
    """When each was submitted, done, asked for and taken, in this order; and of which rows a batch
    was made.
    """
    stats = _drained(
        load(range(100), transformations=[Filter(_even), Batch(8)], num_epochs=1, worker_count=1)
    )
    assert 2 <= len(stats.tasks) <= sum(stage.tasks for stage in stats.stages)
    blocks = {task.block: task for task in stats.tasks}
    for task in stats.tasks:
        assert task.submitted <= task.times.began <= task.times.ended <= task.taken
        assert task.asked <= task.taken
        assert all(blocks[block].stage == 0 for block in task.made_of if block in blocks)
        assert bool(task.made_of) == (task.stage == 1)
    assert stats.workers.count == 1
    assert stats.workers.busy + stats.workers.starved + stats.workers.hand_over == pytest.approx(1)
    assert (stats.workers.started, stats.workers.ended) == (1, 0)


def test_the_deaths_of_workers_are_counted():
    """With how they ended; the end of an iterator is none."""
    with Played(workers=2) as played:
        played.zygote.bury(0, SIGKILL)
        played.hear()
        observer = played.observer
        assert (observer.started, observer.ended) == (2, 1)
        assert [event.worker for event in observer.last_of_workers()] == [0, 1, 0]
        assert "SIGKILL" in observer.last_of_workers()[-1].what


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not report it in this way")
@pytest.mark.parametrize("workers", [1, 2])
def test_the_largest_memory_of_a_worker_process_is_known(workers):
    """300 MB that a record needs for a moment are in the statistics, the table and the metrics; not
    in those of other loops.
    """
    options = {
        "num_epochs": 1,
        "worker_count": workers,
        "worker_kind": "process",
        "batch_size": 4,
        "observe": "each",
    }
    before = _drained(load(range(40), **options)).workers.memory
    with iter(load(range(40), transformations=[_large_once], **options)) as iterator:
        list(iterator)
        stats = iterator.stats()
        metrics = {each.name: each.values for each in LoopMetrics({"train": iterator}).families()}
    assert stats.workers.memory > 300_000_000 > before > 1_000_000
    assert f"largest memory {format_bytes(stats.workers.memory)}" in str(stats)
    assert metrics["worker_memory_bytes"] == [(stats.workers.memory, ("train",))]


def test_nothing_is_noted_with_observe_false():
    """The waits of the loop are told as ever."""
    loader = load(range(20), transformations=[Batch(4)], num_epochs=1)
    with DataLoaderIterator(loader._pipeline, ExecutionOptions(observe=False)) as iterator:
        list(iterator)
        stats = iterator.stats()
    assert (stats.steps, stats.stages, stats.workers, stats.tasks) == (5, (), None, ())
    assert 0 < stats.waited <= stats.elapsed
    with pytest.raises(TypeError, match="observe='no'"):
        ExecutionOptions(observe="no")


@pytest.mark.parametrize("ends", [True, False])
def test_the_table_is_logged_at_the_end_if_wanted(caplog, ends):
    """With observe="log", or Grain's enable_profiling=True: once, when the stream ends or the
    iterator is closed.
    """
    caplog.set_level("INFO", "headrace")
    for options in ({"observe": "log"}, {"enable_profiling": True}):
        caplog.clear()
        with iter(load(range(20), batch_size=4, num_epochs=1, **options)) as iterator:
            next(iterator)
            if ends:
                list(iterator)
        (record,) = caplog.records
        assert record.getMessage().startswith("5 steps in" if ends else "1 steps in")


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_the_table_has_at_most_15_lines(workers):
    """However many operations there are: the shortest are put together. The same as plain values
    goes to JSON.
    """
    operations = [_quick] * 5 + [_slow] + [_quick] * 6 + [Batch(2)]
    stats = _drained(
        load(range(12), transformations=operations, num_epochs=1, worker_count=workers)
    )
    lines = str(stats).splitlines()
    assert len(lines) <= 15
    assert max(map(len, lines)) <= 120
    assert any("_slow" in line for line in lines)
    plain = json.loads(json.dumps(stats.to_dict()))
    assert (plain["records"], plain["stages"][0]["operations"][5]["number"]) == (12, 5)


class Waits:
    """A source whose reads take 5 ms, and no processor."""

    def __len__(self):
        return 64

    def __getitem__(self, key):
        time.sleep(5e-3)
        return key


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"worker_count": 1}, marks=pytest.mark.slow),
        {"worker_count": 2, "worker_kind": "thread"},
        {"read_options": ReadOptions(0)},
    ],
    ids=str,
)
def test_reads_under_way_are_counted_whoever_reads(options):
    """Their seconds are those of all reads together: no sleep is shorter than it says."""
    with iter(load(Waits(), batch_size=16, num_epochs=1, observe="each", **options)) as batches:
        assert len(list(batches)) == 4
        (stage,) = [stage for stage in batches.stats().stages if stage.reads]
    assert stage.under_way >= 64 * 5e-3
    assert (stage.under_way > 1.5 * stage.reading) == ("read_options" not in options)


def test_times_cross_processes_as_they_are():
    """With what was timed one by one or without."""
    for look in (
        None,
        OperationTimes(1, 2.0, 3.0, 0.0, (4.0,), None),
        OperationTimes(1, 2.0, 3.0, 0.0, (4.0,), SlowestCall(5.0, 6, 7)),
    ):
        times = TaskTimes(1, 2.0, 3.0, 0.5, 0.0, 4, 5, 6, 0.7, 1, look)
        assert pickle.loads(pickle.dumps(times)) == times
    assert (times.moved(10.0).began, times.moved(10.0).ended) == (12.0, 13.0)


def test_any_thread_may_ask_while_tasks_are_noted():
    """Nothing is counted twice or lost, and of many tasks the last ones are kept."""

    class Task:
        stage, span, blocks = 0, (0, 1), ()

    class Block:
        times, moments = TaskTimes(0, 1.0, 2.0, 0.0, 0.0, 1, 1, 8), (0.0, 1.0, 2.0)

    observer = Observer()
    for number in range(4500):
        observer.note(number, Task, Block)
        if number % 1000 == 7:
            assert observer.stages()[0].busy == number + 1
    assert observer.stages()[0].timed_nbytes == 4500 * 8
    assert [task.block for task in observer.last_tasks()] == list(range(2500, 4500))


def test_what_is_iterated_counts_anew_after_a_state_was_set():
    """As the other numbers of `stats()`."""
    loader = DataLoader(
        data_source=range(40), sampler=IndexSampler(40, num_epochs=1), operations=[Batch(4)]
    )
    with iter(loader) as iterator:
        state = iterator.get_state()
        list(iterator)
        iterator.set_state(state)
        assert iterator.stats().stages == ()
        next(iterator)
        assert iterator.stats().records in (4, 8)  # two batches are taken from columns at a time


def test_packs_are_stages_as_others():
    """Of documents come rows; what they are made of is counted in documents."""
    documents = [np.ones(1 + number % 7, np.int32) for number in range(50)]
    (stage,) = _drained(load(documents, transformations=[Pack(16, window=10)], num_epochs=1)).stages
    assert stage.inputs == 50
    assert stage.rows * 16 >= sum(map(len, documents))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/thread-self/schedstat").exists(), reason="only Linux tells")
def test_work_that_other_programs_keep_from_the_processor_is_not_waiting():
    """Two threads on one processor each need it all the time, though each has it for
    half of that.
    """
    mine = os.sched_getaffinity(0)
    ended = "import sys, time; print(flush=True)\nwhile time.process_time() < 20: pass"
    os.sched_setaffinity(0, {min(mine)})
    try:
        with subprocess.Popen([sys.executable, "-c", ended], stdout=subprocess.PIPE) as other:
            other.stdout.readline()
            began, needed = time.perf_counter(), needed_seconds()
            while time.perf_counter() - began < 0.2:
                pass
            needed, took = needed_seconds() - needed, time.perf_counter() - began
            other.kill()
    finally:
        os.sched_setaffinity(0, mine)
    assert 0.8 * took < needed < 1.2 * took


@pytest.mark.parametrize(
    ("inputs", "each", "calls"), [(1024, 128, 8), (1000, 128, 8), (1000, 1, 1000)]
)
def test_what_timing_takes_is_counted_by_calls_not_by_records(inputs, each, calls, monkeypatch):
    """An operation on batches of columns is called once for each; what it took is no more than the
    task took.
    """
    now = [0.0]
    monkeypatch.setattr(stopwatch, "perf_counter", lambda: now[0])
    clock = OperationClock(1, 0, each)
    step = clock.around(lambda batch: None, 0)
    clock.begin(iter(range(calls)))
    for number in range(calls):
        step(number)
        now[0] += 1e-3
    clock.end(inputs, lambda left: 0)
    look = clock.take()
    assert look.extra == pytest.approx(calls * CALL_SECONDS)
    assert look.seconds == pytest.approx(calls * 1e-3 - look.extra)
    assert sum(look.operations) <= look.seconds + look.extra


def test_the_largest_memory_of_a_process_is_known():
    """Over a MiB, where the system tells it."""
    assert (most_memory() > 1 << 20) == (stopwatch.resource is not None)
