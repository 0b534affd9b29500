"""The transport (message sender) to worker processes, each with a channel to the user's process.

A further process, the zygote, makes the workers.

In: messages with tasks. Out: events, such as finished tasks. Rows stay encoded on the worker's
slabs (pieces of shared memory) until they are needed in this process.
"""

from __future__ import annotations

import selectors
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ....common import remote_errors as errors
from ....common.messages import shorten
from ...interrupts import Uninterrupted
from ...options import ExecutionOptions
from ...plan.pipeline import Pipeline
from ...work.explain import named_parts
from ...work.tasks import Block
from ..hang_watch import Hang
from ..task_runner import OptionsFirst
from ..transport import AllEnded, Answered, Ended, Event, Hanging, Message, Ready, Silent, Transport
from ..worker_logs import handle_here
from .channel import (
    Broken,
    Channel,
    Done,
    Exited,
    Hangs,
    LastWords,
    Logged,
    Returned,
    RunTasks,
    SlabName,
)
from .slabs import WorkerSlabs
from .spawner import Payload, Spawner, description

# Chosen.
SILENT_TIMES = 1.5
"""If no worker has sent anything for this many times `hang_seconds`, all busy workers are reported.

Not used if tasks have a timeout.
"""

# Chosen.
LOOK_AFTER_SECONDS = 1.0
"""Seconds between two checks whether a signal has stopped the process that makes workers.

Used if there is a timeout.
"""


class _Remote:
    """A worker process as the user's process knows it: channel, shared memory, unsent messages."""

    def __init__(self, number: int, channel: Channel, slabs: WorkerSlabs) -> None:
        self.number = number
        self.channel = channel
        self.slabs = slabs
        # what there was no room for, with descriptors
        self.outbox: deque[tuple[Any, Sequence[int]]] = deque()
        self.ended = False
        self.last_words = ""  # with which an operation asked Python to exit


