"""Batches and rows planned from lengths of records before reading: `BudgetBatch` and `Pack`.

In: a source, its order, operations. Out: a source of whole batches or rows, the order of these, and
the operations after them. The folder of an operation has its plan, source and order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..operations import Operation
from ..samplers.protocol import VectorSampler
from .budget.planned import planned_batches, refuse_balance
from .packs.planned import planned_packs

__all__ = ["Planned", "planned_from_lengths", "refuse_balance"]


class Planned(NamedTuple):
    """The part of a pipeline that is left after batches or rows were planned.

    Attributes:
        source: source of the batches or rows.
        order: their order.
        operations: the operations after the one that makes the batches or rows.
    """

    source: Any
    order: VectorSampler
    operations: tuple[Operation, ...]


PLANNERS: tuple[
    Callable[[Any, VectorSampler, tuple[Operation, ...]], tuple[Any, Any, Any] | None], ...
] = (planned_batches, planned_packs)
"""A function for each planned operation.

It returns the fields of `Planned`, or None if its operation plans nothing.
"""


def planned_from_lengths(
    source: Any, order: VectorSampler, operations: tuple[Operation, ...]
) -> Planned | None:
    """Plan the batches or rows of a pipeline from known lengths; None if no operation plans any.

    Args:
        source: the user's source.
        order: its order.
        operations: operations of the pipeline, in order.

    Raises:
        LengthsError, PackError: the lengths do not fit the records.
        ValueError: the records are endless, too many to plan, or also balanced by cost in another
            way.
    """
    for plan in PLANNERS:
        if (found := plan(source, order, operations)) is not None:
            return Planned(*found)
    return None
