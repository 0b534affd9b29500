"""The executor with Ray's actors: does what the pool decides, has lost rows made again, and notices when the cluster is gone.

In: tasks. Out: blocks, whose rows lie in Ray's object store until somebody wants them here. What it shares with other kinds of
workers stands in `pool/`.

Each worker is an actor and is never restarted by Ray: its answers come in the order of its messages, so that only the oldest
of each is waited for. A node that is lost takes rows with it. The tasks that made them are done again before what names
them: a block remembers its task.
"""

from __future__ import annotations

import os
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import ray
from ray.exceptions import GetTimeoutError, ObjectLostError, RayActorError, RayError, RayTaskError

from ....common.messages import short_repr, shorten
from ....errors import ClusterMismatchError
from ...interrupts import Uninterrupted
from ...options import ExecutionOptions
from ...plan.pipeline import Pipeline
from ...timing.observer import Observer
from ...work.tasks import GroupTask, SpanTask, input_count
from ..pace import limits_of, tasks_ahead
from ..pool import remote_errors as errors
from ..pool.executor import LOGGER, PooledExecutor, PooledHandle
from ..pool.groups import encoded
from ..pool.pickled import pickled
from ..pool.pool import MAX_TRIES, WorkerPool
from ..protocol import window_of
from .blocks import OF_THIS_PROCESS, StoredRows, memory_of
from .budget import Budget
from .checked import Checked
from .cluster import Cluster, join, needs_of
from .messages import Answer, Begun, NamedRows
from .remotes import LOST, Message, RayBlock, Remote
from .tuned import LOOK_SECONDS, MAX_CALLS, NO_ROOM_SECONDS, RESIZE_SECONDS
from .worker import RayWorker


