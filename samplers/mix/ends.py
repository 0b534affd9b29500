"""The order of a mix whose parts end, from its weights and the lengths of its parts.

In: weights and lengths by part name; or what a checkpoint says about a mix. Out: the order, its
number of positions, and the parts that end, with the position of each end.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from ...common.messages import shorten
from ...errors import CheckpointError
from ..history import Changes, OrderChange, SavedOrder, Values
from ..protocol import ENDLESS
from .order import MixOrder
from .weights import MAX_POSITION, changed_stages, ramped, stages_of


def saved_length(saved: SavedOrder) -> int:
    """Return the number of positions of an earlier run's mix, computed from its checkpoint.

    If a part has a user's own sampler whose fingerprint does not contain its length, the part
    counts as endless, so the result may be too high.

    Raises:
        CheckpointError: if the checkpoint is damaged.
    """
    order = order_of(saved)
    parts = {name: saved.part(name).described for name in order.names}
    most = saved.described.get("max_epochs", {})
    lengths = {
        name: _saved_part_length(part, most.get(name)) for name, part in parts.items() if part
    }
    return ends_of(
        order,
        lengths,
        saved.described.get("when_exhausted"),
        most,
        parts_changed_from(saved.changes),
    )[1]


def saved_order(saved: SavedOrder) -> MixOrder:
    """Return the order in which an earlier run drew the parts of its mix.

    In this order, a part is not drawn after its end.

    Raises:
        CheckpointError: if the weights or the ends of parts in the checkpoint are damaged.
    """
    order = order_of(saved)
    try:
        return _without_ended(order, saved.ended)
    except (ValueError, LookupError) as error:
        raise _damaged(error) from None


def _saved_part_length(part: Mapping[str, Any], max_epochs: int | None) -> int:
    records, epochs = (
        part.get("length", part.get("records")),
        1 if "length" in part else part.get("epochs"),
    )
    if max_epochs is not None:
        records, epochs = part.get("samples", records), max_epochs
    return (
        min(records * epochs, ENDLESS)
        if isinstance(records, int) and isinstance(epochs, int)
        else ENDLESS
    )


def ends_of(
    order: MixOrder,
    lengths: Mapping[str, int],
    when_exhausted: str | None,
    leaving: Container[str],
    since: int,
) -> tuple[MixOrder, int, tuple[tuple[str, int], ...]]:
    """Find where parts of a mix end, and remove each part from the order after its end.

    If the mix ends with a part, find the end of the mix instead.

    Args:
        order: the order in which parts are drawn if no part ends.
        lengths: by part name, the number of records of the part until it ends.
        when_exhausted: what happens at the end of a part that is not in `leaving`. "all": the mix
            continues with the other parts. "repeat": the part begins again, so it has no end. Any
            other value: the mix ends.
        leaving: names of parts that end and leave the mix, which continues with the other parts,
            whatever `when_exhausted` is.
        since: first position at which a part in `leaving` can end. If such a part has no more
            records before `since`, its end is at `since`.

    Returns:
        the order, in which a part is no longer drawn after its end; its number of positions, or
        `ENDLESS` (`sys.maxsize`) if no end of a part stops the mix; and a pair (name, position of
        the end) for each part that ends, except the part whose end stops the mix.
    """
    ended: tuple[tuple[str, int], ...] = ()
    while True:
        ends = [
            (max(position, since) if name in leaving else position, name)
            for name in lengths
            if (when_exhausted != "repeat" or name in leaving)
            and not any(name == each for each, _ in ended)
            if lengths[name] < ENDLESS
            # where it would be drawn once more after its last record
            if (position := order.position_of(order.names.index(name), lengths[name])) is not None
        ]
        if not ends:
            return order, ENDLESS, ended
        position, name = min(ends)
        goes_on = when_exhausted == "all" or name in leaving
        rest = order.without(order.names.index(name), position) if goes_on else None
        if rest is None:
            return order, position, ended
        order, ended = rest, (*ended, (name, position))


def _without_ended(
    order: MixOrder, ended: Iterable[tuple[str, int]], before: int = MAX_POSITION
) -> MixOrder:
    """Return `order`, in which parts are no longer drawn after their ends.

    Args:
        order: the order in which the parts of a mix are drawn.
        ended: pairs [part name, position of its end].
        before: ends at this position or later are not applied.

    Raises:
        LookupError: if no part is left.
    """
    for name, end in ended:
        if end < before:
            rest = order.without(order.names.index(name), end)
            if rest is None:
                raise LookupError(name)
            order = rest
    return order


def schedule_of(values: Values) -> Any:
    """Return the weights in `values`, a mix's fingerprint, as a schedule.

    A schedule is a list of pairs [first position, dict of weights by part name].
    """
    weights = values.get("weights")
    return weights if isinstance(weights, list) else [[0, weights]]


def parts_changed_from(changes: Changes) -> int:
    """Return the position of the last change of a mix's parts; 0 if the parts never changed."""
    return max((change.position for change in changes if is_whole(change)), default=0)


