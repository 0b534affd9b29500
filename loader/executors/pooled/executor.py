"""The executor with workers elsewhere, whatever they are: has done what the pool decides, and gathers small tasks.

In: tasks. Out: handles. Has no thread of its own: messages are handled while somebody asks for a result.

`pool` has the rules. A task that is divided becomes a block of its parts, so that what stands before the record at fault can
be delivered; one that is given up fails with `WorkerCrashedError`, or is left out.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from ....errors import WorkerCrashedError
from ...observing.observer import Observer
from ...options import ExecutionOptions
from ...plan.pipeline import Pipeline
from ...work.tasks import NO_BLOCKS, Block, Blocks, SpanTask, Task
from ..protocol import Executor, window_of
from .given_up import given_up, parts_of
from .pace import Pace
from .pool import Action, Divide, Fail, Give, GiveUp, Job, Kill, Restart, Spawn, Warn, WorkerPool

LOGGER = logging.getLogger("millrace")


class PooledHandle(Job):
    """A task that some worker has, or will have."""

    __slots__ = ("_executor", "block", "blocks", "task")

    def __init__(
        self,
        executor: PooledExecutor,
        number: int,
        divisible: bool,
        cost: float,
        task: Task,
        blocks: Blocks,
        series: int | None = None,
    ) -> None:
        super().__init__(number, divisible, cost, series)
        self._executor = executor
        self.task = task
        self.blocks = blocks  # that the task names: they live as long as it may have to be done again
        self.block: Any = None  # a `Block`, or what stands for one

    def ready(self) -> bool:
        """Whether the answer has come; looks at what has arrived."""
        if self.block is None:
            self._executor.handle_messages(0)
        return self.block is not None

    def result(self) -> Any:
        """The answer; waits for it."""
        while self.block is None:
            self._executor.before_waiting()
            self._executor.handle_messages(None)
        block, self.block = self.block, None
        return block


class PooledExecutor(Executor):
    """Runs tasks by workers that a pool knows. What `_give`, `_spawn`, `_kill` and `_restart` do is a subclass's.

    It tells the observer of workers that begin; a subclass tells it of those that end.
    """

    elsewhere = True

    def __init__(
        self,
        pipeline: Pipeline,
        options: ExecutionOptions,
        observer: Observer,
        pool: WorkerPool[PooledHandle],
    ) -> None:
        self._pipeline = pipeline
        self._observer = observer
        self._timeout = options.timeout
        self._window = window_of(options.workers, options.worker_buffer_size, len(pipeline.leaves))
        self._pace = Pace(
            {stage.number: pipeline.spans[stage.leaf] for stage in pipeline.stages if stage.leaf is not None},
            len(pipeline.stages),
        )
        on_leaves = [(stage.number, pipeline.leaves[stage.leaf]) for stage in pipeline.stages if stage.leaf is not None]
        self._in_order = frozenset(number for number, leaf in on_leaves if leaf.in_order)
        self._gathered: list[PooledHandle] = []
        self._next_task = 0
        self._pool = pool
        self._actions: deque[Action[PooledHandle]] = deque()
        self._acting = False

    def resize(self, workers: int, buffer: int) -> None:
        """Have so many workers, at least 1, and so many batches ahead for each."""
        self._window = window_of(workers, buffer, len(self._pipeline.leaves))
        self._act(self._pool.resize(workers))
        self._act(self._pool.let_go())

    def has_begun(self) -> bool:
        """Whether a worker is ready to work; looks at what has arrived."""
        self.handle_messages(0)
        return self._pool.ready_count > 0

    def is_idle(self) -> bool:
        """Whether every task that it was given is done; looks at what has arrived."""
        self.send_gathered()
        self.handle_messages(0)
        return self._pool.is_idle

    def units(self, stage: int) -> int:
        """Spans in a task, or groups in a message: several while they are short, but one with a timeout, which is for one."""
        return 1 if self._timeout is not None else self._pace.together(stage)

    def window(self, stage: int) -> int:
        """As many messages as keep the workers busy."""
        return self._window if self._pipeline.stages[stage].leaf is not None else self._window * self.units(stage)

    def submit(self, task: Task, blocks: Blocks = NO_BLOCKS) -> PooledHandle:
        """Take a task. Small groups are gathered, until there are enough for a message or somebody waits."""
        series = task.stage if task.stage in self._in_order else None
        divisible = isinstance(task, SpanTask) and series is None and self._is_divisible(task)
        seconds = self._pace.expected_seconds(task)
        handle = PooledHandle(self, self._next_task, divisible, seconds, task, blocks, series)
        self._next_task += 1
        if isinstance(task, SpanTask):
            self._act(self._pool.assign([handle], time.monotonic()))
            return handle
        self._gathered.append(handle)
        if len(self._gathered) >= self.units(task.stage):
            self.send_gathered()
        return handle

    def _is_divisible(self, task: SpanTask) -> bool:
        return task.stop - task.start > self._pipeline.stages[task.stage].unit

    def send_gathered(self) -> None:
        """Give the groups that were gathered to a worker."""
        gathered, self._gathered = self._gathered, []
        if gathered:
            self._act(self._pool.assign(gathered, time.monotonic()))

    def before_waiting(self) -> None:
        """Somebody is about to wait for an answer."""
        self.send_gathered()

    def handle_messages(self, wait: float | None) -> None:
        """Take what has arrived; with `wait=None`, wait for something to arrive, or for a task to be late."""
        raise NotImplementedError

    def _act(self, actions: Sequence[Action[PooledHandle]]) -> None:
        """Do what the pool has decided, in this order. What follows from an action waits until those before it are done."""
        self._actions += actions
        if self._acting:
            return
        self._acting = True
        try:
            while self._actions:
                self._do(self._actions.popleft())
        finally:
            self._acting = False
            self._actions.clear()

    def _do(self, action: Action[PooledHandle]) -> None:
        match action:
            case Give(worker, handles):
                self._give(worker, handles)
            case Spawn(worker):
                self._spawn(worker)
                self._observer.worker_started(worker)
            case Kill(worker):
                self._kill(worker)
            case Divide(handle):
                handle.block = Block([], parts=parts_of(handle.task, self._pipeline))
            case GiveUp(handle, reason):
                handle.block = given_up(handle.task, handle.blocks, self._pipeline, reason)
            case Restart():
                self._restart()
            case Warn(text):
                LOGGER.warning(text)
            case Fail(text):
                self.close()
                raise WorkerCrashedError(text)

    def _give(self, worker: int, handles: Sequence[PooledHandle]) -> None:
        """Send tasks to a worker."""
        raise NotImplementedError

    def _spawn(self, worker: int) -> None:
        """Have a worker made."""
        raise NotImplementedError

    def _kill(self, worker: int) -> None:
        """Have a worker killed."""
        raise NotImplementedError

    def _restart(self) -> None:
        """Make what makes the workers."""
        raise NotImplementedError
