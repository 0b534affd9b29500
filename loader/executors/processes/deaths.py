"""What a process died of, in words, and what becomes of the task that it was at.

In: a status, as `os.waitpid` gives it. Out: "with exit code 3", "by signal SIGKILL (…)". In: a task. Out: its parts, or a block
in which it failed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from itertools import chain

import numpy as np

from ....errors import WorkerCrashedError
from ....wording import first_few
from ...plan import stages as plan
from ...plan.pipeline import Pipeline
from ...plan.stages import Span
from ...work.explain import told
from ...work.tasks import Block, Blocks, Failure, GroupTask, RowTags, SpanTask, Task

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
    if isinstance(task, GroupTask):
        return [task]
    parts = plan.parts_of(Span(task.start, task.stop), pipeline.stages[task.stage].unit)
    return [SpanTask(task.stage, *part) for part in parts]


def given_up(task: Task, blocks: Blocks, pipeline: Pipeline, reason: str) -> Block:
    """What comes of a task that ended its workers too often."""
    told_of = _told(task, blocks, pipeline)
    error = WorkerCrashedError(f"a worker {reason} at the same task: {told_of}.")
    tags = None if pipeline.aligned else RowTags()
    if pipeline.skips_errors:
        return Block([], tags, skipped=[told(error)])
    return Block([], tags, Failure(error))


def _told(task: Task, blocks: Blocks, pipeline: Pipeline) -> str:
    """Positions and record keys of a task."""
    leaf = pipeline.leaf_of(pipeline.stages[task.stage])
    if isinstance(task, SpanTask):
        positions = leaf.positions(task.start, task.stop)
    else:
        tags = (blocks[block].tags.positions[start:stop] for block, start, stop in task.rows)
        positions = np.array(list(dict.fromkeys(chain.from_iterable(tags))), dtype=np.int64)
    keys = leaf.record_keys(positions).tolist()
    return f"positions {positions.min()} to {positions.max()}, record keys {first_few(keys, 8)}"
