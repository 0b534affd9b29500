"""No history breaks an invariant; and each of twelve mistakes in pool, flow and resume would be
seen in some.
"""

from __future__ import annotations

import random

import pytest
import simulate

from headrace import load
from headrace.loader.executors import pooled
from headrace.loader.executors.pool import WorkerPool
from headrace.loader.executors.pooled import PooledExecutor
from headrace.loader.executors.transport import Message
from headrace.loader.options import ExecutionOptions
from headrace.loader.state import resume
from headrace.loader.state.schema import LoaderState
from headrace.loader.stream.ordered import Ordered
from headrace.loader.stream.provenance import Provenance
from headrace.loader.stream.stage_output import StageOutput
from headrace.loader.timing.observer import Observer
from headrace.loader.work.tasks import SpanTask
from headrace.testing import (
    FakeTransport,
    FakeWorkerDeath,
    StuckError,
    TransportMisuseError,
    simulation,
)

HISTORIES = 3000
"""Played by each run of the tests: 12 ms of processor time each, where this was measured."""

ENOUGH = 1000
"""In so many histories each mistake is seen."""


@pytest.mark.one_in(60)
@pytest.mark.parametrize("part", range(60))
def test_no_history_breaks_an_invariant(part):
    """Workers die, hang and come back, messages are late, users stop and go on elsewhere."""
    share = HISTORIES // 60
    assert simulate.failures(range(part * share, (part + 1) * share)) == []


@pytest.mark.long
@pytest.mark.parametrize("part", range(7))
def test_no_history_of_ten_thousand_breaks_an_invariant(part):
    """With those above."""
    assert simulate.failures(range(1000 * part + HISTORIES, 1000 * (part + 1) + HISTORIES)) == []


def test_a_seed_is_one_history():
    """Whoever plays it again sees the same, event by event."""
    for seed in (1, 3, 40):
        assert simulate.play(seed) == simulate.play(seed)


@pytest.mark.slow
def test_the_command_shows_a_history(capsys):
    """Of one seed; or plays many."""
    assert simulate.main(["1"]) == 0
    assert "a run begins" in capsys.readouterr().out
    assert simulate.main(["0", "20"]) == 0
    assert "20 histories" in capsys.readouterr().out


@pytest.mark.parametrize("number", [0, 87, 219])
def test_a_window_that_is_done_in_pieces_ends_with_its_last_row(number):
    """After a death, and where a filter leaves out what comes after that row: on other shards no
    element repeats.
    """
    simulation.play(
        number, lambda world: simulate._play_elastic(simulate.elastic_of(125_159), world)
    )


def _deadly(x):
    """Ends the worker that does it."""
    if x == 5:
        raise FakeWorkerDeath
    return x


def _fake_executor(pipeline, options, observer, tuning=None):
    return PooledExecutor(
        pipeline, options, observer, FakeTransport(pipeline, random.Random(1), options.workers)
    )


def test_the_inputs_of_a_task_that_was_given_up_may_be_tried_before_anybody_asks_for_it():
    """The one at fault is named then, and nothing more is waited for."""
    loader = load(
        range(6),
        transformations=[_deadly],
        batch_size=3,
        num_epochs=1,
        read_options=simulate.NO_THREADS,
    )
    options, pipeline = ExecutionOptions(worker_count=2, observe=False), iter(loader).pipeline
    executor = _fake_executor(pipeline, options, Observer())
    good, deadly = (executor.submit(SpanTask(0, start, start + 3)) for start in (0, 3))
    with pytest.raises(StuckError):
        while True:
            executor.handle_events(wait=True)
    assert good.result().failure is None
    assert "record key 5 at" in str(deadly.result().failure.error)
    executor.close()


