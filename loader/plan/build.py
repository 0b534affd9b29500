"""Check the user's source, sampler and operations, and make a pipeline of them.

In: source, sampler, operations, shard options. Out: a `Pipeline`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...common.messages import short_repr
from ...errors import EmptyStreamError, SeedError
from ...operations.transforms import as_operation
from ...planned import planned_from_lengths
from ...samplers import ShardOptions
from ...samplers.grain.own_orders import has_own_orders, read_equally
from ...samplers.own_sampler import as_vector_sampler
from ...samplers.protocol import VectorSampler
from ...samplers.sharding import as_shard_options
from ...sources import as_source
from ...sources.mixed.source import MixedSource
from ..arguments import as_list, number_of_batch
from ..failures import Skips
from .compile import compiled, with_operations
from .growth import growing_order, growth_of
from .joins import Apply, Read
from .leaf import Leaf
from .lineage import ReshardHistory
from .omission import living_order
from .pipeline import Pipeline

# Chosen: so many records take seconds to read, and more is a mistake.
LARGEST_OF_SEVERAL_EPOCHS = 1 << 24
"""Largest number of records in a batch that has more records than an epoch."""


def make_pipeline(
    data_source: Any,
    sampler: Any,
    operations: Sequence[Any],
    shard_options: ShardOptions | None,
    skips_errors: Skips = False,
    growth: Any = None,
    omit: Any = None,
) -> Pipeline:
    """Check the arguments of a `DataLoader`, and make its pipeline.

    Args:
        data_source: source; or a list, an array or a dict of arrays, which is wrapped in one.
        sampler: the user's sampler, which decides the order of the records.
        operations: transforms, batches and plain functions.
        shard_options: shard of this process; None for the sampler's shard.
        skips_errors: True to skip failing records, False to raise, or the user's function that
            decides.
        growth: when records that are appended during a run are added to the order; None for the
            default of the source.
        omit: records to omit, in addition to records that were deleted from the source; None for no
            others.

    Raises:
        TypeError: an argument has a wrong type, or several sources have no sampler that mixes them.
        ValueError: the arguments do not fit together.
        RecordKeyError, SourceError: `omit` names a record that the source does not have; a file of
            keys cannot be read; or `omit` is a function, and the source does not know the files of
            its records.
        LengthsError, PackError: batches or rows cannot be planned from the lengths of records.
        SeedError: an operation is random and has no seed, and the sampler has none.
        EmptyStreamError: there are too few records for a batch, or `omit` has all of them.
    """
    order, shard, lineage = _sharded(as_vector_sampler(sampler), shard_options)
    source = _mixed(data_source, order) if order.facts.parts else as_source(data_source)
    if isinstance(source, MixedSource) and not order.facts.parts:
        raise TypeError(
            "a MixedSource needs a MixSampler. Pass sampler=headrace.MixSampler(source, weights=…)."
        )
    order = order.for_source(len(source))
    wanted = growth_of(source, growth, shard)
    order = living_order(growing_order(order, source, wanted is None), source, omit, wanted)
    checked = tuple(as_operation(operation) for operation in as_list("operations", operations))
    for number, operation in enumerate(checked):
        if operation.needs_seed and order.seed is None:
            raise SeedError(
                f"operation {number}, {short_repr(operation)}, draws random numbers, but the "
                "sampler has no seed. Pass seed=0, or another int in [0, 2^32), to the sampler or "
                "to load(). A sampler class of your own must return RecordMetadata with rng=."
            )
    planned = planned_from_lengths(source, order, checked)
    if planned is not None:
        source, order, checked = (
            planned.source,
            planned.order.with_shard_options(shard),
            planned.operations,
        )
    if wanted is not None and planned is not None:
        raise ValueError(
            "batches or packed rows that are planned from lengths cannot be combined with records "
            'that are appended during the run. Pass growth="hand", which reads only the records '
            "that exist now."
        )
    leaf = Leaf(source, order, shard, lineage, growth=wanted)
    return not_empty(compiled(Apply(Read(leaf), checked), skips_errors))


def _mixed(data_source: Any, order: Any) -> MixedSource:
    parts = MixedSource(data_source)
    order.check_parts(parts.sizes)
    return MixedSource({name: parts.parts[name] for name in order.names})


def with_batch_size(pipeline: Pipeline, batch_size: int, batch: int | None) -> Pipeline:
    """Return a pipeline of a single source in which a `Batch` has another size.

    Args:
        pipeline: the pipeline.
        batch_size: the new size.
        batch: which `Batch`, if there are several: 0 for the first in order, -1 for the last. None:
            there is only one.

    Raises:
        TypeError: `batch_size` or `batch` is not an integer.
        ValueError: there is no such `Batch`, or several and `batch` is None; or the size is out of
            range.
        EmptyStreamError: there are too few records for a batch.
    """
    number = number_of_batch(pipeline.operations, batch)
    operations = list(pipeline.operations)
    operations[number] = operations[number].taking(batch_size)
    return not_empty(with_operations(pipeline, operations))


def not_empty(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline, after checking that its records are enough for one batch.

    Too few records would all be dropped as the remainder of a batch. Only the first shard, which
    has most records, is checked. Joins of streams are not checked, because one of the streams may
    be empty.

    Raises:
        EmptyStreamError: all epochs of the first shard together have too few records for one batch.
        ValueError: `batch_size` is probably a mistake: it is larger than one epoch and larger than
            `LARGEST_OF_SEVERAL_EPOCHS`.
    """
    if pipeline.joins:
        return pipeline
    _refuse_huge_batches(pipeline)
    if (records := dropped_records(pipeline)) and pipeline.stages[0].starved(records)[0].needs_one:
        has = "each shard has at most" if pipeline.shard.shard_count > 1 else "it has"
        raise EmptyStreamError(
            f"the stream would be empty: {has} {records} records, which are too few for a batch of "
            f"{pipeline.stages[0].unit}, and drop_remainder=True drops them. Pass a smaller "
            "batch_size, or drop_remainder=False."
        )
    return pipeline


