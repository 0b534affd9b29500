"""Change the weights, the omitted records, the batch size or the tokens of a batch during a run.

In: the position after the last element that the user received, what to change, and the first step
with the change. Out: the change as an object; and the pipeline with this change.

New weights of a mix are written into the order at once, with the position at which they begin. Any
other change is made when the iterator reaches its step: the iterator then takes its own state, and
resumes from this state with the changed pipeline, as a new program would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ....common.messages import shorten
from ....errors import CheckpointError
from ....samplers.changing.sampler import refuse_balance
from ...plan.omission import living_order
from ...plan.pipeline import Pipeline
from ..position import StreamPosition
from .places import (
    check_coming_weights,
    check_within,
    has_ended_early,
    position_of,
    step_of,
    with_sizes,
)

if TYPE_CHECKING:
    from ....samplers.protocol import VectorSampler
    from ..leftover import Run
    from ..resume import Resumed


class WeightsChange(NamedTuple):
    """A change of the weights of a mix.

    Attributes:
        position: first global position (counted over all shards) at which the new weights are used.
        weights: the new weights, as the user passed them.
        step: number of the first step with the new weights.
    """

    position: int
    weights: Any
    step: int

    def replaces(self, other: Change) -> bool:
        """Return True if this change makes an earlier change of the run useless.

        This is so if the other change is also a change of a mix's weights, and begins at the same
        position as this change or later.
        """
        return isinstance(other, WeightsChange) and other.position >= self.position

    @property
    def is_of_order(self) -> bool:
        """True if the order and all states contain the change before its step is reached.

        Always True for weights of a mix: they are written into the order when `change` is called.
        """
        return True


def weights_change(
    here: StreamPosition,
    changes: Iterable[Change],
    weights: Any,
    at_step: int | None,
    ahead: int = 0,
) -> WeightsChange:
    """Return a change of the weights of a mix, which begins at a step.

    Args:
        here: position after the last element that the user received.
        changes: earlier changes, of which some are not made yet.
        weights: a dict by name of the part, or a list of numbers.
        at_step: number of the first step with these weights; None for the first step that is
            possible.
        ahead: number of steps after `here` that may have been read already.

    Raises:
        TypeError: the pipeline has no mix, or joins streams; steps can have different numbers of
            records; records are appended during the run; or `weights` or `at_step` has the wrong
            type.
        ValueError: the step is too early, after the end, or inside a global batch that was divided
            among shards by cost; or the weights are outside their range.
    """
    pipeline = here.pipeline
    if len(pipeline.leaves) > 1 or not pipeline.leaf.facts.parts or not pipeline.aligned:
        raise TypeError(
            "change(weights=) needs a mix in which each step has the same number of records: a "
            "MixSampler, or MapDataset.mix, without Filter, FlatMap, Pack, BudgetBatch, "
            "window_shuffle, joined streams and on_error=. Save the states of all shards, and "
            "restore them with set_states(states, strict=False) in a program with the new weights."
        )
    if pipeline.leaf.growth is not None:
        raise TypeError(
            "change(weights=) does not work for a mix whose parts grow during the run, because "
            'shards agree on appended records by the weights. Pass growth="hand" to the loader, or '
            "change the weights between two runs."
        )
    step = step_of(here, at_step, ahead)
    of_program = [each for each in changes if isinstance(each, ProgramChange)]
    sizes = [(each.step, each.described) for each in of_program if not each.reorders]
    position = position_of(with_sizes(here, sizes, step), step)
    pipeline.leaf.sampler.with_weights(weights, position)  # which checks the weights
    return WeightsChange(position, weights, step)


def with_change(pipeline: Pipeline, change: WeightsChange) -> Pipeline:
    """Return the pipeline of a run, with changed weights of its mix."""
    leaf = pipeline.leaf
    sampler = leaf.sampler.with_weights(change.weights, change.position)
    return pipeline.with_leaf(sampler=sampler)


def at_changes(here: StreamPosition, changes: Iterable[Change]) -> StreamPosition:
    """Return the position `here`, with the new weights of a mix in its pipeline.

    The state of the returned position then contains these changes of weights. Other changes in
    `changes` are ignored.
    """
    for change in changes:
        if isinstance(change, WeightsChange) and not _has_change_at(
            here.pipeline.leaf.sampler, change.position
        ):
            here = here._replace(pipeline=with_change(here.pipeline, change))
    return here


def _has_change_at(order: VectorSampler, position: int) -> bool:
    return any(change.position == position and change.part is None for change in order.changes)


class ProgramChange(NamedTuple):
    """A change of something that the program describes, such as the batch size.

    Changes of the weights of a mix have another class, `WeightsChange`. The iterator makes the
    change when it reaches the step.

    Attributes:
        step: number of the first element that is made after the change.
        described: function that takes a pipeline, as the program built it, and returns the changed
            pipeline.
        reorders: True if the order of records changes.
    """

    step: int
    described: Callable[[Pipeline], Pipeline]
    reorders: bool

    def replaces(self, other: Change) -> bool:
        return False

    def has_effect(self, here: StreamPosition) -> bool:
        """Return True if the iterator, which has reached the change's step, must make the change.

        Return False in two cases: this shard is at its end; or the change reorders records, and a
        shard has no record left at this step (the other shards then have one record at most). All
        shards at this step get the same answer.

        Args:
            here: position after the last element that the user received.
        """
        return not (here.is_at_end or (self.reorders and has_ended_early(here)))

    @property
    def is_of_order(self) -> bool:
        """True if the order and all states contain the change before its step is reached.

        Always False for this kind of change, which the iterator makes when it reaches the step.
        """
        return False


Change: TypeAlias = WeightsChange | ProgramChange


def as_changed(loaders: Pipeline, changes: Iterable[Change]) -> Pipeline:
    """Return the current program's pipeline with all of `changes` made.

    Changes of the weights of a mix are ignored.

    Args:
        loaders: the current program's pipeline.
        changes: the changes.
    """
    for change in changes:
        loaders = change.described(loaders) if isinstance(change, ProgramChange) else loaders
    return loaders


def change_of(
    here: StreamPosition,
    loaders: Pipeline,
    changes: Sequence[Change],
    wanted: Mapping[str, Any],
    at_step: int | None = None,
    ahead: int = 0,
) -> Change:
    """Check the arguments of `iterator.change`, and return the change as an object.

    Args:
        here: position after the last element that the user received.
        loaders: the current program's pipeline, with all changes that were made.
        changes: the changes that are not made yet; there may be others among them.
        wanted: the new value of each kind of change, by name of the argument; None where the user
            passed none.
        at_step: number of the first step after the change; None for the first one that is possible.
        ahead: number of steps after `here` that may have been read already.

    Raises:
        TypeError: not exactly one value is given, or the pipeline cannot be changed in this way.
        ValueError: the step is too early, or a value is outside its range.
    """
    given = {name: value for name, value in wanted.items() if value is not None}
    if len(given) != 1:
        *others, last = (f"{name}=" for name in wanted)
        raise TypeError(
            "change() makes one change a call, but was given "
            f"{' and '.join(given) or 'no argument'}. Pass {', '.join(others)} or {last}, and call "
            "it again for another change."
        )
    ((name, value),) = given.items()
    if name == "weights" and (here.pipeline.joins or here.pipeline.leaf.facts.parts):
        return weights_change(here, changes, value, at_step, ahead)
    change = _program_change(here, as_changed(loaders, changes), name, value, at_step, ahead)
    of_mix = [each.step for each in changes if isinstance(each, WeightsChange)]
    if not change.reorders:
        check_coming_weights(change.step, max(of_mix, default=0))
    return change


def _program_change(
    here: StreamPosition, loaders: Pipeline, name: str, value: Any, at_step: int | None, ahead: int
) -> ProgramChange:
    """Return the change that one argument of `iterator.change` asks for, after checking it.

    Args:
        here: position after the last element that the user received.
        loaders: the current program's pipeline, with all changes so far.
        name: name of the argument.
        value: value of the argument.
        at_step: number of the first step after the change; None for the first one that is possible.
        ahead: number of steps after `here` that may have been read already.

    Raises:
        TypeError: the pipeline cannot be changed in this way.
        ValueError: the step is too early, or the value is outside its range.
    """
    _check_changeable(loaders, name)
    described = partial(_DESCRIBED[name], value)
    described(loaders)  # which checks the value
    return ProgramChange(step_of(here, at_step, ahead), described, name != "batch_size")


def _check_changeable(loaders: Pipeline, name: str) -> None:
    """Check that an argument of `iterator.change` can be used with a pipeline.

    Args:
        loaders: the pipeline.
        name: name of the argument: "weights" (of a `WeightedSampler`), "omit", "batch_size" or
            "max_tokens".

    Raises:
        TypeError: the argument cannot be used.
        ValueError: records cannot be omitted, because they are divided among shards by cost.
    """
    if name == "omit" and not loaders.joins:
        # first: of planned rows of a Pack, the user's keys are those of documents
        refuse_balance(loaders.leaf.sampler)
    planned = name != "max_tokens" and any(leaf.plans_batches for leaf in loaders.leaves)
    epoch = any("epoch" in leaf.sampler.fingerprint for leaf in loaders.leaves)
    if loaders.joins or planned or epoch:
        what = (
            "joined streams"
            if loaders.joins
            else "planned batches"
            if planned
            else "loader.epochs()"
        )
        when = "" if loaders.joins else " between two epochs of loader.epochs()"
        raise TypeError(
            f"change({name}=) does not work for {what}. Save the states of all shards{when}, and "
            f"restore them with set_states(states, strict=False) in a program with the new {name}."
        )
    if (
        name != "batch_size"
        and loaders.shard.shard_count > 1
        and (not loaders.aligned or loaders.leaf.growth is not None)
    ):
        raise TypeError(
            f"change({name}=) on several shards needs a pipeline in which each step has the same "
            "number of records, without Filter, FlatMap, Pack, window_shuffle and on_error=, and "
            'with growth="hand". Save the states of all shards, and restore them with '
            f"set_states(states, strict=False) in a program with the new {name}."
        )
    if (
        name == "batch_size"
        and loaders.leaf.facts.balance is not None
        and loaders.shard.shard_count > 1
    ):
        raise TypeError(
            "change(batch_size=) does not work with balance= on several shards, which divides "
            "whole global batches. Save the states of all shards, and restore them in a program "
            "with the new batch size."
        )


def _with_weights(weights: Any, loaders: Pipeline) -> Pipeline:
    return _with_order(loaders, loaders.leaf.sampler.with_record_weights(weights))


def _with_omitted(omit: Any, loaders: Pipeline) -> Pipeline:
    leaf = loaders.leaf
    return _with_order(loaders, living_order(leaf.sampler, leaf.source, omit, leaf.growth))


def _with_order(loaders: Pipeline, order: VectorSampler) -> Pipeline:
    from ...plan.build import not_empty

    return not_empty(loaders.with_leaf(sampler=order))


def _with_batch_size(size: Any, loaders: Pipeline) -> Pipeline:
    from ...plan.build import with_batch_size

    return with_batch_size(loaders, size, -1)


def _with_max_tokens(max_tokens: Any, loaders: Pipeline) -> Pipeline:
    leaf = loaders.leaf
    if not leaf.plans_batches:
        raise TypeError(
            "change(max_tokens=) needs a BudgetBatch that plans its batches from known lengths, "
            "and this pipeline has none. Pass lengths= to BudgetBatch, or read a source that knows "
            "the lengths of its records."
        )
    source, order = leaf.source.with_max_tokens(leaf.sampler, max_tokens)
    return loaders.with_leaf(source=source, sampler=order)


_DESCRIBED = {
    "weights": _with_weights,
    "omit": _with_omitted,
    "batch_size": _with_batch_size,
    "max_tokens": _with_max_tokens,
}


def continued(change: ProgramChange, loaders: Pipeline, here: StreamPosition, run: Run) -> Resumed:
    """Resume a run at its own position with a changed pipeline.

    If the change reorders records, all shards must be at the same step.

    Args:
        change: the change.
        loaders: the current program's pipeline, before this change.
        here: position after the last element that the user received.
        run: function that runs a pipeline (see `Run`).

    Raises:
        ValueError: the run cannot be changed at this position, or some shards have ended before it.
    """
    from ..resume import resume

    every = change.reorders
    if every and has_ended_early(here):
        check_within(here.pipeline.leaf, change.step, here.cursor.positions[0])
    try:
        return resume(
            change.described(loaders),
            [here.state],
            False,
            run,
            of_all_shards=every,
            equal_steps=every,
        )
    except CheckpointError as error:
        # without the remedy, which is for checkpoints
        reason = str(error).partition(". ")[0].removesuffix(".")
        raise ValueError(
            f"the run cannot be changed at step {here.step}: {shorten(reason, 300)}. Make the "
            "change at another step."
        ) from None