def test_the_fake_holds_its_caller_to_the_protocol():
    """Who breaks it, or waits for what will not come, is told at once."""
    transport = FakeTransport(None, random.Random(1), depth=1)
    transport.start(0)
    with pytest.raises(TransportMisuseError, match="more messages than its depth"):
        transport.send(0, Message([SpanTask(0, 0, 1)]))
    with pytest.raises(TransportMisuseError, match="was started before"):
        transport.start(0)
    while not transport.poll(0):
        pass
    with pytest.raises(StuckError, match="given to no worker"):
        transport.poll(None)
    transport.close()
    with pytest.raises(TransportMisuseError, match="is closed"):
        transport.poll(0)


def _first_of_each(original):
    return lambda self, workers: original(self, workers)[:1]


def _without_last(original):
    return lambda self, jobs, now: original(self, list(jobs)[:-1], now)


def _last_first(original):
    def answered(self, worker, count, now):
        jobs = self._workers[worker].jobs
        jobs.rotate(1) if len(jobs) > 1 else None
        return original(self, worker, count, now)

    return answered


def _nobody_is_late(original):
    return lambda self, now: []


def _room_before_ready(original):
    def worker_for(self, job):
        for worker in self._workers.values():
            worker.ready = True
        return original(self, job)

    return worker_for


def _not_lost(original):
    return lambda self: original(self) and False


def _as_they_come(original):
    """Of two results the one that is there first."""

    def following(self, wait):
        if (
            len(self._submitted) > 1
            and self._submitted[1][1].ready()
            and not self._submitted[0][1].ready()
        ):
            self._submitted[0], self._submitted[1] = self._submitted[1], self._submitted[0]
        return original(self, wait)

    return following


def _all_but_last(original):
    return lambda task, pipeline: original(task, pipeline)[
        : max(1, len(original(task, pipeline)) - 1)
    ]


def _row_before(original):
    return lambda self, row: original(self, max(row - 1, 0))


def _nothing_skipped(original):
    return lambda self, request, block: 0


def _first_rows_alone(original):
    def read(cls, data):
        state = original(data)
        return state.__class__(
            **{
                **_fields(state),
                "cursor": state.cursor._replace(skips=(0,) * len(state.cursor.skips)),
            }
        )

    return classmethod(read)


def _fields(state):
    return {name: getattr(state, name) for name in state.__dataclass_fields__}


def _forgets_one(original):
    return lambda unfinished: original(list(unfinished)[1:])


MUTANTS = {
    "pool: what a dead worker had is given again, but for the last job": (
        WorkerPool,
        "_assign_again",
        _without_last,
    ),
    "pool: of what ended with all workers, the first job alone is done again": (
        WorkerPool,
        "_jobs_of",
        _first_of_each,
    ),
    "pool: a worker's answer is taken for its last job": (WorkerPool, "answered", _last_first),
    "pool: nobody is late": (WorkerPool, "look", _nobody_is_late),
    "pool: a worker is sent tasks before it is ready": (
        WorkerPool,
        "_worker_for",
        _room_before_ready,
    ),
    "pool: rows are never lost": (pooled.RowsWithTask, "are_lost", _not_lost),
    "pool: a task is divided without its last part": (pooled, "parts_of", _all_but_last),
    "flow: results come as they are done": (Ordered, "next", _as_they_come),
    "flow: the cursor is that of the row before": (Provenance, "cursor_after", _row_before),
    "flow: rows that a cursor passed come again": (StageOutput, "_skipped_rows", _nothing_skipped),
    "resume: a state's rows are not passed by": (LoaderState, "from_json", _first_rows_alone),
    "resume: what one shard had begun is forgotten": (resume, "_dealt_out", _forgets_one),
}


@pytest.mark.parametrize("name", MUTANTS)
@pytest.mark.one_in(6)
def test_a_mistake_is_seen(name, monkeypatch):
    """Each is one line of the product that does something else."""
    owner, attribute, mistake = MUTANTS[name]
    monkeypatch.setattr(owner, attribute, mistake(getattr(owner, attribute)))
    assert simulate.failures(range(ENOUGH), stop_after=1)
