"""worker_count="auto": how many workers there are is found out, and the stream is that of any
number.
"""

from __future__ import annotations

import gc
import pickle
import random
import threading
import time

import numpy as np
import pytest
from support.pools import new_pool, pool_jobs

from headrace import Auto, Batch, DataLoader, Filter, IndexSampler, load
from headrace.loader.executors import make
from headrace.loader.executors.auto import executor as auto
from headrace.loader.executors.auto.tuner import (
    ENOUGH,
    HEAVY_SECONDS,
    HereOrWorkers,
    Measurement,
    Setting,
    Tuner,
)
from headrace.loader.executors.pool import Give, Kill, Spawn, WorkerPool
from headrace.loader.executors.protocol import Tuning
from headrace.loader.executors.thread_pool import Pool
from headrace.loader.options import ExecutionOptions
from headrace.loader.timing.observer import Observer

MACHINES = {
    "computes on 2 cores": lambda workers, _: 100 * min(max(workers, 1), 2),
    "computes on 6 cores": lambda workers, _: 100 * min(max(workers, 1), 6),
    "waits for a store": lambda workers, _: 100 * max(workers, 1),
    "costs more to hand over than to do": lambda workers, _: (
        1000 if not workers else 100 * min(workers, 2)
    ),
    "gets slower with too many": lambda workers, _: (
        100 * max(workers, 1) if workers <= 5 else 40 * workers**0.5
    ),
    "takes unequal times": lambda workers, buffer: (
        100 * min(max(workers, 1), 4) * (0.7 if buffer < 2 else 1.0)
    ),
    "one worker is better than none": lambda workers, _: 180 if workers == 1 else 150,
}
"""Records in a second, by the number of workers and the buffer."""


def _settled(tuner, speed, loop=float("inf"), each=0, noise=0.0):
    """The setting that it comes to, with a loop of the user's that takes at most so many records in
    a second.
    """
    draws = random.Random(0)
    for stretches in range(40):
        if tuner.settled:
            return stretches
        rate = speed(*tuner.setting)
        taken = min(rate, loop)
        waited = max(0.0, 1.0 - taken / loop) if tuner.setting.workers == 0 or rate < loop else 0.0
        nbytes = each * tuner.setting.workers * (1 + tuner.setting.buffer)
        tuner.note(
            Measurement(1.0, round(taken * draws.uniform(1 - noise, 1 + noise)), waited, nbytes)
        )
    raise AssertionError("it never settles")


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("least", [0, 1])
@pytest.mark.parametrize("machine", MACHINES)
def test_it_settles_near_the_best_setting(machine, least, noise):
    """In few stretches, at 0.9 of the best there is at least."""
    speed, tuner = MACHINES[machine], Tuner(least, most=8)
    assert _settled(tuner, speed, noise=noise) <= 12
    best = max(speed(workers, buffer) for workers in range(least, 9) for buffer in (1, 2, 4))
    assert speed(*tuner.setting) >= 0.9 * best


def test_who_does_not_wait_gets_no_more_workers():
    """However much faster the stream could be."""
    tuner = Tuner(0, most=8)
    tuner.note(Measurement(1.0, 100, ENOUGH / 2, 0))
    assert tuner.settled
    assert tuner.setting == Setting(0, 1)
    tuner = Tuner(0, most=16)
    _settled(tuner, MACHINES["waits for a store"], loop=350)
    assert tuner.setting == Setting(4, 1)


@pytest.mark.parametrize("most", [1, 2, 3, 5, 8, 12])
def test_bounds_are_kept(most):
    """Of workers, which are soon as many, and of the memory that is shared with them."""
    tuner = Tuner(1, most)
    assert _settled(tuner, MACHINES["waits for a store"]) <= 6
    assert tuner.setting.workers == most
    tuner = Tuner(0, most=16, most_bytes=6 * 2 * 1000)
    _settled(tuner, MACHINES["waits for a store"], each=1000)
    assert tuner.setting == Setting(6, 1)


