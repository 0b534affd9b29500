"""A task that ended its worker is divided, or given up.

In: the task. Out: its parts, or a block that says what failed, by positions and record keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ...common.fields import replaced
from ...common.messages import first_few
from ...errors import WorkerCrashedError
from ..plan import stages as plan
from ..plan.leaf import Leaf
from ..plan.pipeline import Pipeline
from ..plan.stages import Span
from ..work.explain import told
from ..work.tasks import Block, Blocks, Failure, GroupTask, RowOrigins, SpanTask, Task, input_count, single_rows


def parts_of(task: Task, pipeline: Pipeline) -> Sequence[Task]:
    """Parts of a task, each to be tried alone: of several units, or elements of a window, any may have ended the worker."""
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
    """A task for each of the positions or rows of one, all elements of which go on."""
    task = replaced(task, only=None)
    if isinstance(task, GroupTask):
        return single_rows(task)
    return [replaced(task, start=start, stop=start + 1) for start in range(task.start, task.stop)]


def given_up(task: Task, blocks: Blocks, pipeline: Pipeline, reason: str) -> Block:
    """The block of a task that ended its workers too often."""
    told_of = _told(task, blocks, pipeline)
    error = WorkerCrashedError(f"a worker {reason} at the same task: {told_of}.")
    tags = None if pipeline.aligned else RowOrigins()
    if pipeline.skips_errors:
        return Block.of([], tags, skipped=[told(error)])
    return Block.of([], tags, Failure(error))


def _told(task: Task, blocks: Blocks, pipeline: Pipeline) -> str:
    """Positions and record keys of a task."""
    stage = pipeline.stages[task.stage]
    if isinstance(task, SpanTask):
        leaf = pipeline.every_leaf[task.leaf]
        return _keys_told(leaf, leaf.positions(task.start, task.stop))
    parts = (blocks[block].tags.positions[start:stop] for block, start, stop in task.rows)
    tags = list(dict.fromkeys(chain.from_iterable(parts)))
    if pipeline.is_below_join(stage) and not stage.on_join:
        return f"rows {min(tags)} to {max(tags)} of what was joined"
    by_leaf: dict[int, list[int]] = {}
    for tag in tags:
        by_leaf.setdefault(tag % len(pipeline.every_leaf), []).append(tag // len(pipeline.every_leaf))
    told_of = [_keys_told(pipeline.every_leaf[leaf], np.array(places)) for leaf, places in by_leaf.items()]
    return first_few(told_of, 2) if len(told_of) > 1 else told_of[0]


def _keys_told(leaf: Leaf, positions: NDArray[np.int64]) -> str:
    keys = [leaf.told(key) for key in leaf.record_keys(positions).tolist()]
    of = f" of {leaf.name}" if leaf.name else ""
    return f"positions {positions.min()} to {positions.max()}{of}, record keys {first_few(keys, 8)}"
