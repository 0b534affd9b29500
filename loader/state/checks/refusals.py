"""Texts of the errors for states of another pipeline or shard.

In: a saved state, the pipeline, and descriptions of the differences. Out: texts.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....common.messages import first_few
from ...plan.identity import WEIGHT
from ...plan.pipeline import Pipeline
from ..schema import LoaderState

REMEDY = (
    "Restore it with the pipeline that saved it, or pass strict=False if the change is on purpose"
)


_IF_MORE_CHANGED = (
    "in the pipeline that saved them, or with strict=False if the other changes are on purpose"
)


MOST_WEIGHTS = 5  # lines of an error


def remedy_of(state: LoaderState, pipeline: Pipeline, several: bool) -> str:
    """Return what to do about a state of another pipeline or shard.

    `several` is True if more than one thing differs.
    """
    if state.shard == (pipeline.shard.shard_index, pipeline.shard.shard_count):
        of_epochs = "epoch" in state.identity.order and "epoch" not in pipeline.identity.order
        return (
            "Restore it in loader.epochs(…), which saved it, not in iter(loader)"
            if of_epochs
            else REMEDY
        )
    own = (
        "Restore the state of this process's own shard, or call"
        if state.shard[1] == pipeline.shard.shard_count
        else "Call"
    )
    remedy = f"{own} set_states(…) with the states of all shards"
    return f"{remedy}, {_IF_MORE_CHANGED}" if several else remedy


def of_another(what: str, changed: Sequence[str], remedy: str) -> str:
    """Return the message of an error for a state of another pipeline or shard.

    Changed weights of a mix, if there are several, get a line each, but at most `MOST_WEIGHTS`.

    Args:
        what: beginning of the sentence.
        changed: descriptions of the differences.
        remedy: what to do, as the end of the sentence.
    """
    if len(changed) == 1 and changed[0].startswith("shard: "):
        return f"{what} to another shard ({changed[0].removeprefix('shard: ')}). {remedy}."
    weights = [line for line in changed if line.startswith(WEIGHT)]
    if len(weights) < 2:
        return f"{what} to another pipeline ({first_few(changed)}). {remedy}."
    others = [line for line in changed if line not in weights]
    lines = [
        *weights[:MOST_WEIGHTS],
        *([f"and {len(weights) - MOST_WEIGHTS} more"] if weights[MOST_WEIGHTS:] else []),
    ]
    told = "".join(f"\n  {line}" for line in lines)
    return (
        f"{what} to another pipeline ({first_few([*others, 'weights of a mix'])}). {remedy}.{told}"
    )