@pytest.mark.parametrize(
    ("buffer", "useful", "found"), [(1, 9, 4), (3, 9, 4), (4, 9, 4), (5, 9, 5), (1, 2, 2)]
)
def test_buffers_are_doubled_while_that_helps_and_up_to_the_limit(buffer, useful, found):
    """Whatever the user begins with."""
    tuner = Tuner(1, most=1, buffer=buffer)
    _settled(tuner, lambda workers, buffer: 100 * min(buffer, useful))
    assert tuner.setting == Setting(1, found)


def test_one_bad_second_does_not_count():
    """What did not help is tried again, right after what was best so far."""
    tuner = Tuner(0, most=4)
    for workers, rate in [(0, 100), (2, 90), (0, 60), (2, 115), (4, 200)]:
        assert tuner.setting.workers == workers
        tuner.note(Measurement(1.0, rate, 1.0, 0))
    assert not tuner.settled
    assert tuner.settle() == Setting(4, 1)


def test_when_time_is_up_the_best_so_far_is_kept():
    """And what is noted after it changes nothing."""
    tuner = Tuner(1, most=8)
    tuner.note(Measurement(1.0, 100, 1.0, 0))
    assert tuner.setting == Setting(2, 1)
    assert tuner.settle() == Setting(1, 1)
    assert tuner.note(Measurement(1.0, 1000, 1.0, 0)) == Setting(1, 1)


@pytest.mark.parametrize(
    ("workers", "here", "chosen"),
    [
        ([100, 100], [200, 200], 0),
        ([100], [50], 2),
        ([100], [104], 2),
        ([100, 210], [200], 2),
        ([100, 100], [200, 90], 2),
    ],
    ids=[
        "faster each time",
        "slower",
        "hardly faster",
        "one slow measurement of workers",
        "one fast measurement here",
    ],
)
def test_workers_give_way_to_the_calling_thread_only_where_it_is_faster_each_time(
    workers, here, chosen
):
    """Both are tried in turns; what was decided holds, and is said in a sentence."""
    tuner, rates = HereOrWorkers(2, 1, batch=1), {2: iter(workers), 0: iter(here)}
    assert tuner.setting == Setting(2, 1)
    for _ in range(len(workers) + len(here)):
        assert not tuner.settled
        tuner.note(Measurement(1.0, 1000 * next(rates[tuner.setting.workers]), 1.0, 0))
    assert tuner.settled
    assert tuner.setting == Setting(chosen, 1)
    assert tuner.note(Measurement(1.0, 10**9, 1.0, 0)) == Setting(chosen, 1)
    assert bool(tuner.reason) == (chosen == 0)
    assert chosen or tuner.reason == (
        "Your thread makes the batches: it made 200,000 records/s, and 2 workers 100,000, as "
        "handing these batches over takes longer than making them."
    )


@pytest.mark.parametrize(
    ("inputs", "waited"),
    [(100, 1.0), (100_000, ENOUGH / 2)],
    ids=["batches are heavy", "hardly waits"],
)
def test_the_calling_thread_is_not_tried_where_workers_are_of_use(inputs, waited):
    """A batch takes a worker long, or the loop hardly waits for it."""
    tuner = HereOrWorkers(2, 1, batch=1)
    assert HEAVY_SECONDS < 2 / 100
    assert tuner.note(Measurement(1.0, inputs, waited, 0)) == Setting(2, 1)
    assert tuner.settled


class PlayedTeam:
    """Workers that are there at once; nothing is done."""

    def resize(self, workers, buffer):
        pass

    def has_begun(self):
        return True

    def submit(self, task, blocks):
        pass

    def close(self):
        pass


class LateTeam(PlayedTeam):
    """Workers that take longer to begin than an epoch."""

    def has_begun(self):
        return False


