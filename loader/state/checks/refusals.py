"""Texts of the errors for states that belong to another pipeline or shard.

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
    """Return a text that says what to do about a state of another pipeline or shard.

    Args:
        state: the state.
        pipeline: the current program's pipeline.
        several: True if state and pipeline differ in more than one thing.
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

    If two or more weights of a mix have changed, each gets a line of its own, up to `MOST_WEIGHTS`
    lines.

    Args:
        what: beginning of the sentence, such as "the state belongs".
        changed: descriptions of the differences.
        remedy: text that says what to do, without a full stop at its end.
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
