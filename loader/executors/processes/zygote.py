"""The zygote, a fresh interpreter that unpickles the pipeline once and forks workers; and workers.

In: `Start`, `Spawn`, `Kill` from the user's process. Out: `Exited` for each worker that has ended,
for whatever reason. A worker receives `RunTasks` and `Returned` on its own channel and sends
`Done`, until the user's process closes the channel.

The zygote has one thread, so that forking is safe. Each worker is a fresh interpreter instead of a
fork if unpickling the pipeline has started threads, or if the system does not report threads. If
the user's process ends, the zygote notices that its channel ends or that it gets another parent
process. It then ends all workers and itself. If the zygote itself is killed, the kernel kills its
workers, or a thread in each worker does (`common.system.die_with`).
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....common import remote_errors as errors
from ....common.system import can_fork, die_with, keep_freed_memory
from ....operations.protocol import ArraySpec
from ...options import INSIDE_A_TASK
from ...plan.pipeline import Pipeline
from ...work.slabs import Lease, attach_shared
from ...work.tasks import NO_BLOCKS, Blocks, RecordsAhead
from ..task_runner import TaskRunner, WorkerSetup, begin_worker
from ..transport import Kill, Ready, Spawn, named_blocks
from ..worker_logs import forward
from .channel import (
    Broken,
    Channel,
    Done,
    Encoded,
    Exited,
    Hangs,
    LastWords,
    Logged,
    Returned,
    RunTasks,
    SlabName,
    Start,
)
from .slabs import Encoder, ExportedSlabs, decode
from .spawner import start_interpreter, unpack

# Chosen.
CHECK_PARENT_SECONDS = 0.5
"""Seconds between two checks whether the user's process still exists.

