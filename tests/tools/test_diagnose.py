"""What a step waits for is named, in pipelines that are slow for one known reason; and what would
change it.
"""

from __future__ import annotations

import dataclasses
import json
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.measured_runs import LOOP, RECORDED, recorded_run
from support.planted import PLANTED, wait

import headrace
from headrace.errors import ProgramError
from headrace.tools.diagnosis.diagnosis import Diagnosis
from headrace.tools.diagnosis.judging.estimates import enough_workers, lighter, step_seconds
from headrace.tools.diagnosis.judging.proposing import NOISE
from headrace.tools.diagnosis.judging.verdict import found
from headrace.tools.diagnosis.measured import Feeding, Measured, SourceInUse, WorkPart


@pytest.mark.parametrize("name", PLANTED)
def test_the_verdict_names_what_was_planted(name):
    """On the numbers that a run of each gave; with a sentence of one line, a table, and changes
    that help.
    """
    diagnosis = Diagnosis.of(recorded_run(name))
    assert (diagnosis.finding.kind, diagnosis.finding.stage) == (
        RECORDED[name]["kind"],
        RECORDED[name]["stage"],
    )
    first, second, third, *_ = str(diagnosis).splitlines()
    assert first == diagnosis.sentence
    assert len(first) < 300
    assert diagnosis.finding.stage in first or diagnosis.finding.stage == "your step"
    assert second.startswith("Measured: ")
    assert third == ""
    if diagnosis.finding.kind != "step":
        assert diagnosis.changes[0].cure in first
        assert all(change.seconds < diagnosis.measured.elapsed for change in diagnosis.changes)
    json.dumps(diagnosis.to_dict())


def test_the_verdict_says_where_the_work_is_done_if_not_where_it_was_asked_for():
    """A line after the sentence, as of batches that cost less than handing them over."""
    decided = dataclasses.replace(LOOP, workers=0, decision="Your thread makes the batches.")
    assert str(Diagnosis.of(decided)).splitlines()[1] == "Your thread makes the batches."


def test_enough_workers_hide_their_work_and_no_more_are_named():
    """40 ms of work beside a step of 10 ms is hidden by four workers; that is in the sentence."""
    assert enough_workers(LOOP) == 4
    assert step_seconds(LOOP, 4) == pytest.approx(LOOP.own)
    sentence = (
        "Your step waits 67 % of its time: `decode` takes 2.5 ms a record on 2 workers; 4 workers "
        "would hide it."
    )
    assert Diagnosis.of(LOOP).sentence == sentence


def test_a_loop_that_keeps_up_tells_how_many_workers_would_do():
    """And how fast batches could come, where that was measured."""
    loop = dataclasses.replace(LOOP, elapsed=0.05, waited=0.0005, unready=0.0, workers=4)
    sentence = Diagnosis.of(loop, possible=0.01).sentence
    assert (
        "waits 1 % of its time: batches are there when it asks; 1 of the 4 workers would do."
        in sentence
    )
    assert sentence.endswith("batches could come every 10.0 ms.")


def test_work_is_not_called_hidden_where_the_hand_over_is_waited_for():
    """What more workers would give is told then, as a number."""
    loop = dataclasses.replace(LOOP, elapsed=0.032, waited=0.028, unready=0.024)
    assert Diagnosis.of(loop).sentence.endswith(
        "on 2 workers; 5 workers would give 4.0 times the batches."
    )


def test_workers_of_a_cluster_bring_their_cores():
    """Those of this machine are no limit to them."""
    loop = dataclasses.replace(LOOP, at_work=1.0, cores=1, worker_kind="ray")
    sentence = Diagnosis.of(loop).sentence
    assert sentence.endswith(
        "`decode` takes 2.5 ms a record on 2 ray workers; 4 workers would hide it."
    )


def test_work_for_the_processor_is_not_hidden_by_more_workers_than_cores():
    """What the cores can is told instead."""
    loop = dataclasses.replace(LOOP, at_work=1.0, cores=3, elapsed=0.032, waited=0.022)
    assert step_seconds(loop, 100) == pytest.approx(0.040 / 3)
    assert "3 workers would give 2.4 times the batches" in Diagnosis.of(loop).sentence


def test_threads_that_wait_for_the_lock_and_do_no_work_are_told_in_a_sentence():
    """Nothing is known of their work then, so that nothing is blamed for holding the lock."""
    loop = dataclasses.replace(LOOP, parts=(), worker_kind="thread", gil=4e-3)
    assert "the hand-over of a batch takes" in Diagnosis.of(loop).sentence


FED = dataclasses.replace(LOOP, elapsed=0.03, waited=0.02)


