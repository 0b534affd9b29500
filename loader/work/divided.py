"""Divide a task into smaller tasks, to find the record that makes a worker process die.

In: a task. Out: smaller tasks, which do the work of the task together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...common.fields import replaced
from ..plan import stages as plan
from ..plan.pipeline import Pipeline
from ..plan.stages import Span
from .tasks import GroupTask, SpanTask, Task, input_count


def parts_of(task: Task, pipeline: Pipeline) -> Sequence[Task]:
    """Divide a task into smaller tasks to run one by one; return [task] if it cannot be divided.

    How it is divided depends on the inputs of the task:

    * If the task reads positions: into at most 32 ranges of positions. Each range makes one or more
      outputs; a range for several outputs can be divided further.
    * If the task runs on single rows of earlier tasks: into one task for each row.
    * If the task runs on one window (records that a `Pack`, or batches by budget, put together):
      into one task for each element that the window makes.
    """
    stage = pipeline.stages[task.stage]
    if isinstance(task, GroupTask) and not stage.groups:
        return single_rows(task)
    if isinstance(task, SpanTask):
        if task.since is not None:
            return [task]
        parts = plan.parts_of(Span(task.start, task.stop), stage.unit)
        if len(parts) > 1:
            return [replaced(task, start=part.start, stop=part.stop) for part in parts]
    if stage.window is None or task.only is not None:
        return [task]
    elements = -(-input_count(task) // stage.inputs_of(stage.window))
    return [replaced(task, only=place) for place in range(elements)]


def inputs_of(task: Task) -> Sequence[Task]:
    """Return one task for each position or row on which a task runs."""
    task = replaced(task, only=None)
    if isinstance(task, GroupTask):
        return single_rows(task)
    return [replaced(task, start=start, stop=start + 1) for start in range(task.start, task.stop)]


def single_rows(task: GroupTask) -> list[GroupTask]:
    """Split a task on several rows into one task for each row, in order."""
    rows = [(block, row, row + 1) for block, start, stop in task.rows for row in range(start, stop)]
    order = (
        range(len(rows))
        if task.order is None
        else np.frombuffer(task.order, dtype=np.int32).tolist()
    )
    return [
        replaced(task, rows=(rows[row],), order=None, first=task.first + number)
        for number, row in enumerate(order)
    ]
