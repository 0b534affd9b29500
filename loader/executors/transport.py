"""The interface of transports, which connect the executor's loop with workers; events and actions.

    pool (decides: events in, actions out)           worker: task → block (header and rows)
      ▲ event      │ action                              ▲ message        │
      └─ one loop ─┴──► Transport: start · send · poll → events · kill · restart · close

In: messages with tasks. Out: events, such as finished tasks. Workers are processes or Ray actors.
Only `pooled.PooledExecutor` calls a transport. It turns the actions of `pool` into calls: `Spawn`
into `start`, `Give` into `send`, `Kill` into `kill`, and `Restart` into `restart`.

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
    """Rows of one task, which the transport keeps encoded as long as this object exists."""

    @property
    def lost(self) -> bool:
        """True if the rows are lost, because the worker or machine that had them is gone.

        Always False if rows outlive their worker. If it is True, the loop runs the task a second
        time, and the new rows replace these. Read on the thread that uses the iterator: before each
        message that refers to the rows, and between two calls of `load`.
        """

    def load(self) -> list[Any] | None:
        """Return the rows in the user's process as a list.

        Return None if the rows are lost, or did not arrive within a second; never raise an
        exception because of a loss. The rows' memory may be shared with this object. Called on the
        thread that uses the iterator. After None, the loop calls `poll`, reads `lost`, and calls
        `load` again, as often as needed.
        """

    def columns(self) -> StackedRows | None:
        """Return the rows in the user's process as columns (an array per field), without a copy.

        Return None if that is impossible. Called on the thread that uses the iterator, any number
        of times. The memory then belongs to the caller; it exists as long as arrays refer to it.
        """


class NamedRows(NamedTuple):
    """Rows `[first, last)` of an earlier block (a task's rows), to which tasks of a message refer.

    The tasks count rows from `first`, so that other rows of the block need not be sent.

    Attributes:
        block: number of the block.
        first: first row.
        last: end of the rows, exclusive.
        tags: for each row from `first` to `last`, the source and position from which it comes.
        rows: the transport's object with all rows of the block, encoded.
    """

    block: int
    first: int
    last: int
    tags: RowOrigins
    rows: StoredRows


class Message(NamedTuple):
    """Tasks for one worker. The worker runs them in order, and sends one answer for all of them.

    Attributes:
        tasks: either one task on consecutive positions; or one or several tasks on groups of rows,
            which may belong to several stages (groups of operations).
        named: rows of earlier blocks (results of tasks) that the tasks refer to.
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

        If only some rows of a block are sent, the first of these has the index 0 in the message's
        tasks.

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
    """Return, in a worker, the blocks (rows of one task each) to which a message refers.

    The result is a dict from block number to block.

    Args:
        named: rows of blocks, as in the message.
        load: function that takes the encoded rows of a block, as the transport has received them,
            and returns the rows.
    """
    return {one.block: Block.of(load(one.rows)[one.first : one.last], one.tags) for one in named}


class Ready(NamedTuple):
    """Event: a worker has started up, and its `worker_init_fn`, if any, was called.

    Comes at most once for each started worker.

    Attributes:
        worker: number of the worker.
    """

    worker: int


class Answered(NamedTuple):
    """Event: a worker has run the tasks of its oldest unanswered message.

    Attributes:
        worker: number of the worker.
        blocks: a block (the rows of one task) for each task of the message, in order. `block.rows`
            is the `StoredRows` object of this transport.
    """

    worker: int
    blocks: Sequence[Block]


class Ended(NamedTuple):
    """Event: a worker has ended.

    It is the worker's last event: answers that were not lost come before it. It comes once for each
    worker that ends, also after `kill`; except that it may not come if the worker had no task.

    Attributes:
        worker: number of the worker.
        how: how it ended, such as "by signal SIGKILL", to complete "was terminated unexpectedly …".
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
    """Event: no worker has sent anything for `seconds` seconds while the executor waited."""

    seconds: float


class AllEnded(NamedTuple):
    """Event: the process that makes workers has ended, and all workers with it.

    The loop then calls `restart` or `close`. The text `how` completes the sentence "the process
    that makes the workers …".
    """

    how: str


class Lost(NamedTuple):
    """Event: workers have ended through no fault of a task.

    They ended with their machine, or because rows that they needed were lost.

    Attributes:
        workers: numbers of the workers.
        how: a sentence that says what happened, such as "node 10.0.0.7 of the Ray cluster was
            lost".
        is_news: False if the user was already warned of this loss.
    """

    workers: Sequence[int]
    how: str
    is_news: bool = True


class Room(NamedTuple):
    """Event: the number of workers for which the cluster has room.

    The event comes at every check of the cluster, also if the number has not changed. If it has
    changed, the loop starts workers, or kills surplus workers that have not started up.
    """

    workers: int


class Store(NamedTuple):
    """Event: the capacity of one of Ray's object stores, which hold rows, is known or has changed.

    As long as no store is known, the sizes of rows are not limited.

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
    """Action: send jobs to a worker, in one message. Nothing is sent if the worker has ended."""

    worker: int
    jobs: Sequence[J]


class Kill(NamedTuple):
    """Action: kill the worker with this number.

    The event `Ended` follows; if the worker had no task, it may not follow.
    """

    worker: int


class Finish(NamedTuple, Generic[J]):
    """Action: complete the job with its result."""

    job: J
    block: Block


class Divide(NamedTuple, Generic[J]):
    """Action: replace a job by smaller jobs, which do the same work together."""

    job: J


class GiveUp(NamedTuple, Generic[J]):
    """Action: let a job fail, because workers ended each time that it was tried.

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
    """Starts workers, carries messages to them, and returns events about them, for one run.

    Methods are called on the thread that uses the iterator at that moment (the user's or a
    feeder's), by one thread at a time, and never from inside another method. Only `poll` may wait
    for a worker. Any method may raise `KeyboardInterrupt`; afterwards only `close` is called.

    Attributes:
        worker_count: number of workers to start at the beginning, at least 1.
        depth: unanswered messages that a worker may have at a time, once it is `Ready`. None: any
            number, even before it is ready.
        may_lose_rows: True if rows that a worker has made can be lost (`StoredRows.lost`).
    """

    worker_count: int
    depth: int | None
    may_lose_rows: bool

    def start(self, worker: int) -> None:
        """Start a worker, and return at once.

        `poll` later returns `Ready` for the worker, or `Ended` if it cannot start. The number is
        new: 0, 1, 2 … over the life of the transport, also after `restart`. Called `worker_count`
        times at the beginning; later after `Ended`, `AllEnded`, `Lost` or `Room`, or if the loop
        wants more workers.
        """

    def send(self, worker: int, message: Message) -> None:
        """Send a worker a message, after its earlier ones, and return at once.

        Called once for each message, thousands of times a second. At most `depth` messages of a
        worker are unanswered at a time. If the worker cannot receive at the moment, the message is
        kept and sent later. Does nothing if the worker has ended: the caller learns this from
        `Ended`, `Lost` or `AllEnded`, which may be among the events that it is handling. Either
        `Answered` or the worker's end follows, never both. Rows in `named` are not lost.
        """

    def poll(self, seconds: float | None) -> Sequence[Event]:
        """Return the events since the last call, in order.

        Called while a result has not arrived. `seconds` is 0 if the caller does not want to wait.
        Otherwise it is the time until the first task exceeds its timeout, or None without a
        timeout. May return earlier without events. Before it waits, it tells workers which memory
        was released. Answers of a worker come in the order of its messages. An event is never
        returned twice, and is lost only by an interrupt, which ends the run.

        Raises:
            Exception: the run cannot continue: the pipeline cannot be unpickled, or the cluster is
                gone. `close` follows.
        """

    def kill(self, worker: int) -> None:
        """End a worker at once, even if it runs a task; do not wait for its end.

        Called once for a worker: if a task exceeds its timeout, or if the worker is surplus and has
        no task. `Ended` follows after the worker's last answers; if the worker had no task, it may
        not follow. Does nothing if the worker has ended.
        """

    def restart(self) -> None:
        """Start a new process that makes workers; all earlier workers have ended.

        Called once after each `AllEnded`, before any other method, unless the run ends then. Never
        called if the transport does not send `AllEnded`.
        """

    def close(self) -> None:
        """End all workers and free everything except rows that are still in use.

        Only `close` may be called afterwards. Called when the run ends for any reason, and once
        more if the first call was interrupted. Waits until worker processes are gone, but not for
        Ray's actors. A transport that is deleted without `close` leaves nothing behind either.
        """
