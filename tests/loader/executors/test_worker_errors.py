"""What comes out of workers that is no element: exceptions of the user's own, rows that cannot be
sent, deadly records.
"""

from __future__ import annotations

import os
import pickle
import threading

import numpy as np
import pytest

from headrace import (
    Batch,
    DataLoader,
    Filter,
    FlatMap,
    IndexSampler,
    IterDataset,
    MapDataset,
    load,
)
from headrace.common import remote_errors
from headrace.errors import WorkerCrashedError
from headrace.loader.executors.task_runner import TaskRunner, WorkerSetup
from headrace.loader.options import ExecutionOptions
from headrace.loader.work.tasks import Block, GroupTask, SpanTask
from headrace.loader.work.worker import Worker
from headrace.operations.protocol import allocate_plainly


class OwnArgumentsError(ValueError):
    """A constructor that wants other arguments than `args` has."""

    def __init__(self, code, *, detail):
        super().__init__(f"code {code}: {detail}")
        self.code = code


class SaidOnceError(Exception):
    """A constructor that would say its prefix twice, if it were called again with `args`."""

    def __init__(self, text):
        super().__init__(f"said: {text}")


class SlottedError(LookupError):
    """What it holds stands in slots, and its message is made of that."""

    __slots__ = ("left",)

    def __init__(self, left):
        self.left = left

    def __str__(self):
        return f"{self.left} left"


class HoldsError(RuntimeError):
    """It holds what cannot be pickled, and says it."""

    def __init__(self, lock, name):
        super().__init__(lock, name)
        self.lock, self.name = lock, name

    def __str__(self):
        return f"{self.name} holds {type(self.lock).__name__}"


class OwnSystemError(OSError):
    """An OSError with a constructor of its own."""

    def __init__(self, path):
        super().__init__(2, "nothing there", path)


class DemandingError(KeyError):
    """Made by a `__new__` that wants what is not kept."""

    def __new__(cls, *, key):
        error = super().__new__(cls, key)
        error.args = (key,)
        return error

    def __init__(self, *, key):
        self.key = key


ERRORS = {
    "own arguments": (lambda: OwnArgumentsError(3, detail="odd"), {"code": 3}),
    "said once": (lambda: SaidOnceError("no"), {"args": ("said: no",)}),
    "slots": (lambda: SlottedError(5), {"left": 5}),
    "holds a lock": (lambda: HoldsError(threading.Lock(), "it"), {"name": "it"}),
    "of the system": (lambda: OwnSystemError("a/b"), {"errno": 2, "filename": "a/b"}),
    "demanding": (lambda: DemandingError(key="k"), {"key": "k"}),
    "plain": (lambda: KeyError("nine"), {"args": ("nine",)}),
    "unicode": (
        lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        {"start": 0, "reason": "bad"},
    ),
}


@pytest.mark.parametrize(("make", "attributes"), ERRORS.values(), ids=list(ERRORS))
def test_an_exception_comes_back_as_its_own_type(make, attributes):
    """Type, message, attributes and notes, whatever its constructor wants."""
    error = make()
    error.add_note("a note")
    back = remote_errors.decode(remote_errors.encode(error))
    assert isinstance(back, type(error))
    assert type(back).__name__ == type(error).__name__
    assert str(back) == str(error)
    assert back.__notes__ == ["a note"]
    for name, value in attributes.items():
        assert getattr(back, name) == value
    assert isinstance(back.__cause__, remote_errors.RemoteTracebackError)


def test_an_exception_whose_class_cannot_cross_is_one_of_its_nearest_base():
    """A class that holds a lock stays where it is: a subclass of its base, made on the spot, has
    its name and message.
    """
    local = type("Local", (OwnArgumentsError,), {"lock": threading.Lock()})
    back = remote_errors.decode(remote_errors.encode(local(3, detail="odd")))
    assert isinstance(back, OwnArgumentsError)
    assert (type(back).__name__, str(back), back.code) == ("Local", "code 3: odd", 3)


def test_an_exception_of_a_module_that_only_workers_have_is_one_of_pythons_own():
    """What cannot be imported here comes back by name and message, under the nearest class of
    Python's.
    """
    copies, text = remote_errors.pickle.loads(
        remote_errors.encode(OwnArgumentsError(3, detail="odd"))
    )
    data = remote_errors.pickle.dumps(([b"cnot_a_module\nx\n.", copies[-1]], text))
    back = remote_errors.decode(data)
    assert isinstance(back, ValueError)
    assert not isinstance(back, OwnArgumentsError)
    assert (type(back).__name__, str(back)) == ("OwnArgumentsError", "code 3: odd")


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["own arguments", "holds a lock"])
def test_except_theirs_works_with_workers(name):
    """A program that catches its own exception catches it from a worker too, with the note that
    names the record.
    """
    make, attributes = ERRORS[name]

    def fails(record):
        if record == 5:
            raise make()
        return record

    with pytest.raises(type(make())) as caught:
        list(load(range(8), transformations=[fails], num_epochs=1, worker_count=1))
    assert {key: getattr(caught.value, key) for key in attributes} == attributes
    assert "failed on record key 5 at position 5" in caught.value.__notes__[0]


