"""How many tasks are timed, and how often their operations are timed one by one."""

import pytest

from headrace import Batch, load
from headrace.loader.timing.times import SlowestCall
from headrace.loader.work import stopwatch
from headrace.loader.work.stopwatch import ReadSeconds, Stopwatch
from headrace.loader.work.tasks import Block, SpanTask
from headrace.loader.work.worker import Worker

TASK, TIMED = 1e-3, 4e-3
"""Seconds of a task, and of one that is timed: no cache holds the code that times it."""


@pytest.fixture
def played(monkeypatch):
    """Runs tasks on a clock of its own; returns its time, the number of timed tasks, and that of
    looks at operations.
    """
    now = [100.0]
    monkeypatch.setattr(stopwatch, "perf_counter", lambda: now[0])

    def play(tasks):
        watch, until, timed, looks = Stopwatch(0), 1, 0, 0
        for _ in range(tasks):
            until -= 1
            if until:
                now[0] += TASK
                continue
            watch.begin()
            looks += watch.may_look(calls=2)
            now[0] += TIMED
            watch.end(Block.of([1]), 1, False, ReadSeconds(0.0, 0.0), None)
            until, timed = watch.every, timed + 1
        return now[0] - 100, timed, looks

    return play


def test_a_task_in_eight_milliseconds_is_timed_though_it_takes_longer_than_others(played):
    """The time from one to the next counts, not that of the timed ones alone, which would be too
    many.
    """
    seconds, timed, _ = played(4000)
    assert 0.7 * seconds / stopwatch.TIMED_SECONDS <= timed <= seconds / stopwatch.TIMED_SECONDS + 1


def test_operations_are_timed_within_their_share_of_the_time(played):
    """The cost of all looks is below the allowed share of the seconds that passed, beside what the
    first ones may take.
    """
    seconds, _, looks = played(4000)
    cost = 4 * stopwatch.CALL_SECONDS + stopwatch.LOOK_SECONDS
    assert looks * cost <= stopwatch.FIRST_LOOKS + Stopwatch.share * seconds
    assert looks > stopwatch.FIRST_LOOKS / cost


@pytest.mark.parametrize("slow", [0, 1])
def test_the_slowest_call_of_the_operations_before_a_batch_is_known_with_its_record(
    slow, monkeypatch
):
    """Whichever of these operations it is of; a call with a batch is none."""
    now = [100.0]
    monkeypatch.setattr(stopwatch, "perf_counter", lambda: now[0])
    monkeypatch.setattr(Stopwatch, "may_look", lambda *_: True)

    def operation(place):
        def function(record):
            now[0] += 0.5 if (place, record) == (slow, 5) else 0.125
            return record

        return function

    def of_batch(batch):
        now[0] += 4.0
        return batch

    operations = [operation(0), operation(1), Batch(4), of_batch]
    worker = Worker(
        iter(load(range(8), transformations=operations)).pipeline,
        stopwatch=lambda: Stopwatch(0),
        watches_globals=False,
    )
    times = worker.run(SpanTask(0, 4, 8)).times
    assert times.look.slowest == SlowestCall(0.5, slow, 5)


def test_the_times_of_operations_are_those_of_the_timed_task_alone():
    """Tasks between two timed ones add nothing to them."""
    worker = Worker(
        iter(load(range(4000), transformations=[abs], batch_size=4)).pipeline,
        stopwatch=lambda: Stopwatch(0),
        watches_globals=False,
    )
    times = [worker.run(SpanTask(0, start, start + 4)).times for start in range(0, 4000, 4)]
    inputs = [each.look.inputs for each in times if each is not None and each.look is not None]
    assert 1 < len(inputs) < len(times)
    assert {*inputs} == {4}