class ProcessTransport(Transport):
    """Transport (sender of messages) to workers that are processes of this machine.

    Args:
        pipeline: pipeline of the run.
        options: options of the workers.
        note_bytes: function that is called each time when memory that workers share with this
            process is mapped or dropped; its argument is the change in bytes.
        worker_count: number of workers; None: the number in the options.
        spawner: object that makes the processes; tests pass an object that imitates processes.
            None: a `Spawner`.

    Raises:
        PicklingError: a part of the pipeline cannot be pickled.
    """

    depth = None
    may_lose_rows = False

    def __init__(
        self,
        pipeline: Pipeline,
        options: ExecutionOptions,
        note_bytes: Callable[[int], None],
        worker_count: int | None = None,
        spawner: Spawner | None = None,
    ) -> None:
        self.worker_count = worker_count or options.workers
        self._silence = (
            None if options.hang_seconds is None else SILENT_TIMES * options.hang_seconds
        )
        self._each_unpacks = options.worker_init_fn is not None
        self._slabs_of = partial(
            WorkerSlabs, keep_descriptors=len(pipeline.stages) > 1, note_bytes=note_bytes
        )
        self._workers: dict[int, _Remote] = {}
        self._events: list[Event] = []
        self._selector = selectors.DefaultSelector()
        self._spawner = spawner or Spawner()
        with Uninterrupted():
            self._payload = Payload()
            self._finalizer = weakref.finalize(
                self, _close, self._spawner, self._selector, self._payload
            )
        try:
            self._spawner.begin()  # boots while the pipeline is packed
            self._payload.pack((OptionsFirst(options), pipeline), named_parts(pipeline))
            self._start_zygote()
        except BaseException:
            self.close()
            raise

    def _start_zygote(self) -> None:
        self._spawner.send_start(self._payload.descriptor, self._each_unpacks)
        self._selector.register(self._spawner.channel, selectors.EVENT_READ, None)

    def start(self, worker: int) -> None:
        self._workers[worker] = remote = _Remote(
            worker, self._spawner.spawn(worker), self._slabs_of(worker)
        )
        self._selector.register(remote.channel, selectors.EVENT_READ, worker)

    def kill(self, worker: int) -> None:
        self._spawner.kill(worker)

    def restart(self) -> None:
        self._spawner.begin()
        self._start_zygote()

    def send(self, worker: int, message: Message) -> None:
        remote = self._workers.get(worker)
        if remote is None:
            return
        released = remote.slabs.take_released() if remote.slabs.released else []
        if not message.named:
            self._post(remote, RunTasks(message.tasks, released))
            return
        shown = remote.slabs.show(named.rows for named in message.named)
        introduced = [(name, len(slab.memory)) for name, slab in shown.items()]
        run = RunTasks(
            message.tasks, released, message.named, introduced, remote.slabs.take_forgotten()
        )
        self._post(remote, run, [slab.descriptor for slab in shown.values()])

    def _post(self, worker: _Remote, message: Any, descriptors: Sequence[int] = ()) -> None:
        """Send a message and file descriptors to a worker, or keep them until the channel has room.

        Do nothing if the worker has ended. This call never waits for the worker, because the worker
        may be waiting for this process.
        """
        if worker.ended:
            return  # its tasks are given again when it is buried
        try:
            if not worker.outbox and worker.channel.send_if_room(message, descriptors):
                return
        except ConnectionError:
            return  # it is gone; the zygote's report follows
        worker.outbox.append((message, descriptors))
        self._selector.modify(
            worker.channel, selectors.EVENT_READ | selectors.EVENT_WRITE, worker.number
        )

    def _post_kept(self, worker: _Remote) -> None:
        try:
            while worker.outbox and worker.channel.send_if_room(*worker.outbox[0]):
                worker.outbox.popleft()
        except ConnectionError:
            worker.outbox.clear()  # it is gone
        if not worker.outbox:
            self._selector.modify(worker.channel, selectors.EVENT_READ, worker.number)

    def poll(self, seconds: float | None) -> Sequence[Event]:
        if seconds != 0:
            self._return_slabs()
        ready = self._selector.select(
            self._silence if seconds is None else seconds and min(seconds, LOOK_AFTER_SECONDS)
        )
        if not ready and seconds is None and self._silence is not None:
            self._events.append(Silent(self._silence))
        for key, what in ready:
            if key.data is None:
                self._hear_spawner()
            elif (worker := self._workers.get(key.data)) is not None:
                if what & selectors.EVENT_WRITE:
                    self._post_kept(worker)
                if what & selectors.EVENT_READ:
                    self._hear(worker)
        if seconds and not ready:
            self._spawner.kill_if_stopped()
        events, self._events = self._events, []
        return events

    def _return_slabs(self) -> None:
        for worker in self._workers.values():
            if worker.slabs.released:
                self._post(worker, Returned(worker.slabs.take_released()))

    def _hear(self, worker: _Remote) -> None:
        received = worker.channel.receive()
        if received is None:
            self._selector.unregister(worker.channel)
            worker.ended = True
        elif isinstance(received[0], Done):
            done, descriptors = received
            rows = worker.slabs.take(done, descriptors)
            blocks = [Block(*(*header, some)) for (header, _, _), some in zip(done.answers, rows)]
            self._events.append(Answered(worker.number, blocks))
            if done.dropped:
                self._forget(worker.slabs.drop(done.dropped))
        elif isinstance(received[0], Ready):
            self._spawner.arrived(worker.number)
            self._events.append(received[0])
        elif isinstance(received[0], Logged):
            handle_here(received[0].record)
        elif isinstance(received[0], Hangs):
            self._events.append(Hanging(worker.number, Hang(*received[0])))
        elif isinstance(received[0], LastWords):
            worker.last_words = received[0].text
        elif isinstance(received[0], Broken):
            raise errors.decode(received[0].error)

    def _hear_spawner(self) -> None:
        received = self._spawner.channel.receive()
        if received is None:  # the zygote has ended, and all workers with it
            self._selector.unregister(self._spawner.channel)
            self._spawner.end()
            for worker in list(self._workers.values()):
                self._bury(worker)
            self._events.append(AllEnded(self._spawner.last_end))
        elif isinstance(received[0], Exited):
            exited: Exited = received[0]
            worker = self._workers[exited.worker]
            self._bury(worker)
            said = f" ({shorten(worker.last_words, 200)})" if worker.last_words else ""
            self._events.append(Ended(exited.worker, f"{description(exited.status)}{said}"))
        elif isinstance(received[0], Broken):
            raise errors.decode(received[0].error)

    def _bury(self, worker: _Remote) -> None:
        """Handle the messages that a worker sent before it ended, and remove the worker.

        If the worker could not unpickle the pipeline, one of the messages has the exception, and
        this exception is raised.
        """
        del self._workers[worker.number]
        while not worker.ended and worker.channel.readable():
            self._hear(worker)
        if not worker.ended:
            self._selector.unregister(worker.channel)
        self._spawner.forget(worker.number)
        self._forget(worker.slabs.drop())

    def _forget(self, slabs: Sequence[SlabName]) -> None:
        """Record for all workers that slabs (pieces of shared memory) no longer exist.

        The next message to a worker names those of the slabs that the worker knows.
        """
        for worker in self._workers.values():
            worker.slabs.forget(slabs)

    def close(self) -> None:
        _close(self._spawner, self._selector, self._payload)
        self._finalizer.detach()


def _close(spawner: Spawner, selector: selectors.BaseSelector, payload: Payload) -> None:
    with Uninterrupted():
        selector.close()
        spawner.close()
        payload.close()
