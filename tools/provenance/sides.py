"""One of the two streams that are compared."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from ...errors import CheckpointError
from ...loader.plan.identity import Identity
from ...loader.plan.pipeline import Pipeline
from ...loader.plan.steps.skipped import SkippedSteps
from ...loader.state.schema import LoaderState
from ...samplers.history import SavedOrder
from .orders import OrderDifference, rows_in_step
from .streams import Described, states_of


@dataclass(frozen=True)
class Side:
    """One of the two streams that are compared.

    Attributes:
        pipeline: pipeline of a loader; None for a checkpoint.
        states: states of a checkpoint; empty for a loader.
        identity: description of the stream, as a checkpoint stores it.
        skipped: skipped steps.
        shards: number of shards; None if unknown: a loader without shards may be one of many.
        sizes: for each operation that takes several elements, such as `Batch`, how many it takes.
    """

    pipeline: Pipeline | None
    states: Sequence[LoaderState]
    identity: Identity
    skipped: SkippedSteps
    shards: int | None
    sizes: list[int]

    @classmethod
    def of(cls, given: Any) -> Side:
        """Return the side of a comparison for a loader or a checkpoint.

        Raises:
            CheckpointError: a state cannot be read, or there is none.
        """
        pipeline, states = None, list[LoaderState]()
        if isinstance(given, (str, Path, bytes, bytearray, dict, list, tuple)):
            states = states_of(given)
            if not states:
                raise CheckpointError(
                    "there is no state to compare: the list is empty. Pass what get_state() "
                    "returned."
                )
            identity, skipped, shards = (
                states[0].identity,
                states[0].kept.skipped,
                states[0].shard[1],
            )
        else:
            described = Described.of(given)
            pipeline, skipped = described.pipeline, described.skipped
            identity, shards = pipeline.identity, pipeline.shard.shard_count
        known = None if pipeline and shards == 1 else shards
        return cls(pipeline, states, identity, skipped, known, list(identity.sizes))

    def labelled(self, what: str) -> dict[str, Any]:
        """Return a part of the stream's description as plain values.

        Such a part is "sampler" or "source".
        """
        values: dict[str, Any] = self.identity.labelled[what]
        return values

    @property
    def orders(self) -> list[SavedOrder]:
        """The order of each source."""
        if self.pipeline is not None:
            return [leaf.sampler.saved for leaf in self.pipeline.leaves]
        return list(map(self.states[0].order, range(len(self.identity.orders))))

    def order(self, beside: Collection[str]) -> SavedOrder:
        """Return all that decides the order of the stream as one order.

        Leave out the values named in `beside`.
        """
        described = {
            name: value for name, value in self.labelled("sampler").items() if name not in beside
        }
        orders = self.orders
        changes = tuple(change for order in orders for change in order.changes)
        return SavedOrder(described, changes, orders[0].ended if len(orders) == 1 else ())

    @property
    def in_epochs(self) -> bool:
        return "epoch" in self.identity.order

    @property
    def deal(self) -> tuple[Any, int, int]:
        """Division of records among shards.

        It has the balance by cost (or None), number of shards, and size of its blocks (or 0).
        """
        lineage = (
            self.pipeline.leaves[0].lineage if self.pipeline else self.states[0].history.shards[0]
        )
        size = 0 if lineage.blocks is None else lineage.blocks.size
        return self.identity.order.get("balance"), self.shards or 1, size

    def step_of(self, found: OrderDifference, shards: int) -> int | None:
        """Return the step with the position at which two orders differ.

        Return None if it is unknown without running the pipeline.

        Args:
            found: the difference.
            shards: number of shards.
        """
        if not found.position:
            return found.position
        if found.of_rows:
            rows = rows_in_step(self.pipeline)
            return found.position // rows if rows else None
        if self.pipeline is not None:
            aligned = self.pipeline.aligned
        else:  # every step has as many records if the position is that of as many
            (first, *_), whole = (
                self.states,
                len(self.states[0].history.shards) == 1
                and not self.states[0].history.shards[0].orders,
            )
            aligned = whole and first.cursor.positions[0] == first.step * prod(self.sizes)
        return found.position // (prod(self.sizes) * shards) if aligned else None


def first_other(one: Sequence[Any], two: Sequence[Any]) -> int:
    """Return the first index at which two sequences differ, or the shorter length."""
    return next(
        (at for at, pair in enumerate(zip(one, two)) if pair[0] != pair[1]), min(len(one), len(two))
    )