@pytest.mark.parametrize(
    ("feeding", "kind"),
    [
        (Feeding(0.015, 0.0, 0.0, 0.0), "transform"),
        (Feeding(0.0, 0.015, 0.0, 0.0), "hosts"),
        (Feeding(0.0, 0.0, 0.015, 0.0), "transfer"),
        (Feeding(0.0, 0.0, 0.0, 0.015), "small batches"),
        (Feeding(0.001, 0.001, 0.001, 0.001), "operation"),
    ],
)
def test_what_a_device_feeder_is_waited_for_is_told(feeding, kind):
    """Transform, other hosts, transfer or hand-over; or what makes the host's batches."""
    loop = dataclasses.replace(FED, feeding=feeding)
    assert found(loop).kind == kind
    assert str(Diagnosis.of(loop))


def test_workers_that_never_rest_are_what_a_feeders_step_waits_for():
    """Though the user waits longer for `transform=` than for the loader: nothing but more workers
    makes such a step shorter.
    """
    slow = WorkPart("slow", "record", 0.0627, 8)
    loop = Measured(40, 0.0325, 0.0311, 0.0114, 8, 32, (slow,), at_work=0.0, workers=2, cores=8)
    diagnosis = Diagnosis.of(
        dataclasses.replace(loop, feeding=Feeding(0.0121, 0.0, 0.0004, 0.0072))
    )
    assert diagnosis.finding.stage == "slow"
    assert diagnosis.changes[0].what.startswith("worker_count=")


MOSTLY = st.floats(0.0, 1.0)


@pytest.mark.slow
@example(
    work=0.0,
    transform=0.0,
    hosts=0.0,
    transfer=0.0,
    hand_over=0.5,
    workers=0,
    records=8,
    step_known=True,
)
@given(
    MOSTLY,
    MOSTLY,
    MOSTLY,
    MOSTLY,
    MOSTLY,
    st.integers(0, 4),
    st.sampled_from([8, 1024]),
    st.booleans(),
)
def test_advice_on_a_feeder_promises_nothing_that_its_table_rules_out(
    work, transform, hosts, transfer, hand_over, workers, records, step_known
):
    """A step is never shorter than what is left for the busiest: the user's own work, the workers,
    or the feeder's thread.
    """
    own, busiest = 0.1, max(work / max(workers, 1), 0.1)
    feeding = Feeding(transform, hosts, transfer, hand_over)
    waited = max(busiest - own, 0.0) + sum(vars(feeding).values())
    decode = WorkPart("decode", "record", work, 8)
    loop = Measured(
        9,
        own + waited,
        waited,
        waited,
        records,
        32,
        (decode,),
        0.0,
        workers=workers,
        cores=64,
        feeding=feeding,
    )
    diagnosis = Diagnosis.of(dataclasses.replace(loop, step_known=step_known))
    for change in diagnosis.changes:
        if change.what.startswith("transform="):
            least = (work + transform) / max(workers, 1)
        elif change.what.startswith("`decode` twice"):
            least = work / 2 / workers if workers else work / 2 + transform
        elif change.what.startswith(("half the bytes", "the other hosts")):
            least = work / workers if workers else work + transform
        else:
            least = 0.0
        assert change.seconds >= max(least, own if step_known else 0.0) / NOISE * (1 - 1e-9)
    assert diagnosis.finding.kind != "small batches" or records < 64
    assert "your own thread" not in str(diagnosis)
    assert "Your thread" not in str(diagnosis)


def test_without_workers_the_feeders_thread_works_beside_the_users_step():
    """17.6 ms of work beside a step of 5.7 ms: half of the work is half of the time, not the step
    and half of the work.
    """
    slow = WorkPart("slow", "record", 0.0176, 8)
    loop = Measured(
        40,
        0.0179,
        0.0122,
        0.0114,
        8,
        32,
        (slow,),
        at_work=0.0,
        cores=8,
        feeding=Feeding(0.0, 0.0, 0.0, 0.0),
    )
    assert step_seconds(loop, 0) == pytest.approx(0.0176)
    assert step_seconds(lighter(loop, 0.5, "record"), 0) == pytest.approx(0.0088)
    transforming = dataclasses.replace(loop, feeding=Feeding(0.004, 0.0, 0.0, 0.0))
    assert step_seconds(transforming, 0) == pytest.approx(0.0216)


@pytest.mark.slow
def test_a_loader_is_diagnosed_with_and_without_a_step():
    """With its own workers; the numbers are those of the loader."""
    loader = headrace.load(range(1000), transformations=[wait], batch_size=4)
    alone = headrace.diagnose(loader, steps=5)
    assert alone.finding.stage == "wait"
    assert not alone.measured.step_known
    assert alone.measured.records == 4
    beside = headrace.diagnose(loader, steps=4, step_seconds=0.02)
    assert beside.measured.own >= 0.02
    assert "`wait`" in beside.sentence


def test_maps_below_a_mix_are_told_as_part_of_reading():
    """Where they cannot be told apart: no disk is blamed for them."""
    source = SourceInUse("MixedSource", evaluates=True, at_work=0.1)
    loop = dataclasses.replace(LOOP, parts=(WorkPart("reading", "reading", 0.040),), source=source)
    assert found(loop).kind == "reading"
    assert (
        "reading with the maps of the datasets that are mixed takes 2.5 ms a record"
        in Diagnosis.of(loop).sentence
    )