def is_whole(change: OrderChange) -> bool:
    """Return True if a change replaces the parts of a mix, with all weights.

    Return False if the change has only new weights of some parts, or belongs to a part's own order.
    """
    return change.part is None and "ramp" in change.values


def last_weights(saved: SavedOrder) -> dict[str, float]:
    """Return the last weights of a run's mix, by part name: after its schedule and all changes.

    Raises:
        CheckpointError: if the weights in the checkpoint are damaged.
    """
    weights: dict[str, float] = {}
    try:
        for values in (saved.described, *(change.values for change in saved.own_changes)):
            weights = (
                dict(schedule_of(values)[-1][1])
                if "ramp" in values
                else {**weights, **values["weights"]}
            )
    except (TypeError, ValueError, LookupError) as error:
        raise _damaged(error) from None
    return dict(sorted(weights.items()))


def order_of(saved: SavedOrder) -> MixOrder:
    """Return the order in which the parts of a saved mix are drawn, as if no part of it ended.

    The fingerprint of the mix, and each change of its parts, has two values: `weights` (weights by
    part name, or a list of pairs [first position, weights]), and `ramp` (True if the weights change
    gradually from pair to pair). A change of parts also has `ended`: the former parts that had
    ended, with the positions of their ends. A change of weights alone has only the weights that
    differ.

    Args:
        saved: the mix in a checkpoint.

    Raises:
        CheckpointError: if a value is missing or damaged.
    """
    try:
        order, last, later = *_own_order(saved.described), list[tuple[int, Values]]()
        for change in saved.own_changes:
            if not is_whole(change):
                later.append((change.position, dict(change.values["weights"])))
                continue
            before, (own, weights) = _with_weights(order, last, later), _own_order(change.values)
            ended = _without_ended(before, change.values.get("ended", ()), change.position)
            order = ended.changed(change.position, own) if change.position else own
            last, later = weights, []
        return _with_weights(order, last, later)
    except (TypeError, ValueError, LookupError) as error:
        raise _damaged(error) from None


def _own_order(values: Values) -> tuple[MixOrder, dict[str, float]]:
    """Build the order of a mix from the weights in a fingerprint.

    Args:
        values: fingerprint of the mix, or values of a change that replaces its parts. The entry
            `weights` has weights by part name, or a list of pairs [first position, weights]. The
            entry `ramp` is True if the weights change gradually from pair to pair.

    Returns:
        the order; and a dict of the last weights by part name, sorted by name.
    """
    schedule = schedule_of(values)
    names = tuple(sorted(schedule[0][1]))
    stages = stages_of([(start, weights) for start, weights in schedule], names)
    return MixOrder(names, ramped(stages) if values["ramp"] else stages), dict(
        zip(names, stages[-1][1])
    )


def _with_weights(
    order: MixOrder, weights: dict[str, float], changes: list[tuple[int, Values]]
) -> MixOrder:
    """Return `order` with other weights from some positions on.

    Args:
        order: the order of a mix.
        weights: weights before the first change, by part name.
        changes: pairs (position, weights that differ from this position on, by part name).
    """
    if not changes:
        return order
    return order.changed(changes[0][0], MixOrder(tuple(weights), changed_stages(weights, changes)))


def _damaged(error: Exception) -> CheckpointError:
    return CheckpointError(
        f"the state is damaged: its mix cannot be read ({shorten(error)}). Restore another "
        "checkpoint."
    )
