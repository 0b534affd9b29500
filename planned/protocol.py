"""The protocol of sources whose elements are batches or rows that are planned from lengths.

In: keys of batches or rows. Out: the batches or rows, and sources of other epochs and plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from ..samplers.history import Changes, Values


class PlannedSource:
    """Base of sources of planned batches or rows, whose `facts` have `planned=True`.

    The order of the source gives their keys.

    A subclass defines `of_epoch`. One whose plan may change between two runs also defines the other
    methods.
    """

    def of_epoch(self, order: Any, epoch: int) -> tuple[Self, Any]:
        """Return a source of the batches or rows of one epoch, and their order, from position 0.

        Args:
            order: the order of all epochs.
            epoch: number of the epoch, from 0.
        """
        raise NotImplementedError

    def may_resume(self, order: Any, saved: Values) -> bool:
        """Return True if a run may resume with the plan of `order`.

        It may differ from the run's plan only in its shapes.

        Args:
            order: the current order of this source.
            saved: values of the run's order, as in its `fingerprint`.
        """
        return False

    def with_changes(self, order: Any, changes: Changes) -> tuple[Self, Any]:
        """Return the source and the order of the batches, with the earlier plans of a run.

        Args:
            order: the order of this source's batches, without earlier plans.
            changes: changes of an order during the run; the last plan is the current one.

        Raises:
            CheckpointError: `changes` is damaged.
        """
        raise NotImplementedError

    def replanned(
        self, order: Any, saved: Values, layers: Sequence[Any], positions: Sequence[int]
    ) -> tuple[Self, Any, Any]:
        """Return source, order and history of shards with which a run resumes if its plan changed.

        Batches that are planned together with one that was delivered keep the plan of the run.

        Args:
            order: the order with earlier plans, from `with_changes`.
            saved: values of the run's order, as in its `fingerprint`.
            layers: history of shards of the run.
            positions: number of batches that each shard has delivered.

        Raises:
            CheckpointError: `saved` is damaged.
        """
        raise NotImplementedError
