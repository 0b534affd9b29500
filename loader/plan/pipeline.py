"""What a loader runs: source, sampler, shard and operations, checked and taken apart. Immutable, and without behaviour.

In: what the user passed. Out: what plan, work and state ask about it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...operations import Batch, Operation
from ...operations.trees import flatten
from ...samplers import ShardOptions
from ...samplers.protocol import ENDLESS, VectorSampler
from .fingerprint import Fingerprint
from .identity import Identity
from .lineage import Lineage
from .stages import Segment, column_span_length, segments_of, span_length


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
