"""What `stats()` tells of a loop's time, and what it prints."""

from __future__ import annotations

import itertools
import json

import jax
import numpy as np
import pytest

from headrace import load
from headrace.loader.device.stats import FeederStats, StepTimes
from headrace.loader.stats import IteratorStats
from headrace.loader.timing.snapshot import OperationStats, Snapshot, StageStats
from headrace.loader.timing.times import TaskEvent, TaskTimes
from headrace.loader.timing.workers import WorkerStats

DEVICE = jax.devices()[0]


@pytest.mark.parametrize("on_devices", [False, True])
def test_the_times_of_a_loop_are_told(on_devices):
    """Steps, the time of the loop, and what of it was waited."""
    loader = load(np.arange(40), batch_size=4, num_epochs=1)
    with iter(loader.to_device(DEVICE) if on_devices else loader) as batches:
        assert batches.stats().steps == 0
        for _ in batches:
            pass
        stats = batches.stats()
    assert stats.steps == 10
    waited = stats.total.waited if on_devices else stats.waited
    assert 0 < waited <= stats.elapsed


def test_iterators_count_anew_after_set_state():
    """As `skipped_count`, the numbers are those since the state was set."""
    iterator = iter(load([0, 1, 0, 2], transformations=[lambda x: 1 // x], num_epochs=3))
    state = iterator.get_state()
    with pytest.raises(ZeroDivisionError):
        next(iterator)
    assert iterator.stats().steps == 0
    iterator.set_state(state)
    assert iterator.stats() == IteratorStats(
        steps=0, elapsed=0.0, waited=0.0, worker_count=0, skipped=0
    )


WAITS = {
    "nothing": (0.01, 0.01, 0.01, 0.01, 0.0),
    "worker_count": (0.5, 0.1, 0.1, 0.1, 0.6),
    "transform=": (0.1, 0.5, 0.1, 0.1, 0.1),
    "other hosts": (0.1, 0.1, 0.5, 0.1, 0.1),
    "fewer bytes": (0.1, 0.1, 0.1, 0.5, 0.1),
    "larger ones": (0.1, 0.1, 0.1, 0.1, 0.5),
}


@pytest.mark.parametrize("word", WAITS)
def test_a_feeders_stats_print_as_a_table_that_says_what_to_do(word):
    """Nine lines: seconds, shares of the time, and advice for what was waited for the longest."""
    parts = WAITS[word]
    stats = FeederStats(3, 2.0, StepTimes(sum(parts), *parts), ())
    first, *rows, advice = str(stats).splitlines()
    assert first.split() == ["3", "steps", "in", "2.000", "s", "seconds", "share"]
    names = [
        "waited for batches",
        "reading",
        "transforming",
        "agreeing",
        "transfer",
        "hand-over",
        "your own work",
    ]
    assert [row.strip().rsplit(maxsplit=2)[0] for row in rows] == names
    assert rows[1].split()[1:] == [f"{parts[0]:.3f}", f"{parts[0] / 2:.1%}"]
    assert rows[-1].split()[-2] == f"{2 - sum(parts):.3f}"
    assert advice.startswith("What to do: ")
    assert word in advice


def test_a_feeder_tells_what_the_loader_did_too():
    """In at most 15 lines, and as plain values; and when each of the last batches was made."""
    operations = [lambda number: number + 1] * 9
    loader = load(np.arange(40), transformations=operations, batch_size=4, num_epochs=1)
    with iter(loader.to_device(DEVICE)) as batches:
        for _ in batches:
            pass
        stats = batches.stats()
    assert stats.loader.records == 40
    assert len(str(stats).splitlines()) <= 15
    assert json.loads(json.dumps(stats.to_dict()))["loader"]["records"] == 40
    assert len(stats.batches) == len(stats.last) == 10
    assert all(
        batch.made.read_from <= batch.made.transferred <= batch.taken for batch in stats.batches
    )


@pytest.mark.parametrize(
    ("waited", "workers", "word"),
    [
        (0.01, 0, "nothing"),
        (1.0, 0, "your thread does the work"),
        (1.0, 2, "workers are slower than your loop; headrace.diagnose(loader)"),
    ],
)
def test_an_iterators_stats_print_as_a_table_that_says_what_to_do(waited, workers, word):
    """Who is too slow. What would help is the verdict's to say, so that the two never contradict
    each other.
    """
    table = str(IteratorStats(7, 2.0, waited, workers, 3))
    assert f"{waited:.3f}" in table
    assert f"{waited / 2:.1%}" in table
    assert word in table.splitlines()[-1]


def _stage(**more):
    numbers = {
        "number": 0,
        "tasks": 5,
        "inputs": 50,
        "rows": 50,
        "nbytes": 400,
        "reads": True,
        "ends": True,
    }
    seconds = {
        "busy": 1.0,
        "reading": 0.1,
        "packing": 0.0,
        "between": 0.0,
        "cpu_share": 1.0,
        "waited": 0.8,
    }
    return StageStats(
        **{**numbers, **seconds, "queued": 0.0, "ahead": 0.0, "operations": (), **more}
    )


def _event(block, asked, began):
    return TaskEvent(
        block,
        0,
        0,
        4,
        (),
        0.0,
        asked,
        began + 0.2,
        TaskTimes(0, began, began + 0.1, 0.0, 0.0, 4, 4, 32),
    )


ADVICE = {
    "operations": ((_stage(),), (), "workers are slower than your loop"),
    "reading": (
        (_stage(reading=0.9, under_way=14.0),),
        (),
        "reading is waited for, with 14 reads under way",
    ),
    "reading from memory": (
        (_stage(reading=0.9, under_way=0.9),),
        (),
        "workers are slower than your loop",
    ),
    "start": ((_stage(),), (_event(0, 10.0, 10.7),), "workers took 0.7 s to begin: measure more"),
    "a start long ago": (
        (_stage(),),
        (_event(9, 10.0, 10.7),),
        "workers are slower than your loop",
    ),
}


@pytest.mark.parametrize("case", ADVICE)
def test_the_advice_of_a_table_names_what_is_waited_for(case):
    """Operations, reads with their number, or the start of workers, in the table's last line."""
    stages, tasks, advice = ADVICE[case]
    stats = IteratorStats(
        5, 1.0, 0.8, 2, 0, stages, workers=WorkerStats(2, 0.9, 0.05, 0.05, 2, 0, 0, 0), tasks=tasks
    )
    *_, last = str(stats).splitlines()
    assert last.startswith(f"What to do: {advice}")
    assert len(last) <= 120


@pytest.mark.parametrize(
    ("workers", "waited", "case", "advice"),
    [
        (2, 0.8, "operations", "workers are slower than your loop"),
        (1, 0.8, "start", "workers took 0.7 s to begin"),
        (0, 0.8, "operations", "the loader is slower than your steps; print(iterator.stats())"),
        (2, 0.01, "operations", "the loader is slower than your steps"),
    ],
)
def test_a_feeder_that_waits_for_workers_gives_the_advice_about_them(workers, waited, case, advice):
    """With workers, `worker_count=` was passed already; without them, it is the advice. A wait is
    never said to be none.
    """
    stages, tasks, _ = ADVICE[case]
    loader = IteratorStats(
        5,
        1.0,
        waited,
        workers,
        0,
        stages,
        workers=WorkerStats(2, 0.9, 0.05, 0.05, 2, 0, 0, 0),
        tasks=tasks,
    )
    stats = FeederStats(5, 1.0, StepTimes(0.8, 0.7, 0.0, 0.0, 0.1, 0.0), (), loader=loader)
    assert stats.advice().startswith(advice)


def _stage(number, tasks, queued=0.0, ahead=0.0, slowest=0.0):
    """Statistics of a stage with so many tasks of 4 inputs, each of 1 second, half of it in its
    only operation.
    """
    operation = OperationStats(number, "map", tasks / 2, 1 / 8, tasks * 4, slowest)
    return StageStats(
        number=number,
        tasks=tasks,
        inputs=tasks * 4,
        rows=tasks,
        nbytes=tasks * 100,
        reads=True,
        ends=True,
        busy=float(tasks),
        reading=tasks / 4,
        packing=tasks / 8,
        between=tasks / 8,
        cpu_share=0.5,
        waited=tasks / 10,
        queued=queued,
        ahead=ahead,
        operations=(operation,),
        under_way=float(tasks),
    )


def test_what_came_since_an_earlier_snapshot_is_all_counts_and_times():
    """Also of stages, operations and the parts of a wait: means are those of the time between; a
    new stage counts whole.
    """
    before = Snapshot(
        steps=10,
        elapsed=5.0,
        waited=1.0,
        skipped=3,
        records=40,
        nbytes=1000,
        feeding=StepTimes(1.0, 0.5, 0.1, 0.1, 0.2, 0.1),
        stages=(_stage(0, 10, queued=1.0, ahead=2.0),),
    )
    now = Snapshot(
        steps=40,
        elapsed=15.0,
        waited=4.0,
        worker_count=2,
        skipped=5,
        records=160,
        nbytes=4000,
        feeding=StepTimes(4.0, 2.0, 0.4, 0.4, 0.8, 0.4),
        stages=(
            _stage(0, 40, queued=4.0, ahead=4.0, slowest=0.75),
            _stage(1, 6, queued=2.0, ahead=3.0),
        ),
    )
    since = now.since(before)
    assert (since.steps, since.elapsed, since.waited, since.skipped, since.worker_count) == (
        30,
        10.0,
        3.0,
        2,
        2,
    )
    assert since.feeding == pytest.approx((3.0, 1.5, 0.3, 0.3, 0.6, 0.3))
    assert since.stages == (
        _stage(0, 30, queued=5.0, ahead=5.0, slowest=0.75),
        _stage(1, 6, queued=2.0, ahead=4.5),
    )
    assert before.since(now) is before


def test_snapshots_of_a_loop_add_up():
    """Tasks and inputs between snapshots are those that came in between."""
    with iter(load(range(96), batch_size=8, num_epochs=1)) as iterator:
        parts = [Snapshot(0, 0.0, 0.0)]
        for step, _ in enumerate(iterator):
            if step % 3 == 2:
                parts.append(iterator.snapshot())
    added = [after.since(before) for before, after in itertools.pairwise(parts)]
    assert (
        sum(stage.inputs for one in added for stage in one.stages)
        == sum(one.records for one in added)
        == 96
    )
    assert [one.steps for one in added] == [3] * 4
