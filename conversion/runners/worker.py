"""A worker: a fresh interpreter that does parts of a job. In: the job once, then parts. Out: progress, and results.

    parent → worker: the job and the function, once; then a number and an argument, for each part; nothing more: the end
    worker → parent: Progress, …, and Result or Failure

It ends when its parent does: a thread waits for the next part at all times, and hears of the end.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from ...loader.executors.pool.remote_errors import encode
from ..job import Job, Work

REPORT_SECONDS = 0.2
"""Progress is told so often at most."""


@dataclass(frozen=True)
class Begin:
    """What a worker is for."""

    work: Work
    job: Job


@dataclass(frozen=True)
class Progress:
    """Of the part that is being done."""

    records: int
    weight: float


@dataclass(frozen=True)
class Result:
    """What a part came to."""

    value: Any


@dataclass(frozen=True)
class Failure:
    """An exception, as bytes."""

    error: bytes


class Reporter:
    """Adds progress up, and tells it now and then."""

    def __init__(self, tell: Any) -> None:
        self._tell = tell
        self._records, self._weight, self._last = 0, 0.0, time.monotonic()

    def __call__(self, records: int, weight: float) -> None:
        """Progress was made."""
        self._records += records
        self._weight += weight
        if time.monotonic() >= self._last + REPORT_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Tell what was not told yet."""
        self._tell(Progress(self._records, self._weight))
        self._records, self._weight, self._last = 0, 0.0, time.monotonic()


def main() -> None:
    """Run a worker on the descriptor that is the first argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    channel = Connection(int(sys.argv[1]))
    arguments: SimpleQueue[Any] = SimpleQueue()
    try:
        begin: Begin = pickle.loads(channel.recv_bytes())
    except EOFError:
        return
    except Exception as error:  # a module of the user's that cannot be imported here
        channel.send(Failure(encode(error)))
        return
    threading.Thread(target=_listen, args=(channel, arguments), daemon=True).start()
    while True:
        argument = arguments.get()
        channel.send(_done(begin, argument, channel))


def _listen(channel: Connection, arguments: SimpleQueue[Any]) -> None:
    try:
        while True:
            arguments.put(channel.recv())
    except (EOFError, OSError):
        os._exit(0)  # at once, whatever is being done: nobody waits for it any more


def _done(begin: Begin, argument: Any, channel: Connection) -> Result | Failure:
    report = Reporter(channel.send)
    try:
        result = Result(begin.work(begin.job, argument, report))
    except Exception as error:
        return Failure(encode(error))
    report.flush()
    return result
