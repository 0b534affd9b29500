"""What the user's loop holds: it opens executors, delivers elements, and knows where the user stands.

In: a pipeline. Out: elements, and at any moment the state from which the stream goes on.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CheckpointError, ClosedError
from ..samplers import NoSharding
from .executors import Executor
from .flow import Flow
from .keys import KeyBlocks
from .pipeline import Pipeline
from .place import Place
from .rows import RowRun
from .skipping import SkippedRecords
from .state import Cursor, LoaderState, differences
from .state_files import restore_later, write_later


class DataLoaderIterator:
    """One pass over a `DataLoader`'s stream; made by `iter(loader)`.

    Use it from one thread at a time. After an exception of an operation the state is still that of the last element
    delivered, so the next `next` tries the same element again; `set_state` goes elsewhere. Close it, or use it as a
    context manager, to stop its threads at once; dropping it does the same.
    """

    def __init__(
        self, pipeline: Pipeline, make_executor: Callable[[Pipeline], Executor], max_errors: int | None = None
    ) -> None:
        self._pipeline = pipeline
        self._make_executor = make_executor
        self._executor: Executor | None = None
        self._flow: Flow | None = None
        self._elements: Iterator[tuple[Any, RowRun, int]] | None = None
        self._closed = False
        self._skipped = SkippedRecords(max_errors)
        self._step = 0
        self._start = Cursor(0, (0,) * len(pipeline.segments))
        self._run: RowRun | None = None  # of the last element delivered since the start …
        self._index = 0  # … and its place there

    def __iter__(self) -> DataLoaderIterator:
        return self

    def __next__(self) -> Any:
        """The next element; with a `Batch` in the pipeline, a batch."""
        elements = self._elements or self._begin()
        try:
            element, self._run, self._index = next(elements)
        except StopIteration:
            self._release()
            raise
        except BaseException:
            self._stop()
            raise
        self._step += 1
        return element

    def last_records(self) -> NDArray[np.int64]:
        """The keys `int64[records]` of the records behind the element delivered last, each once, in the stream's order.

        Costs nothing until it is called. Records that a filter dropped are behind no element.

        Raises:
            ValueError: nothing was delivered since the start, or since `set_state`.

        >>> import millrace
        >>> iterator = iter(millrace.load(range(10), transformations=[millrace.Filter(lambda x: x % 3)], batch_size=3))
        >>> next(iterator).tolist(), iterator.last_records().tolist()
        ([1, 2, 4], [1, 2, 4])
        """
        return self.records_behind(self.place())

    @property
    def skipped_count(self) -> int:
        """Records or batches left out so far because they failed, with `on_error="skip"`; counted as work gets to them."""
        return self._skipped.count

    def start_prefetch(self) -> None:
        """Have the work begin now, in the background as far as there is one, and not with the first `next`."""
        if self._elements is None:
            self._begin()

    def get_state(self) -> bytes:
        """Where the user stands: JSON of less than 1,000 bytes for ordinary pipelines. Costs microseconds."""
        return self._state().to_json()

    def place(self) -> Place:
        """What `state_at` makes the present state of, later. Costs less than a microsecond."""
        return Place(self._start, self._run, self._index, self._step)

    def state_at(self, place: Place) -> bytes:
        """What `get_state` gave, or would have given, at a place of this iterator. Any thread may ask."""
        return self._state(place).to_json()

    def records_behind(self, place: Place) -> NDArray[np.int64]:
        """What `last_records` gave at a place of this iterator. Any thread may ask."""
        if place.run is None:
            raise ValueError("last_records needs an element that was delivered; call next() first.")
        return KeyBlocks(self._pipeline).behind(place.run.local_positions(place.row))

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
        """Go on behind a run on another number of shards, with what none of them delivered: each record exactly once.

        All new shards call this, each with the states of all former shards. These may stand at different steps. If they
        stand at equal ones and the global batch size stays, the same global batches go on.

        Args:
            states: what `get_state` gave on each of the former shards, in any order.
            strict: as in `set_state`.

        Raises:
            CheckpointError: a state is missing, or is of another run or pipeline; or a shard stopped in the middle of a
                batch that a `FlatMap` takes apart. The iterator stays where it was.

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
        self._go_to(self._joined([LoaderState.from_json(state) for state in states], strict), strict)

    def state_dict(self) -> dict[str, Any]:
        """`get_state` as a dict of plain values, for PyTorch habits."""
        return self._state().to_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """`set_state` for what `state_dict` gave."""
        self._go_to(LoaderState.from_dict(state))

    async def save(self, directory: Any) -> Awaitable[None]:
        """Orbax's protocol for things that save themselves: the state of this moment, written in the background."""
        return write_later(directory, self.get_state())

    async def load(self, directory: Any) -> Awaitable[None]:
        """Orbax's protocol: go to the saved place, and begin to prefetch there."""
        return restore_later(directory, self)

    def close(self) -> None:
        """Stop all work; the state can still be read. May be called twice."""
        self._closed = True
        self._stop()

    def __enter__(self) -> DataLoaderIterator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_executor", None) is not None and not sys.is_finalizing():
            self._stop()  # at exit the threads have been joined and the processes ended already

    def _begin(self) -> Iterator[tuple[Any, RowRun, int]]:
        if self._closed:
            raise ClosedError("the iterator was closed; take a new one, iter(loader), and give it the state.")
        if self._executor is None:
            self._executor = self._make_executor(self._pipeline)
        self._start, self._run = self._cursor(), None
        flow = Flow(self._pipeline, self._start, self._executor, self._skipped)
        flow.begin()
        self._elements = iter(flow)
        return self._elements

    def _stop(self) -> None:
        self._elements = None
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.close()

    def _release(self) -> None:
        """The stream has ended: no thread is needed, and further calls of `next` find the end again."""
        self._stop()
        if not self._closed:
            self._elements = iter(())

    def _cursor(self) -> Cursor:
        """Where the user stands."""
        return self.place().cursor

    def _state(self, place: Place | None = None) -> LoaderState:
        shard, place = self._pipeline.shard, place or self.place()
        return LoaderState(
            cursor=place.cursor,
            step=place.step,
            shard=(shard.shard_index, shard.shard_count),
            fingerprint=self._pipeline.fingerprint,
            lineage=self._pipeline.lineage,
        )

    def _go_to(self, state: LoaderState, strict: bool = True) -> None:
        pipeline = self._checked(state, strict)
        self._stop()
        self._pipeline = pipeline
        skips = state.cursor.skips if any(state.cursor.skips) else (0,) * len(pipeline.segments)
        self._start, self._run, self._step = Cursor(state.cursor.position, skips), None, state.step

    def _checked(self, state: LoaderState, strict: bool) -> Pipeline:
        """The pipeline that goes on from a state."""
        changed = self._changes(state) if strict else []
        shard = (self._pipeline.shard.shard_index, self._pipeline.shard.shard_count)
        if state.shard != shard:
            changed.append(f"shard: {state.shard[0]} of {state.shard[1]} → {shard[0]} of {shard[1]}")
        if changed:
            elastic = " (or, with the states of all its shards, by set_states)" if state.shard != shard else ""
            raise CheckpointError(
                f"the state belongs to another pipeline ({'; '.join(changed)}); restore it with the pipeline that "
                f"it was taken from{elastic}."
            )
        pipeline = dataclasses.replace(self._pipeline, lineage=state.lineage)
        cursor = state.cursor
        if (len(cursor.skips) != len(pipeline.segments) and any(cursor.skips)) or cursor.position > pipeline.total:
            raise CheckpointError(
                f"the state's cursor {[cursor.position, *cursor.skips]} lies outside this pipeline, which has "
                f"{pipeline.total} positions and {len(pipeline.segments)} segments."
            )
        return pipeline

    def _changes(self, state: LoaderState) -> list[str]:
        """What is another than it was; another batch size is one of them only in the middle of a batch's rows."""
        saved, present = dict(state.fingerprint), dict(self._pipeline.fingerprint)
        if not any(state.cursor.skips) and len(saved.get("batch_sizes") or ()) == len(present["batch_sizes"]):
            saved.pop("batch_sizes"), present.pop("batch_sizes")
        changed = differences(saved, present)
        if not changed and len(state.cursor.skips) != len(self._pipeline.segments):
            changed.append(f"segments: {len(state.cursor.skips)} → {len(self._pipeline.segments)}")
        return changed

    def _joined(self, states: list[LoaderState], strict: bool) -> LoaderState:
        """The state from which this shard goes on behind all shards of a former run."""
        if not states:
            raise CheckpointError("set_states needs the states of all shards of the former run; there are none.")
        first = states[0]
        by_shard = {state.shard[0]: state for state in states}
        for state in states:
            if by_shard[state.shard[0]] != state:
                raise CheckpointError(f"there are two states of shard {state.shard[0]}, which differ.")
            if (state.shard[1], state.lineage, state.fingerprint) != (first.shard[1], first.lineage, first.fingerprint):
                raise CheckpointError(
                    f"the states of shards {first.shard[0]} and {state.shard[0]} are of different runs; pass those of one."
                )
        missing = sorted(set(range(first.shard[1])) - set(by_shard))
        if missing:
            raise CheckpointError(f"the states of shards {missing} of {first.shard[1]} are missing; pass all of them.")
        shard = (self._pipeline.shard.shard_index, self._pipeline.shard.shard_count)
        if shard[1] == first.shard[1]:
            return by_shard[shard[0]]
        self._check_elastic(first, strict)
        cursors = [by_shard[index].cursor for index in range(first.shard[1])]
        everything = self._pipeline.sampler.with_shard_options(
            NoSharding()
        )  # what shards of equal length leave out, too
        lineage = first.lineage.followed_by(cursors, len(everything))
        start = Cursor(0, (0,) * len(self._pipeline.segments))
        step = max(state.step for state in states)
        return LoaderState(start, step, shard, first.fingerprint, lineage)

    def _check_elastic(self, state: LoaderState, strict: bool) -> None:
        if self._pipeline.segments[0].unit > 1 and any(state.cursor.skips):
            raise CheckpointError(
                "the state stands inside a batch that a FlatMap takes apart, which another shard cannot make again; "
                "take the checkpoint at another step."
            )
        if getattr(self._pipeline.sampler, "algorithm", "") == "grain":
            raise CheckpointError(
                'algorithm="grain" gives each shard records of its own, so that its order cannot go on with another number '
                'of shards; keep their number, or use algorithm="millrace".'
            )
        if strict and (changed := self._changes(state)):
            raise CheckpointError(f"the states belong to another pipeline ({'; '.join(changed)}).")
