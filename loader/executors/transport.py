"""The one way to workers: processes, actors of Ray and a fake all look like this to the loop that uses them.

    pool (pure: events in, actions out)              worker: task → block (header and rows)
      ▲ event      │ action                              ▲ message        │
      └─ one loop ─┴──► Transport: start · send · poll → events · kill · restart · close

In: messages of tasks. Out: events. `pooled.PooledExecutor` is the only caller. The actions are those of `pool`: the loop
turns `Spawn` into `start`, `Give` into `send`, `Kill` into `kill` and `Restart` into `restart`.

The loop knows no kind of transport, and a transport knows no task's meaning: it carries tasks and rows, counts no tries,
divides nothing, blames no task and keeps no timeout of tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from ..work.stacked_rows import StackedRows
from ..work.tasks import Block, Blocks, GroupTask, RowOrigins, Task


class StoredRows(Protocol):
    """Rows of a block, wherever a transport has them. What holds them is kept as long as this object lives."""

    @property
    def lost(self) -> bool:
        """True once the rows are gone, with the worker or machine that had them: from then on for good.

        Read on the consumer's thread: before each message that names the rows, and between two calls of `load`. Always False
        where rows outlive their worker. When it is true, the loop has the task done again, and the new block takes its place.
        """

    def load(self) -> list[Any] | None:
        """The rows in the user's process, as a list. Their memory may be shared with what this object holds.

        Called on the consumer's thread, once or twice; and again after None, which says that the rows are lost, or were not
        here within a second. After None the loop polls, and looks at `lost`. Never raises for a lost row.
        """

    def columns(self) -> StackedRows | None:
        """The rows in the user's process as columns, without a copy; None where that cannot be.

        Called on the consumer's thread, any number of times. The memory is the caller's, and is kept as long as it is used.
        """


class NamedRows(NamedTuple):
    """Rows `[first, last)` of an earlier block, which the tasks of a message name by the number of that block.

    Tasks count rows from `first`: all of the block's rows need not cross.
    """

    block: int
    first: int
    last: int
    tags: RowOrigins  # of these rows
    rows: StoredRows  # of the whole block: what this transport gave with its answer


class Message(NamedTuple):
    """Tasks for one worker, which does them in this order and answers all of them at once."""

    tasks: Sequence[Task]  # one on a span, or groups of one stage
    named: Sequence[NamedRows] = ()

    @classmethod
    def of(
        cls, tasks: Sequence[GroupTask], blocks: Mapping[int, Block], rows_of: Callable[[Block], StoredRows]
    ) -> Message:
        """A message of groups that name rows of these blocks. Their rows count from the first one that goes along."""
        ranges: dict[int, tuple[int, int]] = {}
        for task in tasks:
            for block, start, stop in task.rows:
                first, last = ranges.get(block, (start, stop))
                ranges[block] = min(first, start), max(last, stop)
        named = [
            NamedRows(number, first, last, blocks[number].tags.part(first, last), rows_of(blocks[number]))  # type: ignore[union-attr]
            for number, (first, last) in ranges.items()
        ]
        moved = [
            tuple([(block, start - ranges[block][0], stop - ranges[block][0]) for block, start, stop in task.rows])
            for task in tasks
        ]
        return cls([GroupTask(task.stage, rows, *task[2:]) for task, rows in zip(tasks, moved)], named)


def named_blocks(named: Iterable[NamedRows], load: Callable[[Any], Any]) -> Blocks:
    """In a worker: the blocks whose rows a message names, once `load` has brought these here."""
    return {one.block: Block.of(load(one.rows)[one.first : one.last], one.tags) for one in named}


class Ready(NamedTuple):
    """A worker has begun; `worker_init_fn` has been called. Comes once for each worker that is started, or never."""

    worker: int


class Answered(NamedTuple):
    """A worker has done its oldest message: one block for each task, in the order of the message.

    The loop takes `block.rows` for the `StoredRows` of this transport.
    """

    worker: int
    blocks: Sequence[Block]


class Ended(NamedTuple):
    """A worker has ended, after all its answers that were not lost have been polled. No event of it follows.

    Comes once for each worker that ends, also after `kill`; for one that was idle when it was killed it may be left out.
    `how` continues "was terminated unexpectedly".
    """

    worker: int
    how: str


class Hang(NamedTuple):
    """A task that takes long, and what it is at.

    Attributes:
        what: operation, or reading, and the line of the user's code that it is at.
        where: the record.
        seconds: since the task began.
        text: the same with the record and the Python stack, for the log.
    """

    what: str
    where: str
    seconds: float
    text: str

    @property
    def summary(self) -> str:
        """One line."""
        return f"{self.what}, {self.where}, for {self.seconds:.1f} s"


class Hanging(NamedTuple):
    """The task of a worker takes long."""

    worker: int
    hang: Hang


class Silent(NamedTuple):
    """No worker has said anything for so many seconds, while somebody waited."""

    seconds: float


class AllEnded(NamedTuple):
    """The maker of the workers has ended, and they with it; `restart` follows. `how` continues "the process … "."""

    how: str


class Lost(NamedTuple):
    """Workers have ended through no fault of a task: with their machine, or with rows that they waited for."""

    workers: Sequence[int]
    how: str  # a sentence: "node 10.0.0.7 of the Ray cluster was lost"
    is_news: bool = True  # False: the user was warned of it before


class Room(NamedTuple):
    """There is room for that number of workers from now on. The loop starts more, or lets some go by `kill`."""

    workers: int


class Store(NamedTuple):
    """A place for rows that are on their way holds so many bytes; 0: it is gone. Without any, memory is not counted."""

    name: str
    nbytes: float


Event: TypeAlias = Ready | Answered | Ended | Hanging | Silent | AllEnded | Lost | Room | Store


class Transport(Protocol):
    """Makes workers, carries messages to them and events back.

    One instance serves one run. Every method is called on the thread that uses the iterator at that moment (the user's or a
    feeder's; not always the same one), never by two threads at a time and never from inside another method of it. No method
    but `poll` waits for a worker. A `KeyboardInterrupt` may come out of any of them: nothing but `close` is called then.

    Attributes:
        worker_count: workers to begin with, at least 1. Read once, before the first call of `start`.
        depth: messages that a worker may have at a time, once it is `Ready`. None: any number, also before it is.
        may_lose_rows: whether `StoredRows.lost` of its answers can become true.
    """

    worker_count: int
    depth: int | None
    may_lose_rows: bool

    def start(self, worker: int) -> None:
        """Have a worker made. Its number is new: 0, 1, 2 … over the life of the transport, also after `restart`.

        Called once for each worker: `worker_count` times at the beginning, then after `Ended`, `Lost` or `Room`. Returns at
        once; `Ready` or `Ended` follows by `poll`. Never fails because of the worker: what prevents it comes as `Ended`.
        """

    def send(self, worker: int, message: Message) -> None:
        """Give a worker a message, after those that it has.

        Called for each message once, thousands of times a second; not more than `depth` are unanswered at a time. Returns
        at once, also where the worker takes nothing at the moment: the message then waits here. To a worker that has ended
        it does nothing, as `Ended`, `Lost` or `AllEnded` follows or is in the list that the caller is at work on.
        `Answered` follows, or the end of the worker; never both for one message. Rows that `named` holds are not lost.
        """

    def poll(self, seconds: float | None) -> Sequence[Event]:
        """Events since the last call, in their order; answers of one worker come in the order of its messages.

        Called before every result that is not there: with 0 by who does not want to wait; else with the seconds until the
        first task is late, None without a timeout. May return earlier, with nothing, as to look after itself; before it
        waits it tells workers of memory that was released. An event is never returned twice, and never lost but by an
        interrupt, which ends the run.

        Raises:
            Exception: the run cannot continue, as the pipeline cannot be unpacked or the cluster is gone. `close` follows.
        """

    def kill(self, worker: int) -> None:
        """End a worker at once, whatever it does.

        Called once for a worker: when a task is late, or for one too many that has nothing to do. Returns at once; `Ended`
        follows, after its last answers. For a worker that has ended it does nothing.
        """

    def restart(self) -> None:
        """Make anew what makes the workers. Workers that were started before, also since it ended, are gone.

        Called once after each `AllEnded`, before any other method; a transport that never says `AllEnded` is never asked.
        """

    def close(self) -> None:
        """End all workers, and free all but rows that somebody still has. Nothing but `close` is called afterwards.

        Called when the run ends, however it does, and again if that was interrupted. Waits until processes are gone. A
        transport that is dropped without it leaves nothing either.
        """
