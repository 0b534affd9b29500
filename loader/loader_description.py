"""The description of a loader as plain values, for the loader's iterators and for tools."""

from __future__ import annotations

from dataclasses import dataclass, field

from .executors.protocol import Tuning
from .options import ExecutionOptions
from .plan.pipeline import Pipeline
from .plan.steps.skipped import NONE_SKIPPED, SkippedSteps


@dataclass(frozen=True)
class LoaderDescription:
    """A loader as plain values, from which the loader's iterators are made.

    Attributes:
        pipeline: checked sources, order and operations.
        execution: options of workers and reading.
        max_errors: largest number of skipped records; None for no limit.
        skipped_steps: steps that `skip` leaves out.
        tuning: keeps measurements of a run for the next run or epoch of the loader: the search for
            the best number of workers with `worker_count="auto"`, or the choice between workers and
            the calling thread.
    """

    pipeline: Pipeline
    execution: ExecutionOptions
    max_errors: int | None
    skipped_steps: SkippedSteps = NONE_SKIPPED
    # findings of worker_count="auto", for all epochs
    tuning: Tuning = field(default_factory=Tuning)
