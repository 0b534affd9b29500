"""The function `load`: the short form of a `DataLoader` with an `IndexSampler`.

In: the user's arguments. Out: a `DataLoader`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Never, Unpack

from ..common.validation import true_or_false
from ..operations import Batch
from ..samplers import BlockShuffle, IndexSampler, NoSharding, ShardOptions
from ..sources import as_source
from .arguments import LoaderOptions, as_list, balance_of, refuse, sampler_alone

if TYPE_CHECKING:
    from ..samplers.balance import BalanceLike
    from ..samplers.protocol import SamplerLike
    from ..sources.lengths import LengthsLike
    from ..sources.protocol import SourceLike
    from .data_loader import DataLoader


_OF_LOAD = [
    "num_epochs",
    "shuffle",
    "seed",
    "shard_options",
    "transformations",
    "batch_size",
    "drop_remainder",
]
_OF_LOAD += ["balance", "lengths", "sampler"]


def load(
    source: SourceLike,
    *unnamed: Never,
    num_epochs: int | None = None,
    shuffle: bool | BlockShuffle = False,
    seed: int | None = None,
    shard_options: ShardOptions | None = None,
    transformations: Sequence[Any] = (),
    batch_size: int | None = None,
    drop_remainder: bool = False,
    balance: BalanceLike | None = None,
    lengths: LengthsLike | None = None,
    sampler: SamplerLike | None = None,
    **options: Unpack[LoaderOptions],
) -> DataLoader:
    """Make a `DataLoader` in one line.

    The loader reads all records, in order or shuffled, applies the transformations, and makes
    batches.

    Args:
        source: as `data_source` of `DataLoader`.
        num_epochs: number of epochs. None (default): endless.
        shuffle: True: permute each epoch; or a `BlockShuffle`. Needs `seed`. Default False.
        seed: seed of the random order and of random operations, an int in `[0, 2^32)`.
        shard_options: the part of the stream for this process. None (default): the whole stream; if
            `sampler` is given, the sampler's own `shard_options`.
        transformations: operations before the batch.
        batch_size: number of elements in a batch. None (default): single elements.
        drop_remainder: True: drop a last batch that is not full. For shards of unequal length, see
            `ShardOptions`.
        balance: gives all shards records of equal cost in each global batch. None (default): no
            balance. True: the cost of a record is its length. A function that takes an array of
            lengths and returns costs, such as `attention(a, b)`. Or a `Balance`.
        lengths: lengths for `balance`. None (default): from the source. An array: one for each
            record. A string: the name of a field with the length. A function that takes a record
            and returns its length; then all records are read when the loader is made.
        sampler: as in `DataLoader`, instead of `num_epochs`, `shuffle`, `seed`, `balance` and
            `lengths`. Default None.
        *unnamed: not accepted: all arguments except the source must be passed by name.
        **options: the other arguments of `DataLoader`: `worker_count`, `read_options`, `timeout`,
            `on_error` and so on.

    Raises:
        TypeError, ValueError: if an argument is wrong, as in `DataLoader` and its sampler.

    >>> import numpy as np
    >>> batches = load({"x": np.arange(6)}, shuffle=True, seed=0, batch_size=3, num_epochs=1)
    >>> sorted(np.concatenate([batch["x"] for batch in batches]).tolist())
    [0, 1, 2, 3, 4, 5]
    """
    from .data_loader import DataLoader

    options_of_load = [*_OF_LOAD, *LoaderOptions.__annotations__]
    refuse(
        "load", unnamed, [name for name in options if name not in options_of_load], options_of_load
    )
    records = as_source(source)
    if sampler is None:
        costs = balance_of(records, balance, lengths)
        sampler = IndexSampler(
            len(records), shard_options or NoSharding(), shuffle, num_epochs, seed, balance=costs
        )
        shard_options = None
    else:
        sampler_alone(
            num_epochs=num_epochs,
            shuffle=shuffle or None,
            seed=seed,
            balance=balance,
            lengths=lengths,
        )
    drops = true_or_false("drop_remainder", drop_remainder)
    batch = [] if batch_size is None else [Batch(batch_size, drops)]
    return DataLoader(
        data_source=records,
        sampler=sampler,
        operations=[*as_list("transformations", transformations), *batch],
        shard_options=shard_options,
        **options,
    )
