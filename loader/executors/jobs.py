"""Define jobs (pieces of work that a pool gives to workers), and what a pool knows of a worker."""

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
        number: number of the job. If jobs are assigned again, they are assigned in the order of
            their numbers.
        divisible: True if the job can be divided into smaller jobs, which are then run one by one.
        cost: expected seconds of work.
        series: number of the job's series; None if the job belongs to no series. In a series, each
            job continues where the job before it ended.
        alone: True if the job is the only one in its message. If a worker ends during such a job,
            the job is the cause.
        tries: number of workers that ended during this job while it was alone in its message.
        dropped: True if the job's result is not needed any more.
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
        jobs: its unfinished jobs, in the order in which it runs them.
        load: expected seconds of these jobs.
        messages: number of messages in which these jobs were sent.
        ready: True if the worker has started up.
        began: time at which the first of `jobs` began.
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
        """Return True if the worker has started up and may get one more message of jobs.

        The worker may get a message if fewer than `depth` of its messages are unanswered. One
        exception: if another worker ended earlier during `job`, or during the first unfinished job
        of this worker, this worker may get a message only if all its messages are answered.
        """
        is_tried = job.tries > 0 or (bool(self.jobs) and self.jobs[0].tries > 0)
        return self.ready and self.messages < (1 if is_tried else depth)
