"""An interrupt in a feeder, at any place, loses nothing and leaves nothing; a second user of it is
an error.
"""

from __future__ import annotations

import itertools
import signal
import sys
import threading
import time
from functools import partial
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from support.interrupted_everywhere import OURS, places_of

import headrace
from headrace.errors import InUseError
from headrace.loader.device.run import Run
from headrace.loader.interrupts import wait_until

CPU = jax.devices("cpu")[0]
ONE_EACH = {"cpu_buffer_size": 1, "device_buffer_size": 1}


def no_thread_is_left():
    """After threads that were told to end had time for it."""
    return wait_until(
        lambda: not any(each.name.startswith("headrace-feeder") for each in threading.enumerate()),
        20,
    )


class InterruptedAt:
    """Sees where handlers may run in the feeder's code on this thread, and interrupts at the place
    of a number.
    """

    def __init__(self, number):
        self.left, self.fired = number, False
        sys._getframe().f_trace_opcodes = (
            True  # since 3.12 it must have been set somewhere before `settrace`
        )

    def __call__(self, frame, event, argument):
        if not frame.f_code.co_filename.startswith(OURS + "device/"):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self.see

    def see(self, frame, event, argument):
        if event == "opcode" and frame.f_lasti in places_of(frame.f_code) and not self.fired:
            self.left -= 1
            if self.left < 0:
                self.fired = True
                signal.getsignal(signal.SIGINT)(signal.SIGINT, frame)
        return self.see


def received_with_one_interrupt(feeder, number):
    """All that comes, an interrupt in between at the place of a number; and whether there was such
    a place.
    """
    got, interrupts, errors, tracer = [], 0, 0, InterruptedAt(number)
    sys.settrace(tracer)
    try:
        while True:
            try:
                got.append(next(feeder))
            except KeyboardInterrupt:
                interrupts += 1
            except ValueError:
                errors += 1
            except StopIteration:
                break
    finally:
        sys.settrace(None)
    assert interrupts == tracer.fired
    return [int(each) for each in got], errors, tracer.fired


def fails_at_three(row):
    """A transform that fails for one batch."""
    if row == 3:
        raise ValueError("bad")
    return row


@pytest.mark.slow
@pytest.mark.parametrize("goes_back", [True, False], ids=["loader", "generator"])
@pytest.mark.one_in(2)
def test_an_interrupt_at_any_place_of_next_loses_nothing(goes_back):
    """It is raised once; each batch, each error and the end come once or, where the stream can go
    back, again.
    """
    for number in itertools.count():
        failing = not goes_back
        source = iter(range(5)) if failing else headrace.load(range(5), num_epochs=1)
        with iter(
            headrace.device_put(
                source, CPU, transform=fails_at_three if failing else None, **ONE_EACH
            )
        ) as feeder:
            got, errors, fired = received_with_one_interrupt(feeder, number)
        assert got == ([0, 1, 2, 4] if failing else [0, 1, 2, 3, 4]), number
        assert errors == failing, number
        if not fired:
            break
    assert number > 50


def test_an_interrupt_at_any_place_of_close_leaves_nothing():
    """It is raised once, and closing again ends what is left."""
    for number in itertools.count():
        feeder, tracer, interrupts = (
            iter(headrace.device_put(range(9), CPU, **ONE_EACH)),
            InterruptedAt(number),
            0,
        )
        next(feeder)
        sys.settrace(tracer)
        try:
            feeder.close()
        except KeyboardInterrupt:
            interrupts += 1
        finally:
            sys.settrace(None)
        feeder.close()
        assert no_thread_is_left()
        assert interrupts == tracer.fired, number
        if not tracer.fired:
            break


@pytest.mark.parametrize("thread", ["read", "transfer"])
def test_an_interrupt_while_a_run_begins_leaves_one_run(thread, monkeypatch):
    """Ctrl-C while threads start is raised when they have; nothing is lost, and no thread is left
    at the end.
    """
    start, interrupts = threading.Thread.start, [signal.SIGINT]

    def interrupted(self):
        if interrupts and thread in self.name:
            signal.raise_signal(interrupts.pop())
        start(self)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    for source in (range(9), iter(range(9))):
        with iter(headrace.device_put(source, CPU)) as feeder:
            with pytest.raises(KeyboardInterrupt):
                next(feeder)
            assert [int(each) for each in feeder] == list(range(9))
        assert no_thread_is_left()
        interrupts.append(signal.SIGINT)


@pytest.fixture
def held_up():
    """A feeder whose user has one batch, and waits for the next until the event is set."""
    go_on = threading.Event()

    def batches():
        yield np.full(2, 0)
        go_on.wait(20)
        yield np.full(2, 1)

    with iter(headrace.device_put(batches(), CPU)) as feeder:
        assert int(next(feeder)[0]) == 0
        yield feeder, go_on
        go_on.set()


def in_next(feeder):
    """Waits until somebody is in `next`; whether that comes."""
    return wait_until(lambda: feeder._in_next, 20)


def test_a_second_thread_in_a_feeder_is_an_error(held_up):
    """`next` and `set_state` of another thread, while one is in `next`, which goes on."""
    feeder, go_on = held_up
    got = []
    thread = threading.Thread(target=lambda: got.append(int(next(feeder)[0])))
    thread.start()
    assert in_next(feeder)
    for use in (feeder.__next__, lambda: feeder.set_state({})):
        with pytest.raises(InUseError, match="one thread at a time"):
            use()
    go_on.set()
    thread.join()
    assert got == [1]
    assert list(feeder) == []


def test_a_handler_that_uses_the_feeder_it_interrupts_is_an_error(held_up):
    """No hang and nothing lost: the feeder goes on after it."""
    feeder, go_on = held_up
    main = threading.get_ident()
    former = signal.signal(signal.SIGALRM, lambda *_: next(feeder))

    def interrupt():
        assert in_next(feeder)
        time.sleep(0.05)  # Python handles a signal that comes just before a wait only after it
        signal.pthread_kill(main, signal.SIGALRM)

    signalling = threading.Thread(target=interrupt)
    signalling.start()
    try:
        with pytest.raises(InUseError, match="handler"):
            next(feeder)
        signalling.join()
    finally:
        signal.signal(signal.SIGALRM, former)
    go_on.set()
    assert [int(batch[0]) for batch in feeder] == [1]


def test_who_joins_a_run_waits_for_both_of_its_threads():
    """The one that transfers may end last."""
    run = Run(None, None, 1, 1)
    alive = {"_reader": [True, False], "_transferrer": [True, True, False]}
    for name, answers in alive.items():
        setattr(run, name, SimpleNamespace(is_alive=partial(answers.pop, 0)))
    assert run.join()
    assert alive == {"_reader": [], "_transferrer": []}
