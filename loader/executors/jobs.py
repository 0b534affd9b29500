"""Jobs: pieces of work that a pool gives to workers; and the workers, as the pool sees them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

MAX_TRIES = 3
"""Number of tries after which a job, or the start of workers, is given up."""


@dataclass(slots=True, eq=False)
class Job:
    """A piece of work for a worker.

    Attributes:
        number: number of the job. If jobs are assigned a second time, it is in the order of their
            numbers.
        divisible: True if the job can be divided into smaller jobs that run alone.
        cost: expected seconds.
        series: number of a series, in which each job continues where the one before ended; None: no
            series.
        alone: True if the job is the only one in its message. If its worker ends, this job is the
            cause.
        tries: number of workers that ended while doing it.
        dropped: True if its result is not needed any more.
    """

    number: int
    divisible: bool
    cost: float
    series: int | None = None
    alone: bool = field(default=True, init=False)
    tries: int = field(default=0, init=False)
    dropped: bool = field(default=False, init=False)


J = TypeVar("J", bound=Job)


@dataclass(slots=True, eq=False)
class PoolWorker(Generic[J]):
    """What the pool knows about one worker.

    Attributes:
        number: number of the worker.
        jobs: its jobs, in the order in which it does them.
        load: expected seconds of these jobs.
        messages: number of messages in which these jobs were sent.
        ready: True if the worker has started up.
        began: time at which the first job began.
        late: the job that exceeded its timeout, for which the worker is being killed; else None.
    """

    number: int
    jobs: deque[J] = field(default_factory=deque)
    load: float = 0.0
    messages: int = 0
    ready: bool = False
    began: float = 0.0
    late: J | None = None

    def has_room(self, job: Job, depth: int) -> bool:
        """Return True if the worker may get a job: it has fewer than `depth` messages of jobs.

        A job during which a worker ended needs a worker without other jobs.
        """
        is_tried = job.tries > 0 or (bool(self.jobs) and self.jobs[0].tries > 0)
        return self.ready and self.messages < (1 if is_tried else depth)
