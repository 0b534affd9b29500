"""Run parts of a job in this process or in worker processes, and yield results as they arrive.

Each worker is a fresh interpreter. Threads of `concurrent.futures` distribute the parts: a thread
sends a part to a free worker, and waits for its result.

    parent → worker: the function and the job, once; then an argument for each part; end of file to
    stop worker → parent: `Said` messages; the last one of a part has its result

A worker ends with its parent, because a thread in it waits for the next part, and sees the end of
file.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

import cloudpickle

from ..common.messages import shorten
from ..common.remote_errors import decode, encode
from ..common.system import signal_name
from ..errors import PicklingError, WorkerCrashedError
from ..loader.interrupts import Uninterrupted
from .job import ConversionJob, Report, Shard, Work

REPORT_SECONDS = 0.2
"""Minimum seconds between two reports of progress."""

_PROGRAM = "from headrace.conversion.processes import main; main()"
_GRACE_SECONDS = 5


@dataclass(frozen=True)
class Said:
    """Message of a worker: progress since the last message.

    At the end of a part also its result, or its error as bytes.
    """

    records: int = 0
    weight: float = 0.0
    is_done: bool = False
    value: Any = None
    error: bytes | None = None


def run(
    work: Work, job: ConversionJob, arguments: Sequence[Any], workers: int, report: Report
) -> Generator[Any, None, None]:
    """Call a function for each argument, in worker processes, and yield the results as they arrive.

    Args:
        work: importable function that does one part of the job.
        job: settings that all parts share.
        arguments: one argument for each part.
        workers: number of processes. 0: the calling thread does all parts.
        report: function that receives progress, from one thread at a time.

    Raises:
        Exception: whatever a part raised. All other parts are cancelled.
        WorkerCrashedError: a worker process ended.
        PicklingError: the job cannot be sent to workers.
    """
    if not workers:
        yield from (work(job, argument, report) for argument in arguments)
        return
    try:
        payload: bytes = cloudpickle.dumps((work, job))
    except Exception as error:
        raise PicklingError(
            "the source or a function cannot be pickled, so it cannot be sent to worker processes: "
            f"{shorten(error)}. Make it picklable, or pass workers=0 to convert in this process."
        ) from error
    one_at_a_time = threading.Lock()
    idle: SimpleQueue[_Interpreter] = SimpleQueue()

    def report_one(records: int, weight: float) -> None:
        with one_at_a_time:
            report(records, weight)

    def part(argument: Any) -> Any:
        worker = idle.get()
        try:
            return worker.do(argument, report_one)
        finally:
            idle.put(worker)

    team: list[_Interpreter] = []
    threads = ThreadPoolExecutor(workers, "headrace-convert")
    try:
        for _ in range(min(workers, len(arguments))):
            _Interpreter(team)
        for worker in team:
            worker.send(payload)
            idle.put(worker)
        for future in as_completed([threads.submit(part, argument) for argument in arguments]):
            yield future.result()
    finally:
        with Uninterrupted():
            for worker in team:
                worker.kill()  # the threads wait for them
            threads.shutdown(cancel_futures=True)
            for worker in team:
                worker.channel.close()


# `ProcessPoolExecutor` does not fit: its workers import the user's `__main__`, survive a killed
# parent, and die without telling by which signal and at which part. A process of `multiprocessing`
# also survives.
class _Interpreter:
    """The parent's side of a worker process. One thread at a time uses it.

    Args:
        team: list of all workers, to which this one is added.
    """

    def __init__(self, team: list[_Interpreter]) -> None:
        with Uninterrupted():
            self.channel, theirs = multiprocessing.Pipe()
            with theirs:
                self._process = _started(theirs.fileno())
            team.append(self)

    def send(self, data: bytes, part: Any = None) -> None:
        """Send bytes to the worker.

        Args:
            data: the bytes.
            part: argument of the part that they belong to, for the message.

        Raises:
            WorkerCrashedError: the worker process ended.
        """
        try:
            self.channel.send_bytes(data)
        except OSError:
            raise self._crashed(part) from None

    def do(self, part: Any, report: Report) -> Any:
        """Run a part in the worker, and return its result.

        Raises:
            Exception: whatever the part raised.
            WorkerCrashedError: the worker process ended.
        """
        self.send(cloudpickle.dumps(part), part)
        while True:
            try:
                said: Said = self.channel.recv()
            except (EOFError, OSError):
                raise self._crashed(part) from None
            report(said.records, said.weight)
            if said.error is not None:
                raise decode(said.error)
            if said.is_done:
                return said.value

    def _crashed(self, part: Any) -> WorkerCrashedError:
        status = self._process.wait()
        exit_or_signal = f"signal {signal_name(-status)}" if status < 0 else f"exit code {status}"
        hint = (
            " (the system may have run out of memory: use fewer workers)"
            if -status == signal.SIGKILL
            else ""
        )
        doing = f"counted the records of {shorten(part)}" if isinstance(part, str) else "started"
        if isinstance(part, Shard):
            doing = f"wrote {shorten(part.name)}"
        return WorkerCrashedError(
            f"a worker process ended by {exit_or_signal}{hint} while it {doing}. Finished shards "
            "are kept. Run the same command again to write the rest."
        )

    def kill(self) -> None:
        """Kill the worker process."""
        self._process.kill()
        self._process.wait(_GRACE_SECONDS)


def _started(descriptor: int) -> subprocess.Popen[bytes]:
    """Start a fresh interpreter that works on this descriptor.

    SIGINT is blocked in it until it ignores the signal itself.
    """
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    environment = {**os.environ, "PYTHONPATH": paths, "TOKENIZERS_PARALLELISM": "false"}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        command = [sys.executable, "-P", "-c", _PROGRAM, str(descriptor)]
        return subprocess.Popen(
            command, pass_fds=[descriptor], env=environment, stdin=subprocess.DEVNULL
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def main() -> None:
    """Work on parts until the parent closes the pipe.

    The first command line argument is the pipe's descriptor.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    channel = Connection(int(sys.argv[1]))
    try:
        work, job = pickle.loads(channel.recv_bytes())
    except EOFError:
        return
    except Exception as error:  # a module of the user's that cannot be imported here
        channel.send(Said(error=encode(error)))
        return
    arguments: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_listen, args=(channel, arguments), daemon=True).start()
    records, weight, last = 0, 0.0, time.monotonic()

    def report(more: int, heavier: float) -> None:
        nonlocal records, weight, last
        records, weight = records + more, weight + heavier
        if time.monotonic() >= last + REPORT_SECONDS:
            said(Said(records, weight))

    def said(message: Said) -> None:
        nonlocal records, weight, last
        channel.send(message)
        records, weight, last = 0, 0.0, time.monotonic()

    while True:
        try:
            value = work(job, arguments.get(), report)
        except Exception as error:
            said(Said(records, weight, error=encode(error)))
        else:
            said(Said(records, weight, True, value))


def _listen(channel: Connection, arguments: SimpleQueue[Any]) -> None:
    try:
        while True:
            arguments.put(channel.recv())
    except (EOFError, OSError):
        # at once, whatever is being done: nobody waits for it any more
        os.kill(os.getpid(), signal.SIGKILL)
