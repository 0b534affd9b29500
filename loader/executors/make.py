"""Make the executor (the object that runs tasks) of a pipeline.

In: a pipeline and options. Out: an executor. Each kind of executor is imported only when it is
used.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...common.generators.held_generators import generators_by_operation
from ...common.system import has_processes
from ...common.validation import warn
from ...errors import MissingExtraError
from ...operations.trees import flatten
from ..options import INSIDE_A_TASK, Auto, ExecutionOptions
from ..plan.pipeline import Pipeline
from ..timing.observer import Observer
from ..work.explain import name_of
from .protocol import Executor, Tuning

if TYPE_CHECKING:
    from .auto.executor import Team
    from .pooled import PooledExecutor


def make_executor(
    pipeline: Pipeline, options: ExecutionOptions, observer: Observer, tuning: Tuning | None = None
) -> Executor:
    """Return the executor for the options: in this thread, on threads, in processes or on Ray.

    Args:
        pipeline: pipeline of the run.
        options: options of the loader.
        observer: gets the number of workers, and statistics.
        tuning: keeps measurements from epoch to epoch. They are for the search for the best number
            of workers (if `worker_count="auto"`), or for the choice between workers and the calling
            thread.

    Raises:
        ValueError: the options have worker processes, but this system cannot have them.
        MissingExtraError: the options have workers on Ray, but Ray is not installed.
    """
    if options.workers == 0 or INSIDE_A_TASK.get():
        from .local import InlineExecutor

        inner = replace(options, hang_seconds=None)  # the task itself is watched
        return InlineExecutor(pipeline, inner if INSIDE_A_TASK.get() else options)
    if isinstance(options.worker_count, Auto):
        from .auto.executor import AutoExecutor

        if options.worker_kind == "process" and not options.seed_globals:
            _warn_of_held_generators(pipeline)

        return AutoExecutor(
            pipeline,
            options,
            observer,
            partial(_team_of, pipeline, options, observer),
            tuning or Tuning(),
        )
    if options.worker_kind == "thread":
        from .local import ThreadExecutor

        return ThreadExecutor(pipeline, options)
    if options.worker_kind == "ray":
        executor = _on_ray(pipeline, options, observer)
    else:
        executor = _on_processes_or_here(pipeline, options, observer, tuning or Tuning())
    # only now: to look for them takes some milliseconds, in which workers begin
    if not options.seed_globals:
        try:
            _warn_of_held_generators(pipeline)
        except BaseException:  # warnings may be errors
            executor.close()
            raise
    return executor


def _warn_of_held_generators(pipeline: Pipeline) -> None:
    """Warn of the first operation that has a random generator as attribute.

    Each worker process has a copy of this generator, so all workers would draw the same numbers.
    """
    for number, held in generators_by_operation(pipeline.operations).items():
        warn(
            f"{name_of(pipeline, number)} holds a random generator of type "
            f"{type(held[0]).__name__}. Each worker gets a copy of it, so that workers draw the "
            "same numbers, and each new run repeats them. Draw from the generator that "
            "headrace.RandomMapTransform(function) passes: function(element, rng); or pass "
            "seed_globals=True."
        )
        return


def _on_processes_or_here(
    pipeline: Pipeline, options: ExecutionOptions, observer: Observer, tuning: Tuning
) -> Executor:
    """Return an executor with worker processes, or one that may use the calling thread instead.

    Usually, workers are used. There are two exceptions, unless an option or the pipeline needs
    workers:

    * Batches are slices of arrays in memory. Then workers and calling thread are both measured, and
      the faster of them is used.
    * Records are only read and batched, and each source reads with threads of its own. Then the
      calling thread is used.

    Args:
        pipeline: pipeline of the run.
        options: options of the loader.
        observer: gets the number of workers, and statistics.
        tuning: keeps the measurements from epoch to epoch.

    Raises:
        ValueError: worker processes are needed, but this system cannot have them.
    """
    if _are_in_memory(pipeline.columns) or _only_reads(pipeline):
        from .auto.executor import AutoExecutor, may_work_here

        if may_work_here(pipeline, options):
            if pipeline.columns is None:
                return _here(pipeline, options, observer)
            return AutoExecutor(
                pipeline, options, observer, partial(_team_of, pipeline, options, observer), tuning
            )
    return _on_processes(pipeline, options, observer, options.workers)


def _are_in_memory(columns: Any) -> bool:
    return columns is not None and all(map(_owns_memory, flatten(columns)[0]))


def _owns_memory(column: Any) -> bool:
    """Return True if NumPy or a `bytes` object of this process owns the memory of an array.

    Return False for a mapped file, and for memory that another library has allocated.
    """
    while isinstance(column, np.ndarray) and column.base is not None:
        column = column.base
    return isinstance(column, np.ndarray | bytes)


def _only_reads(pipeline: Pipeline) -> bool:
    return all(operation.only_stacks for operation in pipeline.operations) and all(
        leaf.source_facts.has_own_threads for leaf in pipeline.leaves
    )


def _here(pipeline: Pipeline, options: ExecutionOptions, observer: Observer) -> Executor:
    from .local import InlineExecutor

    observer.worker_count = 0
    observer.decision = (
        f"Your thread makes the batches, in place of {options.workers} workers: "
        f"{type(pipeline.leaf.source).__name__} reads with threads of its own, and nothing else is "
        "to be done."
    )
    return InlineExecutor(pipeline, options)


def _team_of(
    pipeline: Pipeline, options: ExecutionOptions, observer: Observer, workers: int
) -> Team:
    if options.worker_kind == "thread":
        from .local import ThreadExecutor

        return ThreadExecutor(pipeline, options, workers)
    return _on_processes(pipeline, options, observer, workers)


def _on_processes(
    pipeline: Pipeline, options: ExecutionOptions, observer: Observer, workers: int
) -> PooledExecutor:
    if not has_processes():
        raise ValueError(
            f"worker_count={workers}: worker processes need Linux or macOS. Pass "
            'worker_kind="thread" or worker_count=0, or run the program in WSL 2.'
        )
    from .pooled import PooledExecutor
    from .processes.transport import ProcessTransport

    return PooledExecutor(
        pipeline,
        options,
        observer,
        ProcessTransport(pipeline, options, observer.slabs.add, workers),
    )


def _on_ray(pipeline: Pipeline, options: ExecutionOptions, observer: Observer) -> Executor:
    try:
        import ray  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            'worker_kind="ray" needs ray: pip install "headrace[ray]"'
        ) from error
    from .pooled import PooledExecutor
    from .ray.transport import RayTransport
    from .ray.worker import RayWorker

    return PooledExecutor(pipeline, options, observer, RayTransport(pipeline, options, RayWorker))
