"""Description of an order in a checkpoint: the fingerprint of the order, and its changes.

An order changes if, from some position on, it has other weights or parts of a mix, other weights of
records, other omitted records, or more records. The values are plain JSON.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ..common.messages import short_repr

ONLY = ""
"""Name of the only source in dicts by part name, if there is no mix."""

Values = dict[str, Any]
"""Plain JSON values by name. Must not be modified."""


def part_named(name: str) -> str:
    """Return the key under which a fingerprint keeps the part of this name: "part 'name'"."""
    return f"part {short_repr(name)}"


class OrderChange(NamedTuple):
    """A change of an order: from a position on, some of its values are replaced.

    Attributes:
        position: first position with the new values. For a part of a mix, it counts the positions
            of this part. A change at position 0 has the values with which the first run began, if
            the current program describes other values.
        values: the new values, by name.
        part: name of the part of a mix whose own order changes; None if the order itself changes.
    """

    position: int
    values: Values
    part: str | None = None


Changes = tuple[OrderChange, ...]


class SavedOrder(NamedTuple):
    """The order of a run, as its checkpoint describes it.

    Attributes:
        described: fingerprint (JSON values) of the sampler in the program that saved the
            checkpoint.
        changes: changes of this order during the run. For a mix, the changes of each part are
            sorted by position.
        ended: for a mix, a pair (part name, position of its end) for each part that ends before the
            mix does.
    """

    described: Values
    changes: Changes = ()
    ended: tuple[tuple[str, int], ...] = ()

    @property
    def is_mix(self) -> bool:
        """True if this is the order of a `MixSampler`."""
        return bool(self.described.get("kind") == "MixSampler")

    @property
    def own_changes(self) -> Changes:
        """The changes of the order itself, without changes in the orders of a mix's parts."""
        return tuple(change for change in self.changes if change.part is None)

    def part(self, name: str) -> SavedOrder:
        """Return what the checkpoint says about the order of the part `name` of a mix.

        If the checkpoint does not contain this part, `described` of the result is {}. If this order
        is not a mix, return this order itself.
        """
        if not self.is_mix:
            return self
        key = part_named(name)
        return SavedOrder(self.described.get(key, {}), of_part(self.changes, key))

    def with_part(self, name: str, part: SavedOrder) -> SavedOrder:
        """Return this order with another order of the part `name`.

        For an order that is not a mix, return `part`.
        """
        if not self.is_mix:
            return part
        others = [change for change in self.changes if change.part != name]
        own = [change._replace(part=name) for change in part.changes]
        described = {**self.described, part_named(name): part.described}
        return self._replace(described=described, changes=by_part([*others, *own]))


def parts_in(described: Values) -> dict[str, Values]:
    """Return the fingerprints of the parts of a mix.

    Args:
        described: fingerprint of an order.

    Returns:
        dict from the key of each part in `described` to the part's fingerprint; {} if the order is
        not a mix.
    """
    return {
        key: value
        for key, value in described.items()
        if isinstance(value, dict) and "kind" in value
    }


def of_part(changes: Iterable[OrderChange], key: str) -> Changes:
    """Return the changes of one part of a mix, as the part's own order lists them (`part=None`).

    Args:
        changes: changes of the mix.
        key: the part's key in a fingerprint, from `part_named`.
    """
    named = (
        change for change in changes if change.part is not None and part_named(change.part) == key
    )
    return tuple(change._replace(part=None) for change in named)


def by_part(changes: Iterable[OrderChange]) -> Changes:
    """Sort changes by the name of their part. Changes without a part come first.

    Changes of the same part keep their order.
    """
    return tuple(sorted(changes, key=lambda change: (change.part is not None, change.part or "")))
