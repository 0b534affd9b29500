"""Work that does not end is a warning in the log, which says what it is at; with a timeout, the
error says so too.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
import time

import pytest

from headrace import Batch, DataLoader, Filter, IndexSampler, ReadOptions, diagnose
from headrace.errors import ProgramError, WorkerCrashedError
from headrace.loader.executors import hang_watch
from headrace.loader.executors.reading.read_ahead import ReadAhead
from headrace.loader.work.tasks import SpanTask
from headrace.loader.work.worker import Worker

WHERE = {
    "inline": {},
    "threads": {"worker_count": 2, "worker_kind": "thread"},
    "processes": {"worker_count": 2},
}
PATIENCE_SECONDS = 60
"""After which a hang ends although nobody was told of it; never waited for where all is well."""


class Until:
    """Waits until a file exists."""

    def __init__(self, path):
        self.path = path

    def __call__(self):
        limit = time.monotonic() + PATIENCE_SECONDS
        while not self.path.exists() and time.monotonic() < limit:  # where it hangs, too
            time.sleep(0.005)  # where it hangs


class Frees(logging.Handler):
    """Makes the file once a warning of record 13 has come."""

    def __init__(self, path):
        super().__init__()
        self.path, self.texts = path, []

    def emit(self, record):
        # a busy machine may take long for other records, too
        said = record.getMessage().partition(". It is at:")[0]
        if "has not returned for" in said and "13" in said:
            self.texts.append(f"{record.getMessage()}\n{record.hanging}")
            self.path.touch()


@pytest.fixture
def hang(tmp_path):
    """What hangs until that is told, and what was told."""
    handler = Frees(tmp_path / "told")
    logging.getLogger("headrace").addHandler(handler)
    yield Until(tmp_path / "told"), handler.texts
    logging.getLogger("headrace").removeHandler(handler)


class Waits:
    """A source, one record of which waits."""

    def __init__(self, until):
        self.until = until

    def __len__(self):
        return 40

    def __getitem__(self, key):
        time.sleep(1e-3)
        if key == 13:
            self.until()
        return key


def records(source, operations, **more):
    """All records once."""
    loader = DataLoader(
        data_source=source,
        sampler=IndexSampler(40, num_epochs=1),
        operations=operations,
        hang_seconds=0.1,
        **more,
    )
    return [int(number) for batch in loader for number in batch]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("front", [[], [Filter(lambda record: True)]], ids=["map", "filter, map"])
@pytest.mark.parametrize("where", WHERE)
def test_an_operation_that_hangs_is_named_with_its_record_and_line(where, front, hang):
    """In this process, on a thread and in a worker process. The stream goes on when the operation
    does.
    """
    until, texts = hang

    def hangs(record):
        if record == 13:
            until()
        return record

    assert records(range(40), [*front, hangs, Batch(8)], **WHERE[where]) == list(range(40))
    assert f"operation {len(front)}, MapTransform(" in texts[0]
    assert "s on record key 13 at position 13. It is at:" in texts[0]
    assert ", on record key 13 at position 13, for " in texts[0].splitlines()[-1]
    assert {*re.findall(r'File "(.*)"', texts[0])} == {__file__}  # no lines of headrace
    assert "# where it hangs" in texts[0]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("threads", [0, 4])
@pytest.mark.parametrize("where", WHERE)
def test_a_source_that_hangs_is_named_with_its_record_and_line(where, threads, hang):
    """On reading threads, and where the records are needed."""
    until, texts = hang
    reading = ReadOptions(threads)
    assert records(Waits(until), [Batch(8)], read_options=reading, **WHERE[where]) == list(
        range(40)
    )
    assert "reading has not returned for " in texts[0]
    assert "# where it hangs" in texts[0]


def test_the_error_of_a_timeout_says_what_the_worker_was_at():
    """Operation, file, line and function, beside the record."""

    def hangs(record):
        time.sleep(PATIENCE_SECONDS * (record == 13))
        return record

    loader = DataLoader(
        data_source=range(40),
        sampler=IndexSampler(40, num_epochs=1),
        operations=[hangs, Batch(8)],
        worker_count=1,
        timeout=0.4,
    )
    with pytest.raises(WorkerCrashedError) as caught:
        list(loader)
    text = str(caught.value)
    assert "timeout=0.4 s" in text
    assert "operation 0, MapTransform(" in text
    assert "test_hangs.py" in text
    assert "in hangs)" in text
    assert "record key 13 at position" in text
    assert len(text) < 500


class Continues(logging.Handler):
    """Lets a stopped process go on, whose number is in a file, once a warning says that it is
    silent.
    """

    def __init__(self, path):
        super().__init__()
        self.path, self.texts = path, []

    def emit(self, record):
        if "has sent nothing for" in record.getMessage() and self.path.exists():
            self.texts += [record.getMessage(), record.hanging]
            os.kill(int(self.path.read_text()), signal.SIGCONT)


def test_a_worker_that_cannot_even_say_what_it_is_at_is_told_of_with_its_task(tmp_path):
    """A stopped process, or code that never lets go of the interpreter's lock."""
    path, handler = tmp_path / "process", Continues(tmp_path / "process")

    def stops(record):
        if record == 13 and not path.exists():
            (tmp_path / "written").write_text(str(os.getpid()))
            (tmp_path / "written").rename(path)
            os.kill(os.getpid(), signal.SIGSTOP)
        return record

    logging.getLogger("headrace").addHandler(handler)
    try:
        assert records(range(40), [stops, Batch(8)], worker_count=1) == list(range(40))
    finally:
        logging.getLogger("headrace").removeHandler(handler)
    told = handler.texts[0]
    assert (
        "worker 0 has sent nothing for 0 s, not even a report about its task. Its task works on "
        "record keys " in told
    )
    assert handler.texts[1].startswith("worker 0 has sent nothing for "), "a verdict says so, too"


