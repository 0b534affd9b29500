"""The executor with worker processes: tasks go to the least loaded worker, and to another one when that dies.

In: tasks. Out: blocks. Has no thread of its own: messages are handled while somebody asks for a result.

What may happen at any moment, and what is done then:
* a worker ends: what it had already answered is taken from its channel, the rest of its tasks go to a new worker. The task
  that it was at is divided, so that what stands before the record at fault can be delivered. One that is a single unit counts
  one more try, and after `MAX_TRIES` it fails with `WorkerCrashedError`, or is left out.
* a task takes longer than `timeout`: its worker is killed, and the above follows.
* the zygote ends: all workers have ended with it; a new one is started, and all tasks go to new workers.
"""

from __future__ import annotations

import logging
import selectors
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, cast

from ....errors import WorkerCrashedError
from ...interrupts import Uninterrupted
from ...options import ReadOptions
from ...plan.pipeline import Pipeline
from ...work.tasks import NO_BLOCKS, Block, Blocks, GroupTask, SpanTask, Task
from . import remote_errors as errors
from .channel import Channel
from .deaths import description, given_up, parts_of
from .leases import EncodedBlock, Slabs
from .messages import Answer, Broken, Done, EncodedRows, Exited, Ready, Returned, RunGroups, RunSpan
from .pace import Pace
from .payload import Payload
from .spawner import Spawner

MAX_TRIES = 3
LOOK_AFTER_SECONDS = 1.0
_LOGGER = logging.getLogger("millrace")


class ProcessHandle:
    """A task that some worker has."""

    __slots__ = ("_executor", "alone", "began", "block", "blocks", "cost", "late", "number", "task", "tries")

    def __init__(self, executor: ProcessExecutor, number: int, task: Task, blocks: Blocks) -> None:
        self._executor = executor
        self.number = number
        self.task = task
        self.blocks = blocks  # that the task names: they live as long as it may have to be done again
        self.alone = True
        self.tries = 0
        self.began = 0.0
        self.cost = 0.0
        self.late = False
        self.block: Block | EncodedBlock | None = None

    def ready(self) -> bool:
        """Whether the answer has come; looks at what has arrived."""
        if self.block is None:
            self._executor.handle_messages(0)
        return self.block is not None

    def result(self) -> Any:
        """The answer; waits for it."""
        while self.block is None:
            self._executor.send_gathered()
            self._executor.return_slabs()
            self._executor.handle_messages(None)
        block, self.block = self.block, None
        return block


class _Remote:
    """What the user's process knows of a worker."""

    def __init__(self, number: int, channel: Channel) -> None:
        self.number = number
        self.channel = channel
        self.tasks: deque[ProcessHandle] = deque()
        self.load = 0.0
        self.outbox: deque[tuple[Any, Sequence[int]]] = deque()  # what there was no room for, with descriptors
        self.ready = False
        self.ended = False


