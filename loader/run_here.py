"""Run a pipeline in the calling thread, to look at its elements."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from .executors.make import make_executor
from .options import ExecutionOptions, ReadOptions
from .plan.cursor import Cursor
from .plan.pipeline import Pipeline
from .stream.flow import Flow
from .stream.stage_output import SkippedRecords
from .timing.observer import Observer

if TYPE_CHECKING:
    from .stream.rows import Rows


def run_here(pipeline: Pipeline, start: Cursor) -> Generator[tuple[Any, Rows, int], None, None]:
    """Yield the elements of a pipeline from the cursor `start` on, made in this thread, in tasks of the planned size.

    Each item is the element, the rows that it was taken from, and its index in these rows.
    """
    options, observer = (
        ExecutionOptions(read_options=ReadOptions(num_threads=0), observe=False, hang_seconds=None),
        Observer(),
    )
    executor = make_executor(pipeline, options, observer)
    try:
        yield from Flow(pipeline, start, executor, SkippedRecords(), observer, planned=True)
    finally:
        executor.close()
