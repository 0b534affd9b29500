"""Plan the rows of a `Pack` from the lengths of documents, if shards are to be balanced by cost.

In: a source, an order, operations. Out: a source of rows, their order, and the operations after the
`Pack`; None if there is no `Pack`, or no balance.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ...common.identity.values import digest
from ...common.messages import short_repr
from ...errors import LengthsError
from ...operations import Operation, Pack
from ...operations.protocol import fingerprint
from ...samplers import NoSharding
from ...samplers.balance import Balance
from ...samplers.protocol import VectorSampler
from ..records import MOST_PLANNED, SampledRecords
from .rows import PackedOrder, PackedSource, packed

_INSTEAD = (
    "Leave balance= out, or pack a MapDataset, "
    "MapDataset…pack(…, lengths=…).to_iter_dataset(balance=…)"
)


def planned_packs(
    source: Any, sampler: VectorSampler, operations: tuple[Operation, ...]
) -> tuple[PackedSource, PackedOrder, tuple[Operation, ...]] | None:
    """Return a source of planned packed rows, their order, and the operations after the `Pack`.

    Return None if rows are not planned.

    Rows are planned if there is a `Pack`, and the sampler balances records among shards by cost.

    Args:
        source: the user's source.
        sampler: its order, perhaps with a balance.
        operations: operations of the pipeline, in order.

    Raises:
        LengthsError: the documents are not single records with one length each.
        PackError: a document is too long.
        ValueError: the documents are endless, or too many to plan.
    """
    balance: Balance | None = sampler.facts.balance
    number = next((number for number, one in enumerate(operations) if one.plans_rows), None)
    if balance is None or number is None:
        return None
    operation, before = cast(Pack, operations[number]), operations[:number]
    whole = sampler.with_shard_options(NoSharding())
    _check(operation, before, len(whole))
    rows, order = packed(SampledRecords(source, whole, before), operation, whole, balance)
    order = dataclasses.replace(order, identity=_identity(order))
    return rows, order, operations[number + 1 :]


def _identity(order: PackedOrder) -> dict[str, Any]:
    """Return the plain values that identify an order of packed rows in states."""
    operation = order.source.operation
    below = {
        name: value for name, value in order.documents.fingerprint.items() if name != "balance"
    }
    return {
        "kind": "PackedOrder",
        "rows": order.source.plan.rows,
        "order": digest(below, 12),
        "packs": digest([fingerprint(operation), operation.window, order.source.plan.digest], 12),
        "balance": order.balance.fingerprint,
    }


def _check(operation: Pack, before: Sequence[Operation], documents: int) -> None:
    """Check that packed rows can be planned from the lengths of records.

    Args:
        operation: the `Pack`.
        before: operations before it.
        documents: number of documents in all epochs.

    Raises:
        LengthsError: an operation before the `Pack` changes the number of elements; or the `Pack`
            packs several fields with lengths of their own.
        ValueError: there are too many documents, or endlessly many.
    """
    for one in before:
        if not one.one_to_one or one.takes is not None:
            raise LengthsError(
                f"balance= plans rows from the lengths of records, but {short_repr(one)} before "
                f"{short_repr(operation)} changes the number of records. Read a headrace.Subset of "
                "the source, or leave balance= out."
            )
    if isinstance(operation.settings.length, Mapping) and len(operation.settings.length) > 1:
        raise LengthsError(
            f"balance= knows one length of each record, but {short_repr(operation)} packs several "
            f"fields with lengths of their own. {_INSTEAD}."
        )
    if documents > MOST_PLANNED:
        how_many = f"has {documents:,} records in all epochs, more than {MOST_PLANNED:,}"
        how_many = "never ends" if documents >= 1 << 62 else how_many
        raise ValueError(
            f"balance= with {short_repr(operation)} plans the packed rows of all epochs before the "
            f"run, but the sampler {how_many}. Pass num_epochs= to the sampler: a smaller number "
            "of epochs, for example those that you will train. Or do without: "
            f"{_INSTEAD[0].lower()}{_INSTEAD[1:]}."
        )
