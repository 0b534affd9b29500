"""The actor: unpacks the pipeline once, and does the tasks that it is sent.

In: tasks, and the rows that they name, which Ray brings here. Out: an `Answer` for each, and its rows for the object store.
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
from typing import Any, NamedTuple

import ray

from ...observing.times import Packed
from ...options import INSIDE_A_TASK, ExecutionOptions
from ...plan.pipeline import Pipeline
from ...work.notices import Told
from ...work.slabs import SlabPool
from ...work.stopwatch import stopwatches
from ...work.tasks import NO_BLOCKS, Block, Blocks, PackedTags, RowTags, SpanTask, Stand, Task
from ...work.worker import Worker
from ..pooled import remote_errors as errors
from ..pooled.first_call import called_first
from ..pooled.groups import EncodedGroup, decoded
from ..read_ahead import NOT_AHEAD, ReadAhead, Reading
from .blocks import StoredRows, loaded, stored, to_write_to


class Begun(NamedTuple):
    """The first answer of a worker: it can be given tasks, or why not."""

    node: str  # that it is on
    clock: float  # seconds that `time.time` shows more than `time.perf_counter`
    error: bytes | None  # why it could not unpack the pipeline


class Answer(NamedTuple):
    """A task is finished, or failed after its rows. What has the name of something of a `Block` is just that."""

    row_count: int
    tags: PackedTags | None
    error: bytes | None  # an encoded exception
    skipped: Sequence[str]
    notices: Told
    seconds: float  # that it took
    size: int  # bytes of the rows
    stand: Stand | None
    times: Packed | None


NamedRows = tuple[int, int, int, PackedTags]
"""Rows `[start, stop)` of a block that goes along: its number, which of them, and their tags."""


class RayWorker:
    """The state of an actor."""

    def __init__(self, number: int, search_path: list[str], payload: tuple[bytes, list[Any]]) -> None:
        self._number = number
        self._turns = _Turns()
        self._error: bytes | None = None
        sys.path += [path for path in search_path if path not in sys.path]
        try:
            self._open(*pickle.loads(payload[0], buffers=payload[1]))
        except BaseException as error:
            error.add_note("millrace: a worker could not unpickle the pipeline.")
            self._error = errors.encode(error)

    def _open(self, pipeline: Pipeline, options: ExecutionOptions) -> None:
        self._pipeline = pipeline
        self._unready = called_first(options, self._number)
        self._pool = SlabPool()
        stopwatch = stopwatches(self._number, options.observe)
        self._worker = Worker(pipeline, self._pool.allocate, stacks_rows=True, stopwatch=stopwatch)
        self._ahead = ReadAhead(pipeline, options.reading)

    def begin(self) -> Begun:
        """The first call."""
        return Begun(ray.get_runtime_context().get_node_id(), time.time() - time.perf_counter(), self._error)

    def run_span(self, turn: int, fields: tuple[Any, ...]) -> tuple[Any, ...]:
        """Do a task on a span: its answer, and its rows."""
        task = SpanTask(*fields)
        reading = self._ahead.begin(task)
        with self._turns.wait_for(turn):
            answer, rows = self._answer(task, NO_BLOCKS, reading)
        return [answer], rows

    def run_groups(
        self, turn: int, groups: Sequence[EncodedGroup], named: Sequence[NamedRows], *rows: StoredRows
    ) -> tuple[Any, ...]:
        """Do groups, one after the other: their answers, and the rows of each."""
        with self._turns.wait_for(turn):
            tasks = decoded(groups)
            kept = self._pipeline.stages[
                tasks[0][1].stage
            ].groups  # a batch is made of the rows, which stay as they are
            blocks = {
                number: Block((loaded(some) if kept else to_write_to(loaded(some)))[start:stop], RowTags.unpacked(tags))
                for (number, start, stop, tags), some in zip(named, rows)
            }
            done = [self._answer(task, blocks, NOT_AHEAD) for _, task in tasks]
        return [answer for answer, _ in done], *(rows for _, rows in done)

    def _answer(self, task: Task, blocks: Blocks, reading: Reading) -> tuple[tuple[Any, ...], StoredRows]:
        INSIDE_A_TASK.set(True)
        began = time.perf_counter()
        block = Block([], failure=self._unready) if self._unready else self._run(task, blocks, reading)
        error = None if block.failure is None else errors.encode(block.failure.error)
        try:
            rows, size = stored(block.elements, self._pool)
        except Exception as failure:
            error = errors.encode(failure)
            block = Block([], None if block.tags is None else RowTags(), block.failure)
            rows, size = stored([], self._pool)
        ended = time.perf_counter()
        tags = None if block.tags is None else block.tags.packed()
        times = None if block.times is None else block.times.until(ended).packed()
        told = block.skipped, block.notices
        return tuple(Answer(block.count, tags, error, *told, ended - began, size, block.stand, times)), rows

    def _run(self, task: Task, blocks: Blocks, reading: Reading) -> Block:
        try:
            return self._worker.run(task, blocks, reading.records)
        except KeyboardInterrupt as error:  # Ray would take it for a call that was cancelled
            raise SystemExit("an operation raised KeyboardInterrupt") from error


class _Turns:
    """Lets calls work one after the other, in their order."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._turn = 0

    @contextmanager
    def wait_for(self, turn: int) -> Iterator[None]:
        """Number `turn`, from 0."""
        with self._changed:
            self._changed.wait_for(lambda: self._turn == turn)
        try:
            yield
        finally:
            with self._changed:
                self._turn += 1
                self._changed.notify_all()
