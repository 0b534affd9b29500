"""The positions of an order that are not yet read after earlier runs on other numbers of shards.

In: how far the shards of a run have read. Out: the positions that they did not read; and, if a
shard stopped between the rows of one record, how many of these rows were delivered. The size is a
few integers for each shard, however long the run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any

import numpy as np

from ...common.messages import short_repr
from ...common.validation import count_in_state
from ...errors import CheckpointError
from ...samplers.balance import MAX_BLOCK
from ...samplers.dealing import Blocks
from ...samplers.order import UnreadOrder, Without
from ...samplers.protocol import ENDLESS, Int64s


@dataclass(frozen=True)
class ReshardHistory:
    """History of runs on other numbers of shards; it gives the positions that they did not read.

    Each of these runs read some of the positions that the run before it had not read.

    Attributes:
        orders: one or two objects for each run, the first run first. Each maps indices of unread
            positions to positions. If the run skipped ranges of positions, its first object leaves
            these out. Its last object leaves out the positions that the shards read. Objects whose
            positions all shards have read are merged.
        skips: pairs (position, rows), one for each record of which a shard delivered some rows but
            not all: the record's global position, and how many of its rows were delivered.
        within_shard: True if positions are the local positions of one shard, because each shard has
            its own order.
        order_shards: number of shards of the first run if each shard had its own order
            (`algorithm="grain"`); 1 if the shards shared one Grain order; 0 for other orders.
        blocks: blocks of positions in which records are balanced among shards by cost; None if they
            are not balanced.
    """

    # The total of each is the length of the one before, unless the order became longer or shorter
    # between the runs. Added positions come after all those that were not read before.
    orders: tuple[UnreadOrder | Without, ...] = ()
    skips: tuple[tuple[int, int], ...] = ()
    within_shard: bool = False
    order_shards: int = 0
    blocks: Blocks | None = None

    @classmethod
    def planned(cls, layers: Iterable[tuple[int, ...]]) -> ReshardHistory:
        """Return the history of batches that are planned from known lengths.

        The order of the batches itself knows which of them are not yet read. So of this history,
        only `layers` and `values` are used.

        Args:
            layers: the earlier runs, as the order of the batches describes them.
        """
        orders: list[UnreadOrder] = []
        for layer in layers:
            orders.append(UnreadOrder(layer, orders[-1].length if orders else ENDLESS))
        return cls(tuple(orders))

    @property
    def layers(self) -> tuple[Any, ...]:
        """For each of `orders`, the local positions that shards reached, or the skipped ranges."""
        return tuple(
            order.reached if isinstance(order, UnreadOrder) else order.ranges
            for order in self.orders
        )

    @cached_property
    def dense_from(self) -> tuple[int, int]:
        """A pair (index, offset): from this index on, all positions are unread.

        An index counts, from 0, the positions that are not yet read. From the index of the pair on,
        a position is its index plus the offset.
        """
        index = offset = 0
        for order in self.orders:
            index = max(order.dense_index, index - order.offset)
            offset += order.offset
        return index, offset

    @property
    def delivered(self) -> int:
        """Number of positions that the runs of this history have read or skipped."""
        return sum(order.total - order.length for order in self.orders)

    def check_total(self, total: int) -> None:
        """Check that an order of `total` positions can continue the runs of this history.

        A longer order always can. A shorter one can if it has all positions that a shard has read.

        Raises:
            CheckpointError: the order is too short.
        """
        left = total
        for order in self.orders:
            if left < min(order.total, order.dense_from):
                raise CheckpointError(
                    "the state is of a run over "
                    f"{self.delivered + self.orders[-1].length} records (in all epochs), but "
                    f"this sampler has only {total}, fewer than the shards of that run have read. "
                    "Pass at least the former number of records and epochs."
                )
            left += order.length - order.total

    def length(self, total: int) -> int:
        """Return how many positions of an order of length `total` are not yet read."""
        return total - self.delivered

    def positions(self, indices: Int64s) -> Int64s:
        """Convert indices `int64[n]` among the unread positions to global positions `int64[n]`.

        Global positions are counted over all shards, indices from 0.
        """
        for order in reversed(self.orders):
            indices = order.positions(indices)
        return indices

    def followed_by(
        self, places: Sequence[tuple[int, int]], total: int, unread: Sequence[tuple[int, int]] = ()
    ) -> ReshardHistory:
        """Return the history after one more run.

        Args:
            places: for each shard of the run, the local position that it reached, and how many rows
                of the record there were delivered.
            total: number of all positions of the run's order.
            unread: ranges of local positions that all shards skipped, or were to skip later.

        Raises:
            CheckpointError: a shard's position is after the end of its share of the positions; or
                there are fewer positions than earlier runs have read.
        """
        self.check_total(total)
        count = len(places)
        skips = dict(self.skips)
        for shard, (local, delivered) in enumerate(places):
            if delivered:
                position = int(self.positions(np.array([shard + local * count]))[0])
                skips[position] = skips.get(position, 0) + delivered
        length = self.length(total)
        gaps = tuple(
            (start * count, min(stop * count, length))
            for start, stop in unread
            if start < stop and start * count < length
        )
        reached = tuple(local - _overlap(unread, local) for local, _ in places)
        layers = (*self.orders, *([Without(gaps, length)] if gaps else []))
        layers = (*layers, UnreadOrder(reached, layers[-1].length if gaps else length))
        if not all(order.is_possible for order in layers):
            since = ", since their number last changed," if self.orders else ""
            before = " that were not read before this change" if self.orders else ""
            raise CheckpointError(
                f"the states do not fit this loader: the shards had{since} read "
                f"{list(reached)[:8]} records each, but this loader has only {length} records in "
                f"all epochs and shards together{before}. Pass at least the former number of "
                "records and epochs, or restore another checkpoint."
            )
        brief, lowest = _collapsed(layers)
        kept = tuple(sorted(skip for skip in skips.items() if skip[0] >= lowest))
        return ReshardHistory(
            tuple(brief), kept, order_shards=self.order_shards, blocks=self.blocks
        )

    def dealt_anew(self, blocks: Blocks | None) -> ReshardHistory:
        """Return the history with other blocks from here on.

        A block is a range of positions whose records are divided among the shards by cost. Other
        blocks can begin only if no block is read in part, and if all shards stopped at the same
        position, between two records. Otherwise, the history is returned unchanged.

        Args:
            blocks: the other blocks; None if records are not divided by cost.
        """
        if blocks is self.blocks is None:
            return self
        simple = all(
            isinstance(order, UnreadOrder) and len(order.reached) == 1 for order in self.orders
        )
        whole = (
            self.blocks is None
            or self.blocks.shards == 1
            or (self.delivered - self.blocks.first) % self.blocks.size == 0
        )
        if not simple or not whole or self.skips:
            return self
        return dataclasses.replace(
            self, blocks=None if blocks is None else blocks._replace(first=self.delivered)
        )

    @cached_property
    def values(self) -> list[Any]:
        """The history as plain JSON values, which are cached and must not be modified."""
        before = (0, *(order.length for order in self.orders))
        return [
            list(map(_order_to_values, self.orders, before)),
            list(map(list, self.skips)),
            self.within_shard,
            self.order_shards,
            *([] if self.blocks is None else [list(self.blocks)]),
        ]

    @classmethod
    def from_values(cls, values: Any) -> ReshardHistory:
        """Read a history from the property `values`.

        Raises:
            CheckpointError: the values are not a history.
        """
        try:
            layers, skips, within_shard, shards, *blocks = values
            orders: list[UnreadOrder | Without] = []
            for layer in layers:
                orders.append(_order(layer, orders[-1].length if orders else 0))
                # a run has read no more positions than it had
                if not orders[-1].is_possible:
                    raise ValueError
            shards = count_in_state(shards)
            if type(within_shard) is not bool or (shards > 1 and not orders):
                raise ValueError
            return cls(tuple(orders), _pairs(skips), within_shard, shards, *map(_blocks, blocks))
        except (ValueError, TypeError, OverflowError, LookupError):
            raise CheckpointError(
                f"the state is damaged: lineage={short_repr(values)}. Restore another checkpoint."
            ) from None


def _blocks(values: Any) -> Blocks:
    blocks = Blocks(*map(count_in_state, values))
    if not 0 < blocks.shards <= blocks.size <= MAX_BLOCK or blocks.size % blocks.shards:
        raise ValueError
    return blocks


def _pairs(values: Any) -> tuple[tuple[int, int], ...]:
    return tuple((count_in_state(first), count_in_state(second)) for first, second in values)


def _order_to_values(order: UnreadOrder | Without, before: int) -> list[Any]:
    """Return what an earlier run left unread as short plain values.

    Skipped ranges become one list of pairs. The positions that shards reached become three values:
    the smallest position, a divisor, and a list with (position - smallest) / divisor for each
    shard. The total number of positions follows, if it is not `before`.
    """
    total = [] if order.total == before else [order.total]
    if isinstance(order, Without):
        return [list(map(list, order.ranges)), *total]
    least = min(order.reached)
    unit = gcd(*(number - least for number in order.reached)) or 1
    return [least, unit, [(number - least) // unit for number in order.reached], *total]


def _order(values: Any, before: int) -> UnreadOrder | Without:
    first, *rest = values
    if isinstance(first, list):
        return Without(_pairs(first), *map(count_in_state, rest or [before]))
    unit, times, *total = rest
    if {*map(type, times)} != {int} or min(times) < 0:
        raise ValueError
    least, unit = count_in_state(first), count_in_state(unit)
    reached = tuple([least + unit * number for number in times])
    return UnreadOrder(reached, *map(count_in_state, total or [before]))


def _collapsed(layers: Sequence[UnreadOrder | Without]) -> tuple[list[UnreadOrder | Without], int]:
    """Shorten the history of shards, which has one or two layers for each earlier run.

    A layer describes what each shard had read. If later runs have read all positions that slower
    shards had left, the layer only shifts positions: it becomes one number, in place of one number
    for each shard. Neighbouring shifts become one layer. The positions that are not yet read stay
    the same.

    Args:
        layers: objects that map indices of unread positions to positions, in the order of the runs.

    Returns:
        The shorter list of layers, and a global position below which all positions were read.
    """
    brief: list[UnreadOrder | Without] = []
    lowest = 0  # index into what is at hand, below which nothing is left
    for order in reversed(layers):
        if lowest < order.dense_index:
            lowest = order.lowest_position(lowest)
            brief.insert(0, order)
            continue
        offset = order.offset
        lowest += offset
        above = brief[0] if brief else None
        if isinstance(above, UnreadOrder) and len(above.reached) == 1:
            offset += above.reached[0]
            del brief[0]
        brief.insert(0, UnreadOrder((offset,), max(order.total, offset)))
    return brief, lowest


def _overlap(ranges: Sequence[tuple[int, int]], position: int) -> int:
    """Return how many positions below `position` lie in any of the ranges `[start, stop)`."""
    return sum(min(stop, position) - start for start, stop in ranges if start < position)
