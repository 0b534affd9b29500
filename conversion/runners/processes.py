"""Runs parts of a job, in this process or in workers. In: a function, a job and arguments. Out: results, as they come.

Workers are fresh interpreters, never forks of the user's process, and do not import its `__main__`. One thread serves
all of them.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection, wait
from typing import Any, cast

import cloudpickle

from ...common.messages import shorten
from ...errors import PicklingError, WorkerCrashedError
from ...loader.executors.pool.remote_errors import decode
from ...loader.interrupts import Uninterrupted
from ..job import Job, Report, Work
from .worker import Begin, Failure, Progress, Result

_PROGRAM = "from headrace.conversion.runners.worker import main; main()"
_GRACE_SECONDS = 5


def run(work: Work, job: Job, arguments: Sequence[Any], workers: int, report: Report) -> Iterator[Any]:
    """Do a part of a job for each argument.

    Args:
        work: what to do; a function that can be imported.
        job: what all parts have in common.
        arguments: one for each part.
        workers: how many processes; 0 for none, and the calling thread.
        report: is told of progress.

    Raises:
        Exception: whatever a part raised; the others are given up.
        WorkerCrashedError: a worker ended.
        PicklingError: the job cannot be sent to workers.
    """
    if not workers:
        return (work(job, argument, report) for argument in arguments)
    return _in_workers(_payload(work, job), arguments, min(workers, len(arguments)), report)


def _payload(work: Work, job: Job) -> bytes:
    try:
        return cast(bytes, cloudpickle.dumps(Begin(work, job)))
    except Exception as error:
        raise PicklingError(
            f"the source, or a function, cannot be sent to workers: {shorten(error)}; pass workers=0 to convert in this "
            "process."
        ) from error


def _in_workers(payload: bytes, arguments: Sequence[Any], workers: int, report: Report) -> Iterator[Any]:
    left = list(reversed(arguments))
    with ExitStack() as stack:
        team = {worker.channel: worker for worker in (_Worker(payload, stack) for _ in range(workers))}
        for worker in team.values():
            worker.give(left.pop())
        while busy := [worker.channel for worker in team.values() if worker.task is not None]:
            for channel in wait(busy):
                worker = team[cast(Connection, channel)]
                message = worker.receive()
                if isinstance(message, Progress):
                    report(message.records, message.weight)
                elif isinstance(message, Failure):
                    raise decode(message.error)
                else:
                    worker.task = None
                    if left:
                        worker.give(left.pop())
                    yield message.value


class _Worker:
    """The parent's side of a worker."""

    task: Any = None
    """What it does now."""

    def __init__(self, payload: bytes, stack: ExitStack) -> None:
        with Uninterrupted():
            self.channel, theirs = multiprocessing.Pipe()
            with theirs:
                self._process = _started(theirs.fileno())
            stack.callback(self._end)
        self._send(payload)

    def give(self, task: Any) -> None:
        """Have it do a part."""
        self.task = task
        self._send(cloudpickle.dumps(task))

    def _send(self, data: bytes) -> None:
        try:
            self.channel.send_bytes(data)
        except OSError:
            raise self._crashed() from None

    def receive(self) -> Progress | Result | Failure:
        """What it says next."""
        try:
            return cast(Progress | Result | Failure, self.channel.recv())
        except (EOFError, OSError):
            raise self._crashed() from None

    def _crashed(self) -> WorkerCrashedError:
        status = self._process.wait()
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit code {status}"
        hint = " (the system may have run out of memory: use fewer workers)" if -status == signal.SIGKILL else ""
        what = shorten(getattr(self.task, "name", self.task))
        return WorkerCrashedError(
            f"a worker ended by {how}{hint} while it made {what}. What was whole stays; run the same again."
        )

    def _end(self) -> None:
        with Uninterrupted():
            self.channel.close()
            self._process.kill()
            self._process.wait(_GRACE_SECONDS)


def _started(descriptor: int) -> subprocess.Popen[bytes]:
    """A fresh interpreter, born with SIGINT blocked, until it ignores that."""
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    environment = {**os.environ, "PYTHONPATH": paths, "TOKENIZERS_PARALLELISM": "false"}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        command = [sys.executable, "-P", "-c", _PROGRAM, str(descriptor)]
        return subprocess.Popen(command, pass_fds=[descriptor], env=environment, stdin=subprocess.DEVNULL)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
