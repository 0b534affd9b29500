"""Pipelines of growing sources: the order of their records, and when new records are added to it.

In: the user's arguments; a pipeline. Out: checked arguments; the pipeline over another generation
(version of the source's files).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ...common.messages import short_repr, shorten
from ...common.validation import one_of
from ...samplers import ShardOptions
from ...samplers.changing.growth import TIMES, GrowthOptions, SourceLooks
from ...samplers.changing.orders import ChangingOrders, living
from ...samplers.changing.sampler import refuse_balance
from ...samplers.history import ONLY
from ...samplers.mix.looks import MixLooks
from ...samplers.protocol import VectorSampler
from ...sources import as_source, fingerprint_of
from ...sources.facts import Generations, facts_of
from ...sources.mixed.source import MixedSource
from .leaf import Leaf
from .pipeline import Pipeline


def growth_of(source: Any, growth: Any, shard: ShardOptions) -> GrowthOptions | None:
    """Check the user's argument `growth`, and return it as `GrowthOptions`.

    Return None if no records are added during a run.

    Args:
        source: source, or mix of sources, of the records.
        growth: "epoch", "now", "hand", `GrowthOptions`, or None, which means "epoch" for sources
            that grow.
        shard: shard of this process.

    Raises:
        TypeError: `growth` is neither a text, `GrowthOptions` nor None.
        ValueError: `growth` is an unknown text; or it asks for new records during the run ("epoch"
            or "now"), and the source does not grow, or is derived from a growing source; or several
            shards have no common folder for their log.
    """
    wanted = GrowthOptions(one_of("growth", growth, *TIMES)) if isinstance(growth, str) else growth
    if wanted is not None and not isinstance(wanted, GrowthOptions):
        raise TypeError(
            f'growth={short_repr(growth)} is not a known value. Pass "epoch", "now", "hand" or a '
            "headrace.GrowthOptions."
        )
    growing, parts = growing_parts(source), source.parts if isinstance(source, MixedSource) else {}
    held = any(facts_of(part).grows for name, part in parts.items() if name not in growing)
    if not growing or held:
        if facts_of(source).grows and (wanted is None or wanted.at != "hand"):
            given = '"epoch" (the default)' if wanted is None else f"{wanted.at!r}"
            raise ValueError(
                f"growth={given} works for a source that is read in whole epochs, and for parts of "
                "a MixSampler. A Subset, or a dataset that is sliced, mixed or joined, reads only "
                "the records that exist when it is made. Only shuffle(), and after it repeat(), "
                'may reorder the dataset. Pass growth="hand" to read only these records.'
            )
        if wanted is not None and wanted.at != "hand":
            raise ValueError(
                f"growth={wanted.at!r} needs a growing source, but {type(source).__name__} has a "
                "fixed number of records. Make the source with growing=True, or leave out growth=."
            )
        return None
    wanted = wanted or GrowthOptions()
    if wanted.at == "hand":
        return None
    if shard.shard_count > 1 and wanted.log is None and decision_folder(growing) is None:
        raise ValueError(
            f"{shard.shard_count} shards must begin to read appended records at the same step. "
            "They write this step to a folder beside the data, but this folder does not exist or "
            f'cannot be written. Pass growth=headrace.GrowthOptions({wanted.at!r}, log="a folder '
            'that all shards can write to"), or growth="hand", which reads only the records that '
            "exist now."
        )
    return wanted


def generations_of(source: Any) -> dict[str, Generations]:
    """Return, by name, objects that list the generations (file versions) of each source of a mix.

    The name of a single source is "" (`ONLY`). Sources without generations are left out.
    """
    parts = source.parts if isinstance(source, MixedSource) else {ONLY: source}
    found = {name: facts_of(part).generations for name, part in parts.items()}
    return {name: each for name, each in found.items() if each is not None}


def growing_parts(source: Any) -> dict[str, Generations]:
    """Return the entries of `generations_of(source)` for sources that may get more records."""
    return {name: each for name, each in generations_of(source).items() if each.growing}


def decision_folder(growing: Mapping[str, Generations]) -> str | None:
    """Return the folder beside the data for the log of appended records; None if not writable.

    Args:
        growing: result of `growing_parts`. The folder is beside the data of the first of them by
            name.
    """
    return growing[min(growing)].generation_folder


def growing_order(sampler: VectorSampler, source: Any, by_hand: bool = False) -> VectorSampler:
    """Convert the order of a source with generations (file versions) to an order that can change.

    Any other order is returned unchanged.

    Args:
        sampler: order of the records.
        source: source of the records; a mix of sources for a mix.
        by_hand: True if no records are added during a run. Then a part of a mix whose order cannot
            change keeps its order.

    Raises:
        ValueError: the source grows, and the sampler cannot change, or covers another number of
            records than the source has. For a mix, this is an error only if `by_hand` is False; it
            is then also an error if the mix is balanced by cost.
    """
    if sampler.facts.parts:
        return _growing_mix(sampler, source, by_hand)
    own = facts_of(source).generations
    grows, generation = (own.growing, own.generation) if own is not None else (False, 0)
    if not (grows or (generation and sampler.facts.can_change)):
        return sampler
    changing = living(sampler, generation)
    if changing is sampler or changing.num_records == len(source):
        return changing  # type: ignore[no-any-return]
    if not grows:
        return sampler
    raise ValueError(
        f"the sampler covers {changing.num_records} records, but the growing source has "
        f"{len(source)}. Pass num_records=len(source), or growing=False to the source."
    )


def _growing_mix(mix: VectorSampler, source: MixedSource, by_hand: bool) -> VectorSampler:
    """Return a mix in which each part whose source grows has an order that can change.

    A part that reads a later generation (version of its files) than the first has such an order,
    too, if that is possible.

    Args:
        mix: the mix.
        source: its sources.
        by_hand: True if no records are added during a run. Then a part whose order cannot change
            keeps its order. False: such a part is an error.

    Raises:
        ValueError: `by_hand` is False, and the order of a growing part cannot change, or does not
            have all records of its source, or the mix is balanced by cost and a part's order would
            change.
    """
    parts: dict[str, Any] = {}
    for name, part in mix.parts.items():
        try:
            changing = growing_order(part, source.parts[name])
            if changing is not part:
                refuse_balance(mix)
                parts[name] = changing
        except ValueError as error:
            if not by_hand:
                raise ValueError(
                    f"part {short_repr(name)} of the mix: {shorten(error, 400)}."
                ) from None
    return mix.with_parts(parts) if parts else mix


def orders_of(leaf: Leaf) -> ChangingOrders:
    """Return the order of each part of a mix whose source may get more records, by name.

    Other parts are left out. A single source that may get more records has the name "" (`ONLY`).

    Args:
        leaf: the source, or mix of sources, with its sampler.
    """
    return {name: leaf.sampler.parts[name] for name in growing_parts(leaf.source)}  # type: ignore[misc]


def looks_of(growth: GrowthOptions, leaf: Leaf, begin: int) -> SourceLooks | MixLooks:
    """Return an object that gives the positions at which a run checks for appended records.

    Args:
        growth: the user's options.
        leaf: a source, or mix of sources, with its sampler.
        begin: first position at which a check can be.
    """
    order: Any = leaf.sampler
    if order.facts.parts:
        return MixLooks(growth, order, growing_parts(leaf.source), begin)
    return SourceLooks(growth, order, begin)


def at_generations(pipeline: Pipeline, generations: Mapping[str, int]) -> Pipeline:
    """Return a pipeline over other generations (versions of the sources' files).

    Args:
        pipeline: the pipeline.
        generations: for each part of a mix, by name, the number of the generation to read. A single
            source has the name "" (`ONLY`).

    Raises:
        SourceError: a source does not have its generation.
    """
    leaf = pipeline.leaf
    parts: dict[str, Any] = {name: leaf.sampler.parts[name] for name in generations}
    others = {
        name: generations[name]
        for name, part in parts.items()
        if part.generation != generations[name] or part.history.changes
    }
    if not others:
        return pipeline
    source = source_at(leaf.source, others)
    sources = source.parts if leaf.has_parts else {ONLY: source}
    orders = {
        name: parts[name].of_generation(number, len(sources[name]))
        for name, number in others.items()
    }
    snapshot = dataclasses.replace(pipeline.snapshot, sources=(fingerprint_of(source),))
    other = pipeline.with_leaf(source=source, sampler=leaf.sampler.with_parts(orders))
    return dataclasses.replace(other, snapshot=snapshot)


def source_at(source: Any, generations: Mapping[str, int]) -> Any:
    """Return a source, or mix of sources, as it is in other generations (versions of its files).

    Args:
        source: the source.
        generations: for each part of the mix, by name, the number of the generation; a single
            source has the name "" (`ONLY`).

    Raises:
        SourceError: a generation does not exist, or a file was modified.
    """
    others = {
        name: generations_of(source)[name].at_generation(number)
        for name, number in generations.items()
    }
    return (
        MixedSource({**source.parts, **others})
        if isinstance(source, MixedSource)
        else as_source(others[ONLY])
    )


def epoch_at_generation(pipeline: Pipeline, generation: int) -> Pipeline:
    """Return the pipeline of one epoch over another generation (version of the source's files).

    Raises:
        SourceError: the source does not have this generation.
    """
    sampler = pipeline.leaf.sampler
    whole = at_generations(pipeline.with_leaf(sampler=sampler.whole), {ONLY: generation})
    return whole.with_leaf(sampler=sampler.with_whole(whole.leaf.sampler))
