"""Find the first position at which two orders differ.

Use what checkpoints say about them and, if available, their samplers.

Positions are compared in blocks, from the first position at which the descriptions allow a
difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...common.messages import first_few
from ...errors import HeadraceError
from ...loader.plan.pipeline import Pipeline
from ...samplers import NoSharding
from ...samplers.changing.history import OMITTED
from ...samplers.history import SavedOrder, of_part, parts_in
from ...samplers.index import index_order_of
from ...samplers.mix.ends import saved_length, saved_order
from ...samplers.mix.order import MixOrder
from ...samplers.mix.stage import ONE
from ...samplers.mix.weights import in_units
from ...samplers.protocol import ENDLESS
from ...sources.mixed.source import MixedSource

MOST = (
    1 << 24
    # largest number of positions that are compared, in a second. Different orders mostly differ
    # early
)

_BLOCK = 1 << 16

Numbers: TypeAlias = NDArray[np.int64]


class OrderDifference(NamedTuple):
    """The first difference of two orders.

    Attributes:
        position: first position that differs, counted over all shards; None if none of the compared
            positions differs; 0 if nothing could be compared.
        told: text about the difference: the record of each order at this position; or which order
            is longer; or how many records are the same. "" if nothing could be compared.
        why: description of the weights there; "" if the weights do not differ.
        of_rows: True if the position is the index of a row of a join, on one shard.
    """

    position: int | None
    told: str = ""
    why: str = ""
    of_rows: bool = False


@dataclass(frozen=True)
class Order:
    """One of two orders that are compared: the dataset name and the key at each position.

    Attributes:
        names: names of the datasets.
        places: function that returns, for positions, the index of the dataset's name and the key.
        length: number of positions.
        stages: for a mix, the positions from which weights are used, each with the weights.
        of_rows: True if positions are indices of rows of a join, on one shard.
    """

    names: tuple[str, ...]
    places: Callable[[Numbers], tuple[Numbers, Numbers]]
    length: int
    stages: tuple[Any, ...] = ()
    of_rows: bool = False

    @classmethod
    def of_mix(cls, order: MixOrder, length: int, of_rows: bool = False) -> Order:
        stages = [
            (start, tuple(zip(order.names, in_units(weights, ONE))))
            for start, weights in order.stages
        ]
        return cls(order.names, order.places, length, tuple(stages), of_rows)

    @classmethod
    def of_sampler(cls, sampler: Any, names: tuple[str, ...] = ("",)) -> Order:
        """Return the order of a sampler.

        For the sampler of a mix, `names` are the names of its parts.
        """

        def places(positions: Numbers) -> tuple[Numbers, Numbers]:
            keys, parts = np.divmod(sampler.record_keys(positions), len(names))
            return parts, keys

        return cls(names, places, len(sampler))

    def describe(self, position: int) -> str:
        parts, keys = self.places(np.array([position], dtype=np.int64))
        name = self.names[int(parts[0])]
        # of a mix, as the part counts them in its own order
        what = "element" if self.stages else "record"
        return f"{what} {int(keys[0])}{f' of {name}' if name else ''}"

    def shares(self, position: int) -> dict[str, float]:
        weights = next(
            (weights for start, weights in reversed(self.stages) if start <= position), ()
        )
        whole = sum(weight for _, weight in weights) or 1
        return {name: weight / whole for name, weight in weights}


def first_difference(
    saved: SavedOrder, present: SavedOrder, pipelines: Sequence[Pipeline | None]
) -> OrderDifference | None:
    """Return the first difference of two orders; None if both are mixes known to be the same.

    The fingerprints may differ although the orders are the same. If no compared position differs,
    the `position` of the result is None. If nothing can be compared, it is 0.

    Args:
        saved: order of one stream. If streams are joined, its description has all samplers and
            joins.
        present: order of the other stream.
        pipelines: the pipelines of the two streams; None for a stream of which only a checkpoint is
            known.
    """
    told = (saved, present)
    for orders in (
        _of_mixes(*told),
        _of_joins(*told),
        list(map(_of_pipeline, pipelines)),
        list(map(_of_index, told)),
    ):
        one, two = orders
        if one is not None and two is not None:
            return compared(one, two)
    return OrderDifference(0)


def compared(one: Order, two: Order, start: int = 0, most: int = MOST) -> OrderDifference | None:
    """Compare two orders at up to `most` positions from `start` on; return the first difference.

    Returns None if both are mixes with the same weights at all positions and the same length: these
    need no comparison. If no compared position differs, the `position` of the result is None.
    """
    if one.stages and (one.stages, one.length) == (two.stages, two.length):
        return None
    if one.stages != two.stages:
        pairs = zip_longest(one.stages, two.stages)
        # the first position at which one of the stages of two mixes is not that of the other
        start = int(
            min(stage[0] for pair in pairs if pair[0] != pair[1] for stage in pair if stage)
        )
    end = min(one.length, two.length)
    names = list(dict.fromkeys((*one.names, *two.names)))
    numbers = [
        np.array([names.index(name) for name in order.names], dtype=np.int64)
        for order in (one, two)
    ]
    for first in range(start, min(end, start + most), _BLOCK):
        positions = np.arange(first, min(first + _BLOCK, end, start + most), dtype=np.int64)
        (parts, keys), (other_parts, other_keys) = one.places(positions), two.places(positions)
        differ = np.flatnonzero(
            (numbers[0][parts] != numbers[1][other_parts]) | (keys != other_keys)
        )
        if len(differ):
            position = first + int(differ[0])
            told = f"{one.describe(position)} → {two.describe(position)}"
            return OrderDifference(position, told, _changed_shares(one, two, position), one.of_rows)
    if one.length != two.length and end <= start + most:
        longer = "second" if one.length < two.length else "first"
        return OrderDifference(end, f"only the {longer} goes on", of_rows=one.of_rows)
    return OrderDifference(None, f"the first {min(end, start + most):,} records are the same")


def _changed_shares(one: Order, two: Order, position: int) -> str:
    """Describe weights of a mix that differ between two orders at a position; "" if none do."""
    before, now = one.shares(position), two.shares(position)
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    words = [f"{name} {before.get(name, 0):.4g} → {now.get(name, 0):.4g}" for name in changed]
    return f"weights: {first_few(words, 8)}" if words else ""


def _of_mixes(*told: SavedOrder) -> list[Order | None]:
    """Return the orders of two mixes.

    Return two Nones if one of them is no mix, if the order of records inside a part differs, or if
    a saved order is damaged.
    """
    if not all(each.is_mix for each in told):
        return [None, None]
    one, two = (_parts(each) for each in told)
    if any(one[name] != two[name] for name in one if name in two):
        return [None, None]
    try:
        return [Order.of_mix(saved_order(each), saved_length(each)) for each in told]
    except HeadraceError:  # of a damaged state
        return [None, None]


def _parts(mix: SavedOrder) -> dict[str, Any]:
    return {
        key: (described, of_part(mix.changes, key))
        for key, described in parts_in(mix.described).items()
    }


def _of_joins(*told: SavedOrder) -> list[Order | None]:
    """Return the orders of two joined streams, from the fingerprints of their samplers.

    Returns two Nones if they differ in anything but the proportions of a mix, or if the last join
    of the pipeline is no mix.
    """
    joins = [each.described.get("joins") or [{}] for each in told]
    rest = [
        ({**each.described, "joins": [*join[:-1], {**join[-1], "order": None}]}, each.changes)
        for each, join in zip(told, joins)
    ]
    if rest[0] != rest[1] or joins[0][-1].get("kind") != "mix":
        return [None, None]
    return [
        Order.of_mix(MixOrder.from_values(join[-1]["order"]), ENDLESS, of_rows=True)
        for join in joins
    ]


def _of_pipeline(pipeline: Pipeline | None) -> Order | None:
    if pipeline is None or len(pipeline.leaves) > 1 or pipeline.joins:
        return None
    source = pipeline.leaf.source
    names = tuple(source.parts) if isinstance(source, MixedSource) else ("",)
    return Order.of_sampler(pipeline.leaf.sampler.with_shard_options(NoSharding()), names)


def _of_index(told: SavedOrder) -> Order | None:
    """Return the order of an `IndexSampler` from its fingerprint.

    Return None for another sampler, or if its records changed.
    """
    order = None if told.changes or OMITTED in told.described else index_order_of(told.described)
    return None if order is None else Order.of_sampler(order)


def rows_in_step(pipeline: Pipeline | None) -> int | None:
    """Return how many rows of the last join (mix, zip and others) make one element.

    Return None if there is none or it varies.
    """
    part, rows = pipeline.top if pipeline else None, 1
    while pipeline and part and part.stage is not None:
        stage = pipeline.stages[part.stage]
        part, rows = stage.input, rows * stage.unit if stage.one_to_one else 0
    return rows if part and rows else None
