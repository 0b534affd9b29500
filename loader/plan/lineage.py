"""The positions of an order that are not yet read after earlier runs on other numbers of shards.

In: how far the shards of a run have read. Out: the positions that they did not read; and, if a
shard stopped between the rows of one record, how many of these rows were delivered. The size is a
few integers for each shard, however long the run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
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
from ...samplers.protocol import Int64s

Layer = tuple[int, ...] | tuple[tuple[int, int], ...]
"""Local positions that a run's shards reached; or, in a layer before, ranges that it skipped."""


@dataclass(frozen=True)
class ReshardHistory:
    """History of runs on other numbers of shards; it gives the positions that they did not read.

    Each of these runs read some of the positions that the run before it had not read.

    Attributes:
        total: number of positions, on all shards, in the first of these runs.
        layers: one or two layers for each run, in order. If the run skipped ranges of positions,
            the first layer has these ranges. The last layer has the local position that each shard
            reached. Layers whose positions all shards have read are merged.
        skips: pairs (position, rows), one for each record of which a shard delivered some rows but
            not all: the record's global position, and how many of its rows were delivered.
        within_shard: True if positions are the local positions of one shard, because each shard has
            its own order.
        order_shards: number of shards of the first run if each shard had its own order
            (`algorithm="grain"`); 1 if the shards shared one Grain order; 0 for other orders.
        blocks: blocks of positions in which records are balanced among shards by cost; None if they
            are not balanced.
        grown: pairs (layer, positions), one for each time that the order became longer or shorter:
            the index of the layer before which this happened, and by how many positions (negative
            if shorter). Layers keep the length that they were made with; added positions of the
            order come after all positions that the layer left unread.
    """

    total: int = 0
    layers: tuple[Layer, ...] = ()
    skips: tuple[tuple[int, int], ...] = ()
    within_shard: bool = False
    order_shards: int = 0
    blocks: Blocks | None = None
    grown: tuple[tuple[int, int], ...] = ()

    @cached_property
    def orders(self) -> list[UnreadOrder | Without]:
        orders: list[UnreadOrder | Without] = []
        total, grown = self.total, dict(self.grown)
        for number, layer in enumerate(self.layers):
            orders.append(_order(layer, total + grown.get(number, 0)))
            total = orders[-1].length
        return orders

    @property
    def last_total(self) -> int:
        """Number of positions of the order in the last of these runs, counted over all shards."""
        return self.total + sum(number for _, number in self.grown)

    @cached_property
    def dense_from(self) -> tuple[int, int]:
        """A pair (index, offset): from this index on, a position is its index plus the offset.

        An index counts, from 0, the positions that are not yet read.
        """
        index = offset = 0
        for order in self.orders:
            index = max(order.dense_index, index - order.offset)
            offset += order.offset
        return index, offset

    @property
    def delivered(self) -> int:
        """Number of positions that these runs have read or skipped."""
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
                    f"the state is of a run over {self.last_total} records (in all epochs), but "
                    f"this sampler has only {total}, fewer than the shards of that run have read. "
                    "Pass at least the former number of records and epochs."
                )
            left += order.length - order.total

    def length(self, total: int) -> int:
        """Return how many positions of an order of length `total` are not yet read.

        It is `total` if there was no earlier run.
        """
        return self.orders[-1].length + total - self.last_total if self.layers else total

    def positions(self, indices: Int64s) -> Int64s:
        """Return the global positions (over all shards) at indices, from 0, of unread positions."""
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
            since = ", since their number last changed," if self.layers else ""
            before = " that were not read before this change" if self.layers else ""
            raise CheckpointError(
                f"the states do not fit this loader: the shards had{since} read "
                f"{list(reached)[:8]} records each, but this loader has only {length} records in "
                f"all epochs and shards together{before}. Pass at least the former number of "
                "records and epochs, or restore another checkpoint."
            )
        brief, lowest = _collapsed(layers)
        kept = tuple(sorted(skip for skip in skips.items() if skip[0] >= lowest))
        return dataclasses.replace(
            _of_orders(brief), skips=kept, order_shards=self.order_shards, blocks=self.blocks
        )

    def dealt_anew(self, blocks: Blocks | None) -> ReshardHistory:
        """Return the history with other blocks, in which records are balanced among shards by cost.

        Other blocks can begin only where a block ends, and where all shards stopped at the same
        position and between two records. Otherwise, the history is returned unchanged.

        Args:
            blocks: the blocks; None if records are not balanced.
        """
        if blocks is self.blocks is None:
            return self
        offset = sum(part for layer in self.layers for part in layer if isinstance(part, int))
        simple = (
            all(len(layer) == 1 and isinstance(layer[0], int) for layer in self.layers)
            and not self.skips
        )
        whole = (
            self.blocks is None
            or self.blocks.shards == 1
            or (offset - self.blocks.first) % self.blocks.size == 0
        )
        if not simple or not whole:
            return self
        return dataclasses.replace(
            self, blocks=None if blocks is None else blocks._replace(first=offset)
        )

    @cached_property
    def values(self) -> list[Any]:
        """The history as plain JSON values, which are cached and must not be modified."""
        layers = list(map(_layer_to_values, self.layers))
        more = [None if self.blocks is None else list(self.blocks), *map(list, self.grown)]
        return [
            self.total,
            layers,
            list(map(list, self.skips)),
            self.within_shard,
            self.order_shards,
            *(more if self.grown or self.blocks is not None else ()),
        ]

    @classmethod
    def from_values(cls, values: Any) -> ReshardHistory:
        """Read a history from the property `values`.

        Raises:
            CheckpointError: the values are not a history.
        """
        try:
            total, layers, skips, within_shard, shards, *more = values
            lineage = cls(
                count_in_state(total),
                tuple(map(_layer, layers)),
                _pairs(skips),
                within_shard,
                count_in_state(shards),
                _blocks(more[0]) if more and more[0] is not None else None,
                _grown(more[1:]),
            )
            if (
                type(within_shard) is not bool
                or (lineage.order_shards > 1 and not layers)
                # a run has read no more positions than it had
                or not all(
                    layer and order.is_possible
                    for layer, order in zip(lineage.layers, lineage.orders)
                )
            ):
                raise ValueError
        except (ValueError, TypeError, OverflowError, LookupError):
            raise CheckpointError(
                f"the state is damaged: lineage={short_repr(values)}. Restore another checkpoint."
            ) from None
        return lineage


