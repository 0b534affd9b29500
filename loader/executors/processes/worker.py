"""A worker process: takes tasks from its channel and sends back what came of them, until the channel ends.

In: `RunTasks`, `Returned`. Out: `Done`. Runs in a process that the zygote made; nothing here knows how.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....operations.protocol import ArraySpec
from ...options import INSIDE_A_TASK, ExecutionOptions
from ...plan.pipeline import Pipeline
from ...work.slabs import Lease
from ...work.tasks import Block, Blocks, RowOrigins, SpanTask, Task
from ..pool.messages import unpack_task
from ..pool.task_runner import TaskRunner
from ..reads import NOT_AHEAD, AheadOfWork
from ..transport import Ready
from .channel import Channel, Done, Encoded, Returned, RunTasks, SlabName
from .codec import Encoder, decode
from .slabs import ExportedSlabs, attach_shared


class WorkerProcess:
    """The state of a worker process."""

    def __init__(self, number: int, channel: Channel, pipeline: Pipeline, options: ExecutionOptions) -> None:
        self._number = number
        self._channel = channel
        self._own = ExportedSlabs()
        self._others: dict[SlabName, NDArray[np.uint8]] = {}
        self._encoder = Encoder(number, self._own.pool)
        self._runner = TaskRunner(number, pipeline, options, self._allocate, self._encode)
        self._waiting: deque[tuple[RunTasks, list[Task], list[int], AheadOfWork]] = deque()
        self._trouble: Exception | None = None  # in receiving

    def run(self) -> None:
        """Work until the channel ends, without workers of its own."""
        INSIDE_A_TASK.set(True)
        self._channel.send(Ready(self._number))
        while self._waiting or self._take_message():
            if self._runner.reads_ahead:
                self._take_messages()  # tasks that wait here are being read
            if not self._waiting:
                continue
            message, tasks, descriptors, reading = self._waiting.popleft()
            self._answer(tasks, self._blocks(message, descriptors), reading)
            if self._trouble is not None:
                raise self._trouble

    def _allocate(self, specs: Sequence[ArraySpec]) -> list[NDArray[Any]]:
        """Memory for a batch: of the one that the user dropped last, which may have been a moment ago."""
        if self._trouble is None:
            try:
                self._take_messages()
            except Exception as error:  # not the user's error, though raised during their operation
                self._trouble = error
        return self._own.pool.allocate(specs)

    def _take_messages(self) -> None:
        """Take in what has come."""
        while self._channel.readable() and self._take_message():
            pass

    def _take_message(self) -> bool:
        """Take in slabs, or tasks, whose records begin to be read; False when nothing will come any more."""
        received = self._channel.receive()
        if received is None:
            return False
        message, descriptors = received
        if isinstance(message, Returned):
            self._own.release(message.slabs)
            return True
        self._own.release(message.released)
        tasks = [unpack_task(fields) for fields in message.tasks]
        reading = self._runner.begin(tasks) if isinstance(tasks[0], SpanTask) else NOT_AHEAD
        self._waiting.append((message, tasks, descriptors, reading))
        return True

    def _blocks(self, message: RunTasks, descriptors: list[int]) -> Blocks:
        """The blocks whose rows a message names."""
        for name in message.forgotten:
            self._others.pop(name, None)
        for name, descriptor in zip(message.introduced, descriptors):
            self._others[name] = attach_shared(descriptor, message.slabs[name])
            os.close(descriptor)
        return {
            number: Block(decode(rows, self._others.__getitem__)[start:stop], RowOrigins.unpacked(tags))
            for number, rows, start, stop, tags in message.named
        }

    def _encode(self, elements: Any) -> tuple[tuple[Encoded, list[Lease]], int]:
        rows, leases = self._encoder.encode(elements)
        return (rows, leases), sum(len(lease.slab.memory) for lease in leases)

    def _answer(self, tasks: Sequence[Task], blocks: Blocks, reading: AheadOfWork) -> None:
        answers = []
        for task in tasks:
            header, (rows, leases) = self._runner.run(task, blocks, reading)
            self._own.lend(leases)
            answers.append((header, rows, [(lease.slab.number, len(lease.slab.memory)) for lease in leases]))
        introduced = self._own.take_introduced()
        descriptors = [self._own.descriptor(slab) for slab in introduced]
        self._channel.send(Done(answers, introduced, self._own.take_dropped()), descriptors)
        self._own.close(introduced)


def run_and_exit(work: Callable[[], None]) -> None:
    """Run the rest of this process, and end it without the clean-up of the process that it was forked from."""
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
