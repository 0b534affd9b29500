"""What the user's loop holds: it opens executors, delivers elements, and knows where the user stands.

In: a pipeline. Out: elements, and at any moment the state from which the stream goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType
from typing import Any

from ..errors import CheckpointError, ClosedError
from .executors import Executor
from .flow import Flow
from .pipeline import Pipeline
from .rows import RowRun
from .skipping import SkippedRecords
from .state import Cursor, LoaderState, differences
from .state_files import read_then, write_later


class DataLoaderIterator:
    """One pass over a `DataLoader`'s stream; made by `iter(loader)`.

    Use it from one thread at a time. After an exception of an operation the state is still that of the last element
    delivered, so the next `next` tries the same element again; `set_state` goes elsewhere. Close it, or use it as a
    context manager, to stop its threads at once; dropping it does the same.
    """

    def __init__(
        self, pipeline: Pipeline, make_executor: Callable[[], Executor], max_errors: int | None = None
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

    def set_state(self, state: bytes) -> None:
        """Go to the place that `get_state` told, on this or another iterator, at any time, with any `worker_count`.

        Nothing is read to get there.

        Raises:
            CheckpointError: the bytes are no state, or that of another source, sampler, shard or list of operations;
                the iterator stays where it was.
        """
        self._go_to(LoaderState.from_json(state))

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
        return read_then(directory, self._go_on_from)

    def _go_on_from(self, state: bytes) -> None:
        self.set_state(state)
        self.start_prefetch()

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
            self._executor = self._make_executor()
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
        return self._start if self._run is None else self._run.cursor_after(self._index)

    def _state(self) -> LoaderState:
        shard = self._pipeline.shard
        return LoaderState(
            cursor=self._cursor(),
            step=self._step,
            shard=(shard.shard_index, shard.shard_count),
            fingerprint=self._pipeline.fingerprint,
        )

    def _go_to(self, state: LoaderState) -> None:
        self._check(state)
        self._stop()
        self._start, self._run, self._step = state.cursor, None, state.step

    def _check(self, state: LoaderState) -> None:
        changed = differences(state.fingerprint, self._pipeline.fingerprint)
        shard = (self._pipeline.shard.shard_index, self._pipeline.shard.shard_count)
        if state.shard != shard:
            changed.append(f"shard: {state.shard[0]} of {state.shard[1]} → {shard[0]} of {shard[1]}")
        if changed:
            raise CheckpointError(
                f"the state belongs to another pipeline ({'; '.join(changed)}); restore it with the pipeline that "
                "it was taken from."
            )
        cursor = state.cursor
        if len(cursor.skips) != len(self._pipeline.segments) or cursor.position > self._pipeline.total:
            raise CheckpointError(
                f"the state's cursor {[cursor.position, *cursor.skips]} lies outside this pipeline, which has "
                f"{self._pipeline.total} positions and {len(self._pipeline.segments)} segments."
            )