class RayExecutor(PooledExecutor):
    """Runs tasks in actors."""

    def __init__(self, pipeline: Pipeline, options: ExecutionOptions, observer: Observer) -> None:
        depth = 1 + options.worker_buffer_size
        ray_options = {"num_cpus": 1, **(options.ray_options or {})}
        self._actors, self._needs = _described(ray_options, max(depth, _calls(pipeline, options)))
        join(options.address, options.workers)
        self._cluster = Cluster()
        self._grows = options.worker_count == "cluster"
        self._options = options
        pool: WorkerPool[PooledHandle] = WorkerPool(room := self._room(), options.timeout, depth)
        super().__init__(pipeline, options, observer, pool)
        if self._grows:
            observer.worker_count = room
        self._budget = Budget(len(pipeline.stages))
        for node, size in self._cluster.stores().items():
            self._budget.add_store(node, size)
        self._remotes: dict[int, Remote] = {}
        self._gone = {LOST}  # nodes, by their ids
        self._stalled: list[Sequence[PooledHandle]] = []  # what names rows that are made again
        self._begun = self._resized = time.monotonic()
        self._waited = False  # somebody, for an answer, since it was last asked how large the cluster is
        with Uninterrupted():
            self._finalizer = weakref.finalize(self, _close, self._remotes, self._cluster, os.getpid())
            OF_THIS_PROCESS.add(self)
        try:
            data, buffers = pickled((pipeline, options), "the pipeline")
            self._checked = Checked(pipeline, data, buffers)
            self._payload = ray.put((data, memory_of(buffers)))
            self._act(self._pool.spawn_missing())
        except BaseException:
            self.close()
            raise

    def _room(self) -> int:
        """How many workers there may be now."""
        return self._cluster.room(self._needs) if self._grows else self._options.workers

    def inputs(self, stage: int) -> int:
        """As many as take some time, and have rows that are small beside the object stores."""
        one = self._pipeline.stages[stage]
        most = self._budget.most_rows() if one.leaf is None else self._budget.most_inputs(stage)
        return one.bounded(super().inputs(stage), most)

    def most_rows(self) -> int:
        """As many as are small beside the object stores."""
        return self._budget.most_rows()

    def window(self, stage: int) -> int:
        """As many tasks as keep the workers busy, and as their rows have room for in the object stores."""
        if self._grows:
            self._worker_count = max(self._pool.ready_count, 1)
            self._window = window_of(self._worker_count, self._options.worker_buffer_size, len(self._pipeline.leaves))
        window = min(super().window(stage), self._budget.most_tasks(stage, self.inputs(stage)))
        if self._pace.waits(stage):
            self._pool.deepen(-(-window // self._worker_count))
        return window

    def _spawn(self, worker: int) -> None:
        with Uninterrupted():
            self._remotes[worker] = Remote(worker, self._actors.remote(worker, list(sys.path), self._payload))

    def _kill(self, worker: int) -> None:
        if not self._pool.knows(worker):  # it was let go: nobody waits for its end
            self._drop(self._remotes[worker], "as it was one too many")
        elif worker in self._remotes:
            ray.kill(self._remotes[worker].actor)

    def _give(self, worker: int, handles: Sequence[PooledHandle]) -> None:
        if lost := [block for handle in handles for block in handle.blocks.values() if self._is_lost(block)]:
            self._pool.take_back(worker, handles)
            self._stalled.append(handles)
            for block in lost:
                self._make_again(block)
            return
        remote, task = self._remotes[worker], handles[0].task
        if isinstance(task, SpanTask):
            answers, rows = remote.run_span(next(remote.turns), tuple(task))
            remote.messages.append(Message(answers, [rows], handles))
            return
        groups, ranges = encoded([(handle.number, cast(GroupTask, handle.task)) for handle in handles])
        blocks: dict[int, RayBlock] = {number: block for handle in handles for number, block in handle.blocks.items()}
        named: list[NamedRows] = [
            (number, first, last, blocks[number].tags.part(first, last).packed())  # type: ignore[union-attr]
            for number, (first, last) in ranges.items()
        ]
        run = remote.actor.run_groups.options(num_returns=1 + len(handles)).remote
        answers, *rows = run(next(remote.turns), groups, named, *(blocks[number].rows for number in ranges))
        remote.messages.append(Message(answers, rows, handles))

    def handle_messages(self, wait: float | None) -> None:
        """Take what has arrived; with `wait=None`, wait for something to arrive, or until it is time to look after all."""
        self._cluster.check_joined()
        if wait is None or time.monotonic() - self._resized > LOOK_SECONDS:
            self._look_after_all()
        waiting = {remote.messages[0].answers: remote for remote in self._remotes.values() if remote.messages}
        self._waited = self._waited or wait is None
        if waiting:
            arrived, _ = ray.wait(list(waiting), timeout=self._until_look() if wait is None else wait)
            for answers in arrived:
                self._hear(waiting[answers])

    def _until_look(self) -> float:
        """Seconds until somebody should look after the cluster, or the first task is late."""
        return min(LOOK_SECONDS, max(0.0, self._pool.late_at() - time.monotonic()) + 0.001)

    def _hear(self, remote: Remote) -> None:
        """Take an answer."""
        message = remote.messages[0]
        try:
            answer = ray.get(message.answers)
        except RayTaskError as error:
            self._lose_rows(remote, message, error)
            return
        except RayError as error:
            self._bury(remote, error)
            return
        remote.messages.popleft()
        if message.handles:
            self._finish(remote, message, answer)
        else:
            self._begin_with(remote, answer)
        self._act(self._pool.give_waiting(time.monotonic()))

    def _begin_with(self, remote: Remote, begun: Begun) -> None:
        try:
            self._checked.check(begun, self._cluster.told(begun.node))
        except ClusterMismatchError:
            self.close()
            raise
        if begun.error is not None:
            self.close()
            raise errors.decode(begun.error)
        remote.node, remote.clock = begun.node, begun.clock - self._cluster.clock
        self._budget.add_store(begun.node, self._cluster.stores().get(begun.node, 0.0))
        self._gone.discard(begun.node)  # one that had only stopped for a while
        self._pool.ready(remote.number, time.monotonic())

    def _finish(self, remote: Remote, message: Message, answers: Sequence[tuple[Any, ...]]) -> None:
        handles = self._pool.answered(remote.number, len(answers), time.monotonic())
        assert handles == list(message.handles), "a worker answers in the order in which it was asked"
        for handle, fields, rows in zip(handles, answers, message.rows):
            answer = Answer(*fields)
            self._pace.note(handle.task, answer.seconds, answer.waited, answer.row_count, answer.size)
            self._budget.note(handle.task.stage, input_count(handle.task), answer.row_count, answer.size)
            handle.block = RayBlock(self, handle, answer, rows, remote)
        if self._stalled:
            self._give_stalled()

    # What goes wrong

    def _bury(self, remote: Remote, error: RayError) -> None:
        """A worker has ended, or cannot be reached: alone, or with its node."""
        self._cluster.wait_for_head()
        node = self._cluster.lost_by(error)
        if node is None:
            node = next((one for one in self._nodes() if not self._cluster.has(one)), None)
        if node is not None:
            self._lose(node or remote.node, remote)
            return
        self._drop(remote, how := _description(error))
        self._act(self._pool.ended(remote.number, how, time.monotonic()))

    def _lose(self, node: str, *remotes: Remote) -> None:
        """A node is gone, and what lay there, with these workers. Others that wait for what lay there wait in vain.

        So may those have done that are being killed, as a task took too long.
        """
        event = f"node {self._cluster.told(node)} of the Ray cluster was lost"
        warned = node in self._gone
        self._gone.add(node)
        self._budget.remove_store(node)
        self._begun = max(self._begun, time.monotonic())  # its workers look for another place
        late = self._pool.late
        there = [one for one in self._remotes.values() if one.node == node != LOST or one.number in late]
        doomed = {*remotes, *there, *filter(self._waits_for_lost, self._remotes.values())}
        for remote in doomed:
            self._drop(remote, event)
        self._act(self._pool.lost([remote.number for remote in doomed], None if warned else event, time.monotonic()))

    def _waits_for_lost(self, remote: Remote) -> bool:
        handles = (handle for message in remote.messages for handle in message.handles)
        return any(self._is_lost(block) for handle in handles for block in handle.blocks.values())

    def _lose_rows(self, remote: Remote, message: Message, error: RayTaskError) -> None:
        """Rows that a message names are gone. The worker waits for a turn that does not come."""
        if not isinstance(error, ObjectLostError):
            self.close()
            raise error
        self._cluster.wait_for_head()
        for handle in message.handles:
            for block in handle.blocks.values():
                block.node = LOST
        event = "rows were lost in the object store of the Ray cluster"
        self._drop(remote, event)
        self._act(self._pool.lost([remote.number], event, time.monotonic()))

    def _drop(self, remote: Remote, how: str) -> None:
        self._observer.worker_ended(remote.number, how)
        del self._remotes[remote.number]
        ray.kill(remote.actor)  # one that cannot be reached may still be there

    def _is_lost(self, block: RayBlock) -> bool:
        block.take_again()
        return block.node in self._gone

    def _make_again(self, block: RayBlock) -> None:
        """Have the rows of a block made again, unless they are being made."""
        if block.again is None:
            seconds = self._pace.expected_seconds(block.task)
            block.again = PooledHandle(self, block.number, False, seconds, block.task, block.blocks)
            self._act(self._pool.assign([block.again], time.monotonic()))

    def _give_stalled(self) -> None:
        """Give tasks whose rows are there again."""
        stalled, self._stalled = self._stalled, []
        for handles in stalled:
            self._act(self._pool.assign(handles, time.monotonic()))

    def rows_of(self, block: RayBlock) -> StoredRows:
        """The rows of a block, which come here from where they are; waits for them."""
        tries = 0
        while True:
            while self._is_lost(block):
                self._make_again(block)
                self.before_waiting()
                self.handle_messages(None)
            try:
                self._cluster.check_joined()
                return cast(StoredRows, ray.get(block.rows, timeout=LOOK_SECONDS))
            except GetTimeoutError:
                self._look_after_all(block.node)
            except (ObjectLostError, RayActorError):
                tries += 1
                if tries >= MAX_TRIES:
                    raise
                self._cluster.wait_for_head()
                block.node = LOST

    # What is looked after

    def _look_after_all(self, also: str = LOST) -> None:
        """See whether the cluster is there, whether it has grown, and whether tasks are late.

        And whether the nodes answer that work for us, or have rows that are needed now, such as `also`.
        """
        now = time.monotonic()
        self._cluster.look()
        for node in self._cluster.silent((self._nodes() | {also}) - self._gone):
            self._lose(node)
        if self._timeout is not None:
            self._act(self._pool.look(now))
        if now - self._resized > RESIZE_SECONDS:
            self._resized = now
            if self._grows:
                self._grow()
            if now - self._begun > NO_ROOM_SECONDS:
                self._tell_of_no_room()

    def _nodes(self) -> set[str]:
        """Those of workers, and of rows that they were sent the names of. Any worker may wait for any of them."""
        handles = (one for remote in self._remotes.values() for message in remote.messages for one in message.handles)
        blocks = (block for handle in handles for block in handle.blocks.values())
        return {remote.node for remote in self._remotes.values()}.union(block.node for block in blocks) - {LOST}

    def _grow(self) -> None:
        """Have as many workers as there is room for; and room for one more, if they are too few."""
        room = self._room()
        self._cluster.ask_for(room + self._waited, self._needs)
        self._act(self._pool.resize(room))
        self._observer.worker_count = room
        self._waited = False

    def _tell_of_no_room(self) -> None:
        """Say once that workers wait for a place in the cluster."""
        self._begun = float("inf")
        wanted = 1 if self._grows else self._options.workers
        if (ready := self._pool.ready_count) < wanted:
            needs = ", ".join(f"{amount:g} {name}" for name, amount in self._needs.items())
            fewer = "" if self._grows else 'a smaller worker_count=, worker_count="cluster", or '
            LOGGER.warning(
                f"{ready} of {wanted} workers found a place in the Ray cluster, where each needs {needs}; the others wait for "
                f"one. Pass {fewer}ray_options= that ask for less."
            )

    def close(self) -> None:
        """End all workers, and let go of what lies in the object store."""
        self._finalizer()
        self._stalled.clear()
        self._payload = None


def _calls(pipeline: Pipeline, options: ExecutionOptions) -> int:
    """How many calls an actor takes at a time: who waits for its turn has its records read meanwhile."""
    limits = limits_of(pipeline, several=True)
    ahead = [tasks_ahead(pipeline, options.reading, stage, limits[stage].least) for stage in limits]
    return min(1 + max(ahead), MAX_CALLS)


def _described(ray_options: Mapping[str, Any], concurrency: int) -> tuple[Any, dict[str, float]]:
    """What makes actors, and what each needs. Ray looks at most options here, before a cluster is joined or started.

    Raises:
        ValueError: options that Ray does not know, or values that it refuses.
    """
    try:
        return ray.remote(RayWorker).options(**ray_options, max_concurrency=concurrency), needs_of(ray_options)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"ray_options={short_repr(dict(ray_options))} cannot be passed on to Ray ({shorten(error, 150)}); pass arguments "
            "of its `.options()`, such as num_cpus, num_gpus, memory or resources."
        ) from error


def _description(error: RayError) -> str:
    """How a worker ended, in Ray's words."""
    text = str(error)
    _, found, detail = text.partition("Worker exit detail: ")
    return f"(Ray says: {shorten(detail.partition(' Some common causes')[0] if found else text, 200)})"


def _close(remotes: dict[int, Remote], cluster: Cluster, owner: int) -> None:
    """In a forked child there is nothing to be ended."""
    if os.getpid() != owner:
        return
    cluster.close()
    with Uninterrupted(), suppress(Exception):  # all of the cluster may be gone
        while remotes:
            _, remote = remotes.popitem()
            if ray.is_initialized():
                ray.kill(remote.actor)
        if ray.is_initialized():
            cluster.ask_for(0, {})
