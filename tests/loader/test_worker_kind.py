"""Workers are processes by default; threads in a Python without GIL, unless an operation or an
option needs processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import headrace
from headrace import MapDataset
from headrace.common import system
from headrace.loader import options


@pytest.fixture
def no_gil(monkeypatch):
    """A Python without GIL, as far as the choice of a kind of workers is concerned."""
    monkeypatch.setattr(options, "has_gil", lambda: False)


def double(record):
    """Return twice the record."""
    return record * 2


class Counter(headrace.MapTransform):
    """Counts calls in an attribute, which threads would share."""

    thread_safe = False

    def map(self, record):
        """Return the record."""
        return record


class Doubler:
    """A transform of another library: an object with a method `map`."""

    thread_safe = False

    def map(self, record):
        """Return twice the record."""
        return record * 2


def counted(record):
    """Return the record; the function says that threads must not share it."""
    return record


counted.thread_safe = False


def kind(*operations, **arguments):
    """Return the kind of workers of a loader with `operations`."""
    loader = headrace.load(
        range(8),
        batch_size=2,
        seed=0,
        num_epochs=1,
        transformations=list(operations),
        worker_count=2,
        **arguments,
    )
    with iter(loader) as iterator:
        return iterator.execution.worker_kind


def test_workers_are_processes_where_python_has_a_gil(monkeypatch):
    """One thread would wait for the lock while another works."""
    monkeypatch.setattr(options, "has_gil", lambda: True)
    assert kind(double) == "process"


def test_workers_are_threads_where_python_has_no_gil(no_gil):
    """Batches come from threads of this process, in the same order as without workers."""
    places = set()

    def place(record):
        places.add((os.getpid(), threading.current_thread().name))
        return record

    def stream(**arguments):
        return np.concatenate(
            list(
                headrace.load(
                    np.arange(64), batch_size=4, shuffle=True, seed=3, num_epochs=2, **arguments
                )
            )
        )

    expected = stream()
    found = stream(transformations=[place], worker_count=2)
    np.testing.assert_array_equal(found, expected)
    assert {process for process, _ in places} == {os.getpid()}
    assert threading.current_thread().name not in {name for _, name in places}


OPERATIONS = [Counter(), Doubler().map, counted, headrace.Batch(2, batch_fn=counted)]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_that_threads_must_not_share_is_given_processes(no_gil, operation):
    """An operation, the object of a method, or a function says so by `thread_safe = False`."""
    assert kind(double, operation) == "process"


def test_a_transform_of_another_library_may_ask_for_processes(no_gil):
    """It is an object with a method `map`, and has `thread_safe = False`."""
    with iter(MapDataset.range(4).map(Doubler()).to_iter_dataset().mp_prefetch(1)) as iterator:
        assert iterator.execution.worker_kind == "process"


@pytest.mark.parametrize("option", [{"timeout": 60.0}, {"seed_globals": True}])
def test_options_that_need_processes_are_given_processes(no_gil, option):
    """A thread can be neither stopped nor given global generators of its own."""
    assert kind(double, **option) == "process"


def test_a_function_for_new_processes_gets_processes(no_gil):
    """`worker_init_fn` is called in each of them."""
    stream = (
        MapDataset.range(4)
        .to_iter_dataset()
        .mp_prefetch(1, worker_init_fn=lambda number, count: None)
    )
    with iter(stream) as iterator:
        assert iterator.execution.worker_kind == "process"


@pytest.mark.parametrize("chosen", ["process", "thread"])
def test_the_kind_that_is_asked_for_is_used_in_any_case(no_gil, chosen):
    """Even with an operation that prefers the other kind."""
    assert kind(Counter(), worker_kind=chosen) == chosen


def test_a_chain_chooses_threads_as_a_loader_does(no_gil):
    """Also for a chain that worked on one thread before."""
    stream = MapDataset.range(4).map(double).to_iter_dataset()
    for chain in (stream.mp_prefetch(2), stream.prefetch(1).mp_prefetch(2)):
        with iter(chain) as iterator:
            assert (iterator.execution.worker_kind, iterator.execution.workers) == ("thread", 2)
            assert list(iterator) == [0, 2, 4, 6]


@pytest.mark.slow
def test_a_state_goes_from_processes_to_threads_and_back(monkeypatch):
    """What a Python with GIL has saved, one without restores."""

    def run():
        loader = headrace.load(
            range(40),
            batch_size=3,
            shuffle=True,
            seed=1,
            transformations=[double],
            num_epochs=1,
            worker_count=2,
        )
        return iter(loader)

    with run() as iterator:
        expected = [batch.tolist() for batch in iterator]
    found, state = [], None
    for gil in (True, False, True):
        monkeypatch.setattr(options, "has_gil", lambda gil=gil: gil)
        with run() as iterator:
            if state is not None:
                iterator.set_state(state)
            found += [next(iterator).tolist() for _ in range(4)]
            state = iterator.get_state()
    assert found == expected[:12]


@pytest.mark.skipif(system.has_gil(), reason="this Python has a GIL")
@pytest.mark.parametrize(("asked", "expected"), [("0", "thread"), ("1", "process")])
def test_the_choice_follows_the_interpreter(asked, expected):
    """A free-threaded Python that is told to use its lock has one."""
    program = (
        "import headrace\n"
        "loader = headrace.load(range(4), batch_size=2, num_epochs=1, worker_count=1)\n"
        "with iter(loader) as iterator: print(iterator.execution.worker_kind)"
    )
    told = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHON_GIL": asked},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == expected
