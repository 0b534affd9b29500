"""How a mix of rows goes on that has other datasets than in the run before.

In: the pipeline as it is now, and a state. Out: the same state, as one of this pipeline: datasets that stay go on where they
stood, new ones begin. Other weights need nothing, as each dataset has a place of its own; but inside a window, whose rest would
be made of other elements, neither can be changed.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ...errors import CheckpointError
from ...wording import shown
from ..plan.cursor import Cursor, cursor_of_join
from ..plan.joins import Join
from ..plan.lineage import Lineage
from ..plan.parts import Size
from ..plan.pipeline import Pipeline
from .loader_state import LoaderState


def with_datasets_of_now(pipeline: Pipeline, state: LoaderState) -> LoaderState:
    """The state as one of this pipeline, if the uppermost join is a mix there and here, and another one.

    Raises:
        CheckpointError: the state stands where a mix cannot be changed.
    """
    saved, join = _uppermost(state), pipeline.joins[-1]
    if saved is None or join.rule.fingerprint["kind"] != "mix" or saved == pipeline.fingerprint["sampler"]["joins"][-1]:
        return state
    names, sizes = saved["names"], [Size(*size) for size in saved["sizes"]]
    stages = sum(size.stages for size in sizes)
    above = state.cursor.skips[stages:]
    own = sum(part.size.stages for part in join.inputs)
    begun = any(above) or state.cursor.unfinished  # with what the former mix gave, and this one would not give again
    if not begun and _is_of(join, saved):
        return state
    if begun or len(above) != len(pipeline.stages) - own:
        raise CheckpointError(
            "datasets and weights of a mix can be changed where the state stands between two batches (of a Pack or "
            "window_shuffle: between two windows), and what follows the mix is as it was; take the checkpoint at another step."
        )
    cursors = dict(zip(names, state.cursor.parts(sizes)))
    lineages = dict(zip(names, _cut(state.lineages, sizes)))
    found: list[Cursor] = []
    kept: list[Lineage] = []
    for name, part in zip(join.names, join.inputs):
        known = name in cursors
        if known and sizes[names.index(name)] != part.size:
            raise CheckpointError(f"dataset {shown(name)} of the mix has another form now; give it another name.")
        found.append(cursors[name] if known else pipeline.start_of(part))
        kept += lineages[name] if known else [Lineage()] * part.size.leaves
    cursor = cursor_of_join(found, state.cursor.notes[-1][:1])
    cursor = cursor._replace(skips=(*cursor.skips, *above))
    return dataclasses.replace(state, cursor=cursor, lineages=tuple(kept), fingerprint=pipeline.fingerprint)


def _uppermost(state: LoaderState) -> dict[str, Any] | None:
    """What a state says of its uppermost join, if that is a mix."""
    sampler = state.fingerprint["sampler"]
    joins = sampler.get("joins") if isinstance(sampler, dict) else None
    last = joins[-1] if isinstance(joins, list) and joins else None
    if not isinstance(last, dict) or last.get("kind") != "mix" or not state.cursor.notes or not state.cursor.notes[-1]:
        return None
    names, sizes = last.get("names"), last.get("sizes")
    whole = isinstance(names, list) and isinstance(sizes, list) and len(names) == len(sizes)
    whole = whole and all(isinstance(size, list) and [*map(type, size)] == [int] * 3 for size in sizes)  # type: ignore[union-attr]
    if not whole:
        raise CheckpointError(f"the state is damaged: joins={shown(joins)}.")
    return last


def _is_of(join: Join, saved: dict[str, Any]) -> bool:
    return [list(join.names), [list(part.size) for part in join.inputs]] == [saved["names"], saved["sizes"]]


def _cut(lineages: tuple[Lineage, ...], sizes: list[Size]) -> list[list[Lineage]]:
    """Those of each dataset."""
    left, found = list(lineages), []
    for size in sizes:
        found.append(left[: size.leaves])
        del left[: size.leaves]
    return found
