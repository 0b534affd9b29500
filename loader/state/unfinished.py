"""What a shard had begun when the shards changed: a window, or a batch that is taken apart, which no other shard could make.

In: the place where that shard stood. Out: a place from which any shard can go on, and what comes before that: the rest of
what was begun, which one of the new shards has made anew. Where a window of records ends is known; to find the end of what is
made of rows, these are read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any, TypeAlias

from ..plan.cursor import Cursor, Unfinished, cursor_of_join
from ..plan.parts import Part
from ..plan.pipeline import Pipeline
from ..stream.rows import Rows

Run: TypeAlias = Callable[[Pipeline, Cursor], Generator[tuple[Any, Rows, int], None, None]]
"""Runs a pipeline from a cursor on; what it gives are elements, each with its rows and its place there."""


def taken_up(former: Pipeline, cursor: Cursor, run: Run) -> Cursor:
    """Where other shards can go on after a former one.

    Args:
        former: the pipeline of that shard.
        cursor: where it stood.
        run: runs a pipeline, which is needed where that stood inside something made of rows.
    """
    return _TakenUp(former, run).of(former.top, cursor)


class _TakenUp:
    def __init__(self, former: Pipeline, run: Run) -> None:
        self._former = former
        self._run = run
        shard = former.shard
        self._shard = shard.shard_index, shard.shard_count
        self._lineages = tuple(leaf.lineage for leaf in former.leaves)

    def of(self, part: Part, cursor: Cursor) -> Cursor:
        """The place, for a part."""
        if part.stage is None:
            return self._of_join(part, cursor)
        stage = self._former.stages[part.stage]
        rests = tuple(rest for rest in cursor.unfinished if rest.stage in (stage.number, None))
        cursor = cursor._replace(unfinished=tuple(rest for rest in cursor.unfinished if rest not in rests))
        if stage.number in self._former.begun_at(part, cursor):
            rests = (*rests, Unfinished(self._shard, cursor, self._lineages, 0, stage.number))
            cursor = self._end(part, cursor)
        if stage.input is not None:
            cursor = self.of(stage.input, cursor.before()).then(cursor.skips[-1])
        return cursor._replace(unfinished=(*rests, *cursor.unfinished))

    def _of_join(self, part: Part, cursor: Cursor) -> Cursor:
        assert part.join is not None, "a part ends with a stage or a join"
        join = self._former.joins[part.join]
        rests = tuple(rest for rest in cursor.unfinished if rest.stage is None)
        cursors = map(self.of, join.inputs, self._former.inputs_at(join, cursor))
        found = cursor_of_join(cursors, cursor.notes[-1])
        return found._replace(unfinished=(*rests, *found.unfinished))

    def _end(self, part: Part, cursor: Cursor) -> Cursor:
        """The cursor after all that is made of the inputs of which something was delivered."""
        assert part.stage is not None, "only stages make something of several inputs"
        stage = self._former.stages[part.stage]
        if stage.leaf is not None:
            end = min(cursor.positions[0] + stage.unit, self._former.leaves[stage.leaf].total)
            return cursor._replace(positions=(end,), skips=(0,))
        with closing(self._run(dataclasses.replace(self._former, top=part), cursor)) as elements:
            for _, rows, row in elements:
                cursor = rows.cursor_after(row)
                if part.stage not in self._former.begun_at(part, cursor):
                    break
        return cursor
