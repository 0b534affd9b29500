"""What a loader runs: leaves and stages, and what can be asked about them. Immutable.

In: what `compile` made of the user's description. Out: what work, stream and state ask about it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from ...operations import Operation
from ...operations.trees import flatten
from ...samplers import ShardOptions
from .cursor import Cursor
from .fingerprint import Fingerprint
from .identity import Identity
from .leaf import Leaf
from .stages import Stage, column_span_length, span_length, stages_of


@dataclass(frozen=True)
class Pipeline:
    """A checked pipeline.

    Attributes:
        leaves: where records come from.
        stages: what is done to them, each after its inputs; the last gives the elements.
        skips_errors: a record that fails is left out.
        identity: what identifies source and operations, taken when the pipeline was made, because what they load or remember
            while they work may change them. None: taken now.
    """

    leaves: tuple[Leaf, ...]
    stages: tuple[Stage, ...]
    skips_errors: bool = False
    identity: Identity | None = None

    def __post_init__(self) -> None:
        if self.identity is None:
            object.__setattr__(self, "identity", Identity.of(self.leaf.source, self.operations))

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """All operations, by their numbers."""
        return tuple(chain.from_iterable(stage.operations for stage in self.stages))

    @property
    def leaf(self) -> Leaf:
        """The leaf of a pipeline that has one."""
        (leaf,) = self.leaves
        return leaf

    def leaf_of(self, stage: Stage) -> Leaf:
        """The leaf that the rows of a stage come from."""
        return self.leaves[stage.leaf] if stage.leaf is not None else self.leaf_of(self.stages[stage.number - 1])

    def stage_on(self, leaf: int) -> Stage:
        """The stage that reads a leaf."""
        return next(stage for stage in self.stages if stage.leaf == leaf)

    @property
    def shard(self) -> ShardOptions:
        """The part of each leaf that is this process's."""
        return self.leaves[0].shard

    @property
    def aligned(self) -> bool:
        """Every position gives exactly one row, so that a span is a batch."""
        return len(self.stages) == 1 and self.stages[0].one_to_one and not self.skips_errors

    @property
    def endless(self) -> bool:
        """The stream never ends."""
        return all(leaf.endless for leaf in self.leaves)

    @property
    def start(self) -> Cursor:
        """Where the stream begins."""
        return Cursor((0,) * len(self.leaves), (0,) * len(self.stages))

    def whole_from(self, start: Cursor) -> bool:
        """Whether all of the stream, of all shards, comes from a cursor on."""
        untouched = all(leaf.shard.shard_count == 1 and not leaf.lineage.layers for leaf in self.leaves)
        return untouched and start == self.start

    @cached_property
    def columns(self) -> Any:
        """The source's columns, a tree of arrays, if the pipeline stacks them before anything else; None if not."""
        columns = getattr(self.leaves[0].source, "columns", None)
        if columns is None or self.skips_errors or not self.operations or not self.operations[0].only_stacks:
            return None
        usable = all(
            leaf.dtype == np.result_type(leaf.dtype) and leaf.dtype.kind != "O" for leaf in flatten(columns)[0]
        )
        return columns if usable else None

    @cached_property
    def span(self) -> int:
        """Positions in a task."""
        if self.columns is None:
            return span_length(self.stages)
        row_bytes = sum(leaf.nbytes // len(leaf) for leaf in flatten(self.columns)[0])
        return column_span_length(self.stages[0].unit, row_bytes)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """Identity of source, sampler and operations, in plain JSON values."""
        assert self.identity is not None
        return self.identity.fingerprint(self.leaf.sampler, self.operations)

    def fingerprint_like(self, saved: Fingerprint) -> dict[str, Any]:
        """The fingerprint in the form of a saved one, which an older version may have written."""
        assert self.identity is not None
        return self.identity.in_the_form_of(saved, self.fingerprint)

    def with_leaf(self, leaf: Leaf) -> Pipeline:
        """The same pipeline over another leaf."""
        return dataclasses.replace(self, leaves=(leaf,))

    def with_operations(self, operations: Sequence[Operation]) -> Pipeline:
        """The same pipeline with operations that stand for those of now."""
        return dataclasses.replace(self, stages=stages_of(operations, self.skips_errors))
