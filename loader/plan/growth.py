"""Pipelines of sources that grow: the order of their records, and when more of them come in.

In: what the user passed; a pipeline. Out: the same, checked; the pipeline over another generation.
"""

from __future__ import annotations

import dataclasses
from typing import Any, cast

from ...common.messages import short_repr
from ...samplers import ShardOptions
from ...samplers.changing.growth import GrowthOptions
from ...samplers.changing.living import OmittedKeys
from ...samplers.changing.sampler import ChangingSampler
from ...samplers.one_epoch import OneEpoch
from ...sources import fingerprint_of
from ...sources.protocol import grows_within
from .leaf import Leaf
from .pipeline import Pipeline


def growth_of(source: Any, growth: Any, shard: ShardOptions) -> GrowthOptions | None:
    """Checks what the user wants of a source that grows. Returns None where nothing is appended while a run goes on.

    Raises:
        TypeError, ValueError: it is not of its kind; the source does not grow, or is made of one that does; several shards have
            no place for their log.
    """
    wanted = GrowthOptions(cast(Any, growth)) if isinstance(growth, str) else growth
    if wanted is not None and not isinstance(wanted, GrowthOptions):
        raise TypeError(f'growth={short_repr(growth)} must be "epoch", "now", "hand" or a headrace.GrowthOptions.')
    if not getattr(source, "growing", False):
        if grows_within(source) and (wanted is None or wanted.at != "hand"):
            raise ValueError(
                f"growth={wanted.at if wanted else 'epoch'!r} takes in what is appended to one source, read in whole epochs. A "
                "mix, a subset, and a chain of datasets that slices, joins, or repeats batches, keep the records that there "
                'are when they are made; pass growth="hand" to say so.'
            )
        if wanted is not None and wanted.at != "hand":
            raise ValueError(
                f"growth={wanted.at!r} needs a source that grows, and {type(source).__name__} has the records that it has; "
                "make it with growing=True, or leave out growth=."
            )
        return None
    wanted = wanted or GrowthOptions()
    if wanted.at == "hand":
        return None
    if shard.shard_count > 1 and wanted.log is None and source.generation_folder is None:
        raise ValueError(
            f"{shard.shard_count} shards must take in what is appended at the same step, and the folder beside the data cannot "
            'be written; pass growth=headrace.GrowthOptions(log="a folder that all shards can write to"), or growth="hand".'
        )
    return wanted


def growing_order(sampler: Any, source: Any) -> Any:
    """The order of a source that has generations, as one that changes; any other order as it is.

    Raises:
        ValueError: the sampler has no such order, or is not one of all records.
    """
    grows, generation = getattr(source, "growing", False), getattr(source, "generation", 0)
    if not (grows or generation) or isinstance(sampler, ChangingSampler):
        return sampler
    if not hasattr(sampler, "resized") and not grows:
        return sampler
    changing = ChangingSampler(sampler, OmittedKeys(), generation)
    if changing.num_records == len(source):
        return changing
    if not grows:
        return sampler
    raise ValueError(
        f"the sampler covers {changing.num_records} records and the source, which grows, has {len(source)}; pass "
        "num_records=len(source), or growing=False to the source."
    )


def order_of(leaf: Leaf) -> ChangingSampler:
    """The order of a leaf whose source grows."""
    assert isinstance(leaf.sampler, ChangingSampler), "sources that grow have such orders"
    return leaf.sampler


def epoch_at_generation(pipeline: Pipeline, generation: int) -> Pipeline:
    """The pipeline of one epoch, over another generation of its source."""
    order = pipeline.leaf.sampler
    assert isinstance(order, OneEpoch), "it is one of a loop per epoch"
    whole = at_generation(pipeline.with_leaf(dataclasses.replace(pipeline.leaf, sampler=order.sampler)), generation)
    epoch = OneEpoch(whole.leaf.sampler, order.epoch, whole.leaf.sampler.epoch_length)
    return whole.with_leaf(dataclasses.replace(whole.leaf, sampler=epoch))


def at_generation(pipeline: Pipeline, generation: int) -> Pipeline:
    """The pipeline, as its loader made it, over another generation of its source."""
    leaf, sampler = pipeline.leaf, order_of(pipeline.leaf)
    if sampler.generation == generation and not sampler.changes:
        return pipeline
    source = leaf.source.at_generation(generation)
    order = ChangingSampler(sampler.sampler.resized(len(source)), sampler.omitted, generation)
    order = order.with_shard_options(sampler.shard_options)
    assert pipeline.identity is not None
    identity = dataclasses.replace(pipeline.identity, source=fingerprint_of(source))
    return dataclasses.replace(
        pipeline, leaves=(dataclasses.replace(leaf, source=source, sampler=order),), identity=identity
    )
