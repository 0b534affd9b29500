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
from ...options import ExecutionOptions
from ...plan.pipeline import Pipeline
from ...timing.observer import Observer
from ...work.tasks import NO_BLOCKS, Block, Blocks, SpanTask, Task, input_count
from ..pace import Pace, limits_of, tasks_ahead
from ..protocol import Executor, window_of
from .given_up import given_up, inputs_of, parts_of
from .pool import MAX_TRIES, Action, Divide, Fail, Give, GiveUp, Job, Kill, Restart, Spawn, Warn, WorkerPool

LOGGER = logging.getLogger("headrace")


class PooledHandle(Job):
    """A task that some worker has, or will have."""

    __slots__ = ("_executor", "block", "blocks", "gave_up", "suspects", "task")

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
        self.gave_up = ""  # why it was given up
        self.suspects: Sequence[PooledHandle] = ()  # its inputs, each tried alone to find the one that ends workers

    def ready(self) -> bool:
        """Whether the answer has come; looks at what has arrived."""
        if self.block is None:
            self._executor.handle_messages(0)
            self._look_at_suspects()
        return self.block is not None

    def _look_at_suspects(self) -> None:
        """The block of a task that was given up is that of the first input that ended its worker; or says that none did."""
        if self.block is not None or not self.suspects:
            return
        self.block = next((one.block for one in self.suspects if one.gave_up), None)
        if self.block is None and all(one.block is not None for one in self.suspects):
            self.block = self._executor.block_given_up(self)

    def result(self) -> Any:
        """The answer; waits for it."""
        while self.block is None:
            self._executor.before_waiting()
            self._executor.handle_messages(None)
            self._look_at_suspects()
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
        self._reading = options.reading
        self._worker_count = options.workers
        self._window = window_of(options.workers, options.worker_buffer_size, len(pipeline.leaves))
        self._pace = Pace(limits_of(pipeline, several=options.timeout is None))  # which is for one batch
        on_leaves = [(stage.number, pipeline.leaves[stage.leaf]) for stage in pipeline.stages if stage.leaf is not None]
        self._in_order = frozenset(number for number, leaf in on_leaves if leaf.in_order)
        self._gathered: list[PooledHandle] = []
        self._next_task = 0
        self._pool = pool
        self._actions: deque[Action[PooledHandle]] = deque()
        self._acting = False

    def resize(self, workers: int, buffer: int) -> None:
        """Have so many workers, at least 1, and so many batches ahead for each."""
        self._worker_count = workers
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

    def inputs(self, stage: int) -> int:
        """As many as take some time."""
        return self._pace.inputs(stage)

    def window(self, stage: int) -> int:
        """As many tasks as keep the workers busy; where these wait for records, what is read ahead, too."""
        window = self._window * self._pace.tasks(stage)
        if not self._pace.waits(stage):
            return window
        ahead = tasks_ahead(self._pipeline, self._reading, stage, self.inputs(stage))
        return max(window, self._worker_count * (1 + ahead))

    def submit(self, task: Task, blocks: Blocks = NO_BLOCKS) -> PooledHandle:
        """Take a task. Small groups are gathered, until there are enough for a message or somebody waits."""
        series = task.stage if task.stage in self._in_order else None
        divisible = series is None and self._is_divisible(task)
        seconds = self._pace.expected_seconds(task)
        handle = PooledHandle(self, self._next_task, divisible, seconds, task, blocks, series)
        self._next_task += 1
        if isinstance(task, SpanTask):
            self._act(self._pool.assign([handle], time.monotonic()))
            return handle
        self._gathered.append(handle)
        if len(self._gathered) >= self._pace.tasks(task.stage):
            self.send_gathered()
        return handle

    def _is_divisible(self, task: Task) -> bool:
        stage, inputs = self._pipeline.stages[task.stage], input_count(task)
        return inputs > stage.unit or (stage.window is not None and task.only is None and inputs > 1)

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
                self._give_up(handle, reason)
            case Restart():
                self._restart()
            case Warn(text):
                LOGGER.warning(text)
            case Fail(text):
                self.close()
                raise WorkerCrashedError(text)

    def _give_up(self, handle: PooledHandle, reason: str) -> None:
        """Try each of a task's inputs on its own, so that the error names the one at fault; what comes of them is dropped."""
        handle.gave_up = reason
        inputs = () if self._pipeline.skips_errors else inputs_of(handle.task)
        handle.suspects = [self._suspect(handle, one) for one in inputs] if len(inputs) > 1 else ()
        if not handle.suspects:
            handle.block = self.block_given_up(handle)
        for suspect in handle.suspects:
            self._act(self._pool.assign([suspect], time.monotonic()))

    def _suspect(self, handle: PooledHandle, task: Task) -> PooledHandle:
        """One input of a task that was given up; a single end is enough to find it guilty."""
        suspect = PooledHandle(self, self._next_task, False, handle.cost, task, handle.blocks, handle.series)
        suspect.tries = MAX_TRIES - 1
        self._next_task += 1
        return suspect

    def block_given_up(self, handle: PooledHandle) -> Block:
        """What comes of a task that was given up."""
        return given_up(handle.task, handle.blocks, self._pipeline, handle.gave_up)

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
