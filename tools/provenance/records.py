"""Find the first position at which two streams have other records.

They differ because records were appended or omitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import HeadraceError
from ...loader.plan.identity import Identity
from ...loader.plan.pipeline import Pipeline
from ...samplers import NoSharding
from ...samplers.changing.history import (
    GENERATION,
    OMITTED,
    RECORDS,
    RecordsChange,
    RecordsHistory,
    lasting,
)
from ...samplers.history import SavedOrder, of_part, parts_in
from .orders import MOST, Order, OrderDifference, compared, first_difference


def records_differences(
    told: Sequence[tuple[Identity, Sequence[SavedOrder]]], pipelines: Sequence[Pipeline | None]
) -> list[OrderDifference] | None:
    """Compare two orders that differ only in records that were appended or omitted.

    Args:
        told: descriptions (identities) of the two streams, as a checkpoint stores them, and their
            orders.
        pipelines: the pipelines of the two streams; None for a stream of which only a checkpoint is
            known.

    Returns:
        Differences, each with its first position, if that is known, and a description. An empty
        list if the changes make no difference. None if the orders differ in something else, or not
        at all.
    """
    (one, two), (rest, other_rest) = zip(*(_taken_apart(*each) for each in told))
    changed = {
        name: _histories(one[name], two[name])
        for name in one
        if name in two and one[name] != two[name]
    }
    if one.keys() != two.keys() or rest != other_rest or not changed:
        return None
    said = {
        name: _words(*histories) for name, histories in changed.items() if histories is not None
    }
    if len(said) < len(changed):
        return None
    if (histories := changed.get("")) is not None:
        return _of_one_order(said[""], histories, pipelines)
    joins = bool(told[0][0].joins)
    found = (
        OrderDifference(0) if joins else first_difference(told[0][1][0], told[1][1][0], pipelines)
    )
    words = "; ".join(f"{name}: {each}" for name, each in said.items())
    if found is None or found.told == "":
        return [] if found is None else [OrderDifference(None, words)]
    at = "" if found.position is None else f"position {found.position:,}: "
    return [OrderDifference(found.position, f"{words}; {at}{found.told}")]


def _taken_apart(
    told: Identity, orders: Sequence[SavedOrder]
) -> tuple[dict[str, SavedOrder], list[Any]]:
    """Split a stream's description into its orders by name, and all other values that decide order.

    There is an order for each part of a mix, or for each joined stream. A single order has the name
    "".
    """
    if len(orders) > 1:
        return {f"stream {number}": order for number, order in enumerate(orders)}, [told.joins]
    (order,) = orders
    if not order.is_mix or told.joins:
        return {"": order}, [told.joins]
    parts = {
        name: SavedOrder(each, of_part(order.changes, name))
        for name, each in parts_in(order.described).items()
    }
    rest = {name: value for name, value in order.described.items() if name not in parts}
    return parts, [told.joins, rest, order.own_changes]


def _histories(one: SavedOrder, two: SavedOrder) -> tuple[RecordsHistory, RecordsHistory] | None:
    """Return the histories (changes of records) of two orders.

    Return None if the orders also differ in something else, or if no records were appended or
    omitted in either.
    """
    begins = {OMITTED, GENERATION} & {*one.described, *two.described}
    if not (begins or one.changes or two.changes) or lasting(one.described) != lasting(
        two.described
    ):
        return None
    first, second = (
        each._replace(described={**_records(other), **each.described})
        for each, other in ((one, two), (two, one))
    )
    return RecordsHistory.of(first), RecordsHistory.of(second)


def _records(told: SavedOrder) -> dict[str, Any]:
    """Return {"records": number} for an order; {} if the checkpoint lacks the number."""
    return {RECORDS: told.described[RECORDS]} if RECORDS in told.described else {}


def _first(one: RecordsHistory, two: RecordsHistory) -> tuple[int, RecordsChange, RecordsChange]:
    """Find the first change of records that only one of two orders has.

    Returns its position; and for each order, the change that is in effect there.
    """
    first, second = (_all_of(each) for each in (one, two))
    same = next(
        (at for at, pair in enumerate(zip(first, second)) if pair[0] != pair[1]),
        min(len(first), len(second)),
    )
    position = min(each[same].position for each in (first, second) if same < len(each))
    before, after = (each[min(same, len(each) - 1)] for each in (first, second))
    return position, before, after


def _words(one: RecordsHistory, two: RecordsHistory) -> str:
    _, before, after = _first(one, two)
    parts = []
    if before.generation != after.generation:
        parts.append(f"generation {before.generation} → {after.generation}")
    if before.records != after.records:
        parts.append(f"records {before.records:,} → {after.records:,}")
    if before.omitted != after.omitted:
        others = " others" if _count(before) == _count(after) else ""
        parts.append(f"left out {_count(before)} → {_count(after)}{others}")
    return ", ".join(parts) or "changes at other positions"


def _of_one_order(
    words: str,
    histories: tuple[RecordsHistory, RecordsHistory],
    pipelines: Sequence[Pipeline | None],
) -> list[OrderDifference]:
    position, before, after = _first(*histories)
    unknown = [OrderDifference(position, f"{words} from position {position:,} on")]
    if (before.generation, before.records) == (after.generation, after.records):
        one, two = (_order(*side, pipelines) for side in zip(pipelines, histories))
        last = max(each.last.position for each in histories)
        # an epoch after the last changes shows all
        most = min(last - position + 2 * after.records, MOST)
        if one is None or two is None:
            return unknown
        try:
            found = compared(one, two, position, most)
        except HeadraceError:  # other keys were left out then, which are not known
            return unknown
        if found is None or found.position is None:
            return (
                []
                if len({each.last.omitted for each in histories}) == 1
                else [OrderDifference(None, words)]
            )
        return [
            OrderDifference(found.position, f"{words}; position {found.position:,}: {found.told}")
        ]
    return unknown


def _order(
    pipeline: Pipeline | None, history: RecordsHistory, pipelines: Sequence[Pipeline | None]
) -> Order | None:
    """Return the order of one of two streams; None if it is unknown.

    Args:
        pipeline: pipeline of this stream; None if only a checkpoint is known. Then it is the order
            of the other stream's sampler, with the changes of the checkpoint.
        history: changes of this stream's records.
        pipelines: pipelines of both streams.
    """
    if pipeline is not None:
        return Order.of_sampler(pipeline.leaf.sampler.with_shard_options(NoSharding()))
    sampler: Any = next((each.leaf.sampler for each in pipelines if each is not None), None)
    changed = None if sampler is None else sampler.with_history(history)
    return None if changed is None else Order.of_sampler(changed.with_shard_options(NoSharding()))


def _all_of(history: RecordsHistory) -> list[RecordsChange]:
    return [history.first(0).last, *history.changes]


def _count(change: RecordsChange) -> str:
    return change.omitted.split()[0] if change.omitted else "0"
