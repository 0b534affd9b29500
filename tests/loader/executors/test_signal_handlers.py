"""What handlers of other signals than Ctrl-C raise comes out once, and nothing is left half-way."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import signal
import sys
import threading

import numpy as np
import psutil
import pytest

import headrace
from headrace.loader.interrupts import Uninterrupted, raised_by_signal_handler, wait_until
from headrace.loader.stream.run_handle import RunHandle


class LateError(Exception):
    """Of a handler of the user's."""


@pytest.fixture
def alarms():
    """Alarms raise; how many came."""
    came = []

    def late(number, frame):
        came.append(frame)
        raise LateError(len(came))

    # An iterator of an earlier test, collected at the wrong moment, would get the alarm.
    gc.collect()
    gc.disable()
    former = signal.signal(signal.SIGALRM, late)
    yield came
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, former)
    gc.enable()


def test_what_another_handler_raises_in_a_section_is_raised_after_it(alarms):
    """The handler is called at once, with the frame; its own exception comes out, and it is the
    handler again.
    """
    done, handler = [], signal.getsignal(signal.SIGALRM)
    with pytest.raises(LateError, match="1") as raised, Uninterrupted():
        with Uninterrupted():
            signal.raise_signal(signal.SIGALRM)
            done.append("inner")
        assert alarms[0] is not None
        done.append("outer")
    assert done == ["inner", "outer"]
    assert raised.traceback[-1].name == "late"
    assert signal.getsignal(signal.SIGALRM) is handler


def test_a_second_exception_in_a_section_goes_through(alarms):
    """Nobody waits for ever for a section that hangs; who waits in it is told at the first."""
    with pytest.raises(LateError, match="1") as raised, Uninterrupted():
        signal.raise_signal(signal.SIGALRM)
        assert not wait_until(lambda: False)
        signal.raise_signal(signal.SIGALRM)
        pytest.fail("it was held back")
    assert "2" in str(raised.value.__context__)


def test_neither_an_interrupt_nor_an_exception_is_lost_where_both_come(alarms):
    """In either order: Ctrl-C, which tells of the other."""
    for first, second in ((signal.SIGINT, signal.SIGALRM), (signal.SIGALRM, signal.SIGINT)):
        with pytest.raises((KeyboardInterrupt, LateError)) as raised, Uninterrupted():
            signal.raise_signal(first)
            signal.raise_signal(second)
        assert {type(raised.value), type(raised.value.__context__)} == {
            KeyboardInterrupt,
            LateError,
        }


def test_a_handler_that_raises_nothing_is_called_in_sections_each_time():
    """As a profiler's is, which looks at the frame."""
    frames = []
    former = signal.signal(
        signal.SIGALRM, lambda number, frame: frames.append(frame.f_code.co_name)
    )
    try:
        with Uninterrupted():
            for _ in range(3):
                signal.raise_signal(signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, former)
    assert len(frames) == 3


def test_handlers_are_as_they_were_whenever_an_exception_comes(alarms):
    """Before, in and after the exchange of handlers: nothing is held back later, and nothing is
    lost.
    """
    use, places = signal.signal, range(8)
    raised = 0
    for place in places:
        handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
        seen = itertools.count()

        def at_a_place(number, action, place=place, seen=seen):
            use(number, action)
            if next(seen) == place:
                signal.raise_signal(signal.SIGALRM)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(signal, "signal", at_a_place)
            with contextlib.suppress(LateError), Uninterrupted():
                pass
        raised += len(alarms)
        alarms.clear()
        assert {number: signal.getsignal(number) for number in signal.valid_signals()} == handlers
        assert Uninterrupted.holding is None
    assert raised > 3


@pytest.mark.parametrize("kind", ["process", "thread"])
@pytest.mark.one_in(2)
def test_an_exception_of_a_handler_while_workers_are_closed_leaves_nothing(alarms, kind):
    """No process, and soon no thread, at whichever moment it comes; it comes out of close()."""
    came = 0
    # a Ray cluster, where one runs
    threads, before = (threading.active_count(), set(psutil.Process().children()))
    for moment in range(1, 9):
        iterator = iter(headrace.load(range(100), batch_size=4, worker_count=2, worker_kind=kind))
        next(iterator)
        with in_section_after(moment):
            try:
                iterator.close()
            except LateError:
                came += 1
        assert not set(psutil.Process().children()) - before
        assert wait_until(lambda: threading.active_count() == threads, 20)
    assert came > 2


