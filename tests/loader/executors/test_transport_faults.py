"""Each fault that is planted in a transport fails the test of `TransportConformance` that is for
it.
"""

from __future__ import annotations

import os
import random
import subprocess
import threading
from collections import deque

import pytest

from headrace.loader.executors.processes.transport import ProcessTransport
from headrace.loader.executors.transport import Answered, Ended, Message, Ready
from headrace.loader.work.tasks import Block
from headrace.testing import FakeTransport, FakeWorkerDeath, TransportConformance


class Sound(FakeTransport):
    """No fault: each of the tests below passes with it."""

    def __init__(self, pipeline, options):
        super().__init__(pipeline, random.Random(2), options.workers, most_steps=10**9)


class LosesAMessage(Sound):
    """The last message never reaches its worker."""

    sent = 0

    def send(self, worker, message):
        self.sent += 1
        if self.sent != 20:
            super().send(worker, message)


class AnswersTwice(Sound):
    """Each answer comes a second time."""

    def poll(self, seconds):
        events = super().poll(seconds)
        return [*events, *(event for event in events if isinstance(event, Answered))]


class ReadyTwice(Sound):
    """A worker says at each answer that it is ready."""

    def poll(self, seconds):
        events = super().poll(seconds)
        return [*events, *(Ready(event.worker) for event in events if isinstance(event, Ready))]


class AnswersInAnyOrder(Sound):
    """Of two answers of a worker, the second one comes first."""

    def __init__(self, pipeline, options):
        super().__init__(pipeline, options)
        self.kept = deque()

    def poll(self, seconds):
        events = [*self.kept, *super().poll(seconds)]
        answers = [event for event in events if isinstance(event, Answered)]
        # until there is another one
        self.kept = deque(answers if len(answers) == 1 and seconds else ())
        first = {}
        for event in answers[::-1]:
            first.setdefault(event.worker, []).append(event)
        others = [event for event in events if not isinstance(event, Answered)]
        return [
            *others,
            *(() if self.kept else (event for some in first.values() for event in some)),
        ]


class AnswersAfterTheEnd(Sound):
    """A worker that has ended answers the message that it had."""

    def poll(self, seconds):
        events = super().poll(seconds)
        late = [Answered(event.worker, [Block()]) for event in events if isinstance(event, Ended)]
        return [*events, *late]


class TellsNoEnd(Sound):
    """The end of a worker is not reported."""

    def poll(self, seconds):
        return [event for event in super().poll(seconds) if not isinstance(event, Ended)]


class SwallowsErrors(Sound):
    """A block comes without the failure that ended it."""

    def poll(self, seconds):
        events = super().poll(seconds)
        for event in events:
            for block in event.blocks if isinstance(event, Answered) else ():
                block.failure = None
        return events


class CutsMessages(Sound):
    """A message of more than 1,000 tasks is cut."""

    def send(self, worker, message):
        super().send(worker, Message(message.tasks[:1000], message.named))


class SwapsRows(Sound):
    """Rows of an answer come in another order."""

    def poll(self, seconds):
        events = super().poll(seconds)
        for event in events:
            for block in event.blocks if isinstance(event, Answered) else ():
                block.rows = _Reversed(block.rows)
        return events


class _Reversed:
    lost = False

    def __init__(self, rows):
        self.rows = rows

    def load(self):
        return self.rows.load()[::-1]

    def columns(self):
        """None: they are a list."""


class DoesNotStartAgain(Sound):
    """A worker that is started in place of another is never ready."""

    def start(self, worker):
        if worker < self.worker_count:
            super().start(worker)


class LeaksAProcess(Sound):
    """A process is left by each transport."""

    left: list[subprocess.Popen] = []

    def close(self):
        if not self.left:
            self.left.append(subprocess.Popen(["sleep", "1000"]))
        super().close()


class LeaksAThread(Sound):
    """A thread is left by each transport."""

    go_on = threading.Event()

    def close(self):
        threading.Thread(target=self.go_on.wait, daemon=True).start()
        super().close()


class LeaksADescriptor(Sound):
    """A pipe stays open."""

    left: list[int] = []

    def close(self):
        self.left += os.pipe()
        super().close()


class OfSimulated(TransportConformance):
    """The tests, with a transport in this process."""

    elsewhere = False
    seconds = 0.5
    kind = Sound

    def transport(self, pipeline, options):
        return self.kind(pipeline, options)

    def end_worker(self):
        raise FakeWorkerDeath


