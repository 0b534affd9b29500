"""Find the pipeline and the position of a stream or checkpoint passed to `trace` or `diff`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...chains.iter_dataset import IterMethods
from ...chains.map_dataset import MapDataset
from ...common.messages import a_kind_of
from ...errors import CheckpointError
from ...loader.data_loader import LoaderMethods
from ...loader.device.description import DeviceLoader
from ...loader.device.hosts.across import HostLoader
from ...loader.epochs import Epochs, one_epoch
from ...loader.iterator import DataLoaderIterator
from ...loader.options import ExecutionOptions, ReadOptions
from ...loader.plan.pipeline import Pipeline
from ...loader.plan.steps.skipped import NONE_SKIPPED, SkippedSteps
from ...loader.state.position import StreamPosition
from ...loader.state.schema import LoaderState
from ...reporting.loops import host_iterator
from ...samplers import ShardOptions
from ..checkpoints import states_at

HERE = ExecutionOptions(read_options=ReadOptions(num_threads=0), observe=False)
"""Options to run a pipeline in the calling thread, without reading ahead."""


@dataclass(frozen=True)
class Described:
    """A stream as a loader describes it.

    Attributes:
        pipeline: pipeline of the loader.
        skipped: steps that it skips.
        in_epochs: True if it is run by a loop over `loader.epochs()`.
    """

    pipeline: Pipeline
    skipped: SkippedSteps = NONE_SKIPPED
    in_epochs: bool = False

    @classmethod
    def of(cls, loader: Any) -> Described:
        """Return the description of a loader, a dataset, these on devices, an iterator or feeder.

        Raises:
            TypeError: `loader` is none of these.
        """
        if isinstance(loader, (DeviceLoader, HostLoader)):
            return cls.of(loader.source)
        if (iterator := iterator_of(loader)) is not None:
            pipeline, skipped = iterator.as_made
            sampler = pipeline.leaves[0].sampler
            if sampler.whole is sampler:
                return cls(pipeline, skipped)
            whole = pipeline.with_leaf(sampler=sampler.whole, epoch=0)
            return cls(whole, skipped, in_epochs=True)
        loader = loader.to_iter_dataset() if isinstance(loader, MapDataset) else loader
        if isinstance(loader, (LoaderMethods, IterMethods)):
            return cls(loader.loader_description.pipeline, loader.loader_description.skipped_steps)
        raise TypeError(
            f"{a_kind_of(loader)} is not a loader. Pass a DataLoader, a MapDataset or an "
            "IterDataset."
        )

    def on(self, shard: ShardOptions) -> Described:
        if shard == self.pipeline.shard:
            return self
        leaves = []
        for leaf in self.pipeline.leaves:
            sampler = (
                leaf.sampler
                if leaf.lineage.order_shards
                else leaf.sampler.with_shard_options(shard)
            )
            leaves.append(replace(leaf, shard=shard, sampler=sampler))
        return replace(self, pipeline=replace(self.pipeline, leaves=tuple(leaves)))

    def shard(self, index: int, count: int) -> ShardOptions:
        return ShardOptions(index, count, self.pipeline.shard.drop_remainder)

    def in_epoch(self, epoch: int) -> Described:
        return replace(self, pipeline=one_epoch(self.pipeline, epoch))

    def stand(self, states: Sequence[LoaderState], strict: bool) -> StreamPosition:
        """Return the position of the run of this stream's shard.

        That is the position of its shard's state; or the position after all states of a run with
        another number of shards; or, without states, the beginning.

        Args:
            states: the states.
            strict: False accepts states of another source, sampler or other operations.

        Raises:
            CheckpointError: a state belongs to another pipeline, or states of shards are missing.
        """
        iterator = DataLoaderIterator(self.pipeline, HERE, None, self.skipped)
        own = (self.pipeline.shard.shard_index, self.pipeline.shard.shard_count)
        if len(states) == 1 and states[0].shard == own:
            iterator.set_state(states[0].to_json(), strict)
        elif states:
            iterator.set_states([state.to_json() for state in states], strict)
        return iterator.here()


def iterator_of(loop: Any) -> DataLoaderIterator | None:
    """Return the `DataLoader`'s iterator of a loop, if it has one.

    It is the loop itself, or that of a feeder or of `loader.epochs()`. Return None otherwise.
    """
    return host_iterator(loop.open_epoch if isinstance(loop, Epochs) else loop)


def states_of(checkpoint: Any, step: int | None = None) -> list[LoaderState]:
    """Return the states of a checkpoint.

    It is a file or folder, or results of `get_state` of one shard or of all shards.

    Args:
        checkpoint: the checkpoint.
        step: in a folder with several checkpoints, the last one that is not after this step is
            used; if all are after it, the first one.

    Raises:
        CheckpointError: there is no checkpoint, or there are several and `step` is None or does not
            choose one; or a state is missing or cannot be read.
    """
    if isinstance(checkpoint, (str, Path)):
        return list(states_at(Path(checkpoint), step))
    if isinstance(checkpoint, dict):
        return [LoaderState.from_json(json.dumps(checkpoint))]
    if isinstance(checkpoint, (list, tuple)):
        return [state for each in checkpoint for state in states_of(each, step)]
    if not isinstance(checkpoint, (bytes, bytearray)):
        raise CheckpointError(
            f"{a_kind_of(checkpoint)} is not a checkpoint. Pass its path, or what get_state() "
            "returned."
        )
    return [LoaderState.from_json(bytes(checkpoint))]
