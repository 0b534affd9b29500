"""Tasks and their results (blocks), which the user's process and the workers send to each other.

Tasks are plain numbers, so that they can be sent to any worker, and be repeated. A block has the
rows that one task returned, and the origin of each row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from ..timing.times import Moments, TaskTimes
from .notices import Told
from .row_origins import RowOrigins

if TYPE_CHECKING:
    from ..timing.sums import StageSums


class Located(Protocol):
    """Interface of an object that works on records, and can say on which record it works now."""

    def place_now(self) -> str:
        """Return a text that names the record that is being processed; "" if it is unknown.

        Other threads may call this.
        """
        ...


class Units(ABC):
    """The elements of a task, each of which is made only when the caller asks for it.

    Attributes:
        made: list to which each element is appended when it is made. The caller removes it.
    """

    def __init__(self) -> None:
        self.made: list[Any] = []

    def report_to(self, sums: StageSums, note: Callable[[SpanTask, Block], None]) -> None:
        """Set the objects that count the elements. Called before the first element is made.

        Args:
            sums: sums over all tasks of the same stage (operations that run in one task). Each
                element is added to them, except elements for which `note` is called.
            note: function that is called for an element with a failure, times or warnings. Its
                arguments are the task of this element alone, and a block (the rows of one task)
                with the failure, times or warnings.
        """
        self._sums, self._note = sums, note

    @abstractmethod
    def make(self) -> Failure | None:
        """Make the next element, append it to `made`, and count it.

        Return None, or the failure if the element could not be made.
        """


class Failure:
    """The exception that ended a task.

    If it comes from another process, it is kept pickled, and is unpickled when it is needed.
    """

    __slots__ = ("_encoded", "_error")

    def __init__(self, error: Exception | None, encoded: bytes = b"") -> None:
        self._error = (
            error  # with notes that say where in the stream it happened; None: it is encoded
        )
        self._encoded = encoded

    @property
    def error(self) -> Exception:
        """The exception that ended a task.

        If it came from another process, it is unpickled at each access.
        """
        if self._error is not None:
            return self._error
        from ...common.remote_errors import decode  # cloudpickle takes 10 ms of an import

        return decode(self._encoded)

    def take(self) -> Exception:
        """Return the exception that ended a task, and drop the reference to it.

        May be called only once. The exception's traceback refers to frames that refer to this
        object. If this object still referred to the exception, both would be in a reference cycle,
        and not be freed at once.
        """
        error = self.error
        self._error = None
        return error

    def __reduce__(self) -> tuple[Any, ...]:
        from ...common.remote_errors import encode

        return Failure, (None, self._encoded if self._error is None else encode(self._error))


class SourceState(NamedTuple):
    """State of a source without random access after a task has read from it.

    Attributes:
        state: state of the source as text.
        ended: True if the source has no more elements.
        read: number of elements that the task read.
    """

    state: str
    ended: bool
    read: int


@dataclass(slots=True, eq=False)
class Block:
    """The rows that one task returned, in order, with their origins, times and failure.

    The rows are in this object (`here`), or a transport keeps them elsewhere (`rows`) until
    `elements` is read. The fields before `rows` are the header, which a worker sends together with
    the rows.

    Attributes:
        count: number of rows.
        tags: for each row, the source and position from which it comes. None if every row is made
            of a fixed number of consecutive positions, so that its index says from which.
        failure: failure that stopped the task after these rows; None if the task was completed.
        skipped: a text for each failure whose records were skipped.
        notices: warnings about sources and operations, to be shown to the user.
        stand: state of a source without random access after the task; None for other sources.
        waited: seconds in which the task waited for records that were read in advance.
        times: times of the task; None if it was not timed.
        seconds: seconds that the task took in another process; else 0.
        nbytes: bytes of the rows (or of the records that the task read, if these are more), if the
            task was run in another process; else 0.
        rows: the transport's object that has the rows; None if they are in this object.
        here: the rows, if they are in this object; else empty.
        parts: smaller tasks to be run in place of this block's task, if it was divided instead of
            run; else empty.
        kept: True if the rows will be delivered a second time, so that the user gets copies of
            them.
        units: object that makes the rows one by one, if they are not made yet; else None.
        moments: the times at which the task was submitted, its rows were asked for, and its rows
            were received. A time is 0 until it is known.
    """

    count: int = 0
    tags: RowOrigins | None = None
    failure: Failure | None = None
    skipped: Sequence[str] = ()
    notices: Told = ()
    stand: SourceState | None = None
    waited: float = 0.0
    times: TaskTimes | None = None
    seconds: float = 0.0
    nbytes: int = 0
    rows: Any = None
    here: Any = ()
    parts: Sequence[Task] = ()
    moments: Moments = (0.0, 0.0, 0.0)
    kept: bool = False
    units: Units | None = None

    @classmethod
    def of(
        cls,
        elements: Any,
        tags: RowOrigins | None = None,
        failure: Failure | None = None,
        skipped: Sequence[str] = (),
    ) -> Block:
        """Return a block (the rows of one task) with the rows `elements`.

        The other arguments are attributes of the block.
        """
        return cls(len(elements), tags, failure, skipped, here=elements)

    @property
    def header(self) -> tuple[Any, ...]:
        """The fields of a task's result before `rows`; `Block(*header, rows)` makes it again."""
        return _IN_HEADER(self)

    @property
    def elements(self) -> Any:
        """The rows that a task returned: a list, or `StackedRows` (columns).

        If a transport has the rows, they are first loaded into this object. They are columns if
        they will be sent, or were sent, from another process. Loading may raise WorkerCrashedError.
        """
        if self.rows is not None:
            self.here, self.rows = self.rows.load(), None
        return self.here

    @elements.setter
    def elements(self, elements: Any) -> None:
        self.here = elements
        self.count = len(elements)

    def columns(self) -> Any:
        """Return a task's rows as `StackedRows` (columns) whose memory may become a batch.

        Return None if the rows are not columns, if they are already in this object, or if they will
        be delivered a second time.
        """
        return None if self.rows is None or self.kept else self.rows.columns()

    def look(self) -> Any:
        """Return a task's rows, and leave them with the transport (of workers) if it has them.

        Later tasks can then still refer to the transport's rows.
        """
        return self.here if self.rows is None else self.rows.load()


