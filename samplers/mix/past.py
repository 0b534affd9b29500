"""Change the weights and parts of a mix: during a run, and between two runs.

In: a mix; and other weights, or the description of the mix in a checkpoint. Out: the mix that
resumes the run.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Self

from ..history import Changes, OrderChange, SavedOrder, by_part
from ..protocol import VectorSampler
from .ends import is_whole, last_weights, order_of, saved_order, schedule_of
from .order import MixOrder
from .weights import Stages, Weights, stages_of, weights_of

_DRAWN = ("weights", "ramp")
"""Names of the values in a fingerprint that decide which part is drawn, until a part ends."""


class MixPast(VectorSampler):
    """Base of `MixSampler`: keeps how the mix has changed since its first run."""

    _parts: dict[str, VectorSampler]
    _given: Stages
    _ramp: bool
    _own_changes: Changes = ()
    _begins_as: MixOrder | None = None  # an order whose first stages need not be made again
    _ended: tuple[MixOrder, int, tuple[tuple[str, int], ...]]
    fingerprint: Any

    @cached_property
    def weights_values(self) -> dict[str, Any]:
        """The entries `weights` and `ramp` of the mix's fingerprint, which decide what is drawn.

        `weights` is a dict by part name, or a list of pairs [position, dict]. `ramp` is True if the
        weights change gradually from pair to pair.
        """
        stages = [
            [start, dict(sorted(zip(self._parts, weights)))] for start, weights in self._given
        ]
        return {"weights": stages[0][1] if len(stages) == 1 else stages, "ramp": self._ramp}

    @property
    def changes(self) -> Changes:
        """The changes of this mix since the first run.

        Changes of the mix itself (its weights and parts) come first, then the changes of each
        part's own order.
        """
        of_parts = (
            change._replace(part=name)
            for name, part in self._parts.items()
            for change in part.changes
        )
        return by_part([*self._own_changes, *of_parts])

    @property
    def ended(self) -> tuple[tuple[str, int], ...]:
        return self._ended[2]

    @cached_property
    def _drawn(self) -> MixOrder:
        """The order in which parts are drawn, as if no part ended."""
        order, like = order_of(SavedOrder(self.weights_values, self._own_changes)), self._begins_as
        self._begins_as = None  # a pickle would contain it
        return order if like is None else order.begun_as(like)

    def _copied(self) -> Self:
        """Return a copy without cached values."""
        other = copy.copy(self)
        other._begins_as = None
        for name in (
            "_drawn",
            "_ended",
            "_ends",
            "_shuffles",
            "weights_values",
            "facts",
            "fingerprint",
        ):
            other.__dict__.pop(name, None)
        return other

    @property
    def changed_from(self) -> int:
        """First position with the current weights and parts; 0 if the mix never changed."""
        return self._own_changes[-1].position if self._own_changes else 0

    def as_in_run(self, saved: SavedOrder) -> Self:
        """Return a copy of this mix with the history of a saved mix in place of its own.

        The history is the changes of the weights and parts in a run.
        """
        other = self._copied()
        other._own_changes = saved.own_changes
        return other

    def differs_from(self, saved: SavedOrder) -> str:
        """Return "" if the saved mix has the same parts and weights; else a text for messages.

        The saved weights may be those with which the run began, or those to which it changed last.
        """
        same = self.fingerprint == saved.described or self._is_last(saved)
        return "" if same else "weights or parts of the mix changed"

    def _has_parts_of(self, saved: SavedOrder) -> bool:
        own = self.fingerprint
        return len(self._given) == 1 and own == {**saved.described, **self.weights_values}

    def _is_last(self, saved: SavedOrder) -> bool:
        """Return True if the saved run's last change of weights was to the weights of this mix.

        Return False if the saved run never changed its weights.
        """
        return (
            bool(saved.own_changes)
            and self._has_parts_of(saved)
            and self.weights_values["weights"] == last_weights(saved)
        )

    def resumed(self, saved: SavedOrder, position: int, changes: bool) -> Self:
        """Return the mix that resumes a run whose mix may have had other parts or weights.

        From `position` on, the parts and weights of this mix are used. Parts of both mixes continue
        with their next records.

        Args:
            saved: the mix in the checkpoint.
            position: first position that no shard has read.
            changes: True if this mix may differ from the saved mix.

        Raises:
            CheckpointError: if `saved` is damaged.
        """
        other, former = self.as_in_run(saved), saved.described
        if self.fingerprint == former:
            return other
        if self._is_last(saved):
            other._given, other._ramp = (
                stages_of(schedule_of(former), list(self._parts)),
                former["ramp"],
            )
        elif changes and position > 0:
            began = OrderChange(0, {name: former.get(name) for name in _DRAWN})
            other._own_changes = (
                saved.own_changes if _began(saved.own_changes) else (began, *saved.own_changes)
            )
            if self._has_parts_of(saved) and not saved.ended:
                other._add_weights(position, self.weights_values["weights"])
            else:
                other._add_parts(position, self.weights_values, saved.ended)
        elif changes:
            other._own_changes = ()
        return other

    def _add_parts(
        self, position: int, values: dict[str, Any], ended: Iterable[tuple[str, int]]
    ) -> None:
        """Record that this mix has other parts and weights from `position` on.

        Changes that were recorded for this position or a later one are removed.

        Args:
            position: first position with the new parts.
            values: weights of the new parts.
            ended: parts that end in the saved mix, with the positions of their ends.
        """
        kept = [change for change in self._own_changes if change.position < position]
        replaced = [change for change in self._own_changes if change.position >= position]
        # The parts that ended before these changes still end where they did.
        ends = [
            *(end for change in replaced for end in change.values.get("ended", ())),
            *map(list, ended),
        ]
        past = [[name, end] for name, end in ends if end < position]
        values = {**values, **({"ended": past} if past else {})}
        self._own_changes = (*kept, OrderChange(position, values))

    def _add_weights(self, position: int, weights: Mapping[str, float]) -> None:
        """Record other weights from `position` on.

        They replace all changes of weights that were recorded for this position or a later one.
        """
        kept = [
            change for change in self._own_changes if change.position < position or is_whole(change)
        ]
        before = last_weights(SavedOrder(self.weights_values, tuple(kept)))
        others = {name: weights[name] for name in weights if weights[name] != before[name]}
        self._own_changes = (*kept, OrderChange(position, {"weights": others}))

    def with_weights(self, weights: Weights, position: int) -> Self:
        """Return this mix with other weights from `position` on.

        The caller must ensure that no record at this position, or at a later one, was read yet.
        This is not checked. The fingerprint keeps the weights that the user's program describes,
        and `changes` has the new weights, which replace all changes of weights at this position or
        later.

        Args:
            weights: a dict by name, or a list of numbers, as for `MixSampler`.
            position: first position of the new weights.

        Raises:
            TypeError: if `weights` is neither.
            ValueError: if a weight is below 0 or not finite, all are 0, or the weights are not for
                these parts.
        """
        other = self._copied()
        other._add_weights(
            position, dict(sorted(zip(self._parts, weights_of(weights, list(self._parts)))))
        )
        other._begins_as = self._drawn
        return other

    def as_it_was(self, saved: SavedOrder, length: int) -> Self:
        """Return this mix with the order in which an earlier run drew its parts.

        Args:
            saved: the mix of the earlier run.
            length: number of positions of the earlier run.

        Raises:
            CheckpointError: if `saved` is damaged.
        """
        other = self.as_in_run(saved)
        other.__dict__["_ended"] = saved_order(saved), length, saved.ended
        return other


def _began(changes: Changes) -> bool:
    """Return True if the first of the changes has the weights with which the run began."""
    return bool(changes) and changes[0].position == 0 and is_whole(changes[0])
