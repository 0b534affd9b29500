"""Where a stream stands after any number of elements, as far as arithmetic tells it: streams that come together, too.

In: a pipeline as it is from its beginning, a number of rows. Out: a cursor; or None, where some operation decides how many rows
there are, or an input has ended before.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...loader.plan.cursor import Cursor, cursor_of_join
from ...loader.plan.joins import Rule
from ...loader.plan.parts import Part
from ...loader.plan.pipeline import Pipeline
from ...loader.plan.rules.in_turn import InTurn
from ...loader.plan.rules.mix import MixRows
from ...loader.plan.rules.of_one import First
from ...loader.plan.stages import Stage
from ...operations import WindowShuffle
from ...samplers.mix.order import MixOrder
from ...samplers.mix.weights import MAX_POSITION


def cursor_after(pipeline: Pipeline, part: Part, rows: int) -> Cursor | None:
    """The cursor of a part after so many of its rows."""
    if pipeline.skips_errors:
        return None
    if part.stage is None:
        return _after_join(pipeline, part, rows)
    stage = pipeline.stages[part.stage]
    window = _window(stage)
    if window is None:
        return None
    units, skip = divmod(rows, window)
    inputs = units * stage.unit
    if stage.input is not None:
        below = cursor_after(pipeline, stage.input, inputs)
        return None if below is None else below.then(skip)
    leaf = pipeline.leaf_of(stage)
    known = not leaf.in_order and not leaf.lineage.layers and inputs + skip <= leaf.total
    return Cursor((inputs,), (skip,)) if known else None


def _window(stage: Stage) -> int | None:
    """How many rows come of a unit of a stage; None if an operation decides it."""
    others = [operation for operation in stage.operations if not operation.one_to_one]
    if not others:
        return 1
    return others[0].takes if len(others) == 1 and isinstance(others[0], WindowShuffle) else None


def _after_join(pipeline: Pipeline, part: Part, rows: int) -> Cursor | None:
    join = pipeline.joins[part.join or 0]
    taken = _taken(join.rule, rows)
    cursors = [cursor_after(pipeline, one, count) for one, count in zip(join.inputs, taken)]
    known = [cursor for cursor in cursors if cursor is not None]
    if len(known) < len(join.inputs):
        return None
    return cursor_of_join(known, join.rule.after(join.rule.start, rows))


def _taken(rule: Rule, rows: int) -> Sequence[int]:
    """How many rows of each input are among the first ones of a join; none if the rule does not tell."""
    if type(rule) is MixRows and isinstance(rule.order, MixOrder) and rows < MAX_POSITION:
        counts: list[int] = rule.order.counts(rows).tolist()
        return counts
    if isinstance(rule, InTurn):
        return [(rows - number - 1) // rule.count + 1 for number in range(rule.count)]
    if isinstance(rule, First) and rows <= rule.count:
        return [rows]
    return []