def test_no_thread_watches_with_hang_seconds_none():
    """And what is no number of seconds is refused."""
    loader = DataLoader(
        data_source=range(4),
        sampler=IndexSampler(4, num_epochs=1),
        operations=[],
        hang_seconds=None,
    )
    assert list(loader) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match=r"hang_seconds=0 is not a positive number\. Pass seconds"):
        DataLoader(data_source=range(4), sampler=IndexSampler(4), operations=[], hang_seconds=0)


@pytest.mark.parametrize(
    ("workers", "seconds"), [(0, 1.5), pytest.param(1, 10.0, marks=pytest.mark.long)]
)
@pytest.mark.slow
def test_diagnose_keeps_to_its_time_whatever_hangs_and_says_what(workers, seconds):
    """The verdict is on the steps before; without any, the error says what hangs."""

    def hangs(record):
        time.sleep(PATIENCE_SECONDS * (record >= 800))
        return record

    loader = DataLoader(
        data_source=range(1000),
        sampler=IndexSampler(1000),
        operations=[hangs, Batch(8)],
        worker_count=workers,
    )
    began = time.monotonic()
    verdict = str(diagnose(loader, steps=10**6, seconds=seconds))
    assert verdict.startswith("Hanging: operation 0, MapTransform(")
    assert "on record key 80" in verdict.partition("\n")[0]
    assert time.monotonic() - began < PATIENCE_SECONDS / 2
    at_once = DataLoader(
        data_source=range(800, 1000),
        sampler=IndexSampler(200),
        operations=[hangs, Batch(8)],
        worker_count=workers,
    )
    with pytest.raises(
        ProgramError, match=r"^Hanging: operation 0, MapTransform.* only 0 steps were measured"
    ):
        diagnose(at_once, seconds=seconds)


def test_an_iterator_that_is_closed_while_threads_are_listed_ends():
    """The garbage collector may close it inside `threading.enumerate()`, which holds a lock that an
    ending thread needs.
    """

    def late(*_):
        raise TimeoutError("it waits for ever")

    iterator = iter(
        DataLoader(
            data_source=range(8), sampler=IndexSampler(8), read_options=ReadOptions(num_threads=0)
        )
    )
    next(iterator)
    former = signal.signal(signal.SIGALRM, late)
    signal.alarm(PATIENCE_SECONDS)
    try:
        with threading._active_limbo_lock:
            iterator.close()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)


def test_each_task_that_hangs_is_told_of_once_in_so_many_seconds(monkeypatch):
    """The first time as soon as they have passed, also after another task that was told of."""
    now, told = [0.0], []
    monkeypatch.setattr(hang_watch, "perf_counter", lambda: now[0])
    monkeypatch.setattr(hang_watch, "MOST_PAUSE", 1000.0)  # its thread does not look meanwhile
    pipeline = iter(DataLoader(data_source=range(8), sampler=IndexSampler(8))).pipeline
    worker = Worker(pipeline)
    reads = ReadAhead(pipeline, ReadOptions(num_threads=0))
    watch = hang_watch.HangWatch(1000.0, reads, lambda hang: told.append(hang.seconds))
    watch.add(worker)
    for began, seconds in (0.0, (999.0, 1000.0, 1999.0, 2500.0)), (9000.0, (999.0, 1000.0)):
        worker.busy = began, SpanTask(0, 0, 1), threading.get_ident()
        for now[0] in (began + each for each in seconds):
            watch.look()
    watch.close()
    assert told == [1000.0, 2500.0, 1000.0]
