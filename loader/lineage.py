"""How the order that a pipeline runs through came about, after runs on other numbers of shards.

In: the states of all shards of a run. Out: the order of what they left, and the rows that they had delivered of records that
they were in the middle of. A few integers for each shard, however long the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CheckpointError
from ..samplers.order import Remainder

if TYPE_CHECKING:
    from .state import Cursor


@dataclass(frozen=True)
class Lineage:
    """What former runs left over, each of what was left before it.

    Attributes:
        total: positions of the sampler, of all shards, in the first of these runs.
        reached: for each run the local positions of its shards.
        skips: global positions of records in the middle of which a shard stopped, and how many of their rows it had delivered.
    """

    total: int = 0
    reached: tuple[tuple[int, ...], ...] = ()
    skips: tuple[tuple[int, int], ...] = ()

    @cached_property
    def _remainders(self) -> list[Remainder]:
        remainders, total = [], self.total
        for reached in self.reached:
            remainders.append(Remainder(reached, total))
            total = remainders[-1].length
        return remainders

    def length(self, total: int) -> int:
        """How many positions are left; `total` if there was no run before."""
        return self._remainders[-1].length if self.reached else total

    def positions(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The global positions at indices of what is left."""
        for remainder in reversed(self._remainders):
            indices = remainder.positions(indices)
        return indices

    def followed_by(self, cursors: Sequence[Cursor], total: int) -> Lineage:
        """The lineage behind a run on this one, whose shards stand at these cursors; `total` as in `length`.

        Raises:
            CheckpointError: a shard stopped where no other can go on.
        """
        count = len(cursors)
        skips = dict(self.skips)
        for shard, cursor in enumerate(cursors):
            if any(cursor.skips[1:]):
                raise CheckpointError(
                    f"shard {shard} stands inside a batch that a FlatMap takes apart, which another shard cannot make again; "
                    "take the checkpoint at another step."
                )
            if cursor.skips[0]:
                position = int(self.positions(np.array([shard + cursor.position * count]))[0])
                skips[position] = skips.get(position, 0) + cursor.skips[0]
        reached = [*self.reached, tuple(cursor.position for cursor in cursors)]
        whole = Lineage(self.total if self.reached else total, tuple(reached))
        brief, lowest = whole._collapsed()
        return Lineage(whole.total, brief, tuple(sorted(skip for skip in skips.items() if skip[0] >= lowest)))

    def _collapsed(self) -> tuple[tuple[tuple[int, ...], ...], int]:
        """The same order, said more briefly where a ragged part lies behind everything that is left.

        Returns:
            The runs, and a global position below which nothing is left.
        """
        brief: list[tuple[int, ...]] = []
        lowest = 0  # index into what is at hand, below which nothing is left
        for remainder in reversed(self._remainders):
            offset = remainder.offset_behind(lowest)
            if offset is None:
                lowest = remainder.lowest_position(lowest)
                brief.insert(0, remainder.reached)
                continue
            lowest += offset
            if brief and len(brief[0]) == 1:
                offset += brief.pop(0)[0]
            brief.insert(0, (min(offset, remainder.total),))
        return tuple(brief), lowest

    def to_values(self) -> list[Any]:
        """Plain JSON values."""
        return [self.total, [list(run) for run in self.reached], [list(skip) for skip in self.skips]]

    @classmethod
    def from_values(cls, values: Any) -> Lineage:
        """Read what `to_values` gave.

        Raises:
            CheckpointError: the values are no lineage.
        """
        try:
            total, reached, skips = values
            runs = tuple(tuple(map(_count, run)) for run in reached)
            pairs = tuple((_count(position), _count(rows)) for position, rows in skips)
            lineage = cls(_count(total), runs, pairs)
            if not all(runs) or not all(run.is_possible for run in lineage._remainders):
                raise ValueError
        except (ValueError, TypeError, OverflowError):
            raise CheckpointError(f"the state is damaged: lineage={str(values)[:80]}.") from None
        return lineage


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError
    return value
