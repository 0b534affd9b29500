"""What the user's loop holds: it opens executors, delivers elements, and knows where the user stands.

In: a pipeline. Out: elements, and at any moment the state from which the stream goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from ..checks import whole_number
from ..errors import ClosedError, InUseError
from ..wording import shown
from .executors.make import make_executor
from .executors.protocol import Executor
from .options import ExecutionOptions, ReadOptions
from .plan.cursor import Cursor
from .plan.pipeline import Pipeline
from .plan.ranges import Ranges, within
from .plan.skipped_steps import NONE_SKIPPED, SkippedSteps
from .plan.steps import number_of, part_epochs, records_of_step
from .state.changed_mix import check_left, going_on
from .state.files import restore_later, write_later
from .state.loader_state import LoaderState, Unfinished
from .state.mark import Mark
from .state.resume import formers, joined, parsed, resumed
from .state.unfinished import Row, rows
from .stats import IteratorStats, Waits
from .stream.flow import Flow
from .stream.rows import Rows
from .stream.running import Element, Elements, Running
from .stream.skipped import SkippedRecords


class DataLoaderIterator:
    """One pass over a `DataLoader`'s stream; made by `iter(loader)`.

    Use it from one thread at a time. After an exception of an operation the state is still that of the last element
    delivered, so the next `next` tries the same element again; `set_state` goes elsewhere. Close it, or use it as a
    context manager, to stop its threads at once; dropping it does the same.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        execution: ExecutionOptions,
        max_errors: int | None = None,
        skipped_steps: SkippedSteps = NONE_SKIPPED,
    ) -> None:
        self._pipeline = self._loaders = pipeline  # as it goes on from a state, and as the loader made it
        self._loaders_skipped_steps = self._skipped_steps = skipped_steps
        self._execution = execution
        self._running = Running()
        self._closed = self._ended = False
        self._skipped = SkippedRecords(max_errors)
        self._waits, self._first_step = Waits(), 0  # since the start, or since `set_state`
        self._step = 0
        self._start = pipeline.start
        self._unfinished: tuple[Unfinished, ...] = ()
        self._run: Rows | Row | None = None  # of the last element delivered since the start …
        self._index = 0  # … and its place there

    def __iter__(self) -> DataLoaderIterator:
        return self

    def __next__(self) -> Any:
        """The next element; with a `Batch` in the pipeline, a batch."""
        elements = self._running.elements or self._begin()
        while True:
            try:
                element, self._run, self._index = next(elements)
            except StopIteration:
                if elements is not self._running.elements:
                    return next(self)  # another thread closed it, or went elsewhere
                self._running.finish()
                self._ended = True
                raise
            except BaseException:
                self._running.end()
                raise
            if self._skipped_steps.steps and (kept_from := self._skipped_steps.end_of(self._step)) is not None:
                if not self._pipeline.aligned:  # what it is made of is known too late to not read it
                    self._step += 1
                    continue
                self._step = kept_from
            self._step += 1
            return element

    def __len__(self) -> int:
        """Number of elements of the whole stream, as `len(loader)`; after `set_states` from other shards, of what these left.

        Raises:
            TypeError: it is endless, or an operation decides how many there are.
        """
        return self._length(self._mark())

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"DataLoaderIterator({self._description(self._mark())})"

    @property
    def step(self) -> int:
        """Number of the element that comes next, from 0: how many were delivered, or left out on purpose, in all runs."""
        return self._step

    @property
    def epoch(self) -> int:
        """The epoch, from 0, of the record that was delivered last; of the first one before that.

        >>> import millrace
        >>> iterator = iter(millrace.load(range(6), batch_size=3))
        >>> [(next(iterator).tolist(), iterator.epoch) for _ in range(3)]
        [([0, 1, 2], 0), ([3, 4, 5], 0), ([0, 1, 2], 1)]
        """
        return self._epoch(self._mark())

    @property
    def part_epochs(self) -> dict[str, int]:
        """For each part of a mix the epoch, from 0, of its record that was delivered last, by any shard.

        Raises:
            AttributeError: this is no mix; so `hasattr` tells.

        >>> import millrace
        >>> parts = {"web": range(100), "books": range(2)}
        >>> sampler = millrace.MixSampler(parts, when_exhausted="repeat")
        >>> iterator = iter(millrace.DataLoader(data_source=parts, sampler=sampler, operations=[millrace.Batch(10)]))
        >>> batch = next(iterator)
        >>> iterator.part_epochs
        {'web': 0, 'books': 2}
        """
        return self._part_epochs(self._mark())

    def last_records(self) -> Any:
        """The keys `int64[records]` of the records that the last element was made of, each once, in the stream's order.

        Where datasets come together, a dict: the keys in each of them, by its name or number. Costs nothing until it is
        called. Records that a filter dropped are in no element.

        Raises:
            ValueError: nothing was delivered since the start, or since `set_state`.

        >>> import millrace
        >>> iterator = iter(millrace.load(range(10), transformations=[millrace.Filter(lambda x: x % 3)], batch_size=3))
        >>> next(iterator).tolist(), iterator.last_records().tolist()
        ([1, 2, 4], [1, 2, 4])
        """
        return self._records_of(self._mark())

    def records_at(self, step: int) -> Any:
        """The record keys `int64[records in the element]` of a step that is still to come, the next one or a later one.

        As `DataLoader.records_at`, and right also where the number of shards or the batch size changed on the way, or steps
        were left out.

        Raises:
            TypeError: an operation decides which records make an element.
            IndexError: the step has been delivered, or the stream ends before.

        >>> import millrace
        >>> loader = millrace.load(range(10), batch_size=2, num_epochs=1)
        >>> iterator = iter(loader)
        >>> first, other = next(iterator), iter(loader.with_batch_size(3))
        >>> other.set_state(iterator.get_state())
        >>> other.records_at(2).tolist()
        [5, 6, 7]
        """
        return self._records_at(self._mark(), step)

    @property
    def skipped_count(self) -> int:
        """Records or batches left out because they failed, with `on_error="skip"`, since the start or the last `set_state`.

        They are counted as work gets to them.
        """
        return self._skipped.count

    def stats(self) -> IteratorStats:
        """How long you waited for elements since the start, or the last `set_state`; `print` it for a table.

        >>> import millrace
        >>> iterator = iter(millrace.load(range(8), batch_size=2, num_epochs=1))
        >>> _ = list(iterator)
        >>> iterator.stats().steps
        4
        """
        steps = self._step - self._first_step
        return IteratorStats(
            steps, self._waits.elapsed, self._waits.seconds, self._execution.workers, self._skipped.count
        )

    def start_prefetch(self) -> None:
        """Have the work begin now, in the background as far as there is one, and not with the first `next`."""
        if self._running.elements is None:
            self._begin()

    def get_state(self) -> bytes:
        """Where the user stands: JSON of less than 1,000 bytes for ordinary pipelines. Costs microseconds."""
        return self._state(self._mark()).to_json()

    def set_state(self, state: bytes, strict: bool = True) -> None:
        """Go to the place that `get_state` told, on this or another iterator, at any time, with any `worker_count`.

        Nothing is read to get there. With another batch size the stream goes on with the next record.

        Args:
            state: what `get_state` gave.
            strict: False goes on although source, sampler or operations are not those of the state.

        Raises:
            CheckpointError: the bytes are no state, or that of another source, sampler, shard or list of operations;
                the iterator stays where it was.
        """
        self._go_to(LoaderState.from_json(state), strict)

    def set_states(self, states: Sequence[bytes], strict: bool = True) -> None:
        """Go on after a run on another number of shards, with what none of them delivered: each record exactly once.

        All new shards call this, each with the states of all former shards. These may stand at different steps. If they
        stand at equal ones and the global batch size stays, the same global batches go on. Nothing is read to get there,
        unless a shard stood inside a batch that a `FlatMap` takes apart: the rest of that is made anew.

        Args:
            states: what `get_state` gave on each of the former shards, in any order.
            strict: as in `set_state`.

        Raises:
            CheckpointError: a state is missing, or is of another run or pipeline. The iterator stays where it was.

        >>> import millrace
        >>> def shard(index, count):
        ...     return iter(millrace.load(range(8), num_epochs=1, shard_options=millrace.ShardOptions(index, count)))
        >>> first, second = shard(0, 2), shard(1, 2)
        >>> next(first), next(first), next(second)
        (0, 2, 1)
        >>> whole = shard(0, 1)
        >>> whole.set_states([second.get_state(), first.get_state()])
        >>> list(whole)
        [3, 4, 5, 6, 7]
        """
        loaders, read = going_on(self._loaders, parsed(states), strict)
        self._go_to(joined(loaders, read, strict, _run_here), strict)

    def state_dict(self) -> dict[str, Any]:
        """`get_state` as a dict of plain values, for PyTorch habits."""
        return self._state(self._mark()).to_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """`set_state` for what `state_dict` gave."""
        self._go_to(LoaderState.from_dict(state))

    async def save(self, directory: Any) -> Awaitable[None]:
        """Orbax's protocol for things that save themselves: the state of this moment, written in the background."""
        return write_later(directory, self.get_state())

    async def load(self, directory: Any) -> Awaitable[None]:
        """Orbax's protocol: go to the saved mark, and begin to prefetch there."""
        return restore_later(directory, self)

    def close(self) -> None:
        """Stop all work; the state can still be read. May be called twice.

        Raises:
            InUseError: another thread, or the code that a signal's handler interrupts, is in `next`.
        """
        self._closed = True
        try:
            self._running.end()
        except InUseError:
            self._closed = False
            raise

    def __enter__(self) -> DataLoaderIterator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:  # at exit the name may be gone
        if not is_finalizing() and (running := getattr(self, "_running", None)) is not None:
            running.end()  # at exit the threads have been joined and the processes ended already

    def _begin(self) -> Elements:
        if self._closed:
            raise ClosedError("the iterator was closed; take a new one, iter(loader), and give it the state.")
        return self._running.begin(lambda: make_executor(self._pipeline, self._execution), self._flow)

    def _flow(self, executor: Executor) -> tuple[Iterable[Element], Flow]:
        """What comes next: the rest of what former shards were in the middle of, and the stream."""
        mark = self._mark()
        self._start, self._unfinished, self._run = mark.cursor, mark.left, None
        flow = Flow(self._pipeline, self._start, executor, self._skipped, self._waits, self._unread())
        left = self._unfinished
        return rows(formers(self._loaders, left), left, self._start, _run_here) if left else (), flow

    def _unread(self) -> Ranges:
        """Local positions that are to be left out."""
        if not self._pipeline.aligned:
            return ()
        return self._skipped_steps.positions((self._start.positions[0], self._step), self._pipeline.stages[0].unit)

    def _mark(self) -> Mark:
        """What `_state` makes the present state of, later. Costs less than a microsecond."""
        return Mark(self._start, self._run, self._index, self._step, self._unfinished)

    def _state(self, mark: Mark) -> LoaderState:
        """The state at a mark of this iterator. Any thread may ask."""
        shard = self._pipeline.shard
        return LoaderState(
            cursor=mark.cursor,
            step=mark.step,
            shard=(shard.shard_index, shard.shard_count),
            fingerprint=self._pipeline.fingerprint,
            lineages=tuple(leaf.lineage for leaf in self._pipeline.leaves),
            skipped=self._skipped_steps,
            unfinished=mark.left,
        )

    def _description(self, mark: Mark) -> str:
        place, pipeline = f"step={mark.step}, epoch={self._epoch(mark)}", self._pipeline
        return f"{place}, worker_count={self._execution.workers}, data_source={shown(pipeline.leaves[0].source)}"

    def _epoch(self, mark: Mark) -> int:
        cursor = mark.cursor
        position = cursor.positions[0]
        return self._pipeline.leaves[0].epoch_of(position if any(cursor.skips) else max(position - 1, 0))

    def _part_epochs(self, mark: Mark) -> dict[str, int]:
        return part_epochs(self._pipeline, mark.cursor)

    def _length(self, mark: Mark) -> int:
        return number_of(self._pipeline, (mark.cursor.positions[0], mark.step), self._skipped_steps)

    def _records_at(self, mark: Mark, step: int) -> Any:
        """What `records_at` gave at a mark of this iterator. Any thread may ask."""
        step = whole_number("step", step, 0, None, "the number of an element, from 0")
        if step < mark.step or within(self._skipped_steps.absorbed, step) is not None:
            raise IndexError(
                f"step {shown(step)} was delivered or left out: step {mark.step} comes next in this iterator; ask for "
                "that one or a later one."
            )
        return records_of_step(self._pipeline, step, (mark.cursor.positions[0], mark.step), self._skipped_steps)

    def _records_of(self, mark: Mark) -> Any:
        """What `last_records` gave at a mark of this iterator. Any thread may ask."""
        if mark.run is None:
            raise ValueError("last_records needs an element that was delivered; call next() first.")
        pipeline = mark.run.former if isinstance(mark.run, Row) else self._pipeline
        records = mark.run.records(mark.row)
        keys = [
            leaf.by_part(leaf.record_keys(leaf.positions_of(np.array(records.get(number, ()), dtype=np.int64))))
            for number, leaf in enumerate(pipeline.leaves)
        ]
        if len(keys) == 1:
            return keys[0]
        return {leaf.name or str(number): keys[number] for number, leaf in enumerate(pipeline.leaves)}

    def _go_back(self, mark: Mark) -> None:
        """Go to a mark of this iterator, to do again what follows; what was skipped stays counted."""
        skipped = self._skipped
        self._go_to(self._state(mark), strict=False)
        self._skipped = skipped

    def _go_to(self, state: LoaderState, strict: bool = True) -> None:
        loaders, (state,) = going_on(self._loaders, [state], strict)
        pipeline = resumed(loaders, state, strict)
        check_left(pipeline, state.cursor)
        skips = state.cursor.skips if any(state.cursor.skips) else pipeline.start.skips
        start = state.cursor._replace(skips=skips)
        skipped_steps = state.skipped.plus(self._loaders_skipped_steps.steps)
        skipped, waits = SkippedRecords(self._skipped.limit), Waits()
        self._running.end()  # after this nothing is called, so that an interrupt finds all of it done or nothing
        self._loaders, self._pipeline, self._start, self._run = loaders, pipeline, start, None
        self._unfinished = state.unfinished
        self._step = self._first_step = state.step
        self._skipped_steps, self._skipped, self._waits, self._ended = skipped_steps, skipped, waits, False


def _run_here(pipeline: Pipeline, start: Cursor) -> Generator[tuple[Any, Rows, int], None, None]:
    """The elements of a pipeline from a cursor on, made in this thread."""
    executor = make_executor(pipeline, ExecutionOptions(read_options=ReadOptions(num_threads=0)))
    try:
        yield from Flow(pipeline, start, executor, SkippedRecords(), Waits())
    finally:
        executor.close()
