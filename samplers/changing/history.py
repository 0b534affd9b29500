"""The history of an order (records added or omitted), as checkpoints save it: a few integers per change.

In: a saved fingerprint. Out: the changes, sorted by position.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from ...common.messages import short_repr
from ...errors import CheckpointError


class OrderChange(NamedTuple):
    """A change of an order: from `position` on, records were added to it or omitted.

    Attributes:
        position: first position of the changed order.
        place: index of that position in the order that also counts omitted records.
        records: number of records of the source.
        joins: True if new records are read in the epoch that is being read at `position`; False:
            from the first epoch on that begins at `position` or later.
        omitted: text with the number and a digest of the omitted keys; "" if none is omitted.
        generation: number of the source's generation (version of its files), which grows when records are appended.
    """

    position: int
    place: int
    records: int
    joins: bool
    omitted: str
    generation: int


HISTORY, OMITTED, GENERATION = "history", "omitted", "generation"
"""Keys in fingerprints: the changes, the keys omitted at the start, the generation at the start.

The generation of a source is a number that grows when records are appended.
"""

PASSING = (HISTORY, OMITTED, GENERATION, "records")
"""Keys in fingerprints that describe the changes of an order or the number of records."""


class History(NamedTuple):
    """History of an order: its start, and its changes (records added or omitted).

    Attributes:
        records: number of records at the start.
        omitted: number and digest of the keys omitted at the start; "" if none is omitted.
        generation: number of the source's generation (version of its files) at the start.
        changes: the changes, sorted by position.
    """

    records: int
    omitted: str = ""
    generation: int = 0
    changes: tuple[OrderChange, ...] = ()

    @property
    def last(self) -> OrderChange:
        """The last change; if there is none, a change at position 0 with the values of the start."""
        begin = OrderChange(0, 0, self.records, False, self.omitted, self.generation)
        return self.changes[-1] if self.changes else begin

    @property
    def grown_at(self) -> int | None:
        """First position of the source's last generation (version of its files); None if no records were appended."""
        before = [self.generation, *(change.generation for change in self.changes)]
        grown = [change.position for change, former in zip(self.changes, before) if change.generation != former]
        return grown[-1] if grown else None

    def first(self, count: int) -> History:
        """Return this history with only its first `count` changes."""
        return self._replace(changes=self.changes[:count])

    def followed_by(self, change: OrderChange) -> History:
        """Return this history with `change` as one more change, the last one."""
        return self._replace(changes=(*self.changes, change))

    def to_values(self) -> dict[str, Any]:
        """Return the history as JSON values, for a fingerprint; entries that are empty or 0 are left out."""
        values = {
            HISTORY: [list(change) for change in self.changes],
            OMITTED: self.omitted,
            GENERATION: self.generation,
        }
        return {"records": self.records, **{name: value for name, value in values.items() if value}}

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> History:
        """Read the history of an order (records added or omitted) from its saved fingerprint.

        Raises:
            CheckpointError: if the fingerprint is damaged.
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
            raise CheckpointError(
                f"the state is damaged: sampler={short_repr(dict(saved))}. Restore another checkpoint."
            ) from None
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
