"""What the user wants done in a worker before its first task.

In: the number of a worker. Out: the user's function has been called, or there is a failure for whatever the worker is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...options import ExecutionOptions
from ...work.tasks import Failure


@dataclass(frozen=True)
class Prepare:
    """A function of the user's, `worker_init_fn`.

    Attributes:
        function: of a worker's number and how many there are.
        worker_count: how many.
    """

    function: Callable[[int, int], Any]
    worker_count: int

    @classmethod
    def of(cls, options: ExecutionOptions) -> Prepare | None:
        """What these options ask for, if anything."""
        return None if options.worker_init_fn is None else cls(options.worker_init_fn, options.workers)

    def __call__(self, worker: int) -> Failure | None:
        """Call it in a worker. One that stands for another that crashed has a number in the same range."""
        number = worker % self.worker_count
        try:
            self.function(number, self.worker_count)
        except Exception as error:
            error.add_note(f"millrace: worker_init_fn failed in worker {number} of {self.worker_count}.")
            return Failure(error)
        return None
