"""Resume a mix of streams to which datasets were added, or from which datasets were removed.

In: the current pipeline, and a state. Out: the state, rearranged for this pipeline. Datasets that
are in both mixes continue where they were. Added datasets begin at their start. Changed weights
need no work here, because each dataset has its own position. Work that was begun in the earlier
mix, such as a window of a `Pack` of which only some rows were delivered, becomes a leftover: it is
saved apart in the state, and its other rows are made as in the earlier mix.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, TypeVar

from ...common.fields import replaced
from ...common.messages import short_repr
from ...errors import CheckpointError
from ...samplers.changing.history import OMITTED
from ..plan.cursor import Cursor, Leftover, NodeCounts, cursor_of_join
from ..plan.history import NO_RUNS, Mark
from ..plan.identity import Identity
from ..plan.mix_rules import text_of
from ..plan.pipeline import Pipeline
from .checks.record_checks import inside_a_window_of_growing
from .schema import LoaderState

Value = TypeVar("Value")


def with_datasets_of_now(
    pipeline: Pipeline, state: LoaderState, take_up: Callable[[Pipeline, LoaderState, str], Cursor]
) -> LoaderState:
    """Rearrange a shard's state for the current pipeline, if the pipeline's last mix has changed.

    The last mix is the last join of streams in the pipeline; its datasets or its weights may have
    changed. The state is returned unchanged if this mix is the same as in the state, or if the last
    join of the pipeline or of the state is not a mix.

    Args:
        pipeline: the current pipeline.
        state: state of the shard.
        take_up: function that returns the cursor (place in the stream) from which to continue. It
            is called with the pipeline, the rearranged state, and the earlier mix as JSON text; see
            `split_leftover`.

    Returns:
        The state for the current pipeline.

    Raises:
        CheckpointError: operations after the mix have changed; a dataset now has other operations;
            the state was saved inside a window, and this window would now get other records or
            random numbers; the state was saved inside a window on one of several shards, and a
            source of the pipeline grows during the run; or the state is damaged.
    """
    saved, join = _uppermost(state), pipeline.joins[-1]
    if (
        saved is None
        or join.rule.fingerprint["kind"] != "mix"
        or saved == pipeline.identity.joins[-1]
    ):
        return state
    moved = _Moved(pipeline, saved)
    if len(state.cursor.skips) - moved.stages != len(pipeline.stages) - moved.stages_now:
        raise CheckpointError(
            "only the datasets and the weights of a mix of streams can change, but the operations "
            "after the mix differ from the state. Restore with the former operations."
        )
    cursor = moved.cursor(state.cursor)
    moved.check_draws(cursor)
    begun = cursor.unfinished or pipeline.begun_at(pipeline.top, cursor)
    if begun and _draws_otherwise(pipeline, state, moved):
        raise CheckpointError(
            "the datasets of a mix changed, but the checkpoint was saved while a batch, Pack, "
            "window_shuffle or the like after the mix had delivered only some of its records. "
            "With other datasets, random operations would draw other numbers for its remaining "
            "records. Keep the datasets (weights can change), or restore a checkpoint of another "
            "step."
        )
    if begun and state.shard[1] > 1 and any(leaf.growth is not None for leaf in pipeline.leaves):
        # This shard would pass over positions up to the end of its window, where others still look
        # for records.
        raise inside_a_window_of_growing()
    if begun and _has_changed(state):
        raise CheckpointError(
            "weights or datasets of a mix changed, but the checkpoint was saved while a Pack, "
            "window_shuffle or the like held some records. With the changed mix, it would hold "
            "other records, because records were appended or omitted earlier in the run. Restore "
            "with the former mix, and change it at another step."
        )
    state = dataclasses.replace(
        state,
        cursor=cursor,
        history=state.history.by_leaf(moved.by_leaf),
        marks=moved.marks(state.marks),
    )
    cursor = take_up(pipeline, state, moved.mix)
    cursor = replaced(cursor, notes=(*cursor.notes[:-1], cursor.notes[-1][:1]))
    return dataclasses.replace(state, cursor=cursor, identity=moved.identity(state.identity))


def _draws_otherwise(pipeline: Pipeline, state: LoaderState, moved: _Moved) -> bool:
    """Return True if a random operation after the mix would now draw other numbers.

    The key of an operation's random numbers contains the operation's index in the pipeline. So the
    numbers differ if the number of operations before it has changed since the state was saved.

    Args:
        pipeline: the current pipeline.
        state: state of the run.
        moved: converter of the state's values to the current datasets.
    """
    renumbered = len(state.identity.operations) != len(pipeline.operations)
    return renumbered and any(stage.reads_position for stage in pipeline.stages[moved.stages_now :])


def _has_changed(state: LoaderState) -> bool:
    """Return True if records of any source were appended or omitted before the state was saved.

    In joined streams, the order of a source cannot change in any other way during a run.
    """
    return bool(state.history.changes) or any(
        OMITTED in order for order in state.identity.every_order
    )


class _Moved:
    """Converts cursors and other saved values from earlier datasets of a mix to the current ones.

    A cursor is a place in the stream.

    Args:
        pipeline: the current pipeline, whose last join is the mix.
        saved: the description of the earlier mix, from the state's `identity`.

    Attributes:
        mix: the earlier mix as JSON text.
        stages: number of stages (groups of operations that run in one task) in all datasets of the
            earlier mix.
        stages_now: number of stages in all datasets of the current mix.

    Raises:
        CheckpointError: a dataset has other operations than in the state.
    """

    def __init__(self, pipeline: Pipeline, saved: dict[str, Any]) -> None:
        join = pipeline.joins[-1]
        self._pipeline = pipeline
        # as they were
        self._sizes = {
            name: NodeCounts(*size) for name, size in zip(saved["names"], saved["sizes"])
        }
        self._parts = dict(zip(join.names, join.inputs))  # as they are
        self.mix = text_of(saved)  # as of `Leftover`
        # there were below the mix …
        self.stages = sum(size.stages for size in self._sizes.values())
        self.stages_now = sum(part.size.stages for part in join.inputs)  # … and are now
        for name, part in self._parts.items():
            if self._sizes.get(name, part.size) != part.size:
                raise CheckpointError(
                    f"dataset {short_repr(name)} of the mix has other operations than in the "
                    "state. Give the changed dataset another name."
                )

    def cursor(self, cursor: Cursor) -> Cursor:
        """Convert a saved cursor (place in the stream) to a cursor of the current pipeline.

        Datasets that were added to the mix begin at their start.

        Args:
            cursor: saved cursor of the whole pipeline, or of a part of the pipeline that contains
                the mix.

        Raises:
            CheckpointError: the saved cursor does not say how far the mix has come, so the state is
                damaged.
        """
        if not cursor.notes:
            raise CheckpointError(
                "the state is damaged: it has no position in the mix "
                f"(cursor={short_repr(list(cursor[:3]))}). Restore another checkpoint."
            )
        cursors = dict(zip(self._sizes, cursor.parts([*self._sizes.values()])))
        inputs = [
            cursors.get(name, self._pipeline.start_of(part)) for name, part in self._parts.items()
        ]
        found = cursor_of_join(inputs, cursor.notes[-1])
        rests = (moved for rest in cursor.unfinished for moved in self._rest(rest))
        return replaced(found, skips=(*found.skips, *cursor.skips[self.stages :])).with_unfinished(
            *rests
        )

    def check_draws(self, cursor: Cursor) -> None:
        """Check that work delivered in part can be finished with the same random numbers as before.

        Args:
            cursor: the place in the current pipeline's stream from which the run continues.

        Raises:
            CheckpointError: an operation of a dataset would draw other numbers, because the
                datasets that come before this dataset in the mix were added, removed or replaced.
        """
        begun = {rest.stage for rest in cursor.unfinished}
        begun |= {stage.number for skip, stage in zip(cursor.skips, self._pipeline.stages) if skip}
        above = any(stage >= self.stages_now for stage in begun)
        for name, part in self._parts.items():
            draws = any(self._pipeline.stages[stage].reads_position for stage in part.stages)
            if draws and (above or begun & {*part.stages}) and self._is_renumbered(name):
                raise CheckpointError(
                    f"the checkpoint was saved while dataset {short_repr(name)} held records back "
                    "(in a batch, Pack, window_shuffle, FlatMap or the like). The datasets before "
                    "it in the mix changed, so random operations would draw other numbers for "
                    "these records. Add datasets at the end, keep those before it (with weight "
                    "0), or restore a checkpoint of another step."
                )

    def _is_renumbered(self, name: str) -> bool:
        """Return True if a dataset is in both mixes, and its operations have other indices now.

        The operations of a pipeline are numbered over all datasets. So the indices change if
        datasets before this one now have more or fewer operations. Return True, too, if a dataset
        that was before this one was removed.
        """
        if name not in self._sizes:
            return False
        before, stages = [*self._sizes][: [*self._sizes].index(name)], self._pipeline.stages
        if not self._parts.keys() >= {*before}:
            return True
        operations = sum(
            len(stages[stage].operations) for each in before for stage in self._parts[each].stages
        )
        return operations != stages[self._parts[name].stages.start].first

    def by_leaf(self, values: Iterable[Value], new: Value) -> tuple[Value, ...]:
        """Rearrange one value per leaf of the earlier pipeline to one per leaf of the current one.

        A leaf is a source with its sampler. The values of removed datasets are left out.

        Args:
            values: a value for each leaf of the earlier pipeline.
            new: the value for each leaf of an added dataset.
        """
        left = iter(values)
        known = {name: [*islice(left, size.leaves)] for name, size in self._sizes.items()}
        every = (known.get(name, [new] * part.size.leaves) for name, part in self._parts.items())
        return tuple(value for each in every for value in each)

    def marks(self, marks: Mapping[int, Mark]) -> dict[int, Mark]:
        """Return a state's marks (facts about leaves), renumbered for the current pipeline.

        A leaf is a source with its sampler. Marks of leaves of removed datasets are left out.

        Args:
            marks: dict from the index of a leaf in the earlier pipeline to its mark.

        Returns:
            Dict from the index of a leaf in the current pipeline to its mark.
        """
        left = iter(range(sum(size.leaves for size in self._sizes.values())))
        known = {name: [*islice(left, size.leaves)] for name, size in self._sizes.items()}
        moved = {
            former: number
            for name, part in self._parts.items()
            for former, number in zip(
                known.get(name, ()), range(part.leaves.start, part.leaves.stop)
            )
        }
        return {moved[former]: mark for former, mark in marks.items() if former in moved}

    def identity(self, saved: Identity) -> Identity:
        """Return the identity of the current pipeline, with saved orders where there are any.

        The identity is the description of sources, orders and operations in a state. The order of a
        dataset that is in both mixes is the saved one, because records may have been appended or
        omitted since.

        Args:
            saved: identity of the earlier pipeline.
        """
        present = self._pipeline.identity
        known = self.by_leaf(saved.orders, {})
        orders = (former or now for former, now in zip(known, present.orders, strict=True))
        return dataclasses.replace(present, orders=tuple(orders))

    def _rest(self, rest: Leftover) -> list[Leftover]:
        """Convert a leftover (unfinished work of an earlier shard) to the current pipeline.

        Returns:
            A list with the converted leftover; an empty list if its dataset was removed.
        """
        stage = rest.stage
        rest = dataclasses.replace(
            rest, lineages=self.by_leaf(rest.lineages, NO_RUNS), ends=self.by_leaf(rest.ends, None)
        )
        if stage >= self.stages:
            stage += self.stages_now - self.stages
            cursor, mix = self.cursor(rest.cursor), rest.mix or self.mix
            return [dataclasses.replace(rest, cursor=cursor, stage=stage, mix=mix)]
        for name, size in self._sizes.items():
            if name in self._parts and 0 <= stage < size.stages:
                within = (moved for each in rest.cursor.unfinished for moved in self._rest(each))
                cursor, stage = (
                    rest.cursor.with_unfinished(*within),
                    self._parts[name].first.stages + stage,
                )
                return [dataclasses.replace(rest, cursor=cursor, stage=stage)]
            stage -= size.stages
        return []


def _uppermost(state: LoaderState) -> dict[str, Any] | None:
    """Return the saved description of the last join of streams, if it is a mix.

    Return None if it is another kind of join, if there is no join, or if the state does not say how
    far the mix has come.
    """
    last = state.identity.joins[-1] if state.identity.joins else {}
    is_mix = last.get("kind") == "mix" and state.cursor.notes and state.cursor.notes[-1]
    return last if is_mix else None