class PlayedLoop:
    """A loop with a clock of its own over an "auto" executor, whose tasks take 20 ms on
    one worker.
    """

    def __init__(self, monkeypatch, tuning=None, team=PlayedTeam):
        self.now, self.observer = 1.0, Observer()
        monkeypatch.setattr(auto, "perf_counter", lambda: self.now)
        pipeline = iter(load(range(100), batch_size=8))._pipeline
        options = ExecutionOptions(worker_count=Auto(most=8))
        self.executor = auto.AutoExecutor(
            pipeline, options, self.observer, lambda workers: team(), tuning or Tuning()
        )
        self.executor._at_work = PlayedTeam()

    def task(self):
        """One is done, and another one submitted; how many workers there are then."""
        self.executor.submit(None)
        self.now += 0.02 / max(self.observer.worker_count, 1)
        sums = self.observer.stage(0)
        sums.inputs, sums.tasks = sums.inputs + 8, sums.tasks + 1
        return self.observer.worker_count

    def step(self, seconds):
        """A batch is waited for, and the user is away for so long."""
        self.observer.waits.began = self.now
        workers = self.task()
        self.observer.waits.end(self.now)
        self.now += seconds
        return workers


@pytest.mark.parametrize(
    "pauses", [[40.0, 30.0], [0.001] * 30 + [25.0]], ids=["compiles", "evaluates"]
)
def test_pauses_do_not_count(pauses, monkeypatch):
    """JAX compiles in the first two steps, and others evaluate or save: that is not a loop that
    hardly waits.
    """
    loop = PlayedLoop(monkeypatch)
    for seconds in pauses:
        loop.step(seconds)
    assert max(loop.step(0.001) for _ in range(2000)) == 8


def test_workers_whose_end_is_interrupted_are_ended_with_the_executor(monkeypatch):
    """They are not needed any more, and Ctrl-C comes while they are closed."""
    ends = []

    class Stubborn(PlayedTeam):
        def is_idle(self):
            return True

        def close(self):
            ends.append(None)
            if len(ends) == 1:
                raise KeyboardInterrupt

    loop = PlayedLoop(monkeypatch, team=Stubborn)
    loop.task()
    loop.executor._team = Stubborn()
    loop.executor.found.tuner.settle()
    loop.executor._search, loop.executor._at = loop.executor._steps(), 0.0
    next(loop.executor._search)
    with pytest.raises(KeyboardInterrupt):
        loop.task()
    loop.executor.close()
    assert len(ends) == 2


@pytest.mark.slow
def test_a_wait_that_goes_on_counts(monkeypatch):
    """A batch for which a filter goes through very many records is waited for while settings are
    tried.
    """
    loop = PlayedLoop(monkeypatch)
    loop.observer.waits.began = loop.now
    assert max(loop.task() for _ in range(2000)) == 8


def _epochs(monkeypatch, count, tasks, tuning, team=PlayedTeam):
    """The number of workers at the end of each of so many epochs of so many tasks."""
    for _ in range(count):
        loop = PlayedLoop(monkeypatch, tuning, team)
        for _ in range(tasks):
            loop.step(0.001)
        loop.executor.close()
        yield loop.observer.worker_count


def test_the_next_epoch_begins_with_what_the_last_one_found(monkeypatch):
    """It does not begin anew with none; another loader does."""
    tuning = Tuning()
    (found,) = _epochs(monkeypatch, 1, 4000, tuning)
    assert found == 8
    assert next(_epochs(monkeypatch, 1, 1, tuning)) == 8
    assert next(_epochs(monkeypatch, 1, 1, Tuning())) == 0


def test_an_epoch_without_tasks_keeps_what_was_found(monkeypatch):
    """It was left before its first batch; a second iterator that does nothing either does not
    replace what was found.
    """
    tuning = Tuning()
    assert list(_epochs(monkeypatch, 2, 4000, tuning)) == [8, 8]
    idle, second = PlayedLoop(monkeypatch, tuning), PlayedLoop(monkeypatch, tuning)
    for loop in (idle, second, idle):
        loop.executor.close()
    assert list(_epochs(monkeypatch, 2, 0, tuning)) == [8, 8]
    assert next(_epochs(monkeypatch, 1, 1, tuning)) == 8


