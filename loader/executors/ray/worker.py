"""The Ray actor, which unpickles the pipeline and runs tasks; and rows in Ray's object store.

In: tasks, and the rows to which they refer, which Ray provides. Out: for each task, the header of
its block (all but the rows), and its rows as the object store keeps them: a pickle, and the memory
of large arrays. Arrays of loaded rows are read-only views of the store's memory. Ray keeps that
memory until the last view is deleted.

The actor runs in a process that Ray starts, on any node. If reading in advance helps, the actor
gets several calls at a time, each on its own thread. Each call begins to read its records at once,
and then waits until the earlier calls are done before it runs its tasks.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from typing import Any, TypeAlias
from weakref import WeakSet

import cloudpickle
import numpy as np
import ray

from ....common import remote_errors as errors
from ....common.fields import replaced
from ....operations.trees import ROWS, flatten
from ...options import INSIDE_A_TASK
from ...plan.pipeline import Pipeline
from ...work.slabs import SlabPool
from ...work.stacked_rows import RowStack, StackedRows, side_by_side
from ...work.stopwatch import bytes_of
from ...work.tasks import Task
from ..task_runner import TaskRunner, WorkerSetup, begin_worker
from ..transport import NamedRows, named_blocks
from .agreement import Begun, identity_of, release_here

# Chosen: the same limit as for arrays in the shared memory of worker processes.
IN_THE_PICKLE = 512
"""Bytes below which an array is copied into the pickle of a block (the rows of one task).

The memory of larger arrays is stored beside the pickle.
"""

# Chosen: the copy of larger rows costs more.
STACKED_BELOW = 16 << 10
"""Rows of fewer bytes than this are stacked into columns before they are sent."""

StoredRows = tuple[bytes, list[Any]]
"""A pickle, and the memory of its large arrays.

The memory is a `PickleBuffer` before it is stored, and a buffer of Ray's when it is loaded.
"""


class View:
    """Piece of memory in Ray's object store, as the base of NumPy arrays on this memory.

    Ray keeps the memory as long as the `View` exists, and the `View` exists as long as the arrays.
    """

    __slots__ = ("__array_interface__", "__weakref__", "_buffer")

    def __init__(self, buffer: Any) -> None:
        self._buffer = buffer
        self.__array_interface__ = np.frombuffer(buffer, np.uint8).__array_interface__
        _VIEWS.add(self)


_VIEWS: WeakSet[View] = WeakSet()


class Held:
    """Keeps Python objects that refer to Ray's object store alive in a forked child.

    The child shares the parent's connection to Ray. If such an object were deleted in the child,
    Ray could release memory that the parent still uses.
    """

    _held: tuple[Any, ...] = ()

    @classmethod
    def hold(cls) -> None:
        """Keep every object of this process that refers to the object store alive until `let_go`.

        Called before a fork. In the forked child, these objects are then never deleted, so that
        nothing in the store is released.
        """
        cls._held = (*_VIEWS, *OF_THIS_PROCESS)

    @classmethod
    def let_go(cls) -> None:
        """Drop the references that `hold` took, so that objects can be deleted again.

        Called only in the parent after a fork.
        """
        cls._held = ()


OF_THIS_PROCESS: WeakSet[Any] = WeakSet()
"""Transports and rows that hold references to objects in the store."""

os.register_at_fork(before=Held.hold, after_in_parent=Held.let_go)


def stored(elements: Any, pool: SlabPool) -> tuple[StoredRows, int]:
    """Pickle elements for Ray's object store.

    Exceptions of pickling are raised unchanged.

    Args:
        elements: a list of elements, or rows stacked into columns (one array for each field).
        pool: provides the memory of columns, if the elements are stacked here.

    Returns:
        A pair. First, the pickle, and the memory of large arrays, which is not copied into the
        pickle. Second, the number of bytes of both.
    """
    buffers: list[Any] = []

    def goes_into_the_pickle(buffer: pickle.PickleBuffer) -> bool:
        if buffer.raw().nbytes < IN_THE_PICKLE:
            return True
        buffers.append(buffer)
        return False

    data = cloudpickle.dumps(
        _stacked(elements, pool), protocol=5, buffer_callback=goes_into_the_pickle
    )
    return (data, buffers), len(data) + sum(buffer.raw().nbytes for buffer in buffers)


def _stacked(elements: Any, pool: SlabPool) -> Any:
    """Return rows as columns (one array for each field), if the conversion is quick.

    Small rows are copied into columns. Large rows become columns only if they already lie side by
    side in memory. All other rows, a single row, and rows with different fields or shapes are
    returned unchanged.
    """
    if isinstance(elements, StackedRows) or len(elements) < 2:
        return elements
    if bytes_of(elements[0]) >= STACKED_BELOW:
        return side_by_side(elements) or elements
    rows = RowStack(len(elements), pool.allocate)
    rows.extend(elements)
    return rows.finish()


def loaded(rows: StoredRows) -> list[Any] | StackedRows:
    """Unpickle rows from Ray's object store (a result of `stored`).

    Return a list of elements; or columns (one array for each field), if `stored` has stacked the
    rows. Arrays are views of the store's memory.
    """
    data, buffers = rows
    return pickle.loads(data, buffers=[np.asarray(View(buffer)) for buffer in buffers])  # type: ignore[no-any-return]


def to_write_to(rows: list[Any] | StackedRows) -> list[Any] | StackedRows:
    """Return the rows with copies in place of read-only arrays.

    Operations may then write to all arrays.
    """
    if isinstance(rows, StackedRows):
        return StackedRows([column.copy() for column in rows.columns], rows.kinds, rows.example)
    leaves, structure = flatten(rows, nodes=ROWS)
    return structure.unflatten(list(map(_writable, leaves)))  # type: ignore[return-value]


def _writable(leaf: Any) -> Any:
    return leaf.copy() if type(leaf) is np.ndarray and not leaf.flags.writeable else leaf


def as_list(rows: list[Any] | StackedRows) -> list[Any]:
    """Return rows as a list, also if they are stacked into columns."""
    return list(rows.elements(0, len(rows))) if isinstance(rows, StackedRows) else rows


def memory_of(buffers: Sequence[Any]) -> list[Any]:
    """Wrap pickle's out-of-band buffers in `PickleBuffer` objects, which Ray does not copy."""
    return [pickle.PickleBuffer(buffer) for buffer in buffers]


