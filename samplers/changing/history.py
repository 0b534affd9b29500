"""The changes that an order has gone through, as a state keeps them: a few integers for each.

In: a saved fingerprint. Out: changes, ascending by position.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from ...common.messages import short_repr
from ...errors import CheckpointError


class OrderChange(NamedTuple):
    """From a position on, the order is another one."""

    position: int  # the first one of the changed order
    place: int  # its place in the whole order, that of all records, also of those that are left out
    records: int  # of the source
    joins: bool  # records that are new come in the epoch that is under way there; else from the next one on
    omitted: str  # how many keys are left out, and their digest; "" for none
    generation: int  # of the source


HISTORY, OMITTED, GENERATION = "history", "omitted", "generation"
"""Names of values in fingerprints: the changes; what was left out at first; the generation at first."""

PASSING = (HISTORY, OMITTED, GENERATION, "records")
"""Of a fingerprint, what tells how the order came about, or how many records there were."""


class History(NamedTuple):
    """The beginning of an order, and its changes."""

    records: int
    omitted: str = ""
    generation: int = 0
    changes: tuple[OrderChange, ...] = ()

    @property
    def last(self) -> OrderChange:
        """The last change; where nothing has changed, the beginning."""
        begin = OrderChange(0, 0, self.records, False, self.omitted, self.generation)
        return self.changes[-1] if self.changes else begin

    @property
    def grown_at(self) -> int | None:
        """The position at which the last generation came in; None: none has."""
        before = [self.generation, *(change.generation for change in self.changes)]
        grown = [change.position for change, former in zip(self.changes, before) if change.generation != former]
        return grown[-1] if grown else None

    def first(self, count: int) -> History:
        """The history until after so many changes."""
        return self._replace(changes=self.changes[:count])

    def followed_by(self, change: OrderChange) -> History:
        """The history with one more change."""
        return self._replace(changes=(*self.changes, change))

    def to_values(self) -> dict[str, Any]:
        """Plain JSON values for a fingerprint; only those of an order that changed, or from which something is left out."""
        values = {
            HISTORY: [list(change) for change in self.changes],
            OMITTED: self.omitted,
            GENERATION: self.generation,
        }
        return {"records": self.records, **{name: value for name, value in values.items() if value}}

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> History:
        """Read a saved fingerprint.

        Raises:
            CheckpointError: the fingerprint is damaged.
        """
        try:
            changes = tuple(_change(*values) for values in saved.get(HISTORY, []))
            omitted, generation = saved.get(OMITTED, ""), saved.get(GENERATION, 0)
            history = cls(_count(saved["records"], 1), _digest(omitted), _count(generation), changes)
            steps = [history.records, *(change.records for change in changes)]
            ascending = all(a[:2] <= b[:2] for a, b in pairwise(changes)) and sorted(steps) == steps
        except (TypeError, ValueError, LookupError):
            ascending = False
        if not ascending:
            raise CheckpointError(f"the state is damaged: sampler={short_repr(dict(saved))}.") from None
        return history


def _change(position: Any, place: Any, records: Any, joins: Any, omitted: Any, generation: Any) -> OrderChange:
    if type(joins) is not bool:
        raise TypeError
    return OrderChange(_count(position), _count(place), _count(records, 1), joins, _digest(omitted), _count(generation))


def _count(value: Any, least: int = 0) -> int:
    if type(value) is not int or not least <= value < 1 << 62:
        raise ValueError
    return value


def _digest(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
