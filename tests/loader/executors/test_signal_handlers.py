"""What handlers of other signals than Ctrl-C raise comes out once, and nothing is left half-way."""

from __future__ import annotations

import contextlib
import itertools
import signal
import sys
import threading

import psutil
import pytest

import headrace
from headrace.loader.interrupts import Uninterrupted, wait_until


class LateError(Exception):
    """Of a handler of the user's."""


@pytest.fixture
def alarms():
    """Alarms raise; how many came."""
    came = []

    def late(number, frame):
        came.append(frame)
        raise LateError(len(came))

    former = signal.signal(signal.SIGALRM, late)
    yield came
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, former)


def test_what_another_handler_raises_in_a_section_is_raised_after_it(alarms):
    """The handler is called at once, with the frame; its own exception comes out, and it is the handler again."""
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
        assert {type(raised.value), type(raised.value.__context__)} == {KeyboardInterrupt, LateError}


def test_a_handler_that_raises_nothing_is_called_in_sections_each_time():
    """As a profiler's is, which looks at the frame."""
    frames = []
    former = signal.signal(signal.SIGALRM, lambda number, frame: frames.append(frame.f_code.co_name))
    try:
        with Uninterrupted():
            for _ in range(3):
                signal.raise_signal(signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, former)
    assert len(frames) == 3


def test_handlers_are_as_they_were_whenever_an_exception_comes(alarms):
    """Before, in and after the exchange of handlers: nothing is held back later, and nothing is lost."""
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
    threads, before = threading.active_count(), set(psutil.Process().children())  # a Ray cluster, where one runs
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
    """An alarm comes at the so-manieth look of who waits in a section, or call that ends something there."""
    calls = itertools.count(1)

    def watched(frame, event, argument):
        if Uninterrupted.holding is not None and next(calls) == 3 * count:
            signal.raise_signal(signal.SIGALRM)

    sys.setprofile(watched)
    try:
        yield
    finally:
        sys.setprofile(None)