LOST = ""
"""Value in place of a node's id for rows that Ray has lost."""


Fetch: TypeAlias = "Callable[[RayRows], list[Any] | None]"
"""Function that loads rows into this process.

It returns None if they are lost, or do not arrive within a second.
"""


class RayRows:
    """Rows of one task in Ray's object store.

    Arrays of loaded rows are views of the store's memory.

    Args:
        reference: Ray's reference to the stored rows.
        node: id of the node that made them; `LOST` once Ray has lost them.
        gone: ids of the nodes that were lost.
        fetch: function that loads the rows into this process.
    """

    def __init__(self, reference: Any, node: str, gone: Set[str], fetch: Fetch) -> None:
        self.reference = reference
        self.node = node
        self._gone = gone  # nodes, by their ids
        self._fetch = fetch
        OF_THIS_PROCESS.add(self)

    @property
    def lost(self) -> bool:
        return self.node in self._gone

    def load(self) -> list[Any] | None:
        return self._fetch(self)

    def columns(self) -> None:
        """Return None: rows in Ray's object store cannot be used as columns without a copy.

        Columns (one array for each field) could become a batch for the user, who may write to it;
        but the store's memory is read-only.
        """


class RayWorker:
    """The class of Ray actors that are workers.

    If the pipeline cannot be unpickled, the worker stores the error, and `begin` returns it.

    Args:
        number: number of the worker.
        search_path: module search path of the user's process, which is added to that of the actor.
        payload: pickle of the options and the pipeline, and the memory of its large arrays.
    """

    def __init__(
        self, number: int, search_path: list[str], payload: tuple[bytes, list[Any]]
    ) -> None:
        self._number = number
        self._turns = _Turns()
        self._error: bytes | None = None
        self._identity = ""
        sys.path += [path for path in search_path if path not in sys.path]
        begin_worker(number)
        try:
            self._open(*pickle.loads(payload[0], buffers=payload[1]))
        except BaseException as error:
            error.add_note("headrace: a worker could not unpickle the pipeline.")
            self._error = errors.encode(error)

    def _open(self, setup: WorkerSetup, pipeline: Pipeline) -> None:
        self._stages = pipeline.stages
        self._identity = identity_of(pipeline)
        pool = SlabPool()
        self._runner = TaskRunner(
            self._number, setup, pipeline, pool.allocate, lambda rows: stored(rows, pool)
        )

    def begin(self) -> Begun:
        node, clock = ray.get_runtime_context().get_node_id(), time.time() - time.perf_counter()
        return Begun(node, clock, self._error, tuple(release_here()), self._identity)

    def run(
        self, turn: int, tasks: Sequence[Task], named: Sequence[NamedRows], *rows: StoredRows
    ) -> tuple[Any, ...]:
        """Run tasks one after the other.

        Args:
            turn: number of the call, from 0. The call waits until all earlier calls are done.
            tasks: tasks of one message.
            named: earlier rows that the tasks refer to, without the rows themselves.
            *rows: the rows for each entry of `named`, which Ray provides.

        Returns:
            A tuple. The first item is a list with the header of each task's block (all but the
            rows). The other items are the rows of each task.

        Raises:
            SystemExit: an operation raised KeyboardInterrupt.
        """
        reading = self._runner.begin(tasks)
        with self._turns.wait_for(turn):
            INSIDE_A_TASK.set(True)
            # a batch is made of the rows, which stay as they are
            kept = self._stages[tasks[0].stage].groups
            came = [replaced(one, rows=some) for one, some in zip(named, rows)]
            blocks = named_blocks(came, loaded if kept else lambda some: to_write_to(loaded(some)))
            try:
                done = [self._runner.run(task, blocks, reading) for task in tasks]
            except KeyboardInterrupt as error:  # Ray would take it for a call that was cancelled
                raise SystemExit(
                    "an operation raised KeyboardInterrupt, which ends its worker"
                ) from error
        return [header for header, _ in done], *(rows for _, rows in done)


class _Turns:
    """Makes concurrent calls work one after the other, in the order of their numbers.

    Hundreds of calls may wait, each on a thread. Only the thread of the next call is woken.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: dict[int, threading.Event] = {}
        self._of(0).set()

    def _of(self, turn: int) -> threading.Event:
        with self._lock:
            return self._begun.setdefault(turn, threading.Event())

    @contextmanager
    def wait_for(self, turn: int) -> Iterator[None]:
        """Return a context that waits until all calls before call number `turn` (from 0) are done.

        When the context ends, call `turn` is done, and the next call may begin.
        """
        self._of(turn).wait()
        try:
            yield
        finally:
            del self._begun[turn]
            self._of(turn + 1).set()
