"""The executor with worker processes: does what the pool decides, and turns tasks into messages and messages into blocks.

In: tasks. Out: blocks. Has no thread of its own: messages are handled while somebody asks for a result.

`pool` has the rules. A task that is divided becomes a block of its parts, so that what stands before the record at fault can
be delivered; one that is given up fails with `WorkerCrashedError`, or is left out.
"""

from __future__ import annotations

import logging
import selectors
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ....errors import WorkerCrashedError
from ....wording import first_few
from ...interrupts import Uninterrupted
from ...options import ExecutionOptions
from ...plan import stages as plan
from ...plan.leaf import Leaf
from ...plan.pipeline import Pipeline
from ...plan.stages import Span
from ...work.explain import told
from ...work.tasks import NO_BLOCKS, Block, Blocks, Failure, GroupTask, RowTags, SpanTask, Task
from ..protocol import Executor, window_of
from .leases import EncodedBlock, Slabs
from .pace import Pace
from .pool import Action, Divide, Fail, Give, GiveUp, Job, Kill, Restart, Spawn, Warn, WorkerPool
from .spawner import Spawner, description
from .transport import remote_errors as errors
from .transport.channel import Channel
from .transport.messages import (
    Answer,
    Broken,
    Done,
    EncodedGroup,
    EncodedRows,
    Exited,
    Ready,
    Returned,
    RunGroups,
    RunSpan,
)
from .transport.payload import Payload
from .tuned import LOOK_AFTER_SECONDS

_LOGGER = logging.getLogger("millrace")


class ProcessHandle(Job):
    """A task that some worker has."""

    __slots__ = ("_executor", "block", "blocks", "task")

    def __init__(
        self, executor: ProcessExecutor, number: int, divisible: bool, cost: float, task: Task, blocks: Blocks
    ) -> None:
        super().__init__(number, divisible, cost)
        self._executor = executor
        self.task = task
        self.blocks = blocks  # that the task names: they live as long as it may have to be done again
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
    """The way to a worker."""

    def __init__(self, number: int, channel: Channel) -> None:
        self.number = number
        self.channel = channel
        self.outbox: deque[tuple[Any, Sequence[int]]] = deque()  # what there was no room for, with descriptors
        self.ended = False


class ProcessExecutor(Executor):
    """Runs tasks in processes, which `spawner` makes: another one, in tests, plays them."""

    elsewhere = True

    def __init__(self, pipeline: Pipeline, options: ExecutionOptions, spawner: Spawner | None = None) -> None:
        self._window = window_of(options, len(pipeline.leaves))
        self._pace = Pace(
            {stage.number: pipeline.spans[stage.leaf] for stage in pipeline.stages if stage.leaf is not None},
            len(pipeline.stages),
        )
        self._pipeline = pipeline
        self._timeout = options.timeout
        self._gathered: list[ProcessHandle] = []
        self._next_task = 0
        self._units = [stage.unit for stage in pipeline.stages]
        self._pool: WorkerPool[ProcessHandle] = WorkerPool(options.workers, options.timeout)
        self._slabs = Slabs(keep_descriptors=len(pipeline.stages) > 1)
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

    def units(self, stage: int) -> int:
        """Spans in a task, or groups in a message: several while they are short, but one with a timeout, which is for one."""
        return 1 if self._timeout is not None else self._pace.together(stage)

    def window(self, stage: int) -> int:
        """As many messages as keep the workers busy."""
        return self._window if self._pipeline.stages[stage].leaf is not None else self._window * self.units(stage)

    def _start(self) -> None:
        self._spawner.send_start(self._payload.descriptor)
        self._selector.register(self._spawner.channel, selectors.EVENT_READ, None)

    def submit(self, task: Task, blocks: Blocks = NO_BLOCKS) -> ProcessHandle:
        """Take a task. Small groups are gathered, until there are enough for a message or somebody waits."""
        divisible = isinstance(task, SpanTask) and self._is_divisible(task)
        handle = ProcessHandle(self, self._next_task, divisible, self._pace.expected_seconds(task), task, blocks)
        self._next_task += 1
        if isinstance(task, SpanTask):
            self._act(self._pool.assign([handle], time.monotonic()))
            return handle
        self._gathered.append(handle)
        if len(self._gathered) >= self.units(task.stage):
            self.send_gathered()
        return handle

    def _is_divisible(self, task: SpanTask) -> bool:
        in_order = self._pipeline.leaf_of(self._pipeline.stages[task.stage]).in_order
        return task.stop - task.start > self._units[task.stage] and not in_order

    def send_gathered(self) -> None:
        """Give the groups that were gathered to a worker."""
        gathered, self._gathered = self._gathered, []
        if gathered:
            self._act(self._pool.assign(gathered, time.monotonic()))

    def _act(self, actions: Sequence[Action[ProcessHandle]]) -> None:
        """Do what the pool has decided."""
        for action in actions:
            match action:
                case Give(worker, handles):
                    with suppress(ConnectionError):  # it is gone; the zygote's report follows
                        self._send(self._workers[worker], handles)
                case Spawn(worker):
                    self._workers[worker] = remote = _Remote(worker, self._spawner.spawn(worker))
                    self._selector.register(remote.channel, selectors.EVENT_READ, worker)
                case Kill(worker):
                    self._spawner.kill(worker)
                case Divide(handle):
                    handle.block = Block([], parts=_parts_of(handle.task, self._pipeline))
                case GiveUp(handle, reason):
                    handle.block = _given_up(handle.task, handle.blocks, self._pipeline, reason)
                case Restart():
                    self._spawner.begin()
                    self._start()
                case Warn(text):
                    _LOGGER.warning(text)
                case Fail(text):
                    self.close()
                    raise WorkerCrashedError(text)

    def _send(self, worker: _Remote, handles: Sequence[ProcessHandle]) -> None:
        released = self._slabs.take_released(worker.number)
        first = handles[0].task
        if isinstance(first, SpanTask):
            self._post(worker, RunSpan(handles[0].number, tuple(first), released))
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
            self._pace.note(handle.task, answer.seconds, sum(size for _, size in answer.lent))
            handle.block = EncodedBlock(answer, leased)

    def _hear_spawner(self) -> None:
        received = self._spawner.channel.receive()
        if received is None:
            self._start_anew()
        elif isinstance(received[0], Exited):
            exited: Exited = received[0]
            self._hear_last_words(self._workers[exited.worker])
            self._act(self._pool.ended(exited.worker, description(exited.status), time.monotonic()))
        elif isinstance(received[0], Broken):
            self.close()
            raise errors.decode(received[0].error)

    def _hear_last_words(self, worker: _Remote) -> None:
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
            self._hear_last_words(worker)
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


