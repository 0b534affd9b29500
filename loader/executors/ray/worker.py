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
from typing import Any

import ray

from ....common.global_random import reseed
from ...options import INSIDE_A_TASK, ExecutionOptions
from ...plan.pipeline import Pipeline
from ...work.slabs import SlabPool
from ...work.stopwatch import stopwatches
from ...work.tasks import NO_BLOCKS, Block, Blocks, Failure, RowTags, SpanTask, Task
from ...work.worker import Worker
from ..pool import remote_errors as errors
from ..pool.first_call import called_first
from ..pool.groups import EncodedGroup, decoded
from ..pool.sending import sent
from ..read_ahead import NOT_AHEAD, AheadOfWork, ReadAhead
from .blocks import StoredRows, loaded, stored, to_write_to
from .messages import Answer, Begun, NamedRows
from .releases import identity_of, release_here


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
        self._pipeline = pipeline
        self._identity = identity_of(pipeline)
        reseed()
        self._unready = called_first(options, self._number)
        self._pool = SlabPool()
        stopwatch = stopwatches(self._number, options.observe)
        seeds = options.seed_globals
        self._worker = Worker(
            pipeline, self._pool.allocate, stacks_rows=True, owns_globals=True, stopwatch=stopwatch, seeds_globals=seeds
        )
        self._ahead = ReadAhead(pipeline, options.reading)

    def begin(self) -> Begun:
        """The first call."""
        node, clock = ray.get_runtime_context().get_node_id(), time.time() - time.perf_counter()
        return Begun(node, clock, self._error, tuple(release_here()), self._identity)

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

    def _answer(self, task: Task, blocks: Blocks, reading: AheadOfWork) -> tuple[tuple[Any, ...], StoredRows]:
        INSIDE_A_TASK.set(True)
        began = time.perf_counter()
        block = Block([], failure=self._unready) if self._unready else self._run(task, blocks, reading)
        try:
            block, (rows, size) = sent(block, task, self._pipeline, lambda rows: stored(rows, self._pool))
        except Exception as failure:
            block = Block([], None if block.tags is None else RowTags(), Failure(failure))
            rows, size = stored([], self._pool)
        error = None if block.failure is None else errors.encode(block.failure.error)
        ended = time.perf_counter()
        tags = None if block.tags is None else block.tags.packed()
        times = None if block.times is None else block.times.until(ended).packed()
        told = block.skipped, block.notices
        return tuple(
            Answer(block.count, tags, error, *told, ended - began, block.waited, size, block.stand, times)
        ), rows

    def _run(self, task: Task, blocks: Blocks, reading: AheadOfWork) -> Block:
        try:
            return self._worker.run(task, blocks, reading.records)
        except KeyboardInterrupt as error:  # Ray would take it for a call that was cancelled
            raise SystemExit("an operation raised KeyboardInterrupt") from error


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
