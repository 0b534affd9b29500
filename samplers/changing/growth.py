"""The moments at which a run looks whether its source has more records.

In: an order, and what the user wants. Out: positions. Pure: the looking is done elsewhere.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from ...common.validation import one_of, whole_number
from .sampler import ChangingSampler

ONLY = ""
"""The name of the source of an order that is no mix, among parts."""


@dataclass(frozen=True)
class GrowthOptions:
    """The moments at which a run takes in records that were appended to a source that grows.

    All shards take them in at the same position of the order. What a shard finds is written down in a log, from which the
    others, and runs that are begun again, read it.

    Args:
        at: "epoch" (default): with the next epoch. "now": in the epoch under way, shuffled together with its rest. "hand": only
            when a loader is made; one that goes on from a state takes in what there is then, with the next epoch.
        every: with "now", positions of the global order between two looks; the end of each epoch is one, too.
        log: a folder for the log that all shards can write to. None (default): beside the data, with several shards; with
            one, nothing is written, and the state tells what was found. A new run with the same log has the same changes.

    Raises:
        ValueError: an argument outside its range.
        TypeError: `every` is no whole number, or `log` is no path.
    """

    at: Literal["epoch", "now", "hand"] = "epoch"
    every: int = 65_536
    log: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        one_of("at", self.at, "epoch", "now", "hand")
        whole_number("every", self.every, 1, 1 << 62, "a number of positions")
        if self.log is not None and not os.fspath(self.log):
            raise ValueError('log="" names no folder; pass the path of a folder that all shards can write to, or None.')

    def next_look(self, sampler: ChangingSampler, position: int) -> int:
        """The first position from one on at which a run looks."""
        if sampler.begins_epoch(position):
            return position
        end = sampler.epoch_start(sampler.epoch_at(position) + 1)
        return min(end, -(-position // self.every) * self.every) if self.at == "now" else end


class SourceLooks:
    """Where a run looks at its only source.

    Args:
        growth: what the user wants.
        order: of its records.
        begin: the first position.
    """

    def __init__(self, growth: GrowthOptions, order: ChangingSampler, begin: int) -> None:
        self._growth, self._order = growth, order
        changed = order.history.last.position if order.changes else 0
        grown = order.history.grown_at
        self.position = growth.next_look(order, max(begin, changed if grown is None else max(changed, grown + 1)))

    def index(self, name: str, position: int) -> int:
        """The number of its records before a position."""
        return position

    @property
    def due(self) -> dict[str, bool]:
        """The source; True where an epoch of it ends."""
        return {ONLY: self.position > 0 and self._order.begins_epoch(self.position)}

    def go_on(self) -> None:
        """Go to the look after this one."""
        self.position = self._growth.next_look(self._order, self.position + 1)