def unsendable(record):
    """A row that cannot be pickled, for some records."""
    return (
        {"x": record, "lock": threading.Lock()} if record in (3, 6) else {"x": record, "lock": None}
    )


def twice(record):
    """Two rows of each record; the second may be one that cannot be pickled."""
    return [{"x": record, "lock": None}, unsendable(record)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operations", "before"),
    [
        ([unsendable], [0, 1, 2]),
        ([FlatMap(twice)], [0, 0, 1, 1, 2, 2]),
        ([unsendable, Filter(bool)], [0, 1, 2]),
    ],
)
@pytest.mark.one_in(3)
def test_a_row_that_cannot_be_pickled_is_a_failure_of_its_operation(operations, before):
    """What comes before it is delivered; then the error names operation, record and remedy; "skip"
    leaves the record out.
    """
    arguments = {"transformations": operations, "num_epochs": 1, "worker_count": 2}
    got = []
    with pytest.raises(TypeError, match="cannot pickle") as caught:
        for row in load(range(8), **arguments):
            got.append(row["x"])
    assert got == before
    (note,) = caught.value.__notes__
    assert "operation 0, " in note
    assert "on record key 3 at position 3: its result cannot be pickled" in note
    with iter(load(range(8), on_error="skip", **arguments)) as iterator:
        left = [row["x"] for row in iterator]
    assert sorted(set(left)) == [0, 1, 2, 4, 5, 7]
    assert iterator.skipped_count == 2


def _run_as_a_worker_does(pipeline, task, blocks):
    """The block of a task whose rows are pickled, without a process."""
    runner = TaskRunner(
        0,
        WorkerSetup(ExecutionOptions(), None),
        pipeline,
        allocate_plainly,
        lambda rows: (pickle.dumps(rows), 0),
    )
    header, rows = runner.run(task, blocks)
    return Block.of(pickle.loads(rows), *header[1:4])


def test_the_record_of_a_row_that_cannot_be_pickled_is_named_wherever_its_task_begins():
    """Its position is that of the row in the task, counted from where the task begins."""
    pipeline = iter(load(range(8), transformations=[unsendable])).pipeline
    block = _run_as_a_worker_does(pipeline, SpanTask(0, 4, 8), {})
    assert [row["x"] for row in block.elements] == [4, 5]
    assert "on record key 6 at position 6: its result" in block.failure.error.__notes__[0]


def test_on_error_is_given_no_keys_for_a_row_of_joined_streams_that_cannot_be_pickled():
    """Which records it was made of is unknown there."""
    asked = []
    streams = [MapDataset.range(4).to_iter_dataset() for _ in range(2)]
    chain = IterDataset.mix(streams).filter(lambda x: x >= 0).batch(2).map(lambda x: lambda: x)
    pipeline = iter(
        chain.with_options(on_error=lambda *given: asked.append(given) or "skip")
    ).pipeline
    rows = Worker(pipeline).run(SpanTask(0, 0, 4))
    block = _run_as_a_worker_does(
        pipeline, GroupTask(len(pipeline.stages) - 1, ((0, 0, 2),)), {0: rows}
    )
    assert block.elements == []
    assert [keys for _, keys in asked] == [[]]


@pytest.mark.slow
def test_a_batch_that_cannot_be_pickled_is_named_too():
    """Of a batch, its first record is named, and what made it; batches before it come."""

    def with_lock(batch):
        return (batch, threading.Lock()) if 4 in batch else (batch, None)

    loader = DataLoader(
        data_source=range(8),
        sampler=IndexSampler(8, num_epochs=1),
        operations=[Batch(2), with_lock],
        worker_count=1,
    )
    got = []
    with pytest.raises(TypeError) as caught:
        for batch, _ in loader:
            got += batch.tolist()
    assert got == [0, 1, 2, 3]
    assert "operation 1, " in caught.value.__notes__[0]
    assert "on record key 4 at position 4" in caught.value.__notes__[0]


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "operations",
    [[Batch(8)], [Filter(lambda record: True), Batch(8)], [Batch(4), Batch(2)]],
    ids=str,
)
def test_of_a_batch_that_ends_its_workers_the_record_at_fault_is_named(operations):
    """One of eight records ends the worker: after three tries each is tried alone, and the error
    names that one.
    """

    def deadly(record):
        if record == 13:
            os._exit(3)
        return record

    loader = DataLoader(
        data_source=range(24),
        sampler=IndexSampler(24, num_epochs=1),
        operations=[deadly, *operations],
        worker_count=2,
    )
    got = []
    with pytest.raises(WorkerCrashedError, match=r"record key 13 at .*exit code 3, 3 times\."):
        for batch in loader:
            got += np.ravel(batch).tolist()
    assert got == list(range(8))


@pytest.mark.slow
def test_where_no_record_alone_ends_a_worker_all_are_named():
    """What ends the worker only at a whole batch is no single record's fault."""

    def deadly(batch):
        if len(batch) == 4 and 9 in batch:
            os._exit(3)
        return batch

    loader = DataLoader(
        data_source=range(12),
        sampler=IndexSampler(12, num_epochs=1),
        operations=[Batch(4), deadly],
        worker_count=1,
    )
    with pytest.raises(WorkerCrashedError, match="record keys 8, 9, 10, 11 at positions"):
        list(loader)
