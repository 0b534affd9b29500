"""Changes during a run: weights, omitted records, the batch size, the tokens of a batch.

In: the user's position, what to change, and the first step with the change. Out: the change as an object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from ...plan.pipeline import Pipeline
from ..position import StreamPosition
from .program import ProgramChange, ProgramChanges, continued, program_change
from .weights import WeightsChange, at_changes, weights_change, with_change

__all__ = [
    "Change",
    "ProgramChange",
    "ProgramChanges",
    "WeightsChange",
    "at_changes",
    "change_of",
    "continued",
    "with_change",
]

Change: TypeAlias = WeightsChange | ProgramChange


def change_of(
    here: StreamPosition, loaders: Pipeline, wanted: Mapping[str, Any], at_step: int | None = None, ahead: int = 0
) -> Change:
    """Check the arguments of `DataLoaderIterator.change`, and return the change as an object.

    Args:
        here: the user's position.
        loaders: the pipeline as the program built it, with all changes so far.
        wanted: the new value of each kind of change, by name of the argument; None where the user passed none.
        at_step: number of the first step after the change; None for the first one that is possible.
        ahead: number of steps after the user's position that may have been read already.

    Raises:
        TypeError: not exactly one value is given, or the pipeline cannot be changed in this way.
        ValueError: the step is too early, or a value is outside its range.
    """
    given = {name: value for name, value in wanted.items() if value is not None}
    if len(given) != 1:
        *others, last = (f"{name}=" for name in wanted)
        raise TypeError(
            f"change() makes one change a call, but was given {' and '.join(given) or 'no argument'}. Pass "
            f"{', '.join(others)} or {last}, and call it again for another change."
        )
    ((name, value),) = given.items()
    if name == "weights" and (here.pipeline.joins or here.pipeline.leaf.facts.parts):
        return weights_change(here, value, at_step, ahead)
    return program_change(here, loaders, name, value, at_step, ahead)
