"""The history of the records of an order: at which positions records were added or omitted.

In: the description of an order in a checkpoint. Out: the changes of the order's records, sorted by
position; or the reverse.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from ...common.fields import field_values
from ...common.messages import short_repr
from ...common.validation import count_in_state
from ...errors import CheckpointError
from ..history import Changes, OrderChange, SavedOrder, Values


class RecordsChange(NamedTuple):
    """A change of an order: from `position` on, records were added to it or omitted.

    Attributes:
        position: first position of the changed order. Positions do not count omitted records.
        place: the same position if omitted records are counted, too.
        records: number of records of the source.
        joins: True if new records are already read in the epoch that contains `position`; False:
            from the first epoch on that begins at `position` or later.
        omitted: text with the number and a digest of the omitted keys; "" if none is omitted.
        generation: number of the source's generation (version of its files), which grows when
            records are appended.
    """

    position: int
    place: int
    records: int
    joins: bool
    omitted: str
    generation: int


RECORDS, OMITTED, GENERATION, JOINS, PLACE = "records", "omitted", "generation", "joins", "place"
"""Names of values in fingerprints and changes of an order: the fields of `RecordsChange`."""

ABOVE = 1 << 62
"""Upper limit of numbers in a state; a larger one means that the state is damaged."""

PASSING = (RECORDS, OMITTED, GENERATION)
"""Names of values in a fingerprint with which an order begins, and that may change in the run."""


class RecordsHistory(NamedTuple):
    """History of the records of an order: its start, and its changes (records added or omitted).

    Attributes:
        records: number of records at the start.
        omitted: number and digest of the keys omitted at the start; "" if none is omitted.
        generation: number of the source's generation (version of its files) at the start.
        changes: the changes, sorted by position.
    """

    records: int
    omitted: str = ""
    generation: int = 0
    changes: tuple[RecordsChange, ...] = ()

    @property
    def _begin(self) -> RecordsChange:
        return RecordsChange(0, 0, self.records, False, self.omitted, self.generation)

    @property
    def last(self) -> RecordsChange:
        """The last change of the records; if none, one at position 0 with the start's values."""
        return self.changes[-1] if self.changes else self._begin

    @property
    def grown_at(self) -> int | None:
        """First position with the last generation (version of the source's files).

        None if no records were appended.
        """
        before = [self.generation, *(change.generation for change in self.changes)]
        grown = [
            change.position
            for change, former in zip(self.changes, before)
            if change.generation != former
        ]
        return grown[-1] if grown else None

    def first(self, count: int) -> RecordsHistory:
        """Return this history with only its first `count` changes."""
        return self._replace(changes=self.changes[:count])

    def followed_by(self, change: RecordsChange) -> RecordsHistory:
        """Return this history with `change` as one more change, the last one."""
        return self._replace(changes=(*self.changes, change))

    @property
    def begin_values(self) -> dict[str, Any]:
        """The order's values before its first change, as a dict for its fingerprint.

        Empty values and 0 are left out.
        """
        later = {OMITTED: self.omitted, GENERATION: self.generation}
        return {RECORDS: self.records, **{name: value for name, value in later.items() if value}}

    @property
    def order_changes(self) -> Changes:
        """The changes as a checkpoint stores them: each has only the values that it changes.

        A new generation (version of the source's files) is left out, too, if it is the next
        generation and the number of records changes.
        """
        return tuple(
            _order_change(before, after) for before, after in pairwise([self._begin, *self.changes])
        )

    @classmethod
    def of(cls, saved: SavedOrder) -> RecordsHistory:
        """Read the history of an order's records from a checkpoint.

        Raises:
            CheckpointError: if the values in `saved` are damaged.
        """
        described = saved.described
        try:
            history = cls(
                count_in_state(described[RECORDS], 1, ABOVE),
                _digest(described.get(OMITTED, "")),
                count_in_state(described.get(GENERATION, 0), 0, ABOVE),
            )
            for change in saved.changes:
                history = history.followed_by(_records_change(history.last, change))
            changes = history.changes
            steps = [history.records, *(change.records for change in changes)]
            ascending = all(a[:2] <= b[:2] for a, b in pairwise(changes)) and sorted(steps) == steps
        except (TypeError, ValueError, LookupError):
            ascending = False
        if not ascending:
            raise CheckpointError(
                f"the state is damaged: sampler={short_repr(dict(described))}, changes="
                f"{short_repr([*map(list, saved.changes)])}. Restore another checkpoint."
            ) from None
        return history


def _order_change(before: RecordsChange, after: RecordsChange) -> OrderChange:
    then, now = field_values(before), field_values(after)
    values: Values = {name: now[name] for name in (RECORDS, OMITTED) if now[name] != then[name]}
    if after.generation != _generation_after(before, after.records):
        values[GENERATION] = after.generation
    if after.place != after.position:
        values[PLACE] = after.place
    if after.joins:
        values[JOINS] = True
    return OrderChange(after.position, values)


def _generation_after(before: RecordsChange, records: Any) -> int:
    """Return the source's generation after a change for which the checkpoint stores no generation.

    It is the next generation if the number of records changed, otherwise the same one.

    Args:
        before: the change before.
        records: number of records after the change; None if it did not change.
    """
    return before.generation + (records is not None and records != before.records)


def _records_change(before: RecordsChange, change: OrderChange) -> RecordsChange:
    values = {
        PLACE: change.position,
        RECORDS: before.records,
        OMITTED: before.omitted,
        GENERATION: _generation_after(before, change.values.get(RECORDS)),
        JOINS: False,
        **change.values,
    }
    if type(values[JOINS]) is not bool or values.keys() != {*RecordsChange._fields[1:]}:
        raise TypeError
    return RecordsChange(
        count_in_state(change.position, 0, ABOVE),
        count_in_state(values[PLACE], 0, ABOVE),
        count_in_state(values[RECORDS], 1, ABOVE),
        values[JOINS],
        _digest(values[OMITTED]),
        count_in_state(values[GENERATION], 0, ABOVE),
    )


def lasting(fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """Return an order's fingerprint without values that change if records are added or omitted."""
    return {name: value for name, value in fingerprint.items() if name not in PASSING}


def _digest(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
