"""Workers and a zygote that are played in this process, to test the executor: each does what, and
when, it is told to.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
from collections import deque
from collections.abc import Sequence
from itertools import chain
from typing import Any

from headrace.loader.executors.processes.channel import Channel, Done, Encoded, Exited, RunTasks
from headrace.loader.executors.processes.slabs import decode
from headrace.loader.executors.processes.spawner import Spawner
from headrace.loader.executors.transport import Ready
from headrace.loader.work.row_origins import RowOrigins
from headrace.loader.work.tasks import Block, SpanTask


class FakeChannel(Channel):
    """A `Channel` both ends of which are in this process: messages are handed over as they are.

    Attributes:
        full: play that there is no room for another message.
    """

    full = False

    def __init__(self, end: socket.socket, received: deque[Any], sent: deque[Any]) -> None:
        super().__init__(end)
        self._received, self._sent = received, sent

    @staticmethod
    def pair_of_fakes() -> tuple[FakeChannel, FakeChannel]:
        """Our end, and the other one. The socket between them carries one byte for each message,
        for selectors to see.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        to_us: deque[Any] = deque()
        to_them: deque[Any] = deque()
        return FakeChannel(ours, to_us, to_them), FakeChannel(theirs, to_them, to_us)

    def send(self, message: Any, descriptors: Sequence[int] = ()) -> None:
        """As that of `Channel`."""
        self.socket.send(b"m")
        self._sent.append((message, [os.dup(descriptor) for descriptor in descriptors]))

    def receive(self) -> tuple[Any, list[int]] | None:
        """As that of `Channel`."""
        try:
            size = self._receive_packet()[0]
        except ConnectionError:
            return None
        return self._received.popleft() if size else None

    def send_if_room(self, message: Any, descriptors: Sequence[int] = ()) -> bool:
        """As that of `Channel`, but for `full`."""
        return not self.full and super().send_if_room(message, descriptors)


class FakeWorker:
    """A worker. Of a span it answers the positions, of a group a list of its rows.

    Attributes:
        asked: tasks that it was given and has not answered: rows, and their tags.
    """

    def __init__(self, number: int, channel: FakeChannel) -> None:
        self.number = number
        self.channel = channel
        self.asked: deque[tuple[list[Any], RowOrigins]] = deque()

    def begin(self) -> None:
        """Say that it is ready."""
        self.channel.send(Ready(self.number))

    def take_messages(self) -> None:
        """Take all tasks that have come."""
        while self.channel.readable() and (received := self.channel.receive()) is not None:
            message = received[0]
            if isinstance(message, RunTasks):
                self.asked += _asked(message)

    def answer(self, count: int = 1) -> None:
        """Answer the next tasks, as many of `count` as there are, in one message."""
        self.take_messages()
        tasks = [self.asked.popleft() for _ in range(min(count, len(self.asked)))]
        if tasks:
            self.channel.send(Done([_answer(*task) for task in tasks], [], []))

    def lend(self, descriptor: int, size: int) -> None:
        """Answer the next task with rows that have new memory, which has the number 0."""
        self.take_messages()
        header, encoded, _ = _answer(*self.asked.popleft())
        self.channel.send(Done([(header, encoded, [(0, size)])], [0], []), [descriptor])

    def die(self) -> None:
        """Hang up. Nobody is told: the zygote does that."""
        self.channel.close()


class FakeSpawner(Spawner):
    """A `Spawner` with a zygote that is played.

    Attributes:
        workers: all that were made and have not died, by their numbers.
        killed: those that it was asked to kill.
        starts: how often the zygote was started.
    """

    _zygote: FakeChannel

    def __init__(self) -> None:
        super().__init__()
        self.workers: dict[int, FakeWorker] = {}
        self.killed: list[int] = []
        self.starts = 0

    def begin(self) -> None:
        """As that of `Spawner`."""
        self.channel, self._zygote = FakeChannel.pair_of_fakes()
        self.starts += 1

    def send_start(self, payload: int, each_unpacks: bool) -> None:
        """There is nothing to unpack."""
        self.each_unpacks = each_unpacks

    def spawn(self, worker: int) -> Channel:
        """As that of `Spawner`."""
        self._channels[worker], theirs = FakeChannel.pair_of_fakes()
        self._in_transit[worker] = theirs.socket.dup()
        self.workers[worker] = FakeWorker(worker, theirs)
        return self._channels[worker]

    def kill(self, worker: int) -> None:
        """Note it: the test decides when the worker dies."""
        self.killed.append(worker)

    def say(self, message: Any) -> None:
        """Have the zygote send something."""
        self._zygote.send(message)

    def report(self, worker: int, status: int) -> None:
        """Have the zygote report the end of a worker."""
        self.say(Exited(worker, status))

    def bury(self, worker: int, status: int) -> None:
        """Have a worker die, and the zygote report it."""
        self.workers.pop(worker).die()
        self.report(worker, status)

    def die(self) -> None:
        """End the zygote, and all workers with it."""
        for worker in self.workers.values():
            worker.die()
        self.workers.clear()
        self._zygote.close()

    def end(self) -> None:
        """As that of `Spawner`. May be called twice."""
        self.die()
        self.channel.close()
        self._status = signal.SIGKILL


def _asked(message: RunTasks) -> list[tuple[list[Any], RowOrigins]]:
    """Of each task of a message its rows, and their tags."""
    blocks = {one.block: _rows(one.rows)[one.first : one.last] for one in message.named}
    asked = []
    for task in message.tasks:
        tags = RowOrigins()
        if isinstance(task, SpanTask):
            for unit, position in enumerate(range(task.start, task.stop)):
                tags.add(unit, position, 0)
            asked.append((list(range(task.start, task.stop)), tags))
        else:
            asked.append(
                (
                    [
                        list(
                            chain.from_iterable(
                                blocks[block][start:stop] for block, start, stop in task.rows
                            )
                        )
                    ],
                    tags,
                )
            )
    return asked


def _rows(rows: Any) -> list[Any]:
    return list(decode(rows.encoded, {}.__getitem__))


def _answer(rows: list[Any], tags: RowOrigins) -> tuple[Any, Encoded, list[tuple[int, int]]]:
    block = Block.of(rows, tags)
    block.seconds = 1e-3
    return block.header, ([], pickle.dumps(rows)), []
