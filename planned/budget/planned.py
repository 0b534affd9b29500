"""Decide whether batches can be planned from known lengths; if so, make their source and order.

In: a source, an order, operations. Out: a source of batches, their order, and the operations after
the `BudgetBatch`; None if there is no `BudgetBatch`, or if the lengths are unknown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.costs import as_lengths
from ...common.identity.values import described, digest
from ...common.messages import short_repr
from ...errors import LengthsError
from ...operations import BudgetBatch, Operation
from ...samplers import NoSharding
from ...samplers.protocol import ENDLESS, VectorSampler
from ...sources.facts import facts_of
from ...sources.lengths import lengths_of
from ..records import MOST_PLANNED, PlacedRecords, SampledRecords
from .order import BudgetOrder
from .source import BudgetSource

Ints = NDArray[np.int64]


def planned_batches(
    source: Any, sampler: VectorSampler, operations: tuple[Operation, ...]
) -> tuple[BudgetSource, BudgetOrder, tuple[Operation, ...]] | None:
    """Return a source of planned batches, their order, and the operations after them.

    Return None if batches cannot be planned.

    That is the case if there is no `BudgetBatch`, or if the lengths of the records are unknown.

    Args:
        source: the user's source.
        sampler: its order.
        operations: operations of the pipeline, in order.

    Raises:
        ValueError: the sampler also has a balance (records divided among shards by cost).
        LengthsError: `lengths=` do not fit the records that are batched, a record is too long, or
            there are too many records to plan.
    """
    number = next((number for number, one in enumerate(operations) if one.plans_batches), None)
    if number is None:
        return None
    operation, before = operations[number], operations[:number]
    assert isinstance(operation, BudgetBatch), "no other operation plans batches"
    lengths = _known(source, sampler, operation, before)
    if lengths is None:
        return None
    refuse_balance(sampler.facts.balance)
    sampler = sampler.with_shard_options(NoSharding())
    epoch, epochs = _epochs_of(sampler)
    records = SampledRecords(source, sampler, before)
    of_places = lengths[records.keys(np.arange(epoch, dtype=np.int64))]
    below = dict(sampler.fingerprint)
    # the plan of an epoch, whatever their number
    if sampler.facts.same_records and epoch == sampler.epoch_length:
        below.pop("epochs", None)
    batches, order = batches_of(records, operation, of_places, epochs, sampler.seed, below)
    return batches, order, operations[number + 1 :]


def _epochs_of(sampler: VectorSampler) -> tuple[int, int | None]:
    """Return how many positions of a sampler to plan, and how often to repeat it (None for ever).

    If the sampler has whole epochs, all with the same records, one epoch is planned, otherwise all
    positions.

    Raises:
        LengthsError: each epoch has other records, and there are too many to plan.
    """
    total, epoch = len(sampler), sampler.epoch_length
    if sampler.facts.same_records:
        if total >= ENDLESS:
            return epoch, None
        if epoch and total % epoch == 0:
            return epoch, total // epoch
    if total > MOST_PLANNED:
        how_long = (
            "never ends"
            if total >= ENDLESS
            else f"has {total:,} records in all, more than {MOST_PLANNED:,}"
        )
        raise LengthsError(
            f"BudgetBatch plans all batches before the run, but {short_repr(sampler)} has other "
            f"records in each epoch and {how_long}. Make the sampler shorter: pass a smaller "
            "num_epochs=, for example the number of epochs that you will train, or fewer records "
            "in an epoch."
        )
    return total, 1


def refuse_balance(balance: Any) -> None:
    """Check that records are not also balanced by cost.

    Planned batches need no balance: at each step, all have one shape.

    Args:
        balance: the user's argument, or the sampler's balance.

    Raises:
        ValueError: `balance` is neither None nor False.
    """
    if balance is not None and balance is not False:
        raise ValueError(
            "balance= has no effect with BudgetBatch and known lengths, because all shards have "
            "batches of one shape at each step. Leave balance= out."
        )


def batches_of(
    records: PlacedRecords,
    operation: BudgetBatch,
    lengths: Ints,
    epochs: int | None,
    seed: int | None,
    below: Any,
) -> tuple[BudgetSource, BudgetOrder]:
    """Return the source and the order of batches of records whose lengths are known.

    Args:
        records: the records, by place (index in the epoch).
        operation: the `BudgetBatch`, which decides how they are batched.
        lengths: length of the record at each place.
        epochs: number of epochs; None for an endless order.
        seed: seed of random operations, and of the order if the operation has no seed; None if
            there is none.
        below: plain values that identify the order of the records.

    Raises:
        LengthsError: a record is too long.
    """
    windows = operation.windows(lengths)
    order_seed = (seed or 0) if operation.seed is None else operation.seed
    identity = {
        "kind": "BudgetOrder",
        "records": len(lengths),
        "order": digest(below, 12),
        "batches": digest(
            [
                described(operation.content_parameters),
                operation.window,
                order_seed,
                _bytes_of(lengths),
            ],
            12,
        ),
    }
    order = BudgetOrder(windows, epochs, order_seed, identity, seed)
    return BudgetSource(records, operation, order, lengths), order


def _bytes_of(lengths: Ints) -> Any:
    return hashlib.sha256(np.ascontiguousarray(lengths, np.int64).tobytes()).hexdigest()


def _known(
    source: Any, sampler: VectorSampler, operation: BudgetBatch, before: Sequence[Operation]
) -> Ints | None:
    """Return the length of each record of a source, by record key, for a `BudgetBatch`.

    Return None if the lengths are unknown.

    They are the `lengths=` of the `BudgetBatch`. If it has none, they are the lengths that the
    source states, unless an operation comes before the batches or the source is a mix.

    Args:
        source: source of the records.
        sampler: its order.
        operation: the `BudgetBatch`.
        before: operations before it.

    Raises:
        LengthsError: `lengths=` is given, and there is a mix, or an operation before the batches
            changes the number or the order of elements; or the lengths are invalid.
    """
    if operation.lengths is None:
        own = None if before or sampler.facts.parts else facts_of(source).lengths()
        return None if own is None else whole_lengths(own, len(source))
    if sampler.facts.parts:
        raise LengthsError(
            "lengths= of a BudgetBatch belongs to a single source, but this loader has a "
            "MixSampler. Pass lengths= to MapDataset.mix([…]).budget_batch(…, lengths=…)."
        )
    for one in before:
        if not one.one_to_one or one.takes is not None:
            raise LengthsError(
                "lengths= of BudgetBatch has one length for each record of the source, but "
                f"{short_repr(one)} before it changes the number or the order of elements. Read a "
                "headrace.Subset in place of a Filter. Or, on a single shard, leave lengths= out, "
                "and pass the lengths to pad to, such as pad_to=(128, 256, 512)."
            )
    return lengths_of(source, operation.lengths)


def whole_lengths(lengths: Any, count: int) -> Ints:
    """Return the length of each record, `int64[count]`.

    If the fields of a record have their own lengths, it is the largest.

    Args:
        lengths: the lengths that a source states: an array, or a dict of arrays by field.
        count: number of records.

    Raises:
        LengthsError: a length is invalid, or there are not `count` lengths.
    """
    if isinstance(lengths, Mapping):
        return np.max([whole_lengths(of_leaf, count) for of_leaf in lengths.values()], axis=0)  # type: ignore
    return as_lengths(lengths, count)
