"""Positions at which a run checks whether its source has more records.

In: an order, and the user's `GrowthOptions`. Out: positions. The check itself is in `loader/state`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from ...common.validation import one_of, whole_number
from ..history import ONLY
from .sampler import ChangingSampler

TIMES = "epoch", "now", "hand"
"""Values of `GrowthOptions.at`."""


@dataclass(frozen=True)
class GrowthOptions:
    """When a run starts to read records that were appended to a growing source.

    All shards start at the same position of the order. New records that a shard finds are written
    to a log; the other shards, and runs that are started again, read this log.

    Args:
        at: "epoch" (default): from the next epoch on. "now": in the current epoch, shuffled
            together with its remaining records. "hand": only when a loader is made; a loader that
            resumes reads the records that exist then from its next epoch on.
        every: with "now", number of positions of the global order between two checks (default
            65,536). The end of an epoch is always checked.
        log: folder for the log, which all shards can write to. None (default): with several shards,
            a folder beside the data; with one shard, no log is written, since the state of the
            loader has the changes. A new run with the same log makes the same changes.

    Raises:
        ValueError: if an argument is outside its range.
        TypeError: if `every` is not a whole number, or `log` is not a path.
    """

    at: Literal["epoch", "now", "hand"] = "epoch"
    every: int = 65_536
    log: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        one_of("at", self.at, *TIMES)
        whole_number("every", self.every, 1, 1 << 62, "a number of positions")
        if self.log is not None and not os.fspath(self.log):
            raise ValueError(
                'log="" is not a folder. '
                "Pass the path of a folder that all shards can write to, or None."
            )

    def next_look(self, sampler: ChangingSampler, position: int) -> int:
        """Return the first position at which a run checks for appended records.

        Args:
            sampler: the order of the records.
            position: global position from which on to search.
        """
        if sampler.begins_epoch(position):
            return position
        end = sampler.epoch_start(sampler.epoch_at(position) + 1)
        return min(end, -(-position // self.every) * self.every) if self.at == "now" else end


class SourceLooks:
    """Positions at which a run with a single source checks for appended records.

    The attribute `position` is the next position to check. The method `advance` sets it to the one
    after it.

    Args:
        growth: the user's options.
        order: the order of the records.
        begin: the first position that may be checked.
    """

    def __init__(self, growth: GrowthOptions, order: ChangingSampler, begin: int) -> None:
        self._growth, self._order = growth, order
        changed = order.history.last.position
        grown = order.history.grown_at
        self.position = growth.next_look(
            order, max(begin, changed if grown is None else max(changed, grown + 1))
        )

    def index(self, name: str, position: int) -> int:
        """Return the number of records of the source that are read before a position.

        A single source has a record at each position, so the result is `position`.

        Args:
            name: not used; only a mix has names of parts.
            position: a global position.
        """
        return position

    @property
    def due(self) -> dict[str, bool]:
        """The source to check for appended records at `position`: a dict with the only key "".

        The value is True if an epoch begins at `position`, else False; it is False at position 0.
        (For a mix, the keys of this dict are names of parts.)
        """
        return {ONLY: self.position > 0 and self._order.begins_epoch(self.position)}

    def advance(self) -> None:
        """Set `position` to the next position at which the run checks for appended records."""
        self.position = self._growth.next_look(self._order, self.position + 1)
