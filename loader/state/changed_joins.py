"""Resumes a mix of rows that has other datasets than in the run before.

In: the pipeline as it is now, and a state. Out: the same state, as one of this pipeline: datasets that stay go on where they
stood, new ones begin. Other weights need nothing, as each dataset has a place of its own; but what was begun with the former
mix, as a window of a `Pack`, is unfinished: it is made as it would have been.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias

from ...common.messages import short_repr
from ...errors import CheckpointError
from ..plan.cursor import Cursor, Leftover, NodeCounts, cursor_of_join
from ..plan.lineage import ReshardHistory
from ..plan.pipeline import Pipeline
from ..plan.rules.former_mix import text_of
from .loader_state import LoaderState

TakeUp: TypeAlias = Callable[[Pipeline, LoaderState, str], Cursor]


def with_datasets_of_now(pipeline: Pipeline, state: LoaderState, take_up: TakeUp) -> LoaderState:
    """The state as one of this pipeline, if the uppermost join is a mix there and here, and another one.

    Args:
        pipeline: as it is now.
        state: of one shard.
        take_up: `split_leftover`, by its pipeline, state and mix.

    Raises:
        CheckpointError: what follows the mix is not as it was; or datasets were changed inside a window that needs them.
    """
    saved, join = _uppermost(state), pipeline.joins[-1]
    if saved is None or join.rule.fingerprint["kind"] != "mix" or saved == pipeline.fingerprint["sampler"]["joins"][-1]:
        return state
    moved = _Moved(pipeline, saved)
    if len(state.cursor.skips) - moved.stages != len(pipeline.stages) - moved.stages_now:
        raise CheckpointError(
            "datasets and weights of a mix of streams can be changed, but not what follows the mix: go on with that as it was."
        )
    cursor = moved.cursor(state.cursor)
    moved.check_draws(cursor)
    if (cursor.unfinished or pipeline.begun_at(pipeline.top, cursor)) and _draws_otherwise(pipeline, state, moved):
        raise CheckpointError(
            "the state stands inside a window after a mix of streams. There weights can be changed, but with other datasets "
            "random operations after the mix would draw other numbers; take the checkpoint between two windows, or keep them."
        )
    state = dataclasses.replace(state, cursor=cursor, lineages=moved.lineages(state.lineages))
    cursor = take_up(pipeline, state, moved.mix)
    cursor = cursor._replace(notes=(*cursor.notes[:-1], cursor.notes[-1][:1]))
    return dataclasses.replace(state, cursor=cursor, fingerprint=pipeline.fingerprint)


def _draws_otherwise(pipeline: Pipeline, state: LoaderState, moved: _Moved) -> bool:
    """True if operations after the mix have other numbers now, by which some of them draw theirs."""
    renumbered = len(state.fingerprint["operations"]) != len(pipeline.operations)
    return renumbered and any(stage.reads_position for stage in pipeline.stages[moved.stages_now :])


class _Moved:
    """The contents of a state, arranged by the present datasets.

    Attributes:
        mix: as of `Leftover`.
        stages: how many there were below the mix.
        stages_now: and are now.
    """

    def __init__(self, pipeline: Pipeline, saved: dict[str, Any]) -> None:
        self._pipeline = pipeline
        self._join = pipeline.joins[-1]
        self._names: list[str] = saved["names"]
        self._sizes = [NodeCounts(*size) for size in saved["sizes"]]
        self.mix = text_of(saved)
        self.stages = sum(size.stages for size in self._sizes)
        self.stages_now = sum(part.size.stages for part in self._join.inputs)
        for name, part in zip(self._join.names, self._join.inputs):
            if name in self._names and self._sizes[self._names.index(name)] != part.size:
                raise CheckpointError(
                    f"dataset {short_repr(name)} of the mix has another form now; give it another name."
                )

    def cursor(self, cursor: Cursor) -> Cursor:
        """The cursor of the whole, or of a part above the mix."""
        if not cursor.notes:
            raise CheckpointError(f"the state is damaged: cursor={short_repr(list(cursor[:3]))}.")
        cursors = dict(zip(self._names, cursor.parts(self._sizes)))
        parts = zip(self._join.names, self._join.inputs)
        found = cursor_of_join(
            [cursors.get(name, self._pipeline.start_of(part)) for name, part in parts], cursor.notes[-1]
        )
        above = cursor.skips[self.stages :]
        rests = tuple(moved for rest in cursor.unfinished for moved in self._rest(rest))
        return found._replace(skips=(*found.skips, *above), unfinished=rests)

    def check_draws(self, cursor: Cursor) -> None:
        """Refuse random operations of datasets that draw by other numbers now, where what they make is half delivered.

        Raises:
            CheckpointError: there is such a dataset; the message names it.
        """
        begun = {rest.stage for rest in cursor.unfinished}
        begun |= {stage.number for skip, stage in zip(cursor.skips, self._pipeline.stages) if skip}
        above = any(stage is None or stage >= self.stages_now for stage in begun)
        for name, part in zip(self._join.names, self._join.inputs):
            draws = any(self._pipeline.stages[stage].reads_position for stage in part.stages)
            if draws and (above or begun & {*part.stages}) and self._is_renumbered(name):
                raise CheckpointError(
                    f"the state stands inside a window, or a record taken apart, of dataset {short_repr(name)}, and other "
                    "datasets are before it in the mix now: its random operations would draw other numbers. Add datasets at "
                    "the end, keep those before it (with weight 0), or take the checkpoint between two windows."
                )

    def _is_renumbered(self, name: str) -> bool:
        """True if the operations of a dataset that stays have other numbers now."""
        if name not in self._names:
            return False
        parts, stages = dict(zip(self._join.names, self._join.inputs)), self._pipeline.stages
        before = self._names[: self._names.index(name)]
        counts = [len(stages[stage].operations) for each in before if each in parts for stage in parts[each].stages]
        return not parts.keys() >= {*before} or sum(counts) != stages[parts[name].stages.start].first

    def lineages(self, lineages: tuple[ReshardHistory, ...]) -> tuple[ReshardHistory, ...]:
        """Those of the datasets that stay, and of new ones."""
        known = dict(zip(self._names, _cut(lineages, self._sizes)))
        parts = zip(self._join.names, self._join.inputs)
        return tuple(
            lineage for name, part in parts for lineage in known.get(name, [ReshardHistory()] * part.size.leaves)
        )

    def _rest(self, rest: Leftover) -> list[Leftover]:
        """The leftovers, except those of a dataset that was removed."""
        lineages = self.lineages(rest.lineages)
        if rest.stage is None or rest.stage >= self.stages:
            stage = None if rest.stage is None else rest.stage - self.stages + self.stages_now
            mix = rest.mix or self.mix
            return [dataclasses.replace(rest, cursor=self.cursor(rest.cursor), lineages=lineages, stage=stage, mix=mix)]
        before = 0
        for name, size in zip(self._names, self._sizes):
            if rest.stage < before + size.stages and name in self._join.names:
                first = self._join.inputs[self._join.names.index(name)].first.stages
                within = tuple(moved for each in rest.cursor.unfinished for moved in self._rest(each))
                cursor = rest.cursor._replace(unfinished=within)
                return [dataclasses.replace(rest, cursor=cursor, lineages=lineages, stage=first + rest.stage - before)]
            if rest.stage < before + size.stages:
                break
            before += size.stages
        return []


def _uppermost(state: LoaderState) -> dict[str, Any] | None:
    """The uppermost join of a state, if that is a mix."""
    sampler = state.fingerprint["sampler"]
    joins = sampler.get("joins") if isinstance(sampler, dict) else None
    last = joins[-1] if isinstance(joins, list) and joins else None
    if not isinstance(last, dict) or last.get("kind") != "mix" or not state.cursor.notes or not state.cursor.notes[-1]:
        return None
    names, sizes = last.get("names"), last.get("sizes")
    whole = isinstance(names, list) and isinstance(sizes, list) and len(names) == len(sizes)
    whole = whole and all(isinstance(size, list) and [*map(type, size)] == [int] * 3 for size in sizes)  # type: ignore[union-attr]
    if not whole:
        raise CheckpointError(f"the state is damaged: joins={short_repr(joins)}.")
    return last


def _cut(lineages: tuple[ReshardHistory, ...], sizes: list[NodeCounts]) -> list[list[ReshardHistory]]:
    """Those of each dataset."""
    left, found = list(lineages), []
    for size in sizes:
        found.append(left[: size.leaves])
        del left[: size.leaves]
    return found
