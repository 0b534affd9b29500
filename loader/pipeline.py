"""What a loader runs: source, sampler, shard and operations, checked and taken apart. Immutable, and without behaviour.

In: what the user passed. Out: what plan, work and state ask about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import EmptyStreamError, SeedError
from ..operations import Batch, Operation
from ..operations.transforms import as_operation
from ..operations.trees import flatten
from ..samplers import ShardOptions
from ..samplers.own_orders import has_own_orders, order_of
from ..samplers.protocol import ENDLESS, VectorSampler, as_vector_sampler
from ..samplers.sharding import as_shard_options
from ..sources import as_source
from ..wording import shown
from .arguments import as_list
from .fingerprints import Identity
from .lineage import Lineage
from .plan import Segment, column_span_length, segments_of, span_length
from .state import Fingerprint


@dataclass(frozen=True)
class Pipeline:
    """A checked pipeline.

    Attributes:
        source: record keys to records.
        sampler: positions to record keys.
        shard: which positions are this pipeline's.
        operations: records to elements.
        skips_errors: a record that fails is left out.
        lineage: what former runs left of the order.
        identity: of source and operations, as they were when the pipeline was made: they may change while they work,
            by what they load or remember. None: that of now.
        epoch: the number of the first one.
    """

    source: Any
    sampler: VectorSampler
    shard: ShardOptions
    operations: tuple[Operation, ...]
    skips_errors: bool = False
    lineage: Lineage = field(default_factory=Lineage)
    identity: Identity | None = None
    epoch: int = 0
    segments: tuple[Segment, ...] = field(init=False)

    def __post_init__(self) -> None:
        if self.identity is None:
            object.__setattr__(self, "identity", Identity.of(self.source, self.operations))
        object.__setattr__(self, "segments", segments_of(self.operations, self.skips_errors))

    @property
    def aligned(self) -> bool:
        """Every position gives exactly one row, so that a span is a batch."""
        return len(self.segments) == 1 and self.segments[0].one_to_one and not self.skips_errors

    @property
    def endless(self) -> bool:
        """The stream never ends."""
        return len(self.sampler) >= ENDLESS

    @cached_property
    def total(self) -> int:
        """Number of local positions."""
        if self.lineage.within_shard:
            return self.lineage.length(self.shard.length(len(self.sampler)))
        return self.shard.length(self.lineage.length(len(self.sampler)))

    @cached_property
    def epoch_length(self) -> int:
        """Global positions in an epoch; for an endless sampler of a user's, the records of the source."""
        return min(self.sampler.epoch_length, len(self.source)) if self.endless else self.sampler.epoch_length

    def epoch_of(self, local: int) -> int:
        """The epoch, from 0, of the record at a local position."""
        return self.epoch + (self.position(local) // self.epoch_stride if self.total else 0)

    @property
    def epoch_stride(self) -> int:
        """Global positions from the beginning of an epoch to that of the next."""
        return int(getattr(self.sampler, "epoch_stride", self.epoch_length))

    @cached_property
    def columns(self) -> Any:
        """The source's columns, a tree of arrays, if the pipeline batches them before anything else; None if not."""
        first = self.operations[0] if self.operations else None
        columns = getattr(self.source, "columns", None)
        if columns is None or self.skips_errors or type(first) is not Batch or first.batch_fn is not None:
            return None
        usable = all(
            leaf.dtype == np.result_type(leaf.dtype) and leaf.dtype.kind != "O" for leaf in flatten(columns)[0]
        )
        return columns if usable else None

    @cached_property
    def span(self) -> int:
        """Positions in a task."""
        if self.columns is None:
            return span_length(self.segments)
        row_bytes = sum(leaf.nbytes // len(leaf) for leaf in flatten(self.columns)[0])
        return column_span_length(self.segments, row_bytes)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """Identity of source, sampler and operations, in plain JSON values."""
        assert self.identity is not None
        return self.identity.fingerprint(self.sampler, self.operations)

    def fingerprint_like(self, saved: Fingerprint) -> dict[str, Any]:
        """The fingerprint in the form of a saved one, which an older version may have written."""
        assert self.identity is not None
        return self.identity.in_the_form_of(saved, self.fingerprint)

    def positions(self, start: int, stop: int) -> NDArray[np.int64]:
        """Global positions `int64[stop - start]` at local ones."""
        return self.positions_of(np.arange(start, stop, dtype=np.int64))

    def positions_of(self, local: NDArray[np.int64]) -> NDArray[np.int64]:
        """Global positions `int64[n]` at any local ones."""
        if self.lineage.within_shard:
            return self.shard.global_positions(self.lineage.positions(local))
        return self.lineage.positions(self.shard.global_positions(local))

    def position(self, local: int) -> int:
        """The global position at a local one."""
        return int(self.positions(local, local + 1)[0])


def make_pipeline(
    data_source: Any,
    sampler: Any,
    operations: Sequence[Any],
    shard_options: ShardOptions | None,
    skips_errors: bool = False,
) -> Pipeline:
    """Check what the user passed and put it together.

    Raises:
        TypeError: something is not of its kind.
        ValueError: the parts do not fit one another.
        EmptyStreamError: there are too few records for a batch.
    """
    source = as_source(data_source)
    order, shard, lineage = _sharded(as_vector_sampler(sampler), shard_options)
    records = getattr(order, "num_records", None)
    if records is not None and records > len(source):
        raise ValueError(
            f"the sampler covers {records} records but the source has {len(source)}; pass num_records=len(source)."
        )
    checked = tuple(as_operation(operation) for operation in as_list("operations", operations))
    for number, operation in enumerate(checked):
        if operation.needs_seed and order.seed is None:
            raise SeedError(
                f"operation {number}, {shown(operation)}, draws random numbers but the sampler has no seed; "
                "pass seed= to the sampler, IndexSampler(…, seed=0)."
            )
    return not_empty(Pipeline(source, order, shard, checked, skips_errors, lineage))


def not_empty(pipeline: Pipeline) -> Pipeline:
    """The pipeline, unless all records of it are dropped as the remainder of a batch.

    Shards may differ by a record: that one of them has too few is for them to agree on.

    Raises:
        EmptyStreamError: the largest shard has too few for one batch.
    """
    shard = pipeline.shard
    records = ShardOptions(0, shard.shard_count, shard.drop_remainder).length(len(pipeline.sampler))
    if records > 0 and pipeline.segments[0].outputs(records) == 0:
        whose = "of each shard " if shard.shard_count > 1 else ""
        raise EmptyStreamError(
            f"the stream would be empty: its {records} records {whose}are too few for a batch of "
            f"{pipeline.segments[0].unit}, and drop_remainder=True drops them. Pass a smaller batch_size, or "
            "drop_remainder=False."
        )
    return pipeline


def _sharded(sampler: VectorSampler, shard_options: ShardOptions | None) -> tuple[VectorSampler, ShardOptions, Lineage]:
    """The sampler, the shard and the order that the loader's `shard_options` make of a sampler.

    They take the place of the sampler's. But an unsharded sampler of Grain's order keeps its one order, of which the shards
    read parts: so does Grain.
    """
    if shard_options is None:
        return sampler, sampler.shard_options, Lineage()
    shard = as_shard_options(shard_options)
    shared = has_own_orders(sampler) and sampler.shard_options.shard_count == 1 < shard.shard_count
    lineage = Lineage(order_shards=1 if shared else 0)
    return order_of(sampler, shard, 1) if shared else sampler.with_shard_options(shard), shard, lineage