def _blocks(values: Any) -> Blocks:
    blocks = Blocks(*map(count_in_state, values))
    if not 0 < blocks.shards <= blocks.size <= MAX_BLOCK or blocks.size % blocks.shards:
        raise ValueError
    return blocks


def _grown(values: Any) -> tuple[tuple[int, int], ...]:
    pairs = tuple((count_in_state(layer), number) for layer, number in values)
    if not all(type(number) is int and 0 < abs(number) < 1 << 63 for _, number in pairs):
        raise ValueError
    return pairs


def _pairs(values: Any) -> tuple[tuple[int, int], ...]:
    return tuple((count_in_state(first), count_in_state(second)) for first, second in values)


def _layer_to_values(layer: Layer) -> list[Any]:
    """Return a layer of a history as short plain values.

    A layer is skipped ranges, or the local positions that shards reached. Ranges become pairs.
    Positions become three values: the smallest position, a divisor, and a list with (position -
    smallest) / divisor for each shard.
    """
    numbers = [part for part in layer if isinstance(part, int)]
    if not numbers:
        return list(map(list, layer))  # type: ignore[arg-type]
    least = min(numbers)
    unit = gcd(*(number - least for number in numbers)) or 1
    return [least, unit, [(number - least) // unit for number in numbers]]


def _layer(values: Any) -> Layer:
    if isinstance(values[0], list):
        return _pairs(values)
    least, unit, times = values
    if {*map(type, times)} != {int} or min(times) < 0:
        raise ValueError
    least, unit = count_in_state(least), count_in_state(unit)
    return tuple([least + unit * number for number in times])


def _order(layer: Layer, total: int) -> UnreadOrder | Without:
    if layer and isinstance(layer[0], tuple):
        return Without(layer, total)
    return UnreadOrder(layer, total)  # type: ignore[arg-type]


def _of_orders(orders: Sequence[UnreadOrder | Without]) -> ReshardHistory:
    """Return the history that consists of these layers.

    The objects map indices of unread positions to positions.
    """
    before = (orders[0].total, *(order.length for order in orders))
    grown = tuple((number, order.total - before[number]) for number, order in enumerate(orders))
    layers = tuple(
        order.reached if isinstance(order, UnreadOrder) else order.ranges for order in orders
    )
    return ReshardHistory(orders[0].total, layers, grown=tuple(pair for pair in grown if pair[1]))


def _collapsed(layers: Sequence[UnreadOrder | Without]) -> tuple[list[UnreadOrder | Without], int]:
    """Shorten the layers of a history of shards (one or two layers for each earlier run).

    A layer describes what each shard had read. Where later runs have read all positions that slower
    shards had left, only a shift of the positions is left of the layer: one number in place of one
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
    """Return the number of positions below `position` in one of the ranges `[start, stop)`."""
    return sum(min(stop, position) - start for start, stop in ranges if start < position)