def _collate(rows):
    time.sleep(0.005)
    return rows


def test_a_function_that_makes_batches_is_named():
    """It is the user's own: columns would not do without it."""
    loader = headrace.DataLoader(
        data_source=range(1000),
        sampler=headrace.IndexSampler(1000),
        operations=[headrace.Batch(4, batch_fn=_collate)],
    )
    found_ = headrace.diagnose(loader, steps=5)
    assert (found_.finding.kind, found_.finding.stage) == ("operation", "_collate")
    assert "columns" not in str(found_)


def test_a_slow_sampler_is_not_taken_for_batching():
    """What lies in memory is read in microseconds."""
    parts = WorkPart("reading", "reading", 0.040, 16), WorkPart("Batch", "stacking", 0.001)
    diagnosis = Diagnosis.of(dataclasses.replace(LOOP, parts=parts))
    assert "reading with the sampler's work takes 2.5 ms a record" in diagnosis.sentence
    assert "columns" not in str(diagnosis)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"steps": 2}, ValueError),
        ({"steps": "many"}, TypeError),
        ({"step_seconds": 0}, ValueError),
        ({"step_seconds": "1"}, TypeError),
        ({"seconds": float("nan")}, ValueError),
        ({"loader": [1, 2, 3]}, TypeError),
        ({"loader": 3}, TypeError),
        ({"loader": headrace.load(range(4), batch_size=2, num_epochs=1)}, ProgramError),
    ],
)
def test_what_cannot_be_diagnosed_is_one_clear_error(arguments, error):
    """Too few steps, no seconds, no loader, a stream that ends at once."""
    loader = headrace.load(range(100), batch_size=2)
    with pytest.raises(error) as caught:
        headrace.diagnose(**{"loader": loader, **arguments})
    assert len(str(caught.value)) < 500


SECONDS_TO_UNPICKLE = 0.05


def _unpickled():
    time.sleep(SECONDS_TO_UNPICKLE)


class Slow:
    """What takes long to unpickle."""

    def __init__(self, records):
        self.records = records

    def __reduce__(self):
        return _unpickled, ()


@pytest.mark.slow
def test_objects_that_are_unpickled_count_as_waited_for():
    """The user's thread unpickles what workers could not share: that is no work of the user's."""
    operations = [headrace.Batch(2, batch_fn=Slow)]
    sampler = headrace.IndexSampler(60, num_epochs=1)
    loader = headrace.DataLoader(
        data_source=range(60), sampler=sampler, operations=operations, worker_count=1
    )
    diagnosis = headrace.diagnose(loader, steps=5)
    assert diagnosis.measured.waited >= SECONDS_TO_UNPICKLE
    assert diagnosis.finding.kind != "step"


@pytest.mark.parametrize("worker_kind", ["process", "thread"])
def test_every_task_of_a_short_run_is_timed_when_it_is_asked_for(worker_kind):
    """With observe="each", however short tasks are."""
    loader = headrace.load(
        range(200),
        batch_size=2,
        num_epochs=1,
        worker_count=1,
        worker_kind=worker_kind,
        observe="each",
    )
    with iter(loader) as batches:
        assert len(list(batches)) == 100
        assert sum(task.times.rows for task in batches.stats().tasks) == 100


def _twice(number):
    time.sleep(20e-3)  # long, beside what a busy machine adds to all the rest
    return number


@pytest.mark.parametrize("worker_count", [0, 1])
@pytest.mark.slow
def test_operations_of_the_parts_of_a_mix_are_named(worker_count):
    """They are called where the mix is read; that is neither a disk nor a store."""
    web = headrace.MapDataset.range(1000).shuffle(seed=0).map(_twice)
    books = headrace.MapDataset.range(1000).map(lambda number: number)
    mixed = headrace.MapDataset.mix({"web": web, "books": books}, {"web": 0.7, "books": 0.3}).batch(
        4
    )
    diagnosis = headrace.diagnose(mixed.to_iter_dataset().mp_prefetch(worker_count), steps=5)
    assert (diagnosis.finding.kind, diagnosis.finding.stage) == ("operation", "_twice")
    parts = {part.name: part.seconds for part in diagnosis.measured.parts}
    assert parts["_twice"] > 10 * parts["lambda"]
    assert parts["_twice"] > parts["reading"] > 0
    assert diagnosis.measured.at_work < 0.5
    assert sum(
        part.calls for part in diagnosis.measured.parts if part.kind == "record"
    ) == pytest.approx(4)


def test_of_a_number_of_workers_that_is_looked_for_the_present_one_is_told():
    """Not the largest that there may be: what would help is reckoned from those that there are."""
    loader = headrace.load(
        range(10_000), transformations=[wait], batch_size=4, worker_count=headrace.Auto(most=50)
    )
    loop = headrace.diagnose(loader, steps=5).measured
    assert loop.workers < 50
