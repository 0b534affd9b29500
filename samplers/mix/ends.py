"""The order of a mix whose parts end, from its weights and the lengths of its parts.

In: weights and lengths by part name; or a saved fingerprint. Out: the order, its number of
positions, and the parts that end, with the position of each end.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from ...common.messages import short_repr, shorten
from ...errors import CheckpointError
from ..protocol import ENDLESS
from .order import MixOrder
from .parts import part_named
from .weights import MAX_POSITION, changed_stages, ramped, stages_of


def saved_length(saved: Mapping[str, Any]) -> int:
    """Return the length (in positions) of an earlier run, computed from the saved fingerprint of its mix.

    The number is too high if a part has a user's own sampler, and the sampler's fingerprint does not have its length.

    Raises:
        CheckpointError: if the fingerprint is damaged.
    """
    order = order_of(saved)
    parts = {name: saved.get(part_named(name)) for name in order.names}
    most = saved.get("max_epochs", {})
    lengths = {name: _saved_part_length(part, most.get(name)) for name, part in parts.items() if isinstance(part, dict)}
    history = saved.get("history") or {"until": 0}
    return ends_of(order, lengths, saved.get("when_exhausted"), most, history["until"])[1]


def saved_order(saved: Mapping[str, Any]) -> MixOrder:
    """Return the order in which an earlier run drew the parts of its mix. A part is not drawn after its end.

    Args:
        saved: the fingerprint of that run's mix.

    Raises:
        CheckpointError: if the weights in the fingerprint are damaged.
    """
    return order_before(saved, MAX_POSITION)


def _saved_part_length(part: Mapping[str, Any], max_epochs: int | None) -> int:
    records, epochs = part.get("length", part.get("records")), 1 if "length" in part else part.get("epochs")
    if max_epochs is not None:
        records, epochs = part.get("samples", records), max_epochs
    return min(records * epochs, ENDLESS) if isinstance(records, int) and isinstance(epochs, int) else ENDLESS


def ends_of(
    order: MixOrder, lengths: Mapping[str, int], when_exhausted: str | None, leaving: Container[str], since: int
) -> tuple[MixOrder, int, list[list[Any]]]:
    """Apply the ends of parts to the order of a mix. After its end a part is no longer drawn, or the mix ends.

    Args:
        order: the order of parts that never end.
        lengths: by part name, the number of records of the part until it ends.
        when_exhausted: what happens when a part ends: "all": the mix continues with the other
            parts; "repeat": a part does not end; otherwise the mix ends.
        leaving: names of parts after whose end the mix continues, whatever `when_exhausted` is.
        since: first position at which a part in `leaving` can end. If such a part has no more
            records before `since`, its end is at `since`.

    Returns:
        the order, in which a part is no longer drawn after its end; its number of positions, or
        `ENDLESS` (`sys.maxsize`) if no end of a part stops the mix; and a pair [name, position of
        the end] for each part that ends, except the part whose end stops the mix.
    """
    ended: list[list[Any]] = []
    while True:
        ends = [
            (max(position, since) if name in leaving else position, name)
            for name in lengths
            if (when_exhausted != "repeat" or name in leaving) and not any(name == each for each, _ in ended)
            if (position := _end_of(order, name, lengths[name])) is not None
        ]
        if not ends:
            return order, ENDLESS, ended
        position, name = min(ends)
        goes_on = when_exhausted == "all" or name in leaving
        rest = order.without(order.names.index(name), position) if goes_on else None
        if rest is None:
            return order, position, ended
        order, ended = rest, [*ended, [name, position]]


def _end_of(order: MixOrder, name: str, length: int) -> int | None:
    """Return the position at which a part has run out: where it would be drawn after its last record.

    None if the part never ends, or is not drawn that often.

    Args:
        order: the order of parts that never end.
        name: name of the part.
        length: number of records of the part.
    """
    return None if length >= ENDLESS else order.position_of(order.names.index(name), length)


def order_before(saved: Mapping[str, Any], position: int) -> MixOrder:
    """Return the order that an earlier run used before a position, from the fingerprint of its mix.

    Args:
        saved: the fingerprint.
        position: changes of weights and ends of parts from this position on are left out.

    Raises:
        CheckpointError: if the weights in the fingerprint are damaged.
    """
    order: MixOrder | None = order_of(saved)
    for name, end in saved.get("ended", []):
        if order is not None and end < position:
            order = order.without(order.names.index(name), end)
    assert order is not None
    return MixOrder(order.names, tuple(stage for stage in order.stages if stage[0] < position))


def schedule_of(saved: Mapping[str, Any]) -> Any:
    """Return the weights in a mix's fingerprint as a schedule: pairs of a first position and a dict of weights.

    These are the weights that the user's program describes, without changes during a run.
    """
    weights = saved.get("weights")
    return weights if isinstance(weights, list) else [[0, weights]]


def changes_of(saved: Mapping[str, Any]) -> list[list[Any]]:
    """Return the changes of weights during an earlier run, from the fingerprint of its mix.

    Each is a pair of a first position and a dict of the weights that changed there.

    Raises:
        CheckpointError: if they are damaged.
    """
    try:
        changes = [[position, dict(weights)] for position, weights in saved.get("changes", [])]
        if any(type(position) is not int or position < 0 for position, _ in changes):
            raise ValueError
    except (TypeError, ValueError):
        raise CheckpointError(
            f"the state is damaged: changes={short_repr(saved.get('changes'))}. Restore another checkpoint."
        ) from None
    return changes


def last_weights(saved: Mapping[str, Any]) -> dict[str, float]:
    """Return the last weights in a mix's fingerprint, by part name: after its whole schedule and all changes.

    Raises:
        CheckpointError: if they are damaged.
    """
    try:
        weights = dict(_first_schedule(saved)[0][-1][1])
    except (TypeError, ValueError, LookupError) as error:
        raise _damaged(error) from None
    for _, others in changes_of(saved):
        weights |= others
    return dict(sorted(weights.items()))


def order_of(saved: Mapping[str, Any]) -> MixOrder:
    """Return the order of a mix from its fingerprint.

    Args:
        saved: the fingerprint. Its entry `weights` has weights by part name, or a list of pairs [first
            position, weights], which are joined by ramps if `ramp` is true. An entry `history` has the
            earlier order, with other weights and parts. An entry `changes` has later weights; the entry
            `first`, if present, is the pair [weights, ramp] to which these changes were made.

    Raises:
        CheckpointError: if an entry is missing or damaged.
    """
    try:
        schedule, ramp = _first_schedule(saved)
        names = tuple(sorted(schedule[0][1]))
        stages = stages_of([(start, weights) for start, weights in schedule], names)
        own = MixOrder(names, ramped(stages) if ramp else stages)
        history, changes = saved.get("history"), changes_of(saved)
        order = own if history is None else MixOrder.from_values(history).changed(history["until"], own)
        if not changes:
            return order
        later = changed_stages(dict(zip(names, stages[-1][1])), [(position, others) for position, others in changes])
        return order.changed(changes[0][0], MixOrder(names, later))
    except (TypeError, ValueError, LookupError) as error:
        raise _damaged(error) from None


def _first_schedule(saved: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the weights of a mix before all changes during a run, from its fingerprint.

    Returns:
        a schedule, i.e. pairs of a first position and a dict of weights; and True if weights change linearly from one
        pair to the next.
    """
    weights, ramp = saved.get("first") or (saved.get("weights"), saved["ramp"])
    return schedule_of({"weights": weights}), ramp


def _damaged(error: Exception) -> CheckpointError:
    return CheckpointError(
        f"the state is damaged: its mix cannot be read ({shorten(error)}). Restore another checkpoint."
    )
