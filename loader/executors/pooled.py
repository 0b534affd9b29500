"""The executor that runs tasks in worker processes, on this machine or others.

It connects a pool with a transport. The pool decides which worker runs which task; the transport
starts workers and exchanges messages with them.

In: tasks. Out: handles (results to come). The executor has no thread of its own. While the caller
asks for a result, the executor passes the transport's events to the pool, and the pool's actions to
the transport.

If a worker ends during a task, these rules hold (the module `pool` has more rules):

* If the task can be divided, its result is a block that lists smaller tasks. These are run next, so
  that rows before the record at fault are delivered.
* If the task ends workers again and again, it fails with `WorkerCrashedError`, or is skipped.
* If rows can be lost with a machine, each block keeps its task, and the task is run a second time
  when its rows are lost.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from ...errors import WorkerCrashedError
from ..options import ExecutionOptions
from ..plan.pipeline import Pipeline
from ..timing.observer import Observer
from ..work.divided import inputs_of, parts_of
from ..work.explain import given_up, task_in_words
from ..work.tasks import NO_BLOCKS, Block, Blocks, GroupTask, SpanTask, Task, input_count
from . import transport as messages
from .batches_at_hand import BatchesAtHand, DoneHandle
from .hang_watch import log_hang, log_silence
from .jobs import MAX_TRIES, Job
from .pace import TaskSizes
from .pool import WorkerPool
from .protocol import Executor
from .stored_rows import RowsWithTask
from .transport import Action, Event, Message, Transport

LOGGER = logging.getLogger("headrace")

_NO_WORKERS = (
    "Look at the output above, and whether memory ran out; "
    "or pass worker_count=0, to work without workers"
)

# Chosen: about the time that it takes to start other workers.
LONG_SECONDS = 1.0
"""Seconds that workers may need to finish unwanted tasks.

Workers that need more are ended instead.
"""


@dataclass(slots=True, eq=False, kw_only=True)
class PooledHandle(Job):
    """Handle of a task that a worker runs; `block` is the result (the rows) once it has arrived."""

    executor: PooledExecutor
    task: Task
    # with the rows to which the task refers; kept as long as the task may be run again
    blocks: Blocks
    block: Block | None = None  # the result, once it has arrived
    gave_up: str = ""  # why the task was given up; "" if it was not
    # its inputs, each run alone to find the one that ends workers
    suspects: Sequence[PooledHandle] = ()

    def ready(self) -> bool:
        """Handle all messages of the workers; return True if the task's result has then arrived."""
        if not self._has_come():
            self.executor.handle_events(wait=False)
        return self._has_come()

    def result(self) -> Block:
        while not self._has_come():
            self.executor.handle_events(wait=True)
        block, self.block = self.block, None
        assert block is not None, "it has come"
        return block

    def _has_come(self) -> bool:
        """Return True if the task's result has arrived.

        If the task was given up because workers ended during it, each of its inputs is run alone.
        The result is then that of the first input during which a worker ended again. If there is no
        such input, the result is the failure of the whole task.
        """
        if self.block is None and self.suspects:
            self.block = next((one.block for one in self.suspects if one.gave_up), None)
            if self.block is None and all(one.block is not None for one in self.suspects):
                self.block = self.executor.block_given_up(self)  # none did
        return self.block is not None