@contextlib.contextmanager
def in_section_after(count):
    """An alarm comes at the so-manieth look of who waits in a section, or call that ends something
    there.
    """
    calls = itertools.count(1)

    def watched(frame, event, argument):
        if Uninterrupted.holding is not None and next(calls) == 3 * count:
            signal.raise_signal(signal.SIGALRM)

    # An iterator that was interrupted before may be in a reference cycle with its traceback. If it
    # were collected here, its end would get the alarm.
    gc.collect()
    gc.disable()
    sys.setprofile(watched)
    try:
        yield
    finally:
        sys.setprofile(None)
        gc.enable()


class Numbers:
    """A source of 40 numbers that are their keys; a signal comes once while record 13 is read."""

    def __init__(self, came):
        self.came = came

    def __len__(self):
        return 40

    def __getitem__(self, key):
        if key == 13 and not self.came:
            signal.raise_signal(signal.SIGALRM)
        return key


@pytest.mark.parametrize("place", ["source", "map", "filter", "after a batch", "in a batch"])
@pytest.mark.parametrize(
    "on_error", ["raise", "skip", lambda error, keys: pytest.fail("no record failed")]
)
def test_what_a_handler_raises_during_an_operation_comes_out_and_no_record_is_skipped(
    alarms, place, on_error
):
    """`next` raises it unchanged. The next call of `next` returns the element that was
    interrupted.
    """

    def once(record):
        if np.any(record == 13) and not alarms:
            signal.raise_signal(signal.SIGALRM)
        return record

    def true_once(record):
        return once(record) is not None

    operations = {
        "map": [once],
        "filter": [headrace.Filter(true_once), lambda record: record],
        "after a batch": [headrace.Batch(4), once],
        "in a batch": [headrace.Filter(lambda record: True), once, headrace.Batch(4)],
    }
    loader = headrace.load(
        Numbers(alarms) if place == "source" else range(40),
        transformations=operations.get(place, []),
        batch_size=None if "batch" in place else 4,
        num_epochs=1,
        on_error=on_error,
    )
    found, errors = [], []
    with iter(loader) as iterator:
        while True:
            try:
                found += next(iterator).tolist()
            except StopIteration:
                break
            except LateError as error:
                errors.append(error)
        assert iterator.skipped_count == 0
    assert found == list(range(40))
    assert len(errors) == 1
    assert not hasattr(errors[0], "__notes__")


def test_a_second_exception_before_a_run_is_closed_does_not_look_like_the_end(alarms, monkeypatch):
    """Python ends a generator in which an exception is raised, as if it had no more elements."""
    end, ended = RunHandle._end, []

    def end_later(self, *observer):
        if len(ended) == 1:
            signal.raise_signal(signal.SIGALRM)
        return end(self, *observer)

    def look(record):
        if record == 13 and not ended:
            ended.append(record)
            signal.raise_signal(signal.SIGALRM)
        return record

    loader = headrace.load(range(40), transformations=[look], num_epochs=1)
    with iter(loader) as iterator:
        found = [next(iterator)]
        monkeypatch.setattr(RunHandle, "_end", end_later)
        while True:
            try:
                found.append(next(iterator))
            except LateError:
                ended.append(0)
            except StopIteration:
                break
    assert found == list(range(40))
    assert len(alarms) == 2


def test_handlers_of_any_kind_are_recognised(alarms):
    """Functions, methods, partial functions and objects; not a function that only
    happens to raise.
    """

    class Handler:
        def __call__(self, number, frame):
            raise LateError

        def method(self, number, frame):
            raise LateError

    handlers = [signal.getsignal(signal.SIGALRM), Handler(), Handler().method]
    for handler in [*handlers, *map(functools.partial, handlers)]:
        signal.signal(signal.SIGALRM, handler)
        with pytest.raises(LateError) as raised:
            signal.raise_signal(signal.SIGALRM)
        assert raised_by_signal_handler(raised.value)
    with pytest.raises(ZeroDivisionError) as raised:
        1 / 0  # noqa: B018
    assert not raised_by_signal_handler(raised.value)
