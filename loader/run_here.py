"""Run a pipeline in the calling thread, without workers.

Tools do so; also the code that restores states, if it must make elements of the pipeline again.
"""

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
    """Run a pipeline in the calling thread, and yield its elements.

    Each task makes as many rows as the plan says, even if tasks are slow.

    Args:
        pipeline: the pipeline.
        start: cursor (place in the stream) at which to begin.

    Yields:
        a triple: the element; the `Rows` object (rows of the stream, with their origins) that
            contains it; and its index in these rows.
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