IN_ORDER = "test_each_message_is_answered_once_in_order"
NOTHING_LEFT = "test_nothing_is_left_after_close"
AT_A_TASK = "test_a_worker_that_ends_at_a_task_is_reported"

PLANTED = [
    (LosesAMessage, IN_ORDER, "answer to message"),
    (AnswersTwice, IN_ORDER, "== "),
    (AnswersInAnyOrder, IN_ORDER, "== "),
    (SwapsRows, IN_ORDER, "== "),
    (ReadyTwice, "test_each_worker_is_ready_once", "ready twice"),
    (AnswersAfterTheEnd, AT_A_TASK, "after its end"),
    (TellsNoEnd, AT_A_TASK, "the end of worker 0"),
    (DoesNotStartAgain, AT_A_TASK, "Ready of workers 2"),
    (SwallowsErrors, "test_an_error_of_an_operation_is_in_its_block", "None"),
    (CutsMessages, "test_large_rows_and_messages_arrive", "5000 tasks"),
    (LeaksAProcess, NOTHING_LEFT, "process .*sleep"),
    (LeaksAThread, NOTHING_LEFT, "thread"),
    (LeaksADescriptor, NOTHING_LEFT, "descriptor .*pipe"),
]


@pytest.fixture(autouse=True)
def cleared():
    """What is left on purpose goes at the end."""
    LeaksAThread.go_on.clear()
    yield
    for process in LeaksAProcess.left:
        process.kill()
        process.wait()
    for descriptor in LeaksADescriptor.left:
        os.close(descriptor)
    LeaksAThread.go_on.set()
    LeaksAProcess.left.clear()
    LeaksADescriptor.left.clear()


@pytest.mark.one_in(7)
@pytest.mark.parametrize(
    ("kind", "test", "match"), PLANTED, ids=[kind.__name__ for kind, _, _ in PLANTED]
)
def test_a_planted_fault_fails_its_test(kind, test, match, tmp_path):
    """And the message says what is wrong."""
    suite = OfSimulated()
    suite.kind = kind
    with pytest.raises(AssertionError, match=match):
        getattr(suite, test)(tmp_path)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("test", sorted({test for _, test, _ in PLANTED}))
def test_without_a_fault_they_pass(test, tmp_path):
    """The same tests, with the same transport."""
    suite = OfSimulated()
    suite.seconds = 30
    getattr(suite, test)(tmp_path)


class Waits(ProcessTransport):
    """A call of `send` returns only when all earlier messages were answered."""

    kept: tuple = ()

    def send(self, worker, message):
        super().send(worker, message)
        events = []
        while not any(isinstance(event, Answered) for event in events):
            events += super().poll(None)
        self.kept = (*self.kept, *events)

    def poll(self, seconds):
        events, self.kept = self.kept, ()
        return events or super().poll(seconds)


class SleepsThroughInterrupts(ProcessTransport):
    """Ctrl-C in `poll` is forgotten."""

    def poll(self, seconds):
        try:
            return super().poll(seconds)
        except KeyboardInterrupt:
            raise RuntimeError("an interrupt was forgotten") from None


class StaysOpen(ProcessTransport):
    """Nothing is ended by `close`."""

    every: list[ProcessTransport] = []

    def close(self):
        self.every.append(self)


@pytest.mark.one_in(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "test", "error", "match"),
    [
        (Waits, "test_only_poll_waits_for_workers", AssertionError, "waited until"),
        (
            SleepsThroughInterrupts,
            "test_an_interrupt_ends_the_wait_in_poll",
            RuntimeError,
            "forgotten",
        ),
        (StaysOpen, NOTHING_LEFT, AssertionError, "process .*zygote"),
    ],
    ids=lambda one: one.__name__ if isinstance(one, type) else None,
)
def test_a_fault_planted_in_processes_fails_its_test(kind, test, error, match, tmp_path):
    """Calls that wait, interrupts that are lost, processes that stay."""

    class OfProcesses(TransportConformance):
        seconds = 4.0

        def transport(self, pipeline, options):
            return kind(pipeline, options, lambda nbytes: None)

    with pytest.raises(error, match=match):
        getattr(OfProcesses(), test)(tmp_path)
    for one in StaysOpen.every:
        ProcessTransport.close(one)
    StaysOpen.every.clear()