_IN_HEADER = attrgetter(*(one.name for one in fields(Block)[:10]))


class SpanTask(NamedTuple):
    """Task: read a source's records at local positions `[start, stop)`, apply a stage's operations.

    A stage is a group of operations that run together in one task. Local positions are counted
    within one shard.

    Attributes:
        stage: index of the stage.
        start: first local position.
        stop: end of the local positions, exclusive.
        leaf: index in `Pipeline.every_leaf` of the source, with its sampler and the shard in which
            positions are counted. This may be a shard of an earlier run.
        since: for a source without random access: a position at or before `start`, and the source's
            state there. None at the beginning of the source, and for other sources.
        only: for a task that repeats one window (records that a `Pack`, or batches by budget, put
            together): index of the one element of the window to keep. None: keep all elements.
    """

    stage: int
    start: int
    stop: int
    leaf: int = 0
    since: tuple[int, str] | None = None
    only: int | None = None

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.stop

    @property
    def blocks(self) -> tuple[int, ...]:
        return ()


RowRange: TypeAlias = tuple[int, int, int]
"""Number of a block (the rows of an earlier task), and a range `[start, stop)` of its rows."""


class GroupTask(NamedTuple):
    """Task: apply a stage's operations to rows that earlier tasks returned.

    A stage is a group of operations that run together in one task.

    Attributes:
        stage: index of the stage.
        rows: ranges of rows of blocks (the rows of one task each).
        order: the order in which to use the rows: for each, its index among all rows of `rows`, as
            the bytes of `int32[n]`. None: the order of `rows`.
        first: index of the first row among all rows that the shard gets from a join (a mix or zip
            of streams, for example); 0 if the rows come from no join.
        former: 0 for rows of this shard. For rows of a shard of an earlier run, the number of that
            shard, from 1.
        only: for a task that repeats one window (records that a `Pack`, or batches by budget, put
            together): index of the one element of the window to keep. None: keep all elements.
    """

    stage: int
    rows: tuple[RowRange, ...]
    order: bytes | None = None
    first: int = 0
    former: int = 0
    only: int | None = None

    @property
    def span(self) -> tuple[int, int]:
        return 0, input_count(self)

    @property
    def blocks(self) -> tuple[int, ...]:
        """Numbers of the blocks (results of earlier tasks) whose rows this task processes."""
        return tuple(dict.fromkeys(block for block, _, _ in self.rows))


Task: TypeAlias = SpanTask | GroupTask

Blocks: TypeAlias = Mapping[int, Any]
"""Blocks (the rows of one task each), by number, to whose rows tasks refer."""

NO_BLOCKS: Blocks = MappingProxyType({})

Parts: TypeAlias = Sequence[tuple[Block, int, int]]
"""Rows of a group: blocks (the rows of a task), each with a range `[start, stop)` of rows."""


def input_count(task: Task) -> int:
    """Return the number of inputs of a task: positions, or rows of earlier tasks."""
    if isinstance(task, SpanTask):
        return task.stop - task.start
    return sum(stop - start for _, start, stop in task.rows)


RecordsAhead: TypeAlias = "Callable[[], ReadRecords | None]"
"""Function that waits for records of a task that are being read in advance, and returns them.

Returns None if the worker has to read them itself. The worker's thread calls it once.
"""


class Unread(NamedTuple):
    """Range `[start, stop)` of a task's records that could not be read in advance."""

    start: int
    stop: int


class ReadRecords(NamedTuple):
    """The records of a task on consecutive positions, which were read in advance.

    Attributes:
        records: the records. At indices within `unread`, the values have no meaning.
        unread: the ranges of indices at which records could not be read, in order.
        seconds: seconds of all reads of these records together.
        failure: for a source without random access: the exception after which there are no more
            records. None if there is none.
    """

    records: Sequence[Any]
    unread: Sequence[Unread] = ()
    seconds: float = 0.0
    failure: Exception | None = None

    def at(self, place: int) -> ReadRecords | None:
        """Return a `ReadRecords` with only the record at index `place`.

        It has no record if there are fewer records. Return None if this record could not be read.
        """
        if any(some.start <= place < some.stop for some in self.unread):
            return None
        return ReadRecords(self.records[place : place + 1])
