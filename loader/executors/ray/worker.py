"""The actor: unpacks the pipeline once, and does the tasks that it is sent.

In: tasks, and the rows that they name, which Ray brings here. Out: a header for each, and its rows for the object store.
Runs in a process of Ray's, on any node.

Where it helps to read ahead, calls come in on several threads: each begins to read and then waits for its turn to work.
"""

from __future__ import annotations

import pickle
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ray

from ...options import INSIDE_A_TASK, ExecutionOptions
from ...plan.pipeline import Pipeline
from ...work.slabs import SlabPool
from ...work.tasks import Block, RowOrigins
from ..pool import remote_errors as errors
from ..pool.messages import Packed, unpack_task
from ..pool.task_runner import TaskRunner
from .agreement import Begun, identity_of, release_here
from .rows import NamedStored, StoredRows, loaded, stored, to_write_to


class RayWorker:
    """The state of an actor."""

    def __init__(self, number: int, search_path: list[str], payload: tuple[bytes, list[Any]]) -> None:
        self._number = number
        self._turns = _Turns()
        self._error: bytes | None = None
        self._identity = ""
        sys.path += [path for path in search_path if path not in sys.path]
        try:
            self._open(*pickle.loads(payload[0], buffers=payload[1]))
        except BaseException as error:
            error.add_note("headrace: a worker could not unpickle the pipeline.")
            self._error = errors.encode(error)

    def _open(self, pipeline: Pipeline, options: ExecutionOptions) -> None:
        self._stages = pipeline.stages
        self._identity = identity_of(pipeline)
        pool = SlabPool()
        self._runner = TaskRunner(self._number, pipeline, options, pool.allocate, lambda rows: stored(rows, pool))

    def begin(self) -> Begun:
        """The first call."""
        node, clock = ray.get_runtime_context().get_node_id(), time.time() - time.perf_counter()
        return Begun(node, clock, self._error, tuple(release_here()), self._identity)

    def run(
        self, turn: int, packed: Sequence[Packed], named: Sequence[NamedStored], *rows: StoredRows
    ) -> tuple[Any, ...]:
        """Do tasks, one after the other: their headers, and the rows of each."""
        tasks = [unpack_task(fields) for fields in packed]
        reading = self._runner.begin(tasks)
        with self._turns.wait_for(turn):
            INSIDE_A_TASK.set(True)
            kept = self._stages[tasks[0].stage].groups  # a batch is made of the rows, which stay as they are
            blocks = {
                number: Block(
                    (loaded(some) if kept else to_write_to(loaded(some)))[start:stop], RowOrigins.unpacked(tags)
                )
                for (number, start, stop, tags), some in zip(named, rows)
            }
            try:
                done = [self._runner.run(task, blocks, reading) for task in tasks]
            except KeyboardInterrupt as error:  # Ray would take it for a call that was cancelled
                raise SystemExit("an operation raised KeyboardInterrupt") from error
        return [header for header, _ in done], *(rows for _, rows in done)


class _Turns:
    """Lets calls work one after the other, in their order. Hundreds may wait: each is woken up when its own turn comes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: dict[int, threading.Event] = {}
        self._of(0).set()

    def _of(self, turn: int) -> threading.Event:
        with self._lock:
            return self._begun.setdefault(turn, threading.Event())

    @contextmanager
    def wait_for(self, turn: int) -> Iterator[None]:
        """Number `turn`, from 0."""
        self._of(turn).wait()
        try:
            yield
        finally:
            del self._begun[turn]
            self._of(turn + 1).set()
