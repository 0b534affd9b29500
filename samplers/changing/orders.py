"""Make orders to which records can be appended, and from which records can be omitted.

In: any order, and perhaps the saved order of an earlier run. Out: a `ChangingSampler`, or a mix
whose parts are such orders.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..chain.index_maps import IndexMap, Indices
from ..history import SavedOrder
from ..protocol import VectorSampler
from .history import GENERATION, OMITTED, RECORDS, RecordsHistory, lasting
from .sampler import ChangingSampler

ChangingOrders: TypeAlias = Mapping[str, ChangingSampler]
"""Orders of the growing parts of a mix, by name; of a single source, under the name "" (`ONLY`)."""


def living(order: VectorSampler, generation: int = 0) -> Any:
    """Return an order to which records can be appended, and from which records can be omitted.

    If `order` is a mix or keeps a history of its records, return `order` itself. Otherwise, return
    a `ChangingSampler` of `order`.

    Args:
        order: the order.
        generation: number of the generation (version of the files) of the source of a new
            `ChangingSampler`.

    Raises:
        ValueError: if records cannot be appended to `order` or omitted from it.
    """
    facts = order.facts
    return order if facts.keeps_history or facts.parts else ChangingSampler(order, None, generation)


def changing(order: VectorSampler, saved: SavedOrder, counts: bool) -> Any:
    """Return the current program's order as a `ChangingSampler`, for a run that resumes, or None.

    A `ChangingSampler` keeps a history of its records, and is needed to append or omit records when
    a run resumes. An order that already keeps such a history is returned without its changes. Any
    other order is wrapped in a `ChangingSampler` if records of the saved order had changed and the
    current order can change. In all other cases, return None.

    Args:
        order: the order of the current program.
        saved: the order in the checkpoint. If it is of another kind, or empty, the result is None.
        counts: True if the source has generations (versions of its files). If False, the result has
            the generation that the saved run had at its end.
    """
    if not saved.described or saved.described.get("kind") != order.fingerprint.get("kind"):
        return None  # another kind of order, whose changes may be of weights
    if order.facts.keeps_history:
        # Without its changes: an iterator that was restored before has those of that run.
        living_order: Any = order
        last = living_order.generation if counts else RecordsHistory.of(saved).last.generation
        return living_order.of_generation(last)
    if (
        not (saved.changes or {OMITTED, GENERATION} & saved.described.keys())
        or not order.facts.can_change
    ):
        return None
    return ChangingSampler(order, generation=RecordsHistory.of(saved).last.generation)


def changing_parts(
    order: VectorSampler, saved: SavedOrder, growing: Container[str]
) -> ChangingOrders:
    """Return the parts of a mix that differ from the saved run only by appended or omitted records.

    Args:
        order: the order of the current program.
        saved: the order in the checkpoint. If only one of both orders is a mix, the result is
            empty.
        growing: names of the parts whose sources have generations (versions of their files). Only
            these may have more records than in the saved run.

    Returns:
        a dict from the name of a part to its order, which keeps a history of its records: usually a
        `ChangingSampler`. A single source has the name "".
    """
    found = {}
    is_mix = bool(order.facts.parts)
    if is_mix != saved.is_mix:
        return {}
    for name, sampler in order.parts.items():
        of_part, counts = saved.part(name), name in growing
        changed = changing(sampler, of_part, counts)
        if changed is None or lasting(of_part.described) != lasting(changed.fingerprint):
            continue
        if not is_mix or counts or of_part.described[RECORDS] == changed.num_records:
            found[name] = changed
    return found


@dataclass(frozen=True)
class LivingIndices(IndexMap):
    """Index map of a dataset from which elements are omitted.

    It converts an index among the kept elements to an index among all elements.

    Attributes:
        sampler: the sampler that omits the other elements.
    """

    sampler: ChangingSampler

    @property
    def length(self) -> int:
        return len(self.sampler)

    @property
    def epoch_length(self) -> int:
        return self.sampler.epoch_length

    @property
    def parameters(self) -> list[Any]:
        return ["LivingIndices", self.sampler.omitted.digest]

    def many(self, indices: Indices) -> Indices:
        return self.sampler.places(indices)
