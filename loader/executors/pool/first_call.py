"""What the user wants done in each worker before its first task.

In: the options. Out: nothing, or why no task can be done.
"""

from __future__ import annotations

from ...options import ExecutionOptions
from ...work.tasks import Failure


def called_first(options: ExecutionOptions, worker: int) -> Failure | None:
    """Call what the user wants done before the first task; why no task can be done, if that fails."""
    if options.worker_init_fn is None:
        return None
    number = worker % options.workers  # one that stands for another that crashed has a number in the same range
    try:
        options.worker_init_fn(number, options.workers)
    except Exception as error:
        error.add_note(f"headrace: worker_init_fn failed in worker {number} of {options.workers}.")
        return Failure(error)
    return None
