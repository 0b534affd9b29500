"""The interface of transports, which connect the executor's loop with workers; events and actions.

    pool (decides: events in, actions out)           worker: task → block (header and rows)
      ▲ event      │ action                              ▲ message        │
      └─ one loop ─┴──► Transport: start · send · poll → events · kill · restart · close

In: messages of tasks. Out: events. Workers are processes or Ray actors. Only
`pooled.PooledExecutor` calls a transport. It turns the actions of `pool` into calls: `Spawn` into
`start`, `Give` into `send`, `Kill` into `kill`, and `Restart` into `restart`.

The loop does not know the kind of transport. A transport does not know what tasks mean: it carries
tasks and rows, but does not count tries, divide or blame tasks, or keep timeouts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from ..work.row_origins import RowOrigins
from ..work.stacked_rows import StackedRows
from ..work.tasks import Block, Blocks, GroupTask, Task

if TYPE_CHECKING:
    from .hang_watch import Hang


class StoredRows(Protocol):
    """Rows of one task, wherever the transport stores them, as long as this object exists."""

    @property
    def lost(self) -> bool:
        """True if the rows are lost, with the worker or machine that had them.

        Read on the thread that uses the iterator: before each message that refers to the rows, and
        between two calls of `load`. Always False if rows outlive their worker. If it is True, the
        loop runs the task a second time, and the new rows replace these.
        """

    def load(self) -> list[Any] | None:
        """Return the rows in the user's process as a list.

        Return None if they are lost, or did not arrive within a second. Their memory may be shared
        with this object. Called on the thread that uses the iterator. After None, the loop polls,
        reads `lost`, and calls it again, as often as needed. Never raises an exception because rows
        are lost.
        """

    def columns(self) -> StackedRows | None:
        """Return the rows in the user's process as columns, without a copy; None if impossible.

        Called on the thread that uses the iterator, any number of times. The memory then belongs to
        the caller; it exists as long as arrays refer to it.
        """


class NamedRows(NamedTuple):
    """Rows `[first, last)` of an earlier block (a task's rows), to which a message's tasks refer.

    Tasks count rows from `first`, so the other rows of the block need not be sent.

    Attributes:
        block: number of the block.
        first: first row.
        last: end of the rows, exclusive.
        tags: origins of these rows (the sources and positions from which they come).
        rows: the transport's object for all rows of the block.
    """

    block: int
    first: int
    last: int
    tags: RowOrigins
    rows: StoredRows


class Message(NamedTuple):
    """Tasks for one worker, which runs them in order and answers them together.

    Attributes:
        tasks: one task about consecutive positions; or tasks about groups of rows, of one or
            several stages.
        named: earlier rows that the tasks refer to.
    """

    tasks: Sequence[Task]
    named: Sequence[NamedRows] = ()

    @classmethod
    def of(
        cls,
        tasks: Sequence[GroupTask],
        blocks: Mapping[int, Block],
        rows_of: Callable[[Block], StoredRows],
    ) -> Message:
        """Return a message for tasks on groups of rows, with the rows to which they refer.

        In the message, row numbers count from the first row of a block that is sent.

        Args:
            tasks: the tasks.
            blocks: the blocks (the rows of one task each), by number.
            rows_of: function that returns the transport's object for the rows of a block.
        """
        ranges: dict[int, tuple[int, int]] = {}
        for task in tasks:
            for block, start, stop in task.rows:
                first, last = ranges.get(block, (start, stop))
                ranges[block] = min(first, start), max(last, stop)
        named = [
            NamedRows(
                number,
                first,
                last,
                blocks[number].tags.part(first, last),  # type: ignore[union-attr]
                rows_of(blocks[number]),
            )
            for number, (first, last) in ranges.items()
        ]
        moved = [
            tuple(
                [
                    (block, start - ranges[block][0], stop - ranges[block][0])
                    for block, start, stop in task.rows
                ]
            )
            for task in tasks
        ]
        return cls(
            [GroupTask(task.stage, rows, *task[2:]) for task, rows in zip(tasks, moved)], named
        )


def named_blocks(named: Iterable[NamedRows], load: Callable[[Any], Any]) -> Blocks:
    """Return, in a worker, the blocks (rows of one task each) to which a message refers, by number.

    Args:
        named: rows of blocks, as in the message.
        load: function that takes the transport's object for all rows of a block, and returns the
            rows.
    """
    return {one.block: Block.of(load(one.rows)[one.first : one.last], one.tags) for one in named}


class Ready(NamedTuple):
    """Event: a worker has started up, and its `worker_init_fn` was called.

    Comes at most once for each started worker.

    Attributes:
        worker: number of the worker.
    """

    worker: int


class Answered(NamedTuple):
    """Event: a worker has run the tasks of its oldest unanswered message.

    Attributes:
        worker: number of the worker.
        blocks: a block (the rows of one task) for each task, in order. The loop uses `block.rows`
            as the `StoredRows` of this transport.
    """

    worker: int
    blocks: Sequence[Block]


class Ended(NamedTuple):
    """Event: a worker has ended.

    It is the worker's last event, after all of its answers that were not lost. Comes once for each
    worker that ends, also after `kill`. It may not come for a worker that was idle when it was
    killed.

    Attributes:
        worker: number of the worker.
        how: rest of a sentence that begins with "was terminated unexpectedly".
    """

    worker: int
    how: str


class Hanging(NamedTuple):
    """Event: the task of a worker takes long.

    Attributes:
        worker: number of the worker.
        hang: what the worker is doing, on which record, and for how long.
    """

    worker: int
    hang: Hang


class Silent(NamedTuple):
    """Event: no worker sent anything for so many seconds while the executor waited for a result."""

    seconds: float


class AllEnded(NamedTuple):
    """Event: the process that makes workers has ended, and all workers with it.

    The loop then calls `restart` or `close`. `how` is the end of a sentence that begins with "the
    process that makes the workers".
    """

    how: str


class Lost(NamedTuple):
    """Event: workers have ended through no fault of a task.

    They ended with their machine, or because rows that they needed were lost.

    Attributes:
        workers: numbers of the workers.
        how: a sentence that says what happened, such as "node 10.0.0.7 of the Ray cluster was
            lost".
        is_news: False if the user was already warned of it.
    """

    workers: Sequence[int]
    how: str
    is_news: bool = True


class Room(NamedTuple):
    """Event: the number of workers for which the cluster has room.

    It comes at every check, also if it has not changed. If the number has changed, the loop starts
    workers, or kills surplus ones that have not started up.
    """

    workers: int


class Store(NamedTuple):
    """Event: the capacity of a store for rows is known, or has changed.

    As long as no store is known, rows are not limited.

    Attributes:
        name: identifies the store.
        nbytes: capacity in bytes; 0 if the store is gone.
    """

    name: str
    nbytes: float


Event: TypeAlias = Ready | Answered | Ended | Hanging | Silent | AllEnded | Lost | Room | Store

J = TypeVar("J")


class Spawn(NamedTuple):
    """Action: start a worker with this number."""

    worker: int


class Give(NamedTuple, Generic[J]):
    """Action: send `jobs` to a worker, in one message; do nothing if it has ended."""

    worker: int
    jobs: Sequence[J]


class Kill(NamedTuple):
    """Action: kill the worker with this number.

    The event `Ended` follows, or may not if the worker was idle.
    """

    worker: int


class Finish(NamedTuple, Generic[J]):
    """Action: complete the job with its result."""

    job: J
    block: Block


class Divide(NamedTuple, Generic[J]):
    """Action: replace the job by smaller jobs, which are submitted in place of it."""

    job: J


class GiveUp(NamedTuple, Generic[J]):
    """Action: let the job fail, because workers ended during it.

    `reason` says how the last worker ended.
    """

    job: J
    reason: str


class Restart(NamedTuple):
    """Action: start a new process that makes workers, because the last one has ended."""


class Warn(NamedTuple):
    """Action: log a warning with this text."""

    text: str


class Fail(NamedTuple):
    """Action: end the run with an error that has this text."""

    text: str


Action: TypeAlias = (
    Spawn | Give[J] | Kill | Finish[J] | Divide[J] | GiveUp[J] | Restart | Warn | Fail
)


class Transport(Protocol):
    """Starts workers, carries messages to them, and returns their events, for one run.

    Methods are called on the thread that uses the iterator at that moment (the user's or a
    feeder's), by one thread at a time, and never from inside another method. Only `poll` may wait
    for a worker. Any method may raise `KeyboardInterrupt`; afterwards only `close` is called.

    Attributes:
        worker_count: number of workers to start at the beginning, at least 1.
        depth: messages that a worker may have at a time, once it is `Ready`. None: any number, even
            before it is ready.
        may_lose_rows: True if `StoredRows.lost` of its answers can become True.
    """

    worker_count: int
    depth: int | None
    may_lose_rows: bool

    def start(self, worker: int) -> None:
        """Start a worker.

        Its number is new: 0, 1, 2 … over the life of the transport, also after `restart`. Called
        `worker_count` times at the beginning, then after `Ended`, `AllEnded`, `Lost` or `Room`, or
        if the loop wants more workers. Returns at once; `poll` later returns `Ready` for it, or
        `Ended` if it cannot start.
        """

    def send(self, worker: int, message: Message) -> None:
        """Send a worker a message, after its earlier ones.

        Called once for each message, thousands of times a second. At most `depth` messages are
        unanswered at a time. Returns at once: if the worker cannot receive at the moment, the
        message is kept and sent later. Does nothing if the worker has ended, because `Ended`,
        `Lost` or `AllEnded` follows, or is in the list that the caller is handling. Either
        `Answered` follows or the end of the worker, never both. Rows in `named` are not lost.
        """

    def poll(self, seconds: float | None) -> Sequence[Event]:
        """Return the events since the last call, in order.

        Answers of a worker come in the order of its messages. Called while a result has not
        arrived. `seconds` is 0 if the caller does not want to wait; otherwise the seconds until the
        first task exceeds its timeout, or None without a timeout. May return earlier without
        events. Before it waits, it tells workers which memory was released. An event is never
        returned twice, and is lost only by an interrupt, which ends the run.

        Raises:
            Exception: the run cannot continue: the pipeline cannot be unpickled, or the cluster is
                gone. `close` follows.
        """

    def kill(self, worker: int) -> None:
        """End a worker at once, even if it runs a task.

        Called once for a worker: if a task exceeds its timeout, or if the worker is surplus and
        idle. Returns at once; `Ended` follows after the worker's last answers, or may not if the
        worker was idle. Does nothing if the worker has ended.
        """

    def restart(self) -> None:
        """Start a new process that makes workers. All workers started earlier have ended.

        Called once after each `AllEnded`, before any other method, unless the run ends then. Never
        called if the transport does not send `AllEnded`.
        """

    def close(self) -> None:
        """End all workers and free everything except rows that are still in use.

        Only `close` may be called afterwards. Called when the run ends for any reason, and again if
        that was interrupted. Waits until worker processes are gone, but not for Ray's actors. A
        transport that is deleted without `close` leaves nothing behind either.
        """