def _encoded(
    handles: Sequence[ProcessHandle], blocks: Mapping[int, Any]
) -> tuple[list[EncodedGroup], list[EncodedRows]]:
    """The groups of a message, and the rows that they name, which count from the first one that goes along."""
    tasks = [(handle.number, cast(GroupTask, handle.task)) for handle in handles]
    ranges: dict[int, tuple[int, int]] = {}
    for _, task in tasks:
        for block, start, stop in task.rows:
            first, last = ranges.get(block, (start, stop))
            ranges[block] = min(first, start), max(last, stop)
    groups: list[EncodedGroup] = [
        (
            number,
            task.stage,
            [(block, start - ranges[block][0], stop - ranges[block][0]) for block, start, stop in task.rows],
            task.order,
            task.first,
            task.former,
        )
        for number, task in tasks
    ]
    return groups, [
        (number, blocks[number].rows, first, last, blocks[number].tags.part(first, last).packed())
        for number, (first, last) in ranges.items()
    ]


def _parts_of(task: Task, pipeline: Pipeline) -> Sequence[Task]:
    """What of a task can be tried on its own: of several units, any may have ended the worker."""
    if isinstance(task, GroupTask) or task.since is not None:
        return [task]
    parts = plan.parts_of(Span(task.start, task.stop), pipeline.stages[task.stage].unit)
    return [task._replace(start=part.start, stop=part.stop) for part in parts]


def _given_up(task: Task, blocks: Blocks, pipeline: Pipeline, reason: str) -> Block:
    """What comes of a task that ended its workers too often."""
    told_of = _told(task, blocks, pipeline)
    error = WorkerCrashedError(f"a worker {reason} at the same task: {told_of}.")
    tags = None if pipeline.aligned else RowTags()
    if pipeline.skips_errors:
        return Block([], tags, skipped=[told(error)])
    return Block([], tags, Failure(error))


def _told(task: Task, blocks: Blocks, pipeline: Pipeline) -> str:
    """Positions and record keys of a task."""
    stage = pipeline.stages[task.stage]
    if isinstance(task, SpanTask):
        leaf = pipeline.every_leaf[pipeline.read_by(task.stage, task.former)]
        return _keys_told(leaf, leaf.positions(task.start, task.stop))
    parts = (blocks[block].tags.positions[start:stop] for block, start, stop in task.rows)
    tags = list(dict.fromkeys(chain.from_iterable(parts)))
    if pipeline.is_below_join(stage) and not stage.on_join:
        return f"rows {min(tags)} to {max(tags)} of what was joined"
    by_leaf: dict[int, list[int]] = {}
    for tag in tags:
        by_leaf.setdefault(tag % len(pipeline.every_leaf), []).append(tag // len(pipeline.every_leaf))
    told_of = [_keys_told(pipeline.every_leaf[leaf], np.array(places)) for leaf, places in by_leaf.items()]
    return first_few(told_of, 2) if len(told_of) > 1 else told_of[0]


def _keys_told(leaf: Leaf, positions: NDArray[np.int64]) -> str:
    keys = [leaf.told(key) for key in leaf.record_keys(positions).tolist()]
    of = f" of {leaf.name}" if leaf.name else ""
    return f"positions {positions.min()} to {positions.max()}{of}, record keys {first_few(keys, 8)}"


def _close(spawner: Spawner, selector: selectors.BaseSelector, payload: Payload) -> None:
    with Uninterrupted():
        selector.close()
        spawner.close()
        payload.close()
