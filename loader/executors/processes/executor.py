"""The executor with worker processes: does what the pool decides, and turns tasks into messages and messages into blocks.

In: tasks. Out: blocks. What it shares with other kinds of workers stands in `pool/`.
"""

from __future__ import annotations

import selectors
import time
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

from ...interrupts import Uninterrupted
from ...options import ExecutionOptions
from ...plan.pipeline import Pipeline
from ...timing.observer import Observer
from ...work.tasks import GroupTask, SpanTask
from ..pool import remote_errors as errors
from ..pool.executor import PooledExecutor, PooledHandle
from ..pool.groups import encoded
from ..pool.pool import WorkerPool
from .leases import EncodedBlock, Slabs
from .spawner import Spawner, description
from .transport.channel import Channel
from .transport.messages import Answer, Broken, Done, Exited, Ready, Returned, RunGroups, RunSpan
from .transport.payload import Payload
from .tuned import LOOK_AFTER_SECONDS


class _Remote:
    """The way to a worker."""

    def __init__(self, number: int, channel: Channel) -> None:
        self.number = number
        self.channel = channel
        self.outbox: deque[tuple[Any, Sequence[int]]] = deque()  # what there was no room for, with descriptors
        self.ended = False


class ProcessExecutor(PooledExecutor):
    """Runs tasks in processes, which `spawner` makes: another one, in tests, plays them."""

    def __init__(
        self,
        pipeline: Pipeline,
        options: ExecutionOptions,
        observer: Observer,
        spawner: Spawner | None = None,
        begins_with: int | None = None,
    ) -> None:
        pool: WorkerPool[PooledHandle] = WorkerPool(begins_with or options.workers, options.timeout)
        super().__init__(pipeline, options, observer, pool)
        self._slabs = Slabs(len(pipeline.stages) > 1, observer.slabs)
        self._workers: dict[int, _Remote] = {}
        self._selector = selectors.DefaultSelector()
        self._spawner = spawner or Spawner()
        with Uninterrupted():
            self._payload = Payload()
            self._finalizer = weakref.finalize(self, _close, self._spawner, self._selector, self._payload)
        try:
            self._spawner.begin()  # boots while the pipeline is packed
            self._payload.pack((pipeline, options), "the pipeline")
            self._start()
            self._act(self._pool.spawn_missing())
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        self._spawner.send_start(self._payload.descriptor)
        self._selector.register(self._spawner.channel, selectors.EVENT_READ, None)

    def _give(self, worker: int, handles: Sequence[PooledHandle]) -> None:
        with suppress(ConnectionError):  # it is gone; the zygote's report follows
            self._send(self._workers[worker], handles)

    def _spawn(self, worker: int) -> None:
        self._workers[worker] = remote = _Remote(worker, self._spawner.spawn(worker))
        self._selector.register(remote.channel, selectors.EVENT_READ, worker)

    def _kill(self, worker: int) -> None:
        self._spawner.kill(worker)

    def _restart(self) -> None:
        self._spawner.begin()
        self._start()

    def _send(self, worker: _Remote, handles: Sequence[PooledHandle]) -> None:
        released = self._slabs.take_released(worker.number)
        first = handles[0].task
        if isinstance(first, SpanTask):
            self._post(worker, RunSpan(handles[0].number, tuple(first), released))
            return
        blocks: dict[int, Any] = {number: block for handle in handles for number, block in handle.blocks.items()}
        groups, named = encoded([(handle.number, cast(GroupTask, handle.task)) for handle in handles])
        rows = [
            (number, blocks[number].rows, first, last, blocks[number].tags.part(first, last).packed())
            for number, (first, last) in named.items()
        ]
        sizes, introduced, descriptors = self._slabs.introduce(worker.number, list(blocks.values()))
        forgotten = self._slabs.take_forgotten(worker.number)
        self._post(worker, RunGroups(groups, rows, sizes, introduced, forgotten, released), descriptors)

    def _post(self, worker: _Remote, message: Any, descriptors: Sequence[int] = ()) -> None:
        """Send a message, or keep it until there is room: to wait for that may be to wait for one another for ever."""
        if worker.ended:
            return  # its tasks are given again when it is buried
        if not worker.outbox and worker.channel.writable():
            worker.channel.send(message, descriptors)
            return
        worker.outbox.append((message, descriptors))
        self._selector.modify(worker.channel, selectors.EVENT_READ | selectors.EVENT_WRITE, worker.number)

    def _post_kept(self, worker: _Remote) -> None:
        """There is room again."""
        try:
            while worker.outbox and worker.channel.writable():
                worker.channel.send(*worker.outbox.popleft())
        except ConnectionError:
            worker.outbox.clear()  # it is gone
        if not worker.outbox:
            self._selector.modify(worker.channel, selectors.EVENT_READ, worker.number)

    def before_waiting(self) -> None:
        """Tell workers, too, of slabs whose leases have ended, so that they use them again while they are in the caches."""
        super().before_waiting()
        for worker in self._workers.values():
            released = self._slabs.take_released(worker.number)
            if released:
                try:
                    self._post(worker, Returned(released))
                except ConnectionError:
                    continue  # it is gone, and its slabs with it

    def handle_messages(self, wait: float | None) -> None:
        """Take what has arrived; with `wait=None`, wait for something to arrive, or for a task to be late."""
        events = self._selector.select(self._until_late() if wait is None else wait)
        for key, what in events:
            if key.data is None:
                self._hear_spawner()
            elif (worker := self._workers.get(key.data)) is not None:
                if what & selectors.EVENT_WRITE:
                    self._post_kept(worker)
                if what & selectors.EVENT_READ:
                    self._hear(worker)
        if self._timeout is not None:
            self._act(self._pool.look(time.monotonic()))
            if not events:
                self._spawner.kill_if_stopped()

    def _hear(self, worker: _Remote) -> None:
        """Take one message of a worker."""
        received = worker.channel.receive()
        if received is None:
            self._selector.unregister(worker.channel)
            worker.ended = True
        elif isinstance(received[0], Done):
            self._finish(worker, *received)
        elif isinstance(received[0], Ready):
            self._pool.ready(worker.number, time.monotonic())

    def _finish(self, worker: _Remote, done: Done, descriptors: list[int]) -> None:
        answers = [Answer(*fields) for fields in done.answers]
        leases = self._slabs.take(worker.number, answers, done, descriptors)
        handles = self._pool.answered(worker.number, len(answers), time.monotonic())
        for handle, answer, leased in zip(handles, answers, leases):
            assert handle.number == answer.number, "a worker answers in the order in which it was asked"
            size = sum(size for _, size in answer.lent)
            self._pace.note(handle.task, answer.seconds, answer.waited, answer.row_count, size)
            handle.block = EncodedBlock(answer, leased)
        self._act(self._pool.without_idle())

    def _hear_spawner(self) -> None:
        received = self._spawner.channel.receive()
        if received is None:
            self._start_anew()
        elif isinstance(received[0], Exited):
            exited: Exited = received[0]
            self._hear_last_words(self._workers[exited.worker], how := description(exited.status))
            self._act(self._pool.ended(exited.worker, how, time.monotonic()))
        elif isinstance(received[0], Broken):
            self.close()
            raise errors.decode(received[0].error)

    def _hear_last_words(self, worker: _Remote, how: str) -> None:
        if self._pool.knows(worker.number):
            self._observer.worker_ended(worker.number, how)
        del self._workers[worker.number]
        while not worker.ended and worker.channel.readable():
            self._hear(worker)
        if not worker.ended:
            self._selector.unregister(worker.channel)
        self._spawner.forget(worker.number)
        self._slabs.disown(worker.number)

    def _start_anew(self) -> None:
        """The zygote has ended, and all workers with it."""
        self._selector.unregister(self._spawner.channel)
        self._spawner.end()
        for worker in list(self._workers.values()):
            self._hear_last_words(worker, self._spawner.last_end)
        self._act(self._pool.all_ended(self._spawner.last_end, time.monotonic()))

    def _until_late(self) -> float | None:
        """Seconds until the first task is late, or it is time to look after the zygote, which may have been stopped."""
        if self._timeout is None:
            return None
        return min(max(0.0, self._pool.late_at() - time.monotonic()) + 0.001, LOOK_AFTER_SECONDS)

    def close(self) -> None:
        """End all processes; nothing is left of them."""
        _close(self._spawner, self._selector, self._payload)
        self._finalizer.detach()


def _close(spawner: Spawner, selector: selectors.BaseSelector, payload: Payload) -> None:
    with Uninterrupted():
        selector.close()
        spawner.close()
        payload.close()
