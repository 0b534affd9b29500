"""Ctrl-C comes at any moment: it is raised once, and nothing is left, lost or waited
for in vain.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from support.own_processes import zygote, zygotes
from support.pipelines import chosen
from support.without import linux_only

import headrace
from headrace.common.remote_errors import decode
from headrace.loader.executors import thread_pool
from headrace.loader.executors.processes.channel import Channel
from headrace.loader.executors.processes.spawner import Payload, Spawner, start_interpreter
from headrace.loader.executors.thread_pool import Pool
from headrace.loader.interrupts import Uninterrupted, wait_until
from headrace.loader.stream.run_handle import RunHandle
from headrace.loader.timing.observer import Observer

EVERYWHERE = Path(__file__).parents[2] / "support" / "interrupted_everywhere.py"


def interrupted(what: str, every: int, first: int = 0) -> list[str]:
    """What the program says of an interrupt at each `every`-th place, from the one of number
    `first` on.
    """
    command = [sys.executable, str(EVERYWHERE), what, str(first), str(every)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert run.returncode == 0, run.stderr
    print(run.stderr)  # why something was left
    return run.stdout.splitlines()


@pytest.mark.parametrize(
    ("what", "every", "least"),
    chosen([("opening", 40, 250), ("closing", 9, 40)], ("closing", 9, 40)),
)
@pytest.mark.slow
def test_an_interrupt_in_opening_or_closing_workers_leaves_nothing(what, every, least):
    """It comes out once, the stream goes on after it, and no process, thread or
    descriptor is left.
    """
    *troubles, places = interrupted(what, every)
    assert not troubles
    assert int(places.split()[0]) > least


@pytest.mark.long
@pytest.mark.parametrize(
    ("what", "every", "first"),
    [
        *(("opening", 24, first) for first in range(24)),
        *(("closing", 2, first) for first in range(2)),
    ],
)
def test_an_interrupt_at_every_place_of_opening_and_closing_workers_leaves_nothing(
    what, every, first
):
    """As above, at each of the places where Python may run a handler: all cases together."""
    *troubles, _ = interrupted(what, every, first)
    assert not troubles


def interrupt() -> None:
    """As Ctrl-C does."""
    signal.raise_signal(signal.SIGINT)


def test_an_interrupt_in_a_section_is_raised_after_it():
    """Of nested sections after the outermost."""
    done = []
    with pytest.raises(KeyboardInterrupt), Uninterrupted():
        with Uninterrupted():
            interrupt()
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"]
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_a_second_interrupt_in_a_section_goes_through():
    """Nobody waits for ever for a section that hangs."""
    with pytest.raises(KeyboardInterrupt), Uninterrupted():
        interrupt()
        interrupt()
        pytest.fail("it was held back")
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_a_handler_of_the_users_is_called_after_a_section():
    """Once, and it is the handler again."""
    numbers = []
    former = signal.signal(signal.SIGINT, lambda number, frame: numbers.append(number))
    try:
        with Uninterrupted():
            interrupt()
            assert numbers == []
        assert numbers == [signal.SIGINT]
        interrupt()
        assert numbers == [signal.SIGINT] * 2
    finally:
        signal.signal(signal.SIGINT, former)


def test_an_error_of_another_signals_handler_leaves_interrupts_as_they_were():
    """It may come where a section begins."""

    class LateError(Exception):
        pass

    def late(number, frame):
        raise LateError

    section = Uninterrupted()
    former = signal.signal(signal.SIGALRM, late)
    handler, use = signal.getsignal(signal.SIGINT), signal.signal

    def interrupting(number, action):
        use(number, action)
        if isinstance(action, Uninterrupted):
            signal.raise_signal(signal.SIGALRM)

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(signal, "signal", interrupting)
            with pytest.raises(LateError), section:
                pytest.fail("it began")
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGALRM, former)


def test_a_section_on_another_thread_holds_nothing_back():
    """Handlers run on the main thread alone."""
    inside, go_on = threading.Event(), threading.Event()

    def section():
        with Uninterrupted():
            inside.set()
            go_on.wait(30)

    thread = threading.Thread(target=section)
    thread.start()
    try:
        assert inside.wait(30)
        with pytest.raises(KeyboardInterrupt):
            interrupt()
    finally:
        go_on.set()
        thread.join()


def test_who_waits_in_a_section_gives_up_at_an_interrupt():
    """So that a section that ends processes is short."""
    with pytest.raises(KeyboardInterrupt), Uninterrupted():
        interrupt()
        assert not wait_until(lambda: False)


def test_a_pool_ends_with_its_calls_and_passes_their_errors_on():
    """What was not begun is not made; no thread is left."""
    pool = Pool(2, "headrace-test")
    begun, go_on = threading.Event(), threading.Event()

    def wait():
        begun.set()
        assert go_on.wait(30)
        raise LookupError("of a call")

    failing, made = pool.submit(wait), []
    assert begun.wait(30)
    assert pool.submit(lambda: 7).result() == 7
    go_on.set()
    with pytest.raises(LookupError, match="of a call"):
        failing.result()
    pool.close()
    pool.submit(made.append, 1)
    pool.close()
    assert not any(thread.name.startswith("headrace-test") for thread in threading.enumerate())


def signals(pid: int, kind: str) -> int:
    """A mask of signals of a process."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1], 16) for line in file if line.startswith(kind))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_the_zygote_is_born_deaf_to_interrupts():
    """A Ctrl-C while it imports leaves no traceback; later it ignores them."""
    spawner = Spawner()
    spawner.begin()
    try:
        maker = zygote()
        bit = 1 << (signal.SIGINT - 1)
        assert signals(maker.pid, "SigBlk:") & bit
        assert wait_until(lambda: bool(signals(maker.pid, "SigIgn:") & bit), 60)
        assert wait_until(lambda: not signals(maker.pid, "SigBlk:") & bit, 60)
    finally:
        spawner.close()


