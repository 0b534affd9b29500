"""A worker process: takes tasks from its channel and sends back what came of them, until the channel ends.

In: `RunSpan`, `RunGroups`, `Returned`. Out: `Done`. Runs in a process that the zygote made; nothing here knows how.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....common.global_random import reseed
from ....operations.protocol import ArraySpec
from ...options import INSIDE_A_TASK, ExecutionOptions
from ...plan.pipeline import Pipeline
from ...work.slabs import Lease, Slab, SlabPool, rounded
from ...work.stopwatch import stopwatches
from ...work.tasks import NO_BLOCKS, Block, Blocks, Failure, RowTags, SpanTask, Task
from ...work.worker import Worker
from ..pool import remote_errors as errors
from ..pool.first_call import called_first
from ..pool.groups import decoded
from ..pool.sending import sent
from ..read_ahead import NOT_AHEAD, AheadOfWork, ReadAhead
from .transport import shared_memory as memory
from .transport.channel import Channel
from .transport.codec import Encoder, decode
from .transport.messages import Answer, Done, Ready, Returned, RunGroups, RunSpan, SlabName
from .tuned import TINY


class WorkerProcess:
    """The state of a worker process."""

    def __init__(self, number: int, channel: Channel, pipeline: Pipeline, options: ExecutionOptions) -> None:
        reseed()
        self._unready = called_first(options, number)
        self._channel = channel
        self._pipeline = pipeline
        self._own = OwnSlabs()
        self._others: dict[SlabName, NDArray[np.uint8]] = {}
        self._encoder = Encoder(number, self._own.pool)
        stopwatch = stopwatches(number, options.observe)
        seeds = options.seed_globals
        self._worker = Worker(
            pipeline, self._allocate, stacks_rows=True, owns_globals=True, stopwatch=stopwatch, seeds_globals=seeds
        )
        self._ahead = ReadAhead(pipeline, options.reading)
        self._waiting: deque[tuple[RunSpan | RunGroups, list[int], AheadOfWork]] = deque()
        self._trouble: Exception | None = None  # in receiving

    def run(self) -> None:
        """Work until the channel ends, without workers of its own."""
        INSIDE_A_TASK.set(True)
        self._channel.send(Ready())
        while self._waiting or self._take_message():
            if self._ahead.helps:
                self._take_messages()  # tasks that wait here are being read
            if not self._waiting:
                continue
            message, descriptors, reading = self._waiting.popleft()
            if isinstance(message, RunSpan):
                self._send([self._answer(message.number, SpanTask(*message.task), reading=reading)])
            else:
                self._send(self._answers(message, self._blocks(message, descriptors)))
            if self._trouble is not None:
                raise self._trouble

    def _allocate(self, specs: Sequence[ArraySpec]) -> list[NDArray[Any]]:
        """Memory for a batch: of the one that the user dropped last, which may have been a moment ago."""
        if self._trouble is None:
            try:
                self._take_messages()
            except Exception as error:  # which is none of the user's operation, in the middle of which this is
                self._trouble = error
        return self._own.pool.allocate(specs)

    def _take_messages(self) -> None:
        """Take in what has come."""
        while self._channel.readable() and self._take_message():
            pass

    def _take_message(self) -> bool:
        """Take in slabs, or a task, whose records begin to be read; False when nothing will come any more."""
        received = self._channel.receive()
        if received is None:
            return False
        message, descriptors = received
        if isinstance(message, Returned):
            self._own.release(message.slabs)
            return True
        self._own.release(message.released)
        reading = self._ahead.begin(SpanTask(*message.task)) if isinstance(message, RunSpan) else NOT_AHEAD
        self._waiting.append((message, descriptors, reading))
        return True

    def _answers(self, message: RunGroups, blocks: Blocks) -> list[Answer]:
        return [self._answer(number, task, blocks) for number, task in decoded(message.groups)]

    def _blocks(self, message: RunGroups, descriptors: list[int]) -> Blocks:
        """The blocks that the groups of a message name."""
        for name in message.forgotten:
            self._others.pop(name, None)
        for name, descriptor in zip(message.introduced, descriptors):
            self._others[name] = memory.attach(descriptor, message.slabs[name])
            os.close(descriptor)
        return {
            number: Block(decode(rows, self._others.__getitem__)[start:stop], RowTags.unpacked(tags))
            for number, rows, start, stop, tags in message.blocks
        }

    def _answer(self, number: int, task: Task, blocks: Blocks = NO_BLOCKS, reading: AheadOfWork = NOT_AHEAD) -> Answer:
        """Do a task."""
        began = time.perf_counter()
        block = Block([], failure=self._unready) if self._unready else self._worker.run(task, blocks, reading.records)
        try:
            block, (rows, leases) = sent(block, task, self._pipeline, self._encoder.encode)
        except Exception as failure:
            rows, leases = self._encoder.encode([])[0], []
            block = Block([], None if block.tags is None else RowTags(), Failure(failure))
        error = None if block.failure is None else errors.encode(block.failure.error)
        self._own.lend(leases)
        sizes = [(lease.slab.number, len(lease.slab.memory)) for lease in leases]
        ended = time.perf_counter()
        tags = None if block.tags is None else block.tags.packed()
        times = None if block.times is None else block.times.until(ended).packed()
        told = block.skipped, block.notices
        spent = ended - began, block.waited
        return Answer(number, rows, block.count, tags, error, sizes, *told, *spent, block.stand, times)

    def _send(self, answers: list[Answer]) -> None:
        introduced = self._own.take_introduced()
        descriptors = [self._own.descriptor(slab) for slab in introduced]
        fields = [tuple(answer) for answer in answers]
        self._channel.send(Done(fields, introduced, self._own.take_dropped()), descriptors)
        self._own.close(introduced)


class OwnSlabs:
    """The slabs that this worker makes, and which of them are on loan."""

    def __init__(self) -> None:
        self.pool = SlabPool(self._make, self._give_up, pooled_from=TINY)
        self._numbers = itertools.count()
        self._descriptors: dict[int, int] = {}
        self._lent: dict[int, list[Lease]] = {}
        self._known: set[int] = set()
        self._introduced: list[int] = []
        self._dropped: list[int] = []

    def _make(self, size: int) -> Slab:
        descriptor = memory.create(rounded(size))
        slab = Slab(memory.attach(descriptor, rounded(size), fresh=True), next(self._numbers))
        self._descriptors[slab.number] = descriptor
        return slab

    def _give_up(self, slab: Slab) -> None:
        self.close([slab.number])
        if slab.number in self._known:
            self._known.discard(slab.number)
            self._dropped.append(slab.number)

    def lend(self, leases: list[Lease]) -> None:
        """Keep these slabs as they are until they are released."""
        for lease in leases:
            self._lent.setdefault(lease.slab.number, []).append(lease)
            if lease.slab.number not in self._known:
                self._known.add(lease.slab.number)
                self._introduced.append(lease.slab.number)

    def release(self, numbers: list[int]) -> None:
        """Loans that have ended."""
        for number in numbers:
            leases = self._lent[number]
            leases.pop()
            if not leases:
                del self._lent[number]

    def take_introduced(self) -> list[int]:
        """Slabs on loan that the user's process does not know yet."""
        introduced, self._introduced = self._introduced, []
        return introduced

    def take_dropped(self) -> list[int]:
        """Slabs that the user's process knows and may forget."""
        dropped, self._dropped = self._dropped, []
        return dropped

    def descriptor(self, number: int) -> int:
        """The descriptor of a slab that was not closed yet."""
        return self._descriptors[number]

    def close(self, numbers: list[int]) -> None:
        """Close descriptors that are not needed any more: the memory stays mapped."""
        for number in numbers:
            descriptor = self._descriptors.pop(number, None)
            if descriptor is not None:
                os.close(descriptor)


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