@pytest.mark.one_in(2)
@pytest.mark.parametrize("tasks", [12, 40])
@pytest.mark.slow
def test_short_epochs_come_to_the_same_workers(tasks, monkeypatch):
    """What is measured in several epochs counts together: none of them is long enough alone."""
    found = list(_epochs(monkeypatch, 400, tasks, Tuning()))
    assert found[-1] == 8
    assert set(found[-100:]) == {8}


@pytest.mark.slow
def test_epochs_that_end_before_workers_begin_go_without(monkeypatch):
    """Nothing more is tried then."""
    assert list(_epochs(monkeypatch, 60, 12, Tuning(), LateTeam))[-20:] == [0] * 20


@pytest.mark.slow
def test_what_was_found_goes_to_one_iterator_at_a_time(monkeypatch):
    """A second one over the same loader begins anew."""
    tuning = Tuning()
    list(_epochs(monkeypatch, 1, 4000, tuning))
    first, second = PlayedLoop(monkeypatch, tuning), PlayedLoop(monkeypatch, tuning)
    assert (first.task(), second.task()) == (8, 0)
    assert isinstance(pickle.loads(pickle.dumps(tuning)), Tuning)


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_epochs_of_a_loader_remember(kind):
    """The loader's iterators hand it on, whichever way epochs are looped over; the stream is the
    same.
    """
    loader = load(
        range(64), batch_size=8, worker_count=Auto(most=2), worker_kind=kind, seed=0, shuffle=True
    )
    settings = []
    for epoch in loader.epochs(3):
        batches = [batch.tolist() for batch in epoch]
        settings.append(loader._description.tuning._found)
        assert sorted(number for batch in batches for number in batch) == list(range(64))
    assert settings[0] is settings[1] is settings[2] is not None
    assert loader.with_batch_size(4)._description.tuning is not loader._description.tuning


def _as_number(record):
    return int(record)


class Turns(HereOrWorkers):
    """Finds the calling thread faster, however fast it is."""

    def note(self, measurement):
        return super().note(
            measurement._replace(
                inputs=10 if self.setting.workers else 1000, seconds=1e-3, waited=1e-3
            )
        )


@pytest.fixture
def _in_turns(monkeypatch):
    """Workers and the calling thread in turns, each for a few tasks; the calling thread
    in the end.
    """
    monkeypatch.setattr(auto, "HereOrWorkers", Turns)
    for seconds in ("MEASUREMENT_SECONDS", "WARM_SECONDS", "POLL_SECONDS"):
        monkeypatch.setattr(auto, seconds, 0.0)
    monkeypatch.setattr(auto, "LEAST_TASKS", 1)


@pytest.mark.usefixtures("_in_turns")
def test_batches_of_columns_are_made_where_that_is_faster_whatever_the_number_of_workers():
    """The stream is the same, also from a state on; no process is left, stats say why, and the next
    epoch starts none.
    """
    columns = {"x": np.arange(5000), "y": np.arange(5000) % 7}

    def loader(worker_count):
        sampler = IndexSampler(5000, shuffle=True, seed=3)
        return DataLoader(
            data_source=columns,
            sampler=sampler,
            operations=[Batch(8), _doubled],
            worker_count=worker_count,
        )

    alone, worked = iter(loader(0)), loader(2)
    with iter(worked) as iterator:
        while not iterator.stats().decision or iterator._running._executor._team is not None:
            batch, expected = next(iterator), next(alone)
            assert [batch[name].tolist() for name in "xy"] == [
                expected[name].tolist() for name in "xy"
            ]
        stats, state = iterator.stats(), iterator.get_state()
    assert stats.worker_count == 0
    assert stats.workers.started == 2
    assert stats.workers.ended == 0
    assert "Your thread makes the batches" in stats.decision
    assert stats.decision in str(stats)
    with iter(worked) as iterator:
        iterator.set_state(state)
        assert next(iterator)["x"].tolist() == next(alone)["x"].tolist()
        stats = iterator.stats()
    assert (stats.worker_count, stats.workers.started, stats.decision[:11]) == (0, 0, "Your thread")