class _TellsBlocked:
    """Unpickling it is an error that names the signals that are blocked."""

    def __reduce__(self):
        return exec, (
            "import signal; raise KeyError(signal.pthread_sigmask(signal.SIG_BLOCK, []))",
        )


def test_a_fresh_worker_is_born_deaf_too():
    """It ignores interrupts before the pipeline is unpickled, and blocks none any more."""
    payload, (ours, theirs) = Payload(), Channel.pair()
    payload.pack(_TellsBlocked(), "it")
    given = [theirs.fileno(), payload.descriptor]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = start_interpreter(["worker", 0, *given, os.getpid()], given, paths)
    theirs.close()
    payload.close()
    with closing(ours):
        received = ours.receive()
        os.waitpid(child, 0)
        assert decode(received[0].error).args == (set(),)


@pytest.mark.slow
def test_a_stopped_zygote_does_not_stop_the_stream(caplog):
    """With a timeout, it is looked after: whoever waits for a worker that it should make gets what
    another one makes.
    """
    loader = headrace.DataLoader(
        data_source=range(12),
        sampler=headrace.IndexSampler(12, num_epochs=1),
        operations=[headrace.Batch(4)],
        worker_count=1,
        timeout=60,
    )
    with iter(loader) as iterator:
        iterator.start_prefetch()
        zygote().suspend()
        assert [batch.tolist() for batch in iterator] == [
            [0, 1, 2, 3],
            [4, 5, 6, 7],
            [8, 9, 10, 11],
        ]
    assert "is started again" in caplog.text


def test_a_zygote_that_is_stopped_again_and_again_is_an_error(monkeypatch):
    """With a timeout, `next` does not wait for ever: the third time is the last."""
    begin = Spawner.begin

    def stopped(self):
        begin(self)
        os.kill(self._process, signal.SIGSTOP)

    monkeypatch.setattr(Spawner, "begin", stopped)
    monkeypatch.setattr("headrace.loader.executors.processes.transport.LOOK_AFTER_SECONDS", 0.01)
    thrice = r"stopped by a signal, .*, 3 times without a result"
    iterator = iter(headrace.load(range(12), batch_size=4, worker_count=1, timeout=60))
    with iterator, pytest.raises(headrace.errors.WorkerCrashedError, match=thrice):
        next(iterator)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel is asked to end it")
@linux_only
@pytest.mark.slow
def test_a_stopped_zygote_ends_with_the_users_process(tmp_path):
    """Although it cannot look whether that is there."""
    program = tmp_path / "program.py"
    program.write_text(
        "import time, psutil, headrace\n"
        "batches = iter(headrace.load(range(1000), batch_size=2, worker_count=1))\n"
        "next(batches)\n"
        "print(*[child.pid for child in psutil.Process().children(recursive=True)], flush=True)\n"
        "time.sleep(1000)\n"
    )
    with subprocess.Popen(
        [sys.executable, str(program)], stdout=subprocess.PIPE, text=True
    ) as process:
        processes = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
        processes[0].suspend()
        process.kill()
        assert wait_until(lambda: not any(map(runs, processes)), 10)