def dropped_records(pipeline: Pipeline) -> int:
    """Return the number of records of the largest shard if they are too few for one batch, else 0.

    All of these records would be dropped, as the remainder of a batch.
    """
    shard = pipeline.shard
    records = ShardOptions(0, shard.shard_count, shard.drop_remainder).length(
        len(pipeline.leaves[0].sampler)
    )
    return 0 if pipeline.stages[0].outputs(records) else records


def _refuse_huge_batches(pipeline: Pipeline) -> None:
    """Check that no batch has far more records than an epoch, which is probably a mistake.

    A batch may have as many records as an epoch, or `LARGEST_OF_SEVERAL_EPOCHS` records if this
    number is larger. Sources without random access, and streams that end before one batch, are not
    checked.

    Raises:
        ValueError: a batch has more records than this.
    """
    leaf, rows = pipeline.leaves[0], max(stage.unit for stage in pipeline.stages)
    if leaf.in_order or min(rows, len(leaf.sampler)) <= max(
        LARGEST_OF_SEVERAL_EPOCHS, leaf.sampler.epoch_length
    ):
        return
    raise ValueError(
        f"a batch of {rows:,} records is too large. It may have at most "
        f"{LARGEST_OF_SEVERAL_EPOCHS:,} records, or as many as an epoch has "
        f"({leaf.sampler.epoch_length:,}) if that is more. For one batch of all records pass "
        "num_epochs=1. Otherwise pass a smaller batch_size."
    )


def _sharded(
    sampler: VectorSampler, shard_options: ShardOptions | None
) -> tuple[VectorSampler, ShardOptions, ReshardHistory]:
    """Return the sampler for the loader's shard, the shard, and an empty history of earlier runs.

    An unsharded sampler with Grain's algorithm keeps its one order, and the shards read parts of
    it, as in Grain.

    Args:
        sampler: the user's sampler.
        shard_options: the loader's argument; None for the sampler's own shard.
    """
    if shard_options is None:
        return sampler, read_equally(sampler, sampler.shard_options), ReshardHistory()
    shard = as_shard_options(shard_options)
    shared = has_own_orders(sampler) and sampler.shard_options.shard_count == 1 < shard.shard_count
    parts = ShardOptions(0, 1, shard.drop_remainder) if shared else shard
    return (
        sampler.with_shard_options(parts),
        read_equally(sampler, shard),
        ReshardHistory(order_shards=int(shared)),
    )
