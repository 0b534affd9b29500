"""What a cure is said to give: arithmetic on made-up numbers."""

from __future__ import annotations

import dataclasses
import functools
import re
import statistics

import numpy as np
import PIL.Image
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image
from support.measured_runs import STORE, measured_store

import headrace
from headrace.loader.options import ReadOptions
from headrace.tools.diagnosis.diagnosis import Diagnosis
from headrace.tools.diagnosis.judging.estimates import step_seconds
from headrace.tools.diagnosis.judging.verdict import found
from headrace.tools.diagnosis.measured import Dropped, Measured, Rare, SourceInUse, WorkPart
from headrace.tools.diagnosis.pillow import uses_pillow


def options_of(what):
    """The options that a change names: "read_options=ReadOptions(num_threads=64),
    instead of 16".
    """
    numbers = {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", what)}
    reading = {
        name: numbers.pop(name)
        for name in ("num_threads", "prefetch_buffer_size")
        if name in numbers
    }
    return ({"read_options": ReadOptions(**reading)} if reading else {}) | numbers


def test_the_sentence_tells_how_many_reads_are_under_way_and_how_many_may_be():
    """And the option that has more of them, with its effect, which follows from their number."""
    assert Diagnosis.of(measured_store()).sentence == (
        "Batches come 25 a second, one every 40.0 ms: reading waits for a disk or a store, and "
        "takes 20.0 ms a record, with 16 of 16 possible reads under way, in your own thread; "
        "num_threads=64 would give 4.0 times the batches."
    )
    assert (
        "with 32 of 32 possible reads under way, on 2 workers"
        in Diagnosis.of(measured_store(workers=2)).sentence
    )


@pytest.mark.slow
@given(st.sampled_from([1, 32, 512]), st.integers(0, 4), st.integers(1, 16))
def test_so_many_times_as_many_reads_give_so_many_times_the_batches(records, workers, times):
    """Whatever the batch, with workers or without, as long as nothing else takes as long."""
    loop = measured_store(records, workers)
    seconds = step_seconds(loop, workers, reads=16 * times)
    floor = max(step_seconds(dataclasses.replace(loop, read_seconds=0.0), workers), 1e-9)
    assert seconds == pytest.approx(max(loop.elapsed / times, floor))


def test_more_reads_give_no_more_than_the_processors_and_the_other_work_allow():
    """A record that takes 1 ms of a processor is not read in less, and an operation
    takes its time.
    """
    loop = measured_store(source=dataclasses.replace(STORE, processor=1e-3))
    assert step_seconds(loop, 0, reads=10_000) >= 32e-3
    works = dataclasses.replace(loop, parts=(*loop.parts, WorkPart("decode", "record", 30e-3, 32)))
    assert step_seconds(works, 0, reads=10_000) >= 62e-3
    told = Diagnosis.of(loop).changes
    assert all("num_threads" not in change.what or change.seconds >= 32e-3 for change in told)


def test_each_worker_process_reads_for_itself_and_threads_share_their_reads():
    """Two processes have twice as many reads under way as one."""
    assert step_seconds(measured_store(), 2) == pytest.approx(step_seconds(measured_store(), 1) / 2)
    threads = measured_store(worker_kind="thread", workers=1)
    assert step_seconds(threads, 2) == pytest.approx(step_seconds(threads, 1))


def test_reads_that_were_not_under_way_though_they_might_have_been_are_not_counted_on():
    """Where 12 of 16 are, 48 of 64 will be."""
    loop = measured_store(elapsed=32 * 20e-3 / 12)
    assert step_seconds(loop, 0, reads=64) == pytest.approx(32 * 20e-3 / 48)


OPTIONS = {
    "threads": (STORE, {"read_options": ReadOptions(64)}),
    "coroutines": (
        dataclasses.replace(STORE, in_event_loop=True, reads=20, buffer=20),
        {"read_options": ReadOptions(prefetch_buffer_size=80)},
    ),
    "batches in one call": (
        dataclasses.replace(STORE, whole_batches=True, singly=False),
        {"read_options": ReadOptions(64, 64 * 32)},
    ),
    "a small buffer": (
        dataclasses.replace(STORE, buffer=20),
        {"read_options": ReadOptions(64, 64)},
    ),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_the_option_that_is_named_is_the_one_that_has_more_reads(case):
    """With what it needs beside it."""
    source, options = OPTIONS[case]
    change = Diagnosis.of(measured_store(source=source)).changes[0]
    assert options_of(change.what) == options
    assert change.cure.partition(" would ")[0] in change.what


def test_a_source_that_allows_few_reads_is_told_to_allow_more():
    """More threads alone would find nothing to read."""
    source = dataclasses.replace(STORE, reads=2, most_reads=2)
    told = Diagnosis.of(measured_store(source=source)).changes[0]
    assert told.what == "reads_ahead=8 in the facts of Store, instead of 2 reads at a time"


def test_reads_that_wait_for_one_another_are_no_reason_for_more_threads():
    """A service that answers four at a time: the same read takes 80 ms among others,
    and 20 alone.
    """
    loop = dataclasses.replace(
        measured_store(), elapsed=0.16, waited=0.16, unready=0.16, read_seconds=32 * 80e-3
    )
    diagnosis = Diagnosis.of(loop)
    assert diagnosis.finding.kind == "limited source"
    assert (
        "each takes 80.0 ms with 16 of 16 possible reads under way and 20.0 ms alone"
        in diagnosis.sentence
    )
    assert not any(
        "num_threads" in change.what or "worker_count" in change.what
        for change in diagnosis.changes
    )
    assert diagnosis.changes[0].at_most
    assert step_seconds(loop, 0, reads=64) == pytest.approx(loop.elapsed)


def _work(*parts, **more):
    elapsed = sum(part.seconds for part in parts)
    return Measured(
        30,
        elapsed,
        elapsed,
        elapsed,
        16,
        128,
        parts,
        **{"at_work": 0.0, "step_known": False, **more},
    )


def test_a_filter_that_drops_most_records_is_told_with_what_was_done_for_them():
    """And that it should come first, or choose by keys."""
    parts = (
        WorkPart("reading", "reading", 0.001),
        WorkPart("decode", "record", 3.2, 3200),
        WorkPart("keep", "record", 0.003, 3200),
    )
    dropped = Dropped("keep", 0.99, 3.201, 3.2, ("decode",))
    diagnosis = Diagnosis.of(
        dataclasses.replace(_work(*parts), records=3200, rows=32, dropped=dropped)
    )
    assert (diagnosis.finding.kind, diagnosis.finding.stage) == ("filter", "keep")
    assert (
        "`keep` drops 99 % of the records, after reading and `decode` took 1.0 ms for each"
        in diagnosis.sentence
    )
    assert "filter first on what is cheap: before `decode`, or on keys" in diagnosis.sentence
    assert (
        found(
            dataclasses.replace(diagnosis.measured, dropped=dataclasses.replace(dropped, share=0.1))
        ).kind
        != "filter"
    )


def _one_in_ten(number):
    return number % 10 == 0


def _slowly(number):
    return number + 0 * sum(range(5_000))


@pytest.mark.slow
@pytest.mark.parametrize("worker_count", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_what_a_filter_drops_is_measured(worker_count):
    """With the operations before it, of a loader that runs."""
    loader = headrace.load(
        range(10_000),
        transformations=[_slowly, headrace.Filter(_one_in_ten)],
        batch_size=2,
        worker_count=worker_count,
    )
    measured = headrace.diagnose(loader, steps=10).measured
    assert (measured.dropped.name, measured.dropped.after) == ("_one_in_ten", ("_slowly",))
    assert measured.dropped.share == pytest.approx(0.9, abs=0.05)
    assert measured.rows == 2


def _hundredfold(number):
    return [number] * 100


@pytest.mark.slow
def test_a_flat_map_never_makes_batches_of_no_records():
    """Rows are told, and of how many records they are."""
    operations = [headrace.FlatMap(_hundredfold, max_fan_out=100), headrace.Batch(25)]
    loader = headrace.DataLoader(
        data_source=range(10_000), sampler=headrace.IndexSampler(10_000), operations=operations
    )
    diagnosis = headrace.diagnose(loader, steps=40)
    assert diagnosis.measured.batch == pytest.approx(25)
    assert re.search(r"steps of 25 rows of 0\.\d\d records", str(diagnosis))
    assert not re.search(r"\b0 records", str(diagnosis))


def test_a_sampler_that_takes_long_is_told_apart_from_reading():
    """Though keys are found before records are read, on the thread that works."""
    parts = (
        WorkPart("the sampler", "sampler", 16e-3),
        WorkPart("reading", "reading", 1e-3),
        WorkPart("Batch", "stacking", 1e-4),
    )
    diagnosis = Diagnosis.of(_work(*parts, source=STORE))
    assert diagnosis.finding.kind == "sampler"
    assert "the sampler takes 1.0 ms a record" in diagnosis.sentence


class InPython:
    """An order that takes long in Python for each key."""

    def __len__(self):
        return 10_000

    def __getitem__(self, index):
        sum(range(50_000))
        return headrace.RecordMetadata(index, index)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.one_in(2)
def test_what_a_sampler_takes_for_a_key_is_measured(workers):
    """Of one in Python; one that answers for many positions at once takes next to
    nothing for each.
    """

    def seconds(sampler) -> float:
        loader = headrace.DataLoader(
            data_source=range(10_000),
            sampler=sampler,
            operations=[headrace.Batch(16)],
            worker_count=workers,
        )
        return headrace.diagnose(loader, steps=10).measured.seconds_of("sampler")

    assert seconds(InPython()) > 20 * seconds(headrace.IndexSampler(10_000, shuffle=True, seed=0))


def test_calls_that_wait_for_one_another_are_no_reason_for_more_workers():
    """One alone takes a quarter of the time."""
    loop = dataclasses.replace(
        _work(WorkPart("decode", "record", 0.4, 16), workers=4, worker_kind="thread"),
        alone=0.1,
        elapsed=0.1,
        waited=0.1,
    )
    diagnosis = Diagnosis.of(loop)
    assert diagnosis.finding.kind == "turns"
    assert (
        "each takes 6.2 ms alone and 25.0 ms among others, on 4 worker threads"
        in diagnosis.sentence
    )
    assert not any("worker_count" in change.what for change in diagnosis.changes)
    assert found(dataclasses.replace(loop, alone=0.3)).kind == "operation"


def test_an_operation_that_uses_pillow_is_told_of_decode_image():
    """In place of the general advice, however the function names Pillow."""
    decode = WorkPart("decode", "record", 0.4, 16)
    loop = _work(decode)
    assert any(change.what == "`decode` twice as fast" for change in Diagnosis.of(loop).changes)
    (by_pillow,) = (
        change
        for change in Diagnosis.of(_work(dataclasses.replace(decode, pillow=True))).changes
        if "`decode`" in change.what
    )
    assert (
        by_pillow.what
        == "headrace.DecodeImage(size=…) in place of Pillow in `decode`, if it decodes images"
    )
    assert by_pillow.at_most


class _ByPillow:
    def __call__(self, data):
        return [Image.open(each) for each in data]


def _by_module(data):
    def inner():
        return PIL.Image.open(data)

    return inner()


def test_the_use_of_pillow_is_seen_in_the_code_of_a_function():
    """A module or a class by a global name, inside another function, in an object that is called,
    in a partial.
    """
    for function in (
        _ByPillow(),
        _by_module,
        functools.partial(_by_module, 3),
        lambda data: Image.open(data),
    ):
        assert uses_pillow(function)
    for function in (measured_store, len, np.asarray, print, None, functools.partial(len)):
        assert not uses_pillow(function)
    assert uses_pillow(headrace.MapTransform(_by_module).user_function)


def _in_order(seconds, workers, ahead):
    """Seconds of all tasks, done by workers that are at most so many tasks ahead of the oldest one
    that is not done.
    """
    free, done = [0.0] * workers, []
    for number, each in enumerate(seconds):
        may_begin = max(done[: number - ahead + 1], default=0.0) if number >= ahead else 0.0
        worker = free.index(min(free))
        free[worker] = max(free[worker], may_begin) + each
        done.append(free[worker])
    return max(done)


@pytest.mark.slow
@given(
    st.integers(1, 4),
    st.integers(3, 12),
    st.floats(0.03, 0.5),
    st.integers(1, 3),
    st.integers(0, 4),
)
def test_up_to_is_not_exceeded_by_repaired_records(workers, every, slow, buffer, lesser):
    """In a simulation in which workers wait for the slow one before they go on; some are less slow
    than others.
    """
    usual = 5e-3
    tasks = [
        usual + (slow if n % every == 1 else slow / 4 if lesser and n % every == 2 else 0.0)
        for n in range(240)
    ]
    ahead = workers * (1 + buffer)
    elapsed, repaired = (_in_order(each, workers, ahead) / 240 for each in (tasks, [usual] * 240))
    long = [
        each for each in tasks if each > 5 * statistics.median(tasks) and each >= max(tasks) / 3
    ]
    assume(long)
    rest = float(np.quantile(tasks, 0.25)) * 240 / sum(tasks)
    rare = Rare("decode", slow, "on record key 1", sum(long) / sum(tasks), len(long) / 240, rest)
    parts = (WorkPart("decode", "record", sum(tasks) / 240, 16),)
    loop = Measured(
        240,
        elapsed,
        elapsed,
        elapsed,
        16,
        128,
        parts,
        0.0,
        rare=rare,
        workers=workers,
        step_known=False,
    )
    diagnosis = Diagnosis.of(loop)
    assume(diagnosis.finding.kind == "slow record")
    change = next(change for change in diagnosis.changes if "repaired" in change.what)
    assert change.at_most
    assert elapsed / change.seconds >= elapsed / repaired


@pytest.mark.slow
@given(st.floats(1e-6, 3e-4), st.floats(1e-8, 3e-5), st.integers(1, 60), st.sampled_from([0, 1, 2]))
def test_up_to_is_not_exceeded_by_larger_batches(each_batch, each_record, records, workers):
    """Of what a batch costs and a record costs, eight times the records share the former: nobody
    gains more.
    """
    elapsed = each_batch + each_record * records
    larger = each_batch / 8 + each_record * records
    parts = (
        WorkPart("shift", "record", each_record * records, records),
        WorkPart("between operations", "between", each_batch),
    )
    loop = Measured(
        900, elapsed, elapsed, elapsed / 2, records, 128, parts, workers=workers, step_known=False
    )
    diagnosis = Diagnosis.of(loop)
    assume(diagnosis.finding.kind == "small batches")
    change = diagnosis.changes[0]
    assert change.at_most
    assert elapsed / change.seconds >= elapsed / larger


@pytest.mark.slow
@given(st.integers(1, 8), st.sampled_from([16, 32, 64]), st.floats(2e-3, 50e-3))
def test_up_to_is_not_exceeded_by_a_source_that_answers_more_reads(served, threads, alone):
    """Where a source serves a few reads at a time, all threads that there are would be served after
    the cure.
    """
    batch = 64
    elapsed = batch * alone / served
    source = dataclasses.replace(STORE, random=alone, reads=threads, threads=threads)
    loop = measured_store(batch, source=source, elapsed=elapsed, read_seconds=threads * elapsed)
    diagnosis = Diagnosis.of(loop)
    assume(diagnosis.finding.kind == "limited source")
    change = diagnosis.changes[0]
    assert change.at_most
    assert elapsed / change.seconds >= threads / served


def test_reading_a_few_rows_of_arrays_in_memory_counts_as_the_cost_of_a_batch():
    """One call reads all rows of a batch: larger batches make it seldom."""
    arrays = SourceInUse("MemorySource", 1_000_000, in_memory=True, columns=True)
    parts = (
        WorkPart("reading", "reading", 2.4e-6),
        WorkPart("between operations", "between", 2.2e-6),
    )
    loop = Measured(9000, 17e-6, 7.4e-6, 6.8e-6, 2, 16, parts, source=arrays, step_known=False)
    assert found(loop).kind == "small batches"


def test_up_to_is_told_with_more_room_where_little_would_be_left():
    """And never less than the user's own step, where that is known."""
    parts = (WorkPart("sampler", "sampler", 15e-3), WorkPart("Batch", "stacking", 1e-3))
    loop = Measured(30, 16e-3, 16e-3, 16e-3, 16, 128, parts, step_known=False)
    change = Diagnosis.of(loop).changes[0]
    assert change.at_most
    assert 16 * 1.15 * 1.5 < 16e-3 / change.seconds < 16 * 1.15 * 1.7
