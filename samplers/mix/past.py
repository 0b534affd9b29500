"""Change the weights and parts of a mix: during a run, and between two runs.

In: a mix; other weights, or the fingerprint of a run's mix. Out: the mix that resumes the run.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

from ..protocol import VectorSampler
from .ends import changes_of, last_weights, order_before, order_of, schedule_of
from .identity import PASSING
from .order import MixOrder
from .weights import MAX_POSITION, Stages, Weights, stages_of, weights_of


class MixPast(VectorSampler):
    """Base of `MixSampler`: keeps how the mix has changed since its first run.

    Attributes:
        changes: changes of the weights: the first position of each, and a dict of the weights that
            change there.
    """

    _parts: dict[str, VectorSampler]
    _given: Stages
    _ramp: bool
    _history: dict[str, Any] | None = None  # the order before the last change of parts
    _begins_as: MixOrder | None = None  # an order whose first stages need not be made again
    _first: Any = None  # the weights and the ramp from which `changes` began, if the user's are later ones
    changes: list[list[Any]] = []  # noqa: RUF012, never changed in place
    fingerprint: Any

    @cached_property
    def _weights(self) -> list[list[Any]]:
        """The user's weights: a pair of the first position and a dict of weights by part name for each stage."""
        return [[start, dict(sorted(zip(self._parts, weights)))] for start, weights in self._given]

    @property
    def _order_entries(self) -> dict[str, Any]:
        """The entries of the fingerprint from which the function `order_of` makes the order."""
        weights = self._weights[0][1] if len(self._weights) == 1 else self._weights
        passing = {"history": self._history, "first": self._first, "changes": self.changes}
        return {"weights": weights, "ramp": self._ramp, **{name: value for name, value in passing.items() if value}}

    @cached_property
    def _drawn(self) -> MixOrder:
        """The order in which parts are drawn, as if no part ended."""
        order, like = order_of(self._order_entries), self._begins_as
        self._begins_as = None  # a pickle would contain it
        return order if like is None else order.begun_as(like)

    def _copied(self) -> Self:
        """Return a copy without cached values."""
        other = copy.copy(self)
        other._begins_as = None
        for name in ("_drawn", "_ended", "_ends", "_shuffles", "_weights", "facts", "fingerprint"):
            other.__dict__.pop(name, None)
        return other

    @property
    def changed_from(self) -> int | None:
        """First position with the current weights and parts; None if the mix never changed."""
        return int(self.changes[-1][0]) if self.changes else self._parts_changed_from

    @property
    def _parts_changed_from(self) -> int | None:
        return None if self._history is None else int(self._history["until"])

    def going_on(self, saved: Mapping[str, Any], position: int, changes: bool) -> Self:
        """Return the sampler that resumes a run of a mix, whose parts or weights may differ from this mix's.

        Parts of both mixes continue with their next records. This mix's parts and weights are used from `position` on.

        Args:
            saved: the fingerprint of that run's sampler.
            position: first position that no shard has read.
            changes: True if this mix may differ from that run's.

        Raises:
            CheckpointError: if the fingerprint is damaged.
        """
        other = self._copied()
        other._take_past(saved)
        own, former = (
            {name: value for name, value in values.items() if name not in PASSING}
            for values in (self.fingerprint, saved)
        )
        if own == former:
            return other
        same_parts = own == {**former, "weights": own["weights"], "ramp": own["ramp"]} and len(self._given) == 1
        if same_parts and other.changes and own["weights"] == last_weights(saved):
            # The program describes the weights to which the run has changed.
            other._given, other._ramp = stages_of(schedule_of(saved), list(self._parts)), former["ramp"]
        elif changes and position > 0 and same_parts and not saved.get("ended"):
            other._first = other._first or [former["weights"], former["ramp"]]
            other._add_change(position, own["weights"])
        elif changes:
            former_order = {"until": position, **order_before(saved, position).to_values()} if position > 0 else None
            other._history, other._first, other.changes = former_order, None, []
        return other

    def _take_past(self, saved: Mapping[str, Any]) -> None:
        self._history, self._first, self.changes = saved.get("history"), saved.get("first"), changes_of(saved)

    def _add_change(self, position: int, weights: Mapping[str, float]) -> None:
        """Record other weights from a position on. They replace all changes at this position or later."""
        self.changes = [change for change in self.changes if change[0] < position]
        before = last_weights(self._order_entries)
        self.changes.append([position, {name: weights[name] for name in weights if weights[name] != before[name]}])

    def with_weights(self, weights: Weights, position: int) -> Self:
        """Return this mix with other weights from a position on, at which nothing may have been read yet.

        The fingerprint keeps the new weights in addition to the weights that the user's program describes. They
        replace all changes of weights at this position or later.

        Args:
            weights: a dict by name, or a list of numbers, as for `MixSampler`.
            position: first position of the new weights.

        Raises:
            TypeError: if `weights` is neither.
            ValueError: if a weight is outside its range, or the weights are not for these parts.
        """
        other = self._copied()
        other._add_change(position, dict(sorted(zip(self._parts, weights_of(weights, list(self._parts))))))
        other._begins_as = self._drawn
        return other

    def as_it_was(self, saved: Mapping[str, Any], length: int) -> Self:
        """Return this mix with the order in which an earlier run drew its parts.

        Args:
            saved: the fingerprint of that run's sampler.
            length: number of positions of that run.

        Raises:
            CheckpointError: if the fingerprint is damaged.
        """
        other = self._copied()
        other._take_past(saved)
        other.__dict__["_ended"] = order_before(saved, MAX_POSITION), length, saved.get("ended", [])
        return other
