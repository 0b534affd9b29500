"""History of a pipeline's orders since its first run: a checkpoint stores it in one place.

In: changes of orders, and how far the shards of earlier runs had read. Out: JSON, and back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from ...common.validation import count_in_state
from ...samplers.history import ONLY, Changes, OrderChange
from .identity import json_text
from .lineage import ReshardHistory

NO_RUNS = ReshardHistory()
"""History of a leaf that no run on another number of shards has read."""

ORDERS, SHARDS = "orders", "shards"


@dataclass(frozen=True)
class History:
    """The history of a run, for each leaf (source with its sampler).

    Attributes:
        shards: history of earlier runs on other numbers of shards.
        orders: changes of the order: of weights, parts, omitted records, the number of records, or
            the shapes of planned batches.
    """

    shards: tuple[ReshardHistory, ...] = (NO_RUNS,)
    orders: tuple[Changes, ...] = ((),)

    def with_leaf(self, number: int, changes: Changes) -> History:
        """Return this history with `changes` as the changes of one leaf's order.

        The leaf (a source with its sampler) has the index `number`.
        """
        return replace(self, orders=(*self.orders[:number], changes, *self.orders[number + 1 :]))

    def leaf(self, number: int) -> History:
        """Return the part of this history about the leaf (source, sampler) at index `number`.

        It is the history of a pipeline with only this leaf.
        """
        return History(self.shards[number : number + 1], self.orders[number : number + 1])

    def with_history_of(self, number: int, leaf: History) -> History:
        """Return this history with the entries of one leaf (a source with its sampler) replaced.

        Args:
            number: index of the leaf.
            leaf: the new history of this leaf alone.
        """
        return History(
            (*self.shards[:number], *leaf.shards, *self.shards[number + 1 :]),
            (*self.orders[:number], *leaf.orders, *self.orders[number + 1 :]),
        )

    def by_leaf(self, moved: Callable[[tuple[Any, ...], Any], tuple[Any, ...]]) -> History:
        """Return this history for the leaves of a changed pipeline.

        A leaf is a source with its sampler.

        Args:
            moved: function that is called twice, for the histories of shards and for the changes of
                orders. It takes a tuple with one value for each leaf of the former pipeline, and
                the value for a leaf that is new. It returns a tuple with one value for each leaf of
                the changed pipeline.
        """
        return History(moved(self.shards, NO_RUNS), moved(self.orders, ()))

    @property
    def changes(self) -> Changes:
        """The changes of the orders of all leaves (sources with their samplers), in one tuple."""
        return tuple(change for changes in self.orders for change in changes)

    @cached_property
    def json(self) -> str:
        """This history as the JSON text that a state stores; "" if the history is empty."""
        orders = [
            [leaf, position, values, *([] if part is None else [part])]
            for leaf, changes in enumerate(self.orders)
            for position, values, part in changes
        ]
        shards = [each.values for each in self.shards] if {*self.shards} != {NO_RUNS} else []
        entries = {name: told for name, told in ((ORDERS, orders), (SHARDS, shards)) if told}
        return json_text(entries) if entries else ""

    @classmethod
    def read(cls, values: Any, leaves: int) -> History:
        """Read a history from the parsed value of the property `json`.

        Args:
            values: the value; {} if nothing has happened.
            leaves: number of leaves of the pipeline.

        Raises:
            ValueError, TypeError, CheckpointError: it is not a history of this number of leaves.
        """
        if not isinstance(values, dict) or not values.keys() <= {ORDERS, SHARDS}:
            raise TypeError
        shards = (
            tuple(map(ReshardHistory.from_values, values.get(SHARDS, []))) or (NO_RUNS,) * leaves
        )
        orders: list[list[OrderChange]] = [[] for _ in range(leaves)]
        for leaf, *change in values.get(ORDERS, []):
            if type(leaf) is not int or not 0 <= leaf < leaves:
                raise ValueError
            orders[leaf].append(_change(*change))
        if len(shards) != leaves:
            raise ValueError
        return cls(shards, tuple(map(tuple, orders)))


NO_HISTORY = History()
"""History of a pipeline with one leaf (source with its sampler) to which nothing has happened."""


def _change(position: Any, values: Any, part: Any = None) -> OrderChange:
    if not isinstance(values, dict) or not (part is None or isinstance(part, str)):
        raise TypeError
    return OrderChange(count_in_state(position), values, part)


class Mark(NamedTuple):
    """Facts about the order of a leaf (source with its sampler) that later programs cannot compute.

    Attributes:
        position: 0 if `place` is empty. Otherwise the first position that no shard has read;
            omitted records have no position. A later run that omits a different set of records can
            continue there.
        place: a dict by part name. Its values are numbers of records of the part before `position`;
            unlike positions, they include the omitted records. It has the parts of a mix that omit
            records and, if the mix ends, the parts to which records were appended. A source without
            a mix has the name "" (`ONLY`). Empty if there is no such part.
        length: number of positions of all shards together, if `place` is filled; None if the order
            is endless, or if `place` is empty.
        ended: for a mix, a pair (part name, position of its end) for each part that ends before the
            mix does.
    """

    position: int = 0
    place: Mapping[str, int] = {}
    length: int | None = None
    ended: tuple[tuple[str, int], ...] = ()

    @property
    def values(self) -> dict[str, Any]:
        """The facts of this mark about an order, as a dict of JSON values without empty ones."""
        place = [
            self.position,
            self.place.get(ONLY, self.place),
            *([] if self.length is None else [self.length]),
        ]
        ended = {"ended": list(map(list, self.ended))} if self.ended else {}
        return {**({"place": place} if self.place else {}), **ended}

    @classmethod
    def read(cls, values: Any) -> Mark:
        """Read a mark from the property `values`.

        Raises:
            TypeError, ValueError: it is not a mark.
        """
        if not isinstance(values, dict) or not values.keys() <= {"place", "ended"}:
            raise TypeError
        position, place, *length = values.get("place", [0, {}])
        if len(length) > 1:
            raise ValueError
        parts = place if isinstance(place, dict) else {ONLY: place}
        return cls(
            count_in_state(position),
            {name: count_in_state(parts[name]) for name in parts},
            count_in_state(length[0]) if length else None,
            tuple((str(name), count_in_state(end)) for name, end in values.get("ended", [])),
        )
