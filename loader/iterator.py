"""The iterator of the user's loop: starts executors, delivers elements, knows the user's position.

In: a pipeline. Out: elements, and at any moment a state from which the stream can continue.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..errors import ClosedError, InUseError
from ..migration_hints.remarks import Remarks
from .executors.make import make_executor
from .executors.protocol import Executor, Tuning
from .options import ExecutionOptions
from .passes import Passes
from .plan.pipeline import Pipeline
from .plan.steps.skipped import NONE_SKIPPED, SkippedSteps, within
from .run_here import run_here
from .state.growing import OrderChangedError, WaitNotice, grown, lookouts_of
from .state.kept import Keeper, Kept
from .state.live.changes import ProgramChange, WeightsChange, change_of, continued, with_change
from .state.live.program_changes import ProgramChanges
from .state.position import StreamPosition, StreamPositionAPI
from .state.schema import LoaderState, parsed
from .stats import IteratorStats, stage_names, stats_of
from .stream.flow import Flow
from .stream.run_handle import Elements, RunHandle
from .stream.stage_output import SkippedRecords
from .timing.listeners import begins
from .timing.observer import Observer
from .timing.snapshot import Snapshot

if TYPE_CHECKING:
    from .state.live.changes import Change
    from .stream.rows import Rows

_LOGGER = logging.getLogger("headrace")

# Chosen.
LOG_SECONDS = 60.0
"""Seconds between two tables in the log."""


class DataLoaderIterator(StreamPositionAPI, Remarks):
    """One pass over a `DataLoader`'s stream; made by `iter(loader)`.

    Use it from one thread at a time. If an operation raises an exception, the state is still the
    state after the last delivered element, so the next call of `next` tries the same element again.
    `set_state` moves to another position. To stop all threads of the iterator at once, close it,
    use it as a context manager, or delete it.
    """

    _asked_as = "DataLoaderIterator"

    def __init__(
        self,
        pipeline: Pipeline,
        execution: ExecutionOptions,
        max_errors: int | None = None,
        skipped_steps: SkippedSteps = NONE_SKIPPED,
        passes: Passes | None = None,
        tuning: Tuning | None = None,
    ) -> None:
        self._tuning = tuning  # what other iterators of the loader have found out; None: nothing
        self._passes = passes  # of the loader; None: nobody counts them
        self._from_start = True  # nothing has come yet, and no state was set
        # as it resumes from a state, and as the loader made it
        self._pipeline = self._loaders = pipeline
        self._loaders_skipped_steps, self._keeper = skipped_steps, Keeper(Kept(skipped_steps))
        self._execution = execution.for_operations(pipeline.operations)
        self._running, self._changes = RunHandle(), ProgramChanges()
        self._closed = self._ended = False
        self._skipped, self._notice = SkippedRecords(max_errors), WaitNotice()
        self._observer, self._first_step = Observer(), 0  # since the start, or since `set_state`
        self._log_at = perf_counter() + LOG_SECONDS if execution.observe == "log" else None
        self._step = 0
        self._start = pipeline.start
        # by leaf, the last change of its order since the start or `set_state`
        self._changed_at: dict[int, int] = {}
        self._run: Rows | None = None  # of the last element delivered since the start …
        self._index = 0  # … and its place there

    def __next__(self) -> Any:
        """Return the next element, e.g. a batch.

        Raise StopIteration at the end, and ClosedError after `close`.
        """
        if self._changes.waiting and (change := self._changes.next_at(self._step)) is not None:
            if change.has_effect(self.here()):
                self._make(change)
            return next(self)
        elements = self._running.elements or self._begin()
        while True:
            try:
                element, self._run, self._index = next(elements)
            except StopIteration as stop:
                if elements is not self._running.elements or not self._running.finish(
                    stop.value is True
                ):
                    # another thread closed it or went elsewhere; or an interrupt broke it
                    return next(self)
                self._ended = True
                if self._passes is not None:
                    self._passes.ended = True
                if self._log_at is not None:
                    self._log()
                raise StopIteration from None
            except OrderChangedError as change:
                elements = self._take_in(change)
                continue
            except BaseException:
                self._running.end()
                raise
            if (skipped := self._keeper.kept.skipped).steps and (
                kept_from := within(skipped.steps, self._step)
            ) is not None:
                # what it is made of is known too late to not read it
                if not self._pipeline.aligned:
                    self._step += 1
                    continue
                self._step = kept_from
            self._step += 1
            if self._log_at is not None and perf_counter() >= self._log_at:
                self._log()
            return element

    def _log(self) -> None:
        self._log_at = perf_counter() + LOG_SECONDS
        _LOGGER.info("%s", self.stats())

    @property
    def skipped_count(self) -> int:
        """Number of failed records or batches skipped since the start or the last `set_state`.

        Records that are ahead of your position, and have already failed, are included.
        """
        return self._skipped.count

    def stats(self) -> IteratorStats:
        """Return how the time since the start or the last `set_state` was spent.

        `print` it for a table. Any thread may call this.

        >>> import headrace
        >>> iterator = iter(headrace.load(range(8), batch_size=2, num_epochs=1))
        >>> _ = list(iterator)
        >>> iterator.stats().steps
        4
        """
        return stats_of(self._observer, self.snapshot(), stage_names(self._pipeline))

    def snapshot(self) -> Snapshot:
        """Return counts and times since the start or the last `set_state`, faster than `stats()`.

        Any thread may call this.
        """
        return self._observer.snapshot(
            stage_names(self._pipeline),
            steps=self._step - self._first_step,
            worker_count=self._worker_count,
            skipped=self._skipped.count,
        )

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline that the iterator runs now, for tools."""
        return self._pipeline

    @property
    def execution(self) -> ExecutionOptions:
        """Options of workers and reading, with which the iterator runs.

        A tool may set other options. This ends the workers; the next element starts new workers.
        """
        return self._execution

    @execution.setter
    def execution(self, options: ExecutionOptions) -> None:
        self._running.end()  # workers of an earlier run have other options
        self._execution = options.for_operations(self._pipeline.operations)

    @property
    def as_made(self) -> tuple[Pipeline, SkippedSteps]:
        """A pair: the loader's pipeline with the run's changes, and the steps that it skips."""
        return self._loaders, self._loaders_skipped_steps

    @property
    def host_iterator(self) -> DataLoaderIterator:
        """The iterator that makes the elements. Here, it is this object itself."""
        return self

    @property
    def _worker_count(self) -> int:
        found = self._observer.worker_count
        return self._execution.workers if found is None else found

    def start_prefetch(self) -> None:
        """Start workers and reading now instead of at the first `next`.

        Raise ClosedError after `close`.
        """
        if self._running.elements is None:
            self._begin()

    def get_state(self) -> bytes:
        """Return the state after the last delivered element: JSON, mostly under 1,000 bytes."""
        return self.here().get_state()

    def set_state(self, state: bytes, strict: bool = True) -> None:
        """Move to the position of a state from `get_state` of this or another iterator.

        It may be called at any time, with any `worker_count`. With another batch size, the stream
        continues with the next record. No record is read, with one exception: the state is inside a
        window or batch made after a `Filter` or `FlatMap`, and the order has changed at this point.

        Args:
            state: result of `get_state`.
            strict: False accepts a state of another source, sampler or other operations.

        Raises:
            CheckpointError: if the bytes are not a state, or belong to another source, sampler,
                shard or list of operations. The iterator keeps its position.
        """
        self._go_to([LoaderState.from_json(state)], strict)

    def set_states(
        self, states: Sequence[bytes], strict: bool = True, equal_steps: bool = False
    ) -> None:
        """Continue a run that had another number of shards.

        Each new shard calls this with the states of all earlier shards. Together, the new shards
        deliver once each record that no earlier shard has delivered. The states may be at different
        steps; if their steps are equal and the global batch size is unchanged, the same global
        batches follow. No record is read for this, except in a window or batch after a `Filter` or
        `FlatMap` that a shard had begun.

        Args:
            states: results of `get_state` on each of the shards of the earlier run, in any order.
            strict: False accepts states of another source, sampler or other operations.
            equal_steps: True restores from the state of any one shard, if all shards were at the
                same step, none had ended, and all changed the batch size at the same steps. Not for
                operations that drop, multiply or pack records. Default False.

        Raises:
            CheckpointError: if a state is missing, or is from another run or pipeline. The iterator
                keeps its position.

        >>> from headrace import ShardOptions, load
        >>> def shard(index, count):
        ...     return iter(load(range(8), num_epochs=1, shard_options=ShardOptions(index, count)))
        >>> first, second = shard(0, 2), shard(1, 2)
        >>> next(first), next(first), next(second)
        (0, 2, 1)
        >>> whole = shard(0, 1)
        >>> whole.set_states([second.get_state(), first.get_state()])
        >>> list(whole)
        [3, 4, 5, 6, 7]
        """
        self._go_to(parsed(states), strict, of_all_shards=True, equal_steps=equal_steps)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Move to the position of a state that `state_dict` returned.

        Raise CheckpointError if the state does not fit this loader.
        """
        self._go_to([LoaderState.from_dict(state)])

    def close(self) -> None:
        """Stop all work. The state can still be read. May be called twice.

        Raises:
            InUseError: if another thread is inside `next`, or a signal handler calls this while it
                interrupts `next`.
        """
        was_open, self._closed = not self._closed, True
        try:
            self._running.end()
        except InUseError:
            self._closed = False
            raise
        if was_open and not self._ended and self._log_at is not None:
            self._log()

    # at exit the name may be gone
    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        try:
            running = self._running
        except AttributeError:  # `__init__` failed
            return
        if not is_finalizing():  # else the threads have been joined and the processes ended already
            running.end()

    def _begin(self) -> Elements:
        if self._closed:
            raise ClosedError(
                "this iterator was closed. Make a new one, iter(loader), and restore the state in "
                "it."
            )
        if self._passes is not None and self._from_start:
            self._from_start = False
            self._passes.begin(self._pipeline)
        begins(self)
        return self._running.begin(self._executor, self._flow)

    def _executor(self) -> Executor:
        return make_executor(self._pipeline, self._execution, self._observer, self._tuning)

    def _flow(self, executor: Executor) -> Flow:
        self._start, self._run = self.here().cursor, None
        here = self.here()
        horizons = lookouts_of(self._pipeline, here.state, self._notice, self._changed_at)
        return Flow(
            self._pipeline,
            self._start,
            executor,
            self._skipped,
            self._observer,
            here.unread,
            horizons=horizons,
        )

    def here(self) -> StreamPosition:
        return StreamPosition(
            self._pipeline, self._keeper, self._start, self._run, self._index, self._step
        )

    def _description_text(self) -> str:
        return self.here().describe(self._worker_count)

    def go_back(self, mark: StreamPosition) -> None:
        """Move to `mark`, an earlier position of this iterator.

        The user's own values, the count of skipped records, and changes of the run stay the same.
        """
        keeper, skipped, changes = self._keeper, self._skipped, self._changes
        self._loaders = changes.back_at(mark.step, self._loaders)
        self._go_to([mark.state], strict=False)
        self._keeper, self._skipped, self._changes = keeper, skipped, changes

    def _take_in(self, change: OrderChangedError) -> Elements:
        """Return an iterator over the elements that follow, in the order with appended records.

        The exception `change` says to which sources records were appended.
        """
        from .state.resume import resumed

        loaders, state = grown(self._loaders, self.here().state, change)
        found = resumed(loaders, state, strict=False)
        self._running.end()
        self._loaders, self._pipeline, self._start, self._run = *found[:3], None
        self._changed_at[change.leaf] = change.position
        return self._begin()

    def _change(self, wanted: Mapping[str, Any], at_step: int | None) -> None:
        changes: list[Change] = [*self._changes.waiting, *self._changes.of_mix]
        change = change_of(self.here(), self._loaders, changes, wanted, at_step)
        if isinstance(change, ProgramChange) and change.step <= self._step:
            self._make(change)  # now, so that this call raises what is wrong
        else:
            self.take_up(change)

    def take_up(self, change: Change) -> None:
        """Make a change of a mix's weights now; schedule any other change for its step."""
        if isinstance(change, WeightsChange):
            pipeline = with_change(self._pipeline, change)
            self._running.end()
            self._pipeline = pipeline
            self._changes.add_of_mix(change)
        else:
            self._changes.add(change)

    def _make(self, change: ProgramChange) -> None:
        found = continued(change, self._loaders, self.here(), run_here)
        self._running.end()
        self._changes.made(change, self._loaders)
        self._loaders, self._pipeline, self._start, self._run, self._ended = *found[:3], None, False

    def _go_to(self, states: Sequence[LoaderState], strict: bool = True, **of_states: bool) -> None:
        from .state.resume import resume

        loaders, pipeline, start, state = resume(
            self._loaders, states, strict, run_here, **of_states
        )
        steps = state.kept.skipped.plus(self._loaders_skipped_steps.steps)
        keeper = Keeper(replace(state.kept, skipped=steps))
        skipped = SkippedRecords(self._skipped.limit)
        observer, changes = Observer(), ProgramChanges()
        same = loaders is self._loaders and pipeline.runs_like(self._pipeline)
        # after this nothing is called, so that an interrupt finds all of it done or nothing
        self._running.end(observer if same else None)
        self._loaders, self._pipeline, self._start = loaders, pipeline, start
        self._run, self._from_start = None, False
        self._step = self._first_step = state.step
        self._changed_at, self._changes = {}, changes
        self._keeper, self._skipped, self._observer, self._ended = keeper, skipped, observer, False