def _doubled(batch):
    return {"x": batch["x"] * 2, "y": batch["y"]}


@pytest.mark.parametrize(
    ("source", "operations", "options"),
    [
        (list(range(64)), [Batch(8)], {}),
        (np.arange(64), [_as_number, Batch(8)], {}),
        (np.arange(64), [Batch(8)], {"timeout": 60.0}),
        (np.arange(64), [Batch(8)], {"worker_init_fn": print}),
    ],
    ids=["records of a list", "an operation on records", "a timeout", "worker_init_fn"],
)
def test_other_pipelines_go_to_workers_in_any_case(source, operations, options):
    """Their records may take long, or an option needs processes."""
    assert not _may_be_done_here(source, operations, **options)
    assert _may_be_done_here({"x": np.arange(64)}, [Batch(8), _doubled])


def test_columns_in_a_mapped_file_go_to_workers_in_any_case(tmp_path):
    """They may have to be read from a disk."""
    np.save(tmp_path / "rows.npy", np.arange(64))
    assert not _may_be_done_here(np.load(tmp_path / "rows.npy", mmap_mode="r"), [Batch(8)])
    assert _may_be_done_here(np.load(tmp_path / "rows.npy")[8:], [Batch(8)])


def _may_be_done_here(source, operations, **options):
    """Whether the executor for two processes may turn to the calling thread. No process
    is started.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(make, "_on_processes", lambda *_: PlayedTeam())
        pipeline = iter(load(source, transformations=operations))._pipeline
        executor = make.make_executor(
            pipeline, ExecutionOptions(worker_count=2, **options), Observer()
        )
        executor.close()
    return isinstance(executor, auto.AutoExecutor)


class Restless(Tuner):
    """Decides on something else each time."""

    def __init__(self, least, most, most_bytes=None, buffer=1):
        super().__init__(least, most, most_bytes, buffer)
        self._next = iter([(2, 1), (1, 2), (3, 1), (least, 1), (2, 1), (least, 1)])

    def note(self, measurement):
        self.setting = Setting(*next(self._next, self.setting))
        self.settled = self._next.__length_hint__() == 0
        return self.setting


@pytest.fixture
def _restless(monkeypatch):
    """Something else each few tasks."""
    monkeypatch.setattr(auto, "Tuner", Restless)
    for seconds in ("MEASUREMENT_SECONDS", "WARM_SECONDS", "POLL_SECONDS"):
        monkeypatch.setattr(auto, seconds, 0.0)
    monkeypatch.setattr(auto, "LEAST_TASKS", 3)


def _add(record, rng):
    return record + rng.integers(1000)


def _some(record):
    return record % 3 != 0


@pytest.mark.one_in(4)
@pytest.mark.usefixtures("_restless")
@pytest.mark.parametrize("kind", ["process", "thread"])
@pytest.mark.parametrize("operations", [[], [Filter(_some)]], ids=["aligned", "ragged"])
def test_the_stream_is_the_same_while_workers_come_and_go(kind, operations):
    """From the calling thread to workers and back; a state taken on the way goes on likewise;
    nobody is taken for dead.
    """
    sampler = IndexSampler(3000, shuffle=True, seed=3)

    def loader(**options):
        return DataLoader(
            data_source=np.arange(3000),
            sampler=sampler,
            operations=[*operations, _as_number, Batch(8)],
            **options,
        )

    found = []
    with iter(loader(worker_count="auto", worker_kind=kind)) as iterator:
        while len(found) < 10 or not iterator._running._executor.found.tuner.settled:
            found.append(next(iterator).tolist())
            time.sleep(1e-3)
            if len(found) == 10:
                state = iterator.get_state()
        found += [next(iterator).tolist() for _ in range(50)]
        stats = iterator.stats()
    assert stats.workers.ended == 0
    assert stats.worker_count == (1 if operations else 0)
    expected = iter(loader())
    assert found == [batch.tolist() for batch, _ in zip(expected, found)]
    with iter(loader(worker_count=Auto(most=3), worker_kind=kind)) as iterator:
        iterator.set_state(state)
        assert [next(iterator).tolist() for _ in range(30)] == found[10:40]


def test_workers_that_are_too_many_go_when_they_are_done():
    """The youngest first; they are given nothing meanwhile, and their end is nobody's fault."""
    pool, (first, second, third) = new_pool(3), pool_jobs(3)
    pool.assign([first], 0.0)
    pool.assign([second], 0.0)
    assert pool.resize(1) == []
    assert pool.let_go() == [Kill(2)]
    assert pool.assign([third], 0.0) == [Give(0, [third])]
    assert pool.without_idle() == []
    pool.answered(1, 1, 1.0)
    assert pool.without_idle() == [Kill(1)]
    assert 1 not in pool.workers
    assert pool.ended(1, "by signal SIGKILL", 2.0) == []
    assert pool.resize(2) == [Spawn(3)]
    assert not pool.is_idle
    pool.answered(0, 2, 3.0)
    assert pool.is_idle


