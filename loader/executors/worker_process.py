"""A worker process: takes tasks from its channel and sends back what came of them, until the channel ends.

In: `RunSpan`, `RunGroup`. Out: `Done`. Runs in a process that the zygote made; nothing here knows how.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections import deque
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..options import ReadOptions
from ..pipeline import Pipeline
from ..plan import Span
from ..reading import ReadAhead, Reading
from ..slabs import Lease, Slab, SlabPool, rounded
from ..state import Cursor
from ..tasks import Block, Group, Rows
from ..transport import errors, memory
from ..transport.channel import Channel
from ..transport.codec import TINY, Encoder, decode
from ..transport.messages import Done, Ready, RunGroup, RunSpan, SlabName
from ..work import Worker

_NOWHERE = Cursor(0, ())


class WorkerProcess:
    """The state of a worker process."""

    def __init__(self, number: int, channel: Channel, pipeline: Pipeline, read_options: ReadOptions) -> None:
        self._channel = channel
        self._own = OwnSlabs()
        self._others: dict[SlabName, NDArray[np.uint8]] = {}
        self._encoder = Encoder(number, self._own.pool)
        self._worker = Worker(pipeline, self._own.pool.allocate)
        self._ahead = ReadAhead(pipeline, read_options)
        self._waiting: deque[tuple[RunSpan | RunGroup, list[int], Reading]] = deque()

    def run(self) -> None:
        """Work until the channel ends."""
        self._channel.send(Ready())
        while self._waiting or self._take_message():
            while self._ahead.spans and self._channel.readable() and self._take_message():
                pass  # tasks that wait here are being read
            message, descriptors, reading = self._waiting.popleft()
            began = time.perf_counter()
            if isinstance(message, RunSpan):
                block = self._worker.run(Span(message.start, message.stop), reading.records())
            else:
                block = self._worker.run(self._group(message, descriptors))
            self._answer(message.number, block, time.perf_counter() - began)

    def _take_message(self) -> bool:
        """Take a task in and begin to read its records; False when there will be none any more."""
        received = self._channel.receive()
        if received is None:
            return False
        message, descriptors = received
        self._own.release(message.released)
        reading = self._ahead.begin(Span(message.start, message.stop) if isinstance(message, RunSpan) else None)
        self._waiting.append((message, descriptors, reading))
        return True

    def _group(self, message: RunGroup, descriptors: list[int]) -> Group:
        for name in message.forgotten:
            self._others.pop(name, None)
        for name, descriptor in zip(message.introduced, descriptors):
            self._others[name] = memory.attach(descriptor, message.slabs[name])
            os.close(descriptor)
        parts = []
        for part in message.parts:
            elements = decode(part.rows, self._others.__getitem__)[part.start : part.stop]
            parts.append(Rows(Block(elements, part.tags), 0, part.stop - part.start))
        return Group(message.segment, tuple(parts), _NOWHERE, _NOWHERE)

    def _answer(self, number: int, block: Block, seconds: float) -> None:
        error = None if block.failure is None else errors.encode(block.failure.error)
        try:
            rows, leases = self._encoder.encode(block.elements)
        except Exception as failure:
            rows, leases, error = self._encoder.encode([])[0], [], errors.encode(failure)
            block = Block([], None if block.tags is None else type(block.tags)(), block.failure)
        introduced = self._own.lend(leases)
        descriptors = [self._own.descriptor(slab) for slab in introduced]
        sizes = [(lease.slab.number, len(lease.slab.memory)) for lease in leases]
        dropped = self._own.take_dropped()
        done = Done(number, rows, block.count, block.tags, error, sizes, introduced, dropped, block.skipped, seconds)
        self._channel.send(done, descriptors)
        self._own.close(introduced)


class OwnSlabs:
    """The slabs that this worker makes, and which of them are on loan."""

    def __init__(self) -> None:
        self.pool = SlabPool(self._make, self._give_up, pooled_from=TINY)
        self._numbers = itertools.count()
        self._descriptors: dict[int, int] = {}
        self._lent: dict[int, list[Lease]] = {}
        self._known: set[int] = set()
        self._dropped: list[int] = []

    def _make(self, size: int) -> Slab:
        descriptor = memory.create(rounded(size))
        slab = Slab(memory.attach(descriptor, rounded(size)), next(self._numbers))
        self._descriptors[slab.number] = descriptor
        return slab

    def _give_up(self, slab: Slab) -> None:
        self.close([slab.number])
        if slab.number in self._known:
            self._known.discard(slab.number)
            self._dropped.append(slab.number)

    def lend(self, leases: list[Lease]) -> list[int]:
        """Keep these slabs as they are until they are released; those that the user's process does not know yet."""
        for lease in leases:
            self._lent.setdefault(lease.slab.number, []).append(lease)
        new = [lease.slab.number for lease in leases if lease.slab.number not in self._known]
        self._known.update(new)
        return new

    def release(self, numbers: list[int]) -> None:
        """Loans that have ended."""
        for number in numbers:
            leases = self._lent[number]
            leases.pop()
            if not leases:
                del self._lent[number]

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
