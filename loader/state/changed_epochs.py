"""Resume inside or between the epochs of `loader.epochs()`, if records were appended or omitted since.

In: the pipeline of an epoch, and states. Out: both, in the form to resume.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import CheckpointError
from ...samplers.changing.history import OMITTED, History
from ...samplers.changing.sampler import ChangingSampler, lasting
from ...samplers.one_epoch import OneEpoch
from ..plan.growth import epoch_at_generation
from ..plan.pipeline import Pipeline
from .record_checks import check_all_shards, check_omitted, retold
from .schema import LoaderState


def in_generation(
    pipeline: Pipeline, states: Sequence[LoaderState], strict: bool
) -> tuple[Pipeline, Sequence[LoaderState]]:
    """Return the pipeline of an epoch, and states, adapted to the same generation (version of the source's files).

    If the states are inside the epoch, it is the generation of their run; otherwise, the present one.

    Args:
        pipeline: pipeline of the epoch, over the present generation.
        states: states of one run.
        strict: True: both are returned unchanged if the source's generation now differs from the one
            that the run read under the same number.
    """
    known, order = states[0].identity, pipeline.leaf.sampler
    saved = known.order
    assert isinstance(order, OneEpoch), "it was asked before"
    if not isinstance(order.sampler, ChangingSampler) or pipeline.leaf.source_facts.generations is None:
        return pipeline, states
    if lasting(saved) != lasting(order.fingerprint):
        return pipeline, states
    last = History.of(saved).last
    if last.generation > order.sampler.generation:
        return pipeline, states  # comparing the identities will tell
    former = epoch_at_generation(pipeline, last.generation)
    other_source = strict and former.identity.sources != known.sources
    if other_source or former.identity.order["records"] != last.records:
        return pipeline, states
    if any(any(state.cursor.positions) or any(state.cursor.skips) or state.cursor.unfinished for state in states):
        return former, states
    now = {name: value for name, value in order.fingerprint.items() if name != OMITTED}
    kept = {OMITTED: saved[OMITTED]} if OMITTED in saved else {}
    identity = known.with_order(0, {**now, **kept}, pipeline.identity.sources[0])
    return pipeline, retold(states, known, identity)


def in_epoch(pipeline: Pipeline, states: Sequence[LoaderState], strict: bool) -> Sequence[LoaderState]:
    """Adapt states of a loop per epoch to the records that the epoch omits now.

    States are returned unchanged if the same records are omitted as before, or if the order is
    another one.

    Args:
        pipeline: pipeline of the epoch.
        states: states of one run.
        strict: True: not fewer records may be omitted than before.

    Raises:
        CheckpointError: other records are omitted, and a state is inside the epoch, or states of
            some shards are missing; or, if `strict`, fewer are omitted.
    """
    known, order = states[0].identity, pipeline.leaf.sampler
    saved = known.order
    before, now = (of.get(OMITTED, "") for of in (saved, order.fingerprint))
    if (
        before == now
        or lasting(saved) != lasting(order.fingerprint)
        or saved["records"] != order.fingerprint["records"]
    ):
        return states
    if strict:
        check_omitted(before, now)
    if any(any(state.cursor.positions) or any(state.cursor.skips) for state in states):
        raise CheckpointError(
            "other records are omitted than in the state, which was saved inside an epoch of "
            "loader.epochs(): its batches would change. Restore a checkpoint that was saved between two "
            "epochs, or loop over iter(loader), where omit= can change at any step."
        )
    check_all_shards(states, "records were left out")
    return retold(states, known, known.with_order(0, order.fingerprint))