They are needed if the channel does not show its end.
"""


class Zygote:
    """The zygote (process that makes workers): its channel, its workers and the unpickled pipeline.

    Args:
        channel: channel to the user's process.
        parent: process id of the user's process.
    """

    def __init__(self, channel: Channel, parent: int) -> None:
        self._channel = channel
        self._parent = parent
        self._workers: dict[int, int] = {}
        self._work: Any = None
        self._payload = -1
        self._selector = selectors.DefaultSelector()

    def start(self) -> bool:
        """Receive the settings of the user's process, and unpickle the pipeline.

        The pipeline is not unpickled here if each worker unpickles it itself. Return True if
        workers can be made. Return False if the user's process has ended, or if unpickling failed.
        In the second case, the error is sent to the user's process.
        """
        received = self._channel.receive()
        if received is None or not isinstance(received[0], Start):
            return False
        start, (self._payload,) = received
        sys.path[:] = start.search_path
        os.environ.clear()
        os.environ.update(start.environment)
        if not start.each_unpacks:
            self._work = _unpacked(self._payload, self._channel)
            if self._work is None:
                return False
        keep_freed_memory()  # all workers that are forked from here do so, too
        gc.freeze()
        return True

    def serve(self) -> None:
        """Start and kill workers on request, and report ended workers to the user's process.

        Return when the user's process has ended.
        """
        wakeup, signalled = socket.socketpair()
        signalled.setblocking(False)
        wakeup.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(signalled.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._channel, selectors.EVENT_READ)
        self._selector.register(wakeup, selectors.EVENT_READ)
        with wakeup, signalled:
            try:
                while os.getppid() == self._parent and self._handle_events(wakeup):
                    pass
            finally:
                signal.set_wakeup_fd(-1)  # before its socket is closed

    def _handle_events(self, wakeup: socket.socket) -> bool:
        """Wait up to 0.5 s for events (messages, or the end of a worker), and handle them.

        Return True if the user's process still exists, False if it has ended.
        """
        for key, _ in self._selector.select(CHECK_PARENT_SECONDS):
            if key.fileobj is wakeup:
                wakeup.recv(4096)
                self._report_exits()
            elif not self._obey():
                return False
        return True

    def _obey(self) -> bool:
        received = self._channel.receive()
        if received is None:
            return False
        message, descriptors = received
        if isinstance(message, Spawn):
            self._spawn(message.worker, descriptors[0])
        elif isinstance(message, Kill):
            for pid in [pid for pid, worker in self._workers.items() if worker == message.worker]:
                os.kill(pid, signal.SIGKILL)
        return True

    def _spawn(self, worker: int, descriptor: int) -> None:
        if not can_fork():
            pid = self._spawn_fresh(worker, descriptor)
        else:
            zygote = os.getpid()
            pid = os.fork()
            if pid == 0:
                run_and_exit(lambda: self._become_worker(worker, descriptor, zygote))
        os.close(descriptor)
        self._workers[pid] = worker

    def _become_worker(self, worker: int, descriptor: int, zygote: int) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        self._channel.close()
        die_with(zygote)
        run_worker(worker, descriptor, self._payload, self._work)

    def _spawn_fresh(self, worker: int, descriptor: int) -> int:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        return start_interpreter(
            ["worker", worker, descriptor, self._payload, os.getpid()],
            [descriptor, self._payload],
            environment,
        )

    def _report_exits(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            worker = self._workers.pop(pid, None)
            if worker is not None:
                self._channel.send(Exited(worker, status))

    def end(self) -> None:
        for pid in self._workers:
            os.kill(pid, signal.SIGKILL)
        for pid in self._workers:
            os.waitpid(pid, 0)


def run_worker(worker: int, descriptor: int, payload: int, work: Any = None) -> None:
    """Run as worker number `worker`, until the user's process closes the worker's channel.

    Args:
        worker: number of the worker.
        descriptor: socket of the worker's channel.
        payload: descriptor of the memory with the pickled options and pipeline.
        work: the options and the pipeline; None if this process has to unpickle them.
    """
    begin_worker(worker)
    channel = Channel(socket.socket(fileno=descriptor))
    if (work := work or _unpacked(payload, channel)) is not None:
        gc.enable()
        forward(lambda record: channel.send(Logged(record)))
        try:
            WorkerProcess(worker, channel, *work).run()
        except SystemExit as leaving:
            if isinstance(leaving.code, str):
                channel.send(LastWords(leaving.code))
            raise


def _unpacked(payload: int, channel: Channel) -> Any:
    """Unpickle the options and the pipeline from the memory with the descriptor `payload`.

    If this fails, send the error to the user's process on `channel`, and return None.
    """
    try:
        return unpack(payload)
    except Exception as error:
        error.add_note("headrace: a worker process could not unpickle the pipeline.")
        channel.send(Broken(errors.encode(error)))
        return None


class WorkerProcess:
    """A worker process: its channel, its shared memory, and the tasks that it has received.

    Args:
        number: number of the worker.
        channel: channel to the user's process.
        setup: options of the worker.
        pipeline: pipeline of the run.
    """

    def __init__(
        self, number: int, channel: Channel, setup: WorkerSetup, pipeline: Pipeline
    ) -> None:
        self._number = number
        self._channel = channel
        self._own = ExportedSlabs()
        self._others: dict[SlabName, NDArray[np.uint8]] = {}
        self._encoder = Encoder(number, self._own.pool)
        self._runner = TaskRunner(
            number,
            setup,
            pipeline,
            self._allocate,
            self._encode,
            lambda hang: channel.send(Hangs(*hang)),
            True,
        )
        self._waiting: deque[tuple[RunTasks, list[int], RecordsAhead | None]] = deque()
        self._trouble: Exception | None = None  # in receiving

    def run(self) -> None:
        """Run tasks until the user's process closes the channel.

        If a message cannot be received during a task, the error is raised after this task. Loaders
        that the pipeline's source uses itself get no workers.
        """
        INSIDE_A_TASK.set(True)
        self._channel.send(Ready(self._number))
        while self._waiting or self._take_message():
            if self._runner.reads_ahead:
                self._take_messages()  # tasks that wait here are being read
            if not self._waiting:
                continue
            self._answer(*self._waiting.popleft())
            if self._trouble is not None:
                raise self._trouble

    def _allocate(self, specs: Sequence[ArraySpec]) -> list[NDArray[Any]]:
        """Return uninitialised arrays for a batch, after handling the messages that have arrived.

        The messages may release slabs (pieces of shared memory), which can then be used for the
        batch.
        """
        if self._trouble is None:
            try:
                self._take_messages()
            except Exception as error:  # not the user's error, though raised during their operation
                self._trouble = error
        return self._own.pool.allocate(specs)

    def _take_messages(self) -> None:
        while self._channel.readable() and self._take_message():
            pass

    def _take_message(self) -> bool:
        """Receive and handle a message. Return False if the channel has ended, otherwise True.

        Each message has the numbers of slabs (pieces of shared memory) that are free again. If the
        message also has tasks, the reading of records for its first task begins.
        """
        received = self._channel.receive()
        if received is None:
            return False
        message, descriptors = received
        if isinstance(message, Returned):
            self._own.release(message.slabs)
            return True
        self._own.release(message.released)
        self._waiting.append((message, descriptors, self._runner.begin(message.tasks)))
        return True

    def _blocks(self, message: RunTasks, descriptors: list[int]) -> Blocks:
        for name in message.forgotten:
            self._others.pop(name, None)
        for (name, size), descriptor in zip(message.introduced, descriptors):
            self._others[name] = attach_shared(descriptor, size)
            os.close(descriptor)
        return named_blocks(message.named, lambda rows: decode(rows, self._others.__getitem__))

    def _encode(self, elements: Any) -> tuple[tuple[Encoded, list[Lease]], int]:
        rows, leases = self._encoder.encode(elements)
        return (rows, leases), sum(len(lease.slab.memory) for lease in leases)

    def _answer(
        self, message: RunTasks, descriptors: list[int], reading: RecordsAhead | None
    ) -> None:
        blocks = (
            self._blocks(message, descriptors) if message.named or message.forgotten else NO_BLOCKS
        )
        answers = []
        for task in message.tasks:
            header, (rows, leases) = self._runner.run(task, blocks, reading)
            self._own.lend(leases)
            answers.append(
                (header, rows, [(lease.slab.number, len(lease.slab.memory)) for lease in leases])
            )
        introduced = self._own.take_introduced()
        descriptors = [self._own.descriptor(slab) for slab in introduced]
        self._channel.send(Done(answers, introduced, self._own.take_dropped()), descriptors)
        self._own.close(introduced)


def run_and_exit(work: Callable[[], None]) -> None:
    """Run `work`, then end this process without Python's clean-up at exit.

    This process may be a fork, and only the process from which it was forked may do the clean-up.

    The exit status is 0 if `work` returned or the user's process is gone; the status of a
    `SystemExit`; or 1 after another exception, whose traceback is printed.
    """
    status = 1
    try:
        work()
        status = 0
    except SystemExit as exit_request:
        code = exit_request.code
        status = 0 if code is None else code if isinstance(code, int) else 1
    except ConnectionError:
        status = 0  # the user's process is gone
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                continue
        os._exit(status & 0xFF)


def main() -> None:
    """Run this process as the zygote, which makes workers; or as a worker.

    The first command-line argument says which: "zygote" or "worker".
    """
    what, arguments = sys.argv[1], map(int, sys.argv[2:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the user's process, which ends us
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    if what == "worker":
        worker, descriptor, payload, zygote_pid = arguments
        die_with(zygote_pid)
        keep_freed_memory()
        run_and_exit(lambda: run_worker(worker, descriptor, payload))
    descriptor, parent, dies_with_parent = arguments
    if dies_with_parent:
        die_with(parent)
    zygote = Zygote(Channel(socket.socket(fileno=descriptor)), parent)
    try:
        if zygote.start():
            zygote.serve()
    except ConnectionError:
        pass  # the user's process went away while something was sent
    finally:
        zygote.end()