def test_a_worker_that_has_a_job_and_has_not_begun_is_not_too_many():
    """Its job would be lost."""
    pool, (job,) = WorkerPool(2, None), pool_jobs(1)
    pool.spawn_missing()
    pool.assign([job], 0.0)
    assert pool.resize(1) == [Kill(1)]
    assert 0 in pool.workers


def test_workers_may_stay_after_all():
    """Those that were to go and have not gone yet do, where more are wanted again."""
    pool, jobs = new_pool(2), pool_jobs(3)
    for job in jobs[:2]:
        pool.assign([job], 0.0)
    pool.resize(1)
    assert pool.let_go() == []
    assert pool.resize(2) == []
    pool.answered(1, 1, 1.0)
    assert pool.without_idle() == []
    assert pool.assign([jobs[2]], 1.0) == [Give(1, [jobs[2]])]


def test_threads_come_and_go():
    """As many as are wanted make calls; none is left after closing."""
    pool = Pool(1, "auto-test")
    gate = threading.Barrier(4, timeout=10)
    pool.resize(4)
    for call in [pool.submit(gate.wait) for _ in range(4)]:
        call.result()  # four at a time, or the barrier breaks
    pool.resize(1)
    assert pool.submit(lambda: 5).result() == 5
    pool.resize(2)
    pair = threading.Barrier(2, timeout=10)
    for call in [pool.submit(pair.wait) for _ in range(2)]:
        call.result()
    pool.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("auto-test")]


def test_auto_is_checked():
    """What is no number, or too few, or goes with something else."""
    assert load([1], worker_count="auto")._description.execution.worker_count == Auto()
    assert ExecutionOptions(worker_count=Auto(most=3)).workers == 3
    with pytest.raises(ValueError, match="most=0"):
        Auto(most=0)
    with pytest.raises(ValueError, match="most_bytes=-1"):
        Auto(most_bytes=-1)
    with pytest.raises(ValueError, match="cluster"):
        ExecutionOptions(worker_count="auto", worker_kind="ray")


@pytest.mark.slow
def test_an_executor_that_is_closed_is_freed_without_the_collector():
    """Iterators over columns, made and dropped again and again, leave no memory until the next
    collection.
    """
    gc.collect()
    gc.disable()
    try:
        iterator = iter(load(np.arange(64), batch_size=8, num_epochs=1, worker_count=2))
        next(iterator)
        del iterator
        assert not [one for one in gc.get_objects() if isinstance(one, auto.AutoExecutor)]
    finally:
        gc.enable()