class ProcessExecutor:
    """Runs tasks in `worker_count` processes."""

    elsewhere = True

    def __init__(
        self,
        pipeline: Pipeline,
        worker_count: int,
        buffer_size: int,
        timeout: float | None,
        read_options: ReadOptions,
    ) -> None:
        self._window = worker_count * (1 + buffer_size)
        self._pace = Pace(pipeline.span, len(pipeline.stages))
        self._pipeline = pipeline
        self._worker_count = worker_count
        self._timeout = timeout
        self._gathered: list[ProcessHandle] = []
        self._next_task = self._next_worker = 0
        self._failed_starts = 0
        self._slabs = Slabs(keep_descriptors=len(pipeline.stages) > 1)
        self._workers: dict[int, _Remote] = {}
        self._selector = selectors.DefaultSelector()
        self._spawner = Spawner()
        with Uninterrupted():
            self._payload = Payload()
            self._finalizer = weakref.finalize(self, _close, self._spawner, self._selector, self._payload)
        try:
            self._spawner.begin()  # boots while the pipeline is packed
            self._payload.pack((pipeline, read_options), "the pipeline")
            self._start()
        except BaseException:
            self.close()
            raise

    @property
    def units(self) -> int:
        """As the protocol says: several while tasks are short. With a timeout, which is one for a span, one."""
        return self._together(0)

    def window(self, stage: int) -> int:
        """As the protocol says: so many messages."""
        return self._window if self._pipeline.stages[stage].leaf is not None else self._window * self._together(stage)

    def _together(self, stage: int) -> int:
        """Spans in a task, or groups in a message."""
        return 1 if self._timeout is not None else self._pace.together(stage)

    def _start(self) -> None:
        self._spawner.send_start(self._payload.descriptor)
        self._selector.register(self._spawner.channel, selectors.EVENT_READ, None)
        for _ in range(self._worker_count):
            self._spawn()

    def _spawn(self) -> None:
        worker = _Remote(self._next_worker, self._spawner.spawn(self._next_worker))
        self._next_worker += 1
        self._workers[worker.number] = worker
        self._selector.register(worker.channel, selectors.EVENT_READ, worker.number)

    def submit(self, task: Task, blocks: Blocks = NO_BLOCKS) -> ProcessHandle:
        """Take a task. Small groups are gathered, until there are enough for a message or somebody waits."""
        handle = ProcessHandle(self, self._next_task, task, blocks)
        self._next_task += 1
        if isinstance(task, SpanTask):
            self._give([handle])
            return handle
        self._gathered.append(handle)
        if len(self._gathered) >= self._together(task.stage):
            self.send_gathered()
        return handle

    def send_gathered(self) -> None:
        """Give the groups that were gathered to a worker."""
        gathered, self._gathered = self._gathered, []
        if gathered:
            self._give(gathered)

    def _give(self, handles: list[ProcessHandle]) -> None:
        """Give tasks, a span or some groups, to the worker that has the least to do."""
        while len(self._workers) < self._worker_count:
            self._spawn()
        worker = min(self._workers.values(), key=attrgetter("load"))
        if not worker.tasks:
            handles[0].began = time.monotonic()
        for handle in handles:
            handle.cost = self._pace.expected_seconds(handle.task)
            handle.alone = len(handles) == 1
            worker.load += handle.cost
        worker.tasks += handles
        try:
            self._send(worker, handles)
        except ConnectionError:
            return  # it is gone; the zygote's report follows, and the tasks are given again

    def _send(self, worker: _Remote, handles: list[ProcessHandle]) -> None:
        released = self._slabs.take_released(worker.number)
        first = handles[0].task
        if isinstance(first, SpanTask):
            self._post(worker, RunSpan(handles[0].number, (first.stage, first.start, first.stop), released))
            return
        blocks: dict[int, Any] = {number: block for handle in handles for number, block in handle.blocks.items()}
        groups, rows = _encoded(handles, blocks)
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

    def return_slabs(self) -> None:
        """Tell workers of slabs whose leases have ended, so that they use them again while they are in the caches."""
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
            self._kill_late()
            if not events:
                self._spawner.kill_if_stopped()

    def _hear(self, worker: _Remote) -> bool:
        """Take one message of a worker; False when there will be none any more."""
        received = worker.channel.receive()
        if received is None:
            self._selector.unregister(worker.channel)
            worker.ended = True
            return False
        message, descriptors = received
        if isinstance(message, Done):
            self._finish(worker, message, descriptors)
        elif isinstance(message, Ready):
            worker.ready = True
            if worker.tasks:
                worker.tasks[0].began = time.monotonic()
        return True

    def _finish(self, worker: _Remote, done: Done, descriptors: list[int]) -> None:
        self._failed_starts = 0
        answers = [Answer(*fields) for fields in done.answers]
        for answer, leases in zip(answers, self._slabs.take(worker.number, answers, done, descriptors)):
            handle = worker.tasks.popleft()
            worker.load -= handle.cost
            assert handle.number == answer.number, "a worker answers in the order in which it was asked"
            self._pace.note(handle.task, answer.seconds, sum(size for _, size in answer.lent))
            handle.block = EncodedBlock.of(answer, leases)
        if worker.tasks:
            worker.tasks[0].began = time.monotonic()

    def _hear_spawner(self) -> None:
        received = self._spawner.channel.receive()
        if received is None:
            self._start_anew()
        elif isinstance(received[0], Exited):
            worker = self._workers.get(received[0].worker)
            if worker is not None:
                self._bury(worker, received[0].status)
        elif isinstance(received[0], Broken):
            self.close()
            raise errors.decode(received[0].error)

    def _bury(self, worker: _Remote, status: int) -> None:
        """A worker has ended: take its last answers, and give its other tasks to others."""
        self._hear_last_words(worker)
        if worker.tasks:
            self._count_try(worker, worker.tasks[0], status)
        else:
            _LOGGER.warning(
                "worker %d was terminated unexpectedly %s while it was idle", worker.number, description(status)
            )
        for handle in worker.tasks:
            if handle.block is None:
                self._give([handle])

    def _hear_last_words(self, worker: _Remote) -> None:
        del self._workers[worker.number]
        while not worker.ended and worker.channel.readable():
            self._hear(worker)
        if not worker.ended:
            self._selector.unregister(worker.channel)
        self._spawner.forget(worker.number)
        self._slabs.disown(worker.number)

    def _count_try(self, worker: _Remote, handle: ProcessHandle, status: int) -> None:
        handle.tries += handle.alone  # of several, any may have done it: each is tried on its own from now on
        late = f"was stopped after timeout={self._timeout} s"
        reason = late if handle.late else f"was terminated unexpectedly {description(status)}"
        handle.late = False
        parts = parts_of(handle.task, self._pipeline)
        if len(parts) > 1:
            handle.block = Block([], parts=parts)
        elif handle.tries >= MAX_TRIES:
            handle.block = given_up(handle.task, handle.blocks, self._pipeline, f"{reason}, {MAX_TRIES} times")
            return
        _LOGGER.warning("a worker %s; its work is done again", reason)

    def _start_anew(self) -> None:
        """The zygote has ended, and all workers with it."""
        self._failed_starts += 1
        self._selector.unregister(self._spawner.channel)
        status = self._spawner.end()
        workers = list(self._workers.values())
        for worker in workers:
            self._hear_last_words(worker)
        if self._failed_starts >= MAX_TRIES:
            self.close()
            raise WorkerCrashedError(
                f"the process that makes the workers was terminated unexpectedly with status {status}, "
                f"{MAX_TRIES} times without a result in between."
            )
        _LOGGER.warning("the process that makes the workers was terminated unexpectedly; it is started again")
        self._spawner.begin()
        self._start()
        waiting = [handle for worker in workers for handle in worker.tasks if handle.block is None]
        for handle in sorted(waiting, key=lambda handle: handle.number):
            self._give([handle])

    def _until_late(self) -> float | None:
        """Seconds until the first task is late, or it is time to look after the zygote, which may have been stopped."""
        if self._timeout is None:
            return None
        began = [worker.tasks[0].began for worker in self._workers.values() if worker.tasks and worker.ready]
        late = min(began, default=float("inf")) + self._timeout - time.monotonic()
        return min(max(0.0, late) + 0.001, LOOK_AFTER_SECONDS)

    def _kill_late(self) -> None:
        now = time.monotonic()
        for worker in self._workers.values():
            head = worker.tasks[0] if worker.tasks and worker.ready else None
            if head is not None and not head.late and now - head.began > (self._timeout or 0):
                head.late = True
                self._spawner.kill(worker.number)

    def close(self) -> None:
        """End all processes; nothing is left of them."""
        _close(self._spawner, self._selector, self._payload)
        self._finalizer.detach()


def _encoded(
    handles: Sequence[ProcessHandle], blocks: Mapping[int, Any]
) -> tuple[list[tuple[int, int, list[tuple[int, int, int]]]], list[EncodedRows]]:
    """The groups of a message, and the rows that they name, which count from the first one that goes along."""
    tasks = [(handle.number, cast(GroupTask, handle.task)) for handle in handles]
    ranges: dict[int, tuple[int, int]] = {}
    for _, task in tasks:
        for block, start, stop in task.rows:
            first, last = ranges.get(block, (start, stop))
            ranges[block] = min(first, start), max(last, stop)
    groups = [
        (
            number,
            task.stage,
            [(block, start - ranges[block][0], stop - ranges[block][0]) for block, start, stop in task.rows],
        )
        for number, task in tasks
    ]
    return groups, [
        (number, blocks[number].rows, first, last, blocks[number].tags.part(first, last).packed())
        for number, (first, last) in ranges.items()
    ]


def _close(spawner: Spawner, selector: selectors.BaseSelector, payload: Payload) -> None:
    with Uninterrupted():
        selector.close()
        spawner.close()
        payload.close()
