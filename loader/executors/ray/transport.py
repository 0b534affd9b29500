"""The transport (sender of messages) to workers that are Ray actors.

In: messages with tasks. Out: events, such as finished tasks, lost rows, or the end of a worker.
Rows stay in Ray's object store until they are needed in this process.

Each worker is an actor that Ray does not restart. An actor answers messages in their order, so only
its oldest message is waited for. If a node is lost, the rows on it are lost, too.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

import ray
from ray.exceptions import GetTimeoutError, ObjectLostError, RayActorError, RayError, RayTaskError

from ....common import remote_errors as errors
from ....common.fields import replaced
from ....common.pickled import pickled
from ...interrupts import Uninterrupted
from ...options import ExecutionOptions
from ...plan.pipeline import Pipeline
from ...work.explain import named_parts
from ...work.tasks import Block
from ..pace import limits_of, tasks_ahead
from ..task_runner import OptionsFirst
from ..transport import Answered, Ended, Event, Lost, Message, Ready, Room, Store, Transport
from .agreement import Begun, Checked
from .cluster import LOOK_SECONDS, Cluster, described_end, factory_of, join
from .worker import LOST, OF_THIS_PROCESS, RayRows, as_list, loaded, memory_of

LOGGER = logging.getLogger("headrace")

# Chosen; a check takes 3 ms (measured).
RESIZE_SECONDS = 3.0
"""Seconds between two checks of the cluster's size, with `worker_count="cluster"`."""

# Chosen: an actor takes 0.2 to 3 s to start up (measured).
NO_ROOM_SECONDS = 10.0
"""Seconds that workers may wait for a place in the cluster before a warning is logged."""

# Chosen: this number of threads takes 5 MB (measured).
MAX_CALLS = 512
"""Largest number of concurrent calls of an actor. Each has a thread of its own."""


class _Sent(NamedTuple):
    """A message that was sent to a worker and is not answered yet.

    Attributes:
        headers: Ray's reference to the answer: for each task, the header of a block (all but rows).
        rows: Ray's references to the rows of each task; empty for the first message, which only
            starts the worker.
        named: earlier rows that the tasks refer to.
    """

    headers: Any
    rows: Sequence[Any]
    named: Sequence[RayRows]


class _Remote:
    """An actor as the user's process knows it: its node, and its unanswered messages."""

    def __init__(self, number: int, actor: Any) -> None:
        self.number = number
        self.actor = actor
        self.run_one = actor.run.options(num_returns=2).remote
        self.turns = count()
        self.node = LOST  # until it has begun
        self.clock = 0.0  # seconds to be added to its times
        self.messages = deque([_Sent(actor.begin.remote(), (), ())])


