"""Positions of a mix at which a run checks whether the parts of the mix have more records.

In: a mix, the user's `GrowthOptions`, the names of growing parts. Out: positions, and the parts to
check at each position. The check itself is in `loader/state`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..changing.growth import GrowthOptions
from ..changing.sampler import ChangingSampler
from .sampler import MixSampler


class MixLooks:
    """Positions at which a run checks the parts of a mix for more records.

    A part is checked where the first record of one of its epochs is drawn, and where it ends. With
    `at="now"`, all parts are also checked at each multiple of `every`. Parts that have left the mix
    are not checked.

    Args:
        growth: the user's options, with `at` and `every`.
        mix: the mix, in which each growing part has a `ChangingSampler`.
        names: names of the growing parts.
        begin: first position that may be checked.

    >>> from headrace import GrowthOptions
    >>> mix = MixSampler({"a": 3, "b": 10}, [2, 1], when_exhausted="repeat")
    >>> mix = mix.with_parts({name: ChangingSampler(part) for name, part in mix.parts.items()})
    >>> # Parts are drawn in the order a b a a b a: at 5, `a` begins anew.
    >>> looks = MixLooks(GrowthOptions(), mix, ["a"], 1)
    >>> looks.position, looks.due
    (5, {'a': True})
    """

    def __init__(
        self, growth: GrowthOptions, mix: MixSampler, names: Iterable[str], begin: int
    ) -> None:
        self._mix = mix
        self._every = growth.every if growth.at == "now" else None
        self._numbers = {name: number for number, name in enumerate(mix.order.names)}
        self._parts: dict[str, ChangingSampler] = {name: mix.parts[name] for name in names}  # type: ignore[misc]
        self._begin = max([begin, mix.changed_from, *(self._decided(name) for name in self._parts)])
        self._ends = {name: self._next_end(name, self._begin) for name in self._parts}

    def _decided(self, name: str) -> int:
        """Return the first mix position after part `name` last changed; 0 if it never did."""
        last = self._parts[name].history.last.position
        before = self._mix.drawn_at(name, last - 1) if last else None
        return 0 if before is None else before + 1

    def _next_end(self, name: str, position: int) -> int | None:
        """Return the next position at which an epoch of a part begins, or the part ends.

        Args:
            name: name of the part.
            position: position at which the search begins.

        Returns:
            the position, or None if there is no such position.
        """
        part, index = self._parts[name], self.index(name, position)
        # Found there already.
        has_grown_here = self._every is None and part.history.grown_at == index
        if has_grown_here or not part.begins_epoch(index):
            index = part.epoch_start(part.epoch_at(index) + 1)
        found = self._mix.drawn_at(name, index)
        return None if found is None or found < position else found

    def index(self, name: str, position: int) -> int:
        """Return the number of records of the part `name` drawn before a position of the mix."""
        return self._mix.order.count(self._numbers[name], position)

    @property
    def position(self) -> int | None:
        """Position of the next check for appended records.

        None if no growing part of the mix will begin another epoch, or come to its end.
        """
        ends = [end for end in self._ends.values() if end is not None]
        if self._every is not None and ends:
            ends.append(-(-self._begin // self._every) * self._every)
        return min(ends, default=None)

    @property
    def due(self) -> dict[str, bool]:
        """The parts of the mix to check for appended records at `position`: a dict by part name.

        The value is True if the part begins an epoch at `position`, or ends at `position`. It is
        False if the part is only checked because all parts are, or if no record of the part was
        read yet.
        """
        position = self.position
        ends = {name: end == position for name, end in self._ends.items() if end is not None}
        if position is None or self._every is None or position % self._every:
            ends = {name: True for name, here in ends.items() if here}
        return {name: here and self.index(name, position or 0) > 0 for name, here in ends.items()}

    def advance(self) -> None:
        """Set `position` to the next position at which the run checks parts for appended records.

        Call this only if `position` is not None.
        """
        position = self.position
        assert position is not None, "there is none after the last one"
        self._begin = position + 1
        for name, end in self._ends.items():
            if end == position:
                self._ends[name] = self._next_end(name, self._begin)
