"""What a process died of, in words, and what becomes of the task that it was at.

In: a status, as `os.waitpid` gives it. Out: "with exit code 3", "by signal SIGKILL (…)". In: a task. Out: its parts, or a block
in which it failed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from ....errors import WorkerCrashedError
from ....wording import first_few
from ...plan import stages as plan
from ...plan.pipeline import Pipeline
from ...plan.record_keys import KeyBlocks
from ...plan.stages import Span
from ...work.explain import told
from ...work.tasks import Block, Failure, RowTags, Task, local_positions

_HINTS = {
    signal.SIGKILL: " (the system may have run out of memory: use fewer workers or smaller batches)",
    signal.SIGSEGV: " (a crash in native code)",
    signal.SIGBUS: " (shared memory may be used up)",
}


def description(status: int) -> str:
    """How a process ended.

    >>> description(3 << 8)
    'with exit code 3'
    """
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"by signal {signal.Signals(number).name}{_HINTS.get(number, '')}"  # type: ignore[call-overload]
    return f"with exit code {os.waitstatus_to_exitcode(status)}"


def parts_of(task: Task, pipeline: Pipeline) -> Sequence[Task]:
    """What of a task can be tried on its own: of several units, any may have ended the worker."""
    return plan.parts_of(task, pipeline.segments[0].unit) if isinstance(task, Span) else [task]


def given_up(task: Task, pipeline: Pipeline, reason: str) -> Block:
    """What comes of a task that ended its workers too often."""
    told_of = _told(task, pipeline)
    error = WorkerCrashedError(f"a worker {reason} at the same task: {told_of}.")
    tags = None if pipeline.aligned else RowTags()
    if pipeline.skips_errors:
        return Block([], tags, skipped=[told(error)])
    return Block([], tags, Failure(error))


def _told(task: Task, pipeline: Pipeline) -> str:
    """Positions and record keys of a task."""
    local = local_positions(task)
    keys = KeyBlocks(pipeline).behind(local).tolist()
    return f"positions {min(local)} to {max(local)} of this shard, record keys {first_few(keys, 8)}"