class PooledExecutor(Executor):
    """Runs tasks with workers in other processes, to which a transport carries messages.

    It reports starts and failures of workers to the observer of the run.
    """

    elsewhere = True

    def __init__(
        self,
        pipeline: Pipeline,
        options: ExecutionOptions,
        observer: Observer,
        transport: Transport,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock  # the simulator has another one
        self._pipeline = pipeline
        self._observer = observer
        self._transport = transport
        self._timeout = options.timeout
        # by worker: what its long task is at
        self._hang_seconds, self._hangs = options.hang_seconds, dict[int, str]()
        # what the worker was at that ended last; "" if its task did not take long
        self._last_hang = ""
        on_leaves = [
            (stage.number, pipeline.leaves[stage.leaf])
            for stage in pipeline.stages
            if stage.leaf is not None
        ]
        self._in_order = frozenset(number for number, leaf in on_leaves if leaf.in_order)
        self._gathered: list[PooledHandle] = []
        self._stalled: list[Sequence[PooledHandle]] = []  # tasks that name rows that are made again
        self._next_task = 0
        self._pool: WorkerPool[PooledHandle] = WorkerPool(
            transport.worker_count, options.timeout, transport.depth
        )
        self._sizes = TaskSizes(pipeline, options, self._pool)
        self._at_hand = BatchesAtHand(pipeline, rows_stay=not transport.may_lose_rows)
        self._rows_of = attrgetter("rows.rows" if transport.may_lose_rows else "rows")
        self._actions: deque[Action[PooledHandle]] = deque()
        self._acting = False
        try:
            self._act(self._pool.spawn_missing())
            self.handle_events(wait=False)
        except BaseException:
            self.close()
            raise

    def resize(self, workers: int, buffer: int) -> None:
        self._sizes.resize(workers, buffer)
        self._act([*self._pool.resize(workers), *self._pool.let_go()])

    def has_begun(self) -> bool:
        self.handle_events(wait=False)
        return self._pool.ready_count > 0

    def is_idle(self) -> bool:
        """Handle all messages of workers, and return True if all submitted tasks are then done."""
        self.send_gathered()
        self.handle_events(wait=False)
        return self._pool.is_idle

    def inputs(self, stage: int) -> int:
        return self._sizes.inputs(stage)

    def most_rows(self) -> int:
        return self._sizes.most_rows()

    def window(self, stage: int) -> int:
        return self._sizes.window(stage)

    def submit(self, task: Task, blocks: Blocks = NO_BLOCKS) -> PooledHandle | DoneHandle:
        """Submit a task, and return its handle (a result to come).

        A task that reads records is sent at once. Tasks on rows of `blocks` (results of earlier
        tasks) are collected until they fill a message, or until the caller waits for a result.
        """
        if (
            task.stage in self._at_hand.stages
            and (made := self._at_hand.handle(task, blocks)) is not None
        ):
            return made
        series = task.stage if task.stage in self._in_order else None
        inputs = task.stop - task.start if isinstance(task, SpanTask) else input_count(task)
        stage = self._pipeline.stages[task.stage]
        in_window = stage.window is not None and task.only is None and inputs > 1
        handle = self._handle(
            task, blocks, inputs, series is None and (inputs > stage.unit or in_window), series
        )
        if isinstance(task, SpanTask):
            self._assign([handle])
            return handle
        self._gathered.append(handle)
        if len(self._gathered) >= self._sizes.pace.tasks(task.stage):
            self.send_gathered()
        return handle

    def _handle(
        self, task: Task, blocks: Blocks, inputs: int, divisible: bool, series: int | None
    ) -> PooledHandle:
        number, self._next_task = self._next_task, self._next_task + 1
        cost = max(inputs, 1) * self._sizes.pace.seconds.get(task.stage, 1e-6)
        return PooledHandle(
            number, divisible, cost, series, executor=self, task=task, blocks=blocks
        )

    def _assign(self, handles: Sequence[PooledHandle]) -> None:
        self._act(self._pool.assign(handles, self._clock()))

    def send_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        if gathered:
            self._assign(gathered)

    # The loop: event → pool → actions → transport

    def handle_events(self, wait: bool) -> None:
        """Handle all events that the transport has now.

        Args:
            wait: True: if there is no event, wait for one, but not longer than until a task exceeds
                its timeout. False: do not wait.

        Raises:
            WorkerCrashedError: workers end again and again. The executor is closed first.
            Exception: an exception of the transport. The executor is closed first.
        """
        seconds: float | None = 0.0
        if wait:
            self.send_gathered()
            seconds = (
                None
                if self._timeout is None
                else max(self._pool.late_at() - self._clock(), 0.0) + 0.001
            )
        try:
            events = self._transport.poll(seconds)
        except Exception:
            self.close()
            raise
        for event in events:
            self._handle_event(event)
        if self._timeout is not None:
            self._act(self._pool.look(self._clock()))

    def _handle_event(self, event: Event) -> None:
        match event:
            case messages.Hanging(worker, hang):
                self._hangs[worker] = hang.what
                if self._hang_seconds is not None and hang.seconds >= self._hang_seconds:
                    log_hang(hang)
                return
            case messages.Silent(seconds):
                for worker, handle in self._pool.at_work():
                    given = task_in_words(handle.task, handle.blocks, self._pipeline)
                    log_silence(worker, given, seconds)
                return
            case messages.Answered(worker):
                self._hangs.pop(worker, None)
            case messages.Ended(worker, how) if worker in self._pool.workers:
                self._observer.worker_ended(worker, how)
                self._last_hang = self._hangs.pop(worker, "")
            case messages.AllEnded(how):
                for worker in self._pool.workers:
                    self._observer.worker_ended(worker, how)
            case messages.Lost(workers, how):
                for worker in filter(self._pool.workers.__contains__, workers):
                    self._observer.worker_ended(worker, how)
            case messages.Store(name, nbytes):
                self._sizes.set_store(name, nbytes)
            case messages.Room(workers):
                self._sizes.follow_room()
                self._observer.worker_count = workers
        self._act(self._pool.after(event, self._clock()))
        if isinstance(event, messages.Answered):
            stalled, self._stalled = self._stalled, []
            for handles in stalled:
                self._assign(handles)

    def _act(self, actions: Sequence[Action[PooledHandle]]) -> None:
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
            case messages.Give(worker, handles):
                self._give(worker, handles)
            case messages.Finish(handle, block):
                self._finish(handle, block)
            case messages.Spawn(worker):
                self._transport.start(worker)
                self._observer.worker_started(worker)
            case messages.Kill(worker):
                self._transport.kill(worker)
            case messages.Divide(handle):
                handle.block = Block(parts=parts_of(handle.task, self._pipeline))
            case messages.GiveUp(handle, reason):
                self._give_up(handle, reason)
            case messages.Restart():
                self._transport.restart()
            case messages.Warn(text):
                LOGGER.warning(text)
            case messages.Fail(event):
                self.close()
                raise WorkerCrashedError(f"{event} {_NO_WORKERS}.")

    def _give(self, worker: int, handles: Sequence[PooledHandle]) -> None:
        """Send the tasks of `handles` to a worker.

        If the tasks refer to rows that are lost, first run the tasks again that made these rows.
        """
        blocks: dict[int, Block] = {
            number: block for handle in handles for number, block in handle.blocks.items()
        }
        if self._transport.may_lose_rows and (
            lost := [block.rows for block in blocks.values() if block.rows.are_lost()]
        ):
            self._pool.take_back(worker, handles)
            self._stalled.append(handles)
            for rows in lost:
                self.make_again(rows)
            self._act(self._pool.give_waiting(self._clock()))  # the worker has room again
            return
        tasks = [handle.task for handle in handles]
        groups = [task for task in tasks if isinstance(task, GroupTask)]
        self._transport.send(
            worker, Message.of(groups, blocks, self._rows_of) if groups else Message(tasks)
        )

    def _finish(self, handle: PooledHandle, block: Block) -> None:
        self._sizes.note(handle.task, block)
        if self._transport.may_lose_rows:
            block.rows = RowsWithTask(handle, block.rows)
        handle.block = block

    def make_again(self, rows: RowsWithTask[PooledHandle]) -> None:
        """Run the task of lost rows a second time, unless that run has already begun."""
        if rows.again is None:
            rows.again = replace(
                rows.handle, divisible=False, series=None, block=None, gave_up="", suspects=()
            )
            self._assign([rows.again])

    def _give_up(self, handle: PooledHandle, reason: str) -> None:
        """Stop trying to run a task during which workers ended again and again.

        If the task has several inputs and errors are not skipped, each input is run alone, so that
        the error can name the input at fault. Otherwise the task fails at once. The text `reason`
        says how the last worker ended.
        """
        handle.gave_up = f"{reason}, in {self._last_hang}" if self._last_hang else reason
        inputs = () if self._pipeline.skips_errors else inputs_of(handle.task)
        handle.suspects = [self._suspect(handle, one) for one in inputs] if len(inputs) > 1 else ()
        if not handle.suspects:
            handle.block = self.block_given_up(handle)
        for suspect in handle.suspects:
            self._assign([suspect])

    def _suspect(self, handle: PooledHandle, task: Task) -> PooledHandle:
        """Return a handle for one input of a task that ended workers.

        If another worker ends during this input, the input is at fault, and is not tried again.
        """
        suspect = self._handle(task, handle.blocks, 1, False, handle.series)
        suspect.tries = MAX_TRIES - 1
        return suspect

    def block_given_up(self, handle: PooledHandle) -> Block:
        return given_up(handle.task, handle.blocks, self._pipeline, handle.gave_up)

    def drop_tasks(self, observer: Observer) -> bool:
        """Drop all tasks, and return True if the workers can be used for new tasks.

        Return False, without dropping tasks, if workers wait for reads. Also return False if they
        need more than `LONG_SECONDS` to finish the tasks that they already have.
        """
        if self._sizes.waits() or not self._pool.drop_jobs(LONG_SECONDS):
            return False
        self._gathered, self._stalled = [], []
        self._observer = observer.after(self._observer)
        return True

    def close(self) -> None:
        self._transport.close()
        # handles would be in a reference cycle with it
        self._stalled, self._gathered, self._actions = [], [], deque()
        pool: WorkerPool[PooledHandle] = WorkerPool(
            self._transport.worker_count, self._timeout, self._transport.depth
        )
        self._pool = self._sizes.pool = pool