def runs(process: psutil.Process) -> bool:
    """Whether it is there, and more than a zombie."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_closing_ends_a_zygote_that_does_not_answer(monkeypatch):
    """It is killed; an interrupt meanwhile shortens the wait, and is raised after it."""
    for seconds, interrupts in ((0.1, False), (1000.0, True)):
        monkeypatch.setattr("headrace.loader.executors.processes.spawner.GRACE_SECONDS", seconds)
        iterator = iter(headrace.load(range(100), batch_size=4, worker_count=1))
        next(iterator)
        zygote().suspend()
        if interrupts:
            threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
            with pytest.raises(KeyboardInterrupt):
                iterator.close()
        else:
            iterator.close()
        assert not zygotes()


def slowly(x: int) -> int:
    """Long enough for others to come in between."""
    time.sleep(0.2)
    return x


@pytest.mark.parametrize("worker_count", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_second_thread_in_an_iterator_is_an_error(worker_count):
    """`next`, `close` and `set_state` of another thread, while one is in `next`, which goes on."""
    iterator = iter(
        headrace.load(
            range(8),
            transformations=[slowly],
            batch_size=2,
            num_epochs=1,
            worker_count=worker_count,
        )
    )
    with iterator:
        first, state = next(iterator).tolist(), iterator.get_state()
        got = []
        thread = threading.Thread(target=lambda: got.append(next(iterator).tolist()))
        thread.start()
        assert wait_until(lambda: iterator._running.elements.gi_running, 30)
        for use in (iterator.__next__, iterator.close, lambda: iterator.set_state(state)):
            with pytest.raises(headrace.errors.InUseError, match="one thread at a time"):
                use()
        thread.join()
        assert [first, *got, *(batch.tolist() for batch in iterator)] == [
            [0, 1],
            [2, 3],
            [4, 5],
            [6, 7],
        ]


@pytest.mark.parametrize("use", ["next", "close"])
@pytest.mark.one_in(2)
@pytest.mark.slow
def test_a_handler_that_uses_the_iterator_it_interrupts_is_an_error(use):
    """No hang; and the iterator goes on after it."""
    loader = headrace.load(
        range(8), transformations=[slowly], batch_size=2, num_epochs=1, worker_count=1
    )
    with iter(loader) as iterator:
        first = next(iterator).tolist()
        uses = {"next": lambda *_: next(iterator), "close": lambda *_: iterator.close()}
        former = signal.signal(signal.SIGALRM, uses[use])
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(headrace.errors.InUseError, match="handler"):
                next(iterator)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, former)
        assert [first, *(batch.tolist() for batch in iterator)] == [[0, 1], [2, 3], [4, 5], [6, 7]]


def in_a_forked_child(program: str) -> str:
    """What a program prints."""
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    ).stdout


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("options", ["", ", worker_count=2, worker_kind='thread'"])
def test_a_forked_copy_of_an_iterator_with_threads_goes_on_with_its_own(options):
    """Those of the parent are not there, and not waited for."""
    output = in_a_forked_child(
        "import os, headrace\nloader = headrace.DataLoader(data_source=list(range(64)), "
        "sampler=headrace.IndexSampler(64, num_epochs=1),\n    "
        f"operations=[headrace.Batch(8)]{options})\niterator = iter(loader)\nfirst = "
        "next(iterator).tolist()\npid = os.fork()\npid and os.wait()\nprint([first, "
        "*(batch.tolist() for batch in iterator)] == [batch.tolist() for batch in loader], "
        "flush=True)\npid or os._exit(0)\n"
    )
    assert output == "True\nTrue\n"


class _PlayedRun:
    """An executor, and the flow of its elements."""

    def __init__(self, elsewhere):
        self.elsewhere = elsewhere

    def begin(self):
        """Nothing is to be done in advance."""

    def close(self):
        """Nothing is left."""

    def drop_tasks(self, observer):
        """All tasks can be dropped."""
        return True

    def __iter__(self):
        yield from (1, 2)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_forked_copy_of_a_run_is_none_or_an_error(elsewhere):
    """An error if the work is done elsewhere. Another run can begin in that process."""
    running, run = RunHandle(), _PlayedRun(elsewhere)
    for _ in range(2):
        elements = running.begin(lambda: run, lambda _: run)
        assert next(elements) == 1
        running.after_fork()
        assert (running.elements is None) != elsewhere
        if elsewhere:
            with pytest.raises(RuntimeError, match="made in another process"):
                next(running.elements)


def test_an_executor_that_is_kept_makes_the_next_run():
    """No other one is made for it, unless the run was ended without a next one."""
    running, made = RunHandle(), []
    for next_observer in (Observer(), None, None):
        running.begin(lambda: made.append(_PlayedRun(False)) or made[-1], lambda run: run)
        running.end(next_observer)
    assert len(made) == 2
    running.finish(is_last=True)
    with pytest.raises(StopIteration) as ended:  # the end can be reported again, without a new run
        next(running.elements)
    assert ended.value.value


def test_threads_whose_work_does_not_end_do_not_hold_up_the_end_of_a_process(monkeypatch):
    """A pool that was not closed waits a limited time for its threads, and leaves them."""
    monkeypatch.setattr(thread_pool, "_PATIENCE_SECONDS", 0.01)
    goes_on = threading.Event()
    pool = Pool(1, "headrace-test")
    pool.submit(goes_on.wait, 10)
    (thread,) = pool._threads
    del pool
    still_at_work = thread.is_alive()
    goes_on.set()
    thread.join()
    assert still_at_work
