"""What a loader makes of a source that grows: the order of its records, and when more of them come in.

In: what the user passed. Out: the same, checked.
"""

from __future__ import annotations

from typing import Any

from ...common.messages import short_repr
from ...samplers import ShardOptions
from ...samplers.changing.growth import Growth
from ...samplers.changing.living import OmittedKeys
from ...samplers.changing.sampler import ChangingSampler


def growth_of(source: Any, growth: Any, shard: ShardOptions) -> Growth | None:
    """What the user wants, of a source that grows; None: nothing is appended while a run goes on.

    Raises:
        TypeError, ValueError: it is not of its kind; the source does not grow; several shards have no place for their log.
    """
    wanted = Growth(growth) if isinstance(growth, str) else growth
    if wanted is not None and not isinstance(wanted, Growth):
        raise TypeError(f'growth={short_repr(growth)} must be "epoch", "now", "hand" or a headrace.Growth.')
    if not getattr(source, "growing", False):
        if wanted is not None and wanted.at != "hand":
            raise ValueError(
                f"growth={wanted.at!r} needs a source that grows, and {type(source).__name__} has the records that it has; "
                "make it with growing=True, or leave out growth=."
            )
        return None
    wanted = wanted or Growth()
    if wanted.at == "hand":
        return None
    if shard.shard_count > 1 and wanted.log is None and source.generation_folder is None:
        raise ValueError(
            f"{shard.shard_count} shards must take in what is appended at the same step, and the folder beside the data cannot "
            'be written; pass growth=headrace.Growth(log="a folder that all shards can write to"), or growth="hand".'
        )
    return wanted


def growing_order(sampler: Any, source: Any) -> Any:
    """The order of a source that has generations, as one that changes; any other order as it is.

    Raises:
        ValueError: the sampler has no such order, or is not one of all records.
    """
    if not hasattr(source, "at_generation") or isinstance(sampler, ChangingSampler):
        return sampler
    if not hasattr(sampler, "resized") and not source.growing:
        return sampler
    changing = ChangingSampler(sampler, OmittedKeys(), source.generation)
    if changing.num_records == len(source):
        return changing
    if not source.growing:
        return sampler
    raise ValueError(
        f"the sampler covers {changing.num_records} records and the source, which grows, has {len(source)}; pass "
        "num_records=len(source), or growing=False to the source."
    )
