"""Make orders to which records can be appended, and from which records can be omitted.

In: any order, and perhaps the saved order of an earlier run. Out: a `ChangingSampler`, or a mix of
such orders.
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
    """Return an order to which records can be appended, and from which they can be omitted.

    This is `order` itself if it is a mix or keeps a history of its records; otherwise a
    `ChangingSampler` of it, whose source has the generation (version of its files) number
    `generation`.

    Raises:
        ValueError: if the order cannot change.
    """
    facts = order.facts
    return order if facts.keeps_history or facts.parts else ChangingSampler(order, None, generation)


def changing(order: VectorSampler, saved: SavedOrder, counts: bool) -> Any:
    """Return the program's order in the form that keeps a history of its records, or None.

    Such a form is needed if records of the order may be appended or omitted, or were during the
    run. An order that already has this form is returned without its changes. Another order is
    wrapped in a `ChangingSampler` if records of the run's order have changed and the program's
    order can change. Otherwise, return None.

    Args:
        order: the program's order.
        saved: the run's order. If it is of another kind, or empty, the result is None.
        counts: True if the source has generations (versions of its files), which count appended
            records. If False, the result has the generation at the end of the run.
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
    """Return the parts whose order is that of the run, except for appended or omitted records.

    They are returned as orders that can change, by name. A single source has the name "" (`ONLY`).

    Args:
        order: the program's order.
        saved: the run's order. If only one of both orders is a mix, the result is empty.
        growing: names of the parts whose sources have generations (versions of their files).
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
    """Index map of a dataset without some elements: from an index among kept ones to one among all.

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
        """The values that distinguish this map from other maps."""
        return ["LivingIndices", self.sampler.omitted.digest]

    def many(self, indices: Indices) -> Indices:
        return self.sampler.places(indices)