class RayTransport(Transport):
    """Transport (sender of messages) to workers that are Ray actors. Joins or starts the cluster.

    Args:
        pipeline: pipeline of the run.
        options: options of the workers and of Ray.
        worker: class of the actors.

    Raises:
        ClusterNotFoundError: there is no cluster at the address in the options.
        ValueError: Ray refuses an option.
        PicklingError: a part of the pipeline cannot be pickled.
    """

    may_lose_rows = True

    def __init__(self, pipeline: Pipeline, options: ExecutionOptions, worker: type) -> None:
        self.depth = 1 + options.worker_buffer_size
        ray_options = {"num_cpus": 1, **(options.ray_options or {})}
        self._actors, self._needs = factory_of(
            worker, ray_options, max(self.depth, _calls(pipeline, options))
        )
        join(options.address, options.workers)
        self._cluster = Cluster()
        self._grows = options.worker_count == "cluster"
        self.worker_count = self._cluster.room(self._needs) if self._grows else options.workers
        self._events: list[Event] = [
            Store(node, size) for node, size in self._cluster.stores().items()
        ]
        if self._grows:
            self._events.append(Room(self.worker_count))
        self._remotes: dict[int, _Remote] = {}
        # workers that were at work then, and whose end is not known yet
        self._killed: set[int] = set()
        self._gone = {LOST}  # nodes, by their ids
        self._begun = self._resized = time.monotonic()
        # somebody, for an answer, since it was last asked how large the cluster is
        self._waited = False
        with Uninterrupted():
            self._finalizer = weakref.finalize(
                self, _close, self._remotes, self._cluster, os.getpid()
            )
            OF_THIS_PROCESS.add(self)
        try:
            data, buffers = pickled((OptionsFirst(options), pipeline), named_parts(pipeline))
            self._checked = Checked(pipeline, data, buffers)
            self._payload = ray.put((data, memory_of(buffers)))
        except BaseException:
            self.close()
            raise

    def start(self, worker: int) -> None:
        with Uninterrupted():
            self._remotes[worker] = _Remote(
                worker, self._actors.remote(worker, list(sys.path), self._payload)
            )

    def kill(self, worker: int) -> None:
        remote = self._remotes.get(worker)
        if remote is None:
            return
        # nothing that it answers would tell of its end
        if remote.node == LOST or not remote.messages:
            self._drop(remote)
        else:
            self._killed.add(worker)
            ray.kill(remote.actor)

    def restart(self) -> None:
        """Do nothing: no single process makes the actors, so none can end."""

    def send(self, worker: int, message: Message) -> None:
        remote = self._remotes.get(worker)
        if remote is None:
            return
        tasks, count = message.tasks, len(message.tasks)
        run = (
            remote.run_one if count == 1 else remote.actor.run.options(num_returns=1 + count).remote
        )
        named = [replaced(each, rows=None) for each in message.named]
        rows: list[RayRows] = [each.rows for each in message.named]  # type: ignore[misc]
        headers, *made = run(next(remote.turns), tasks, named, *(some.reference for some in rows))
        remote.messages.append(_Sent(headers, made, rows))

    def poll(self, seconds: float | None) -> Sequence[Event]:
        self._cluster.check_joined()
        waits = seconds is None or seconds > 0
        if waits or time.monotonic() - self._resized > LOOK_SECONDS:
            self._look_after_all()
        self._waited = self._waited or waits
        waiting = {
            remote.messages[0].headers: remote
            for remote in self._remotes.values()
            if remote.messages
        }
        if waiting and not self._events:
            longest = LOOK_SECONDS if seconds is None else min(seconds, LOOK_SECONDS)
            arrived, _ = ray.wait(list(waiting), timeout=longest)
            for headers in arrived:
                self._hear(waiting[headers])
        events, self._events = self._events, []
        return events

    def _hear(self, remote: _Remote) -> None:
        sent = remote.messages[0]
        try:
            answer = ray.get(sent.headers)
        except RayTaskError as error:
            self._lose_rows(remote, sent, error)
            return
        except RayError as error:
            self._bury(remote, error)
            return
        remote.messages.popleft()
        if sent.rows:
            self._finish(remote, sent, answer)
        else:
            self._begin_with(remote, answer)

    def _begin_with(self, remote: _Remote, begun: Begun) -> None:
        self._checked.check(begun, self._cluster.describe_node(begun.node))
        if begun.error is not None:
            raise errors.decode(begun.error)
        remote.node, remote.clock = begun.node, begun.clock - self._cluster.clock
        self._events.append(Store(begun.node, self._cluster.stores().get(begun.node, 0.0)))
        self._gone.discard(begun.node)  # one that had only stopped for a while
        self._events.append(Ready(remote.number))

    def _finish(self, remote: _Remote, sent: _Sent, headers: Sequence[Any]) -> None:
        blocks = []
        for header, reference in zip(headers, sent.rows):
            block = Block(*(*header, RayRows(reference, remote.node, self._gone, self._fetch)))
            block.times = block.times and block.times.moved(remote.clock)
            blocks.append(block)
        self._events.append(Answered(remote.number, blocks))

    def _fetch(self, rows: RayRows) -> list[Any] | None:
        """Load rows into this process.

        Return None if the rows are lost, or did not arrive within a second.

        Raises:
            ClusterLostError: this process has left the cluster, or the cluster is gone.
        """
        try:
            self._cluster.check_joined()
            return as_list(loaded(ray.get(rows.reference, timeout=LOOK_SECONDS)))
        except GetTimeoutError:
            self._look_after_all(rows.node)
        except (ObjectLostError, RayActorError):
            self._cluster.wait_for_head()
            rows.node = LOST
        return None

    # Losses

    def _bury(self, remote: _Remote, error: RayError) -> None:
        """Remove a worker that has ended. If its node is lost, also remove the other workers on it.

        Raises:
            ClusterLostError: the head node of the cluster is gone.
        """
        self._cluster.wait_for_head()
        node = self._cluster.lost_by(error)
        if node is None:
            node = next((one for one in self._nodes() if not self._cluster.has(one)), None)
        if node is not None:
            self._lose(node or remote.node, remote)
            return
        self._drop(remote)
        self._events.append(Ended(remote.number, described_end(error)))

    def _lose(self, node: str, *remotes: _Remote) -> None:
        """Remove a lost node, given by its id, and workers that cannot continue.

        These are its workers, workers that wait for rows on it, the further workers `*remotes`, and
        workers that are being killed because of a timeout, as perhaps they waited for such rows.
        """
        is_news = node not in self._gone
        self._gone.add(node)
        self._events.append(Store(node, 0.0))
        if is_news:
            self._begun = time.monotonic()  # its workers look for another place
        there = [
            one
            for one in self._remotes.values()
            if one.node == node != LOST or one.number in self._killed
        ]
        for_lost = [
            one
            for one in self._remotes.values()
            if any(rows.lost for sent in one.messages for rows in sent.named)
        ]
        doomed = {*remotes, *there, *for_lost}
        for remote in doomed:
            self._drop(remote)
        event = f"node {self._cluster.describe_node(node)} of the Ray cluster was lost"
        self._events.append(Lost([remote.number for remote in doomed], event, is_news))

    def _lose_rows(self, remote: _Remote, sent: _Sent, error: RayTaskError) -> None:
        """Handle the error of a message: if rows were lost, record this, and remove the worker.

        The rows are those of earlier tasks to which the message refers.

        Args:
            remote: the worker that got the message. The message is removed with it.
            sent: the message.
            error: error of the message. It is raised if it does not mean that rows were lost.

        Raises:
            ClusterLostError: the head node of the cluster is gone.
        """
        if not isinstance(error, ObjectLostError):
            raise error
        self._cluster.wait_for_head()
        for rows in sent.named:
            rows.node = LOST
        self._drop(remote)
        self._events.append(
            Lost([remote.number], "rows were lost in the object store of the Ray cluster")
        )

    def _drop(self, remote: _Remote) -> None:
        self._killed.discard(remote.number)
        del self._remotes[remote.number]
        ray.kill(remote.actor)  # one that cannot be reached may still be there

    # Looks from time to time

    def _look_after_all(self, also: str = LOST) -> None:
        """Check the cluster, the nodes in use, and how many workers fit into the cluster.

        Each of these checks is made only if some time has passed since the last one.

        Args:
            also: id of one more node to check, because its rows are needed now.

        Raises:
            ClusterLostError: the cluster is gone.
        """
        now = time.monotonic()
        self._cluster.look()
        for node in self._cluster.silent((self._nodes() | {also}) - self._gone):
            self._lose(node)
        if now - self._resized > RESIZE_SECONDS:
            self._resized = now
            if self._grows:
                self._grow()
            if now - self._begun > NO_ROOM_SECONDS:
                self._tell_of_no_room()

    def _nodes(self) -> set[str]:
        """Return the ids of the nodes that have workers, or rows that a worker still needs."""
        rows = (
            some
            for remote in self._remotes.values()
            for sent in remote.messages
            for some in sent.named
        )
        return {remote.node for remote in self._remotes.values()}.union(
            some.node for some in rows
        ) - {LOST}

    def _grow(self) -> None:
        """Report, as an event, how many workers fit into the cluster.

        If the loop has waited for a result since the last report, ask the cluster's autoscaler for
        room for one more worker.
        """
        room = self._cluster.room(self._needs)
        self._cluster.ask_for(room + self._waited, self._needs)
        self._events.append(Room(room))
        self._waited = False

    def _tell_of_no_room(self) -> None:
        """Log a warning if some workers have not started because the cluster has no room for them.

        Called once in a run, and once more after each loss of a node.
        """
        self._begun = float("inf")
        wanted = 1 if self._grows else self.worker_count
        if (ready := sum(remote.node != LOST for remote in self._remotes.values())) < wanted:
            needs = ", ".join(f"{amount:g} {name}" for name, amount in self._needs.items())
            fewer = "" if self._grows else 'a smaller worker_count=, worker_count="cluster", or '
            LOGGER.warning(
                f"{ready} of {wanted} workers found a place in the Ray cluster, where each needs "
                f"{needs}; the others wait. Pass {fewer}ray_options= that ask for less."
            )

    def close(self) -> None:
        self._finalizer()
        self._payload = None


def _calls(pipeline: Pipeline, options: ExecutionOptions) -> int:
    """Return how many calls an actor gets at once: one runs tasks, the others read in advance."""
    limits = limits_of(pipeline, several=True)
    ahead = [tasks_ahead(pipeline, options.reading, stage, limits[stage].least) for stage in limits]
    return min(1 + max(ahead), MAX_CALLS)


def _close(remotes: dict[int, _Remote], cluster: Cluster, owner: int) -> None:
    """End all actors, and withdraw the request for more room in the cluster.

    An error of Ray is ignored, and the actors that are left then are not ended. Nothing is done in
    a forked child: `owner` is the id of the process that started the actors.
    """
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
