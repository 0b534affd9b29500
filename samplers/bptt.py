"""An order in which each row of a batch continues the same row of the batch before.

In: positions. Out: record keys. Pure arithmetic with O(1) memory.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from ..common.validation import whole_number, whole_number_or_none
from .facts import OrderFacts
from .protocol import ENDLESS, Int64s, VectorSampler
from .sharding import NoSharding, ShardOptions, as_shard_options


@dataclass(frozen=True)
class BpttSampler(VectorSampler):
    """Read batches whose rows continue from one to the next, for truncated BPTT.

    BPTT is backpropagation through time.

    The records are divided into `batch_size` parts of neighbouring records, all of the same length,
    and row r of the batches reads the records of part r, one after the other. So a model can keep
    the hidden state of a row from one batch to the next. The rows begin again in each epoch: reset
    the hidden state at each step that is a multiple of `steps_per_epoch`.

    The records are, for example, the windows of a `TokenSource`, which follow one another in the
    text. Up to `batch_size - 1` records at the end of the source are not read, because the parts
    have equal lengths.

    Args:
        num_records: number of records, 1 to 2^55.
        batch_size: number of rows in a batch of all shards together. Use `Batch(batch_size //
            shard_count)`, with no operation before it that leaves out or adds records.
        shard_options: the shard of this process; default `NoSharding()`. Row r of a shard's batches
            is row `r * shard_count + shard_index` of the batches of all shards, in every batch.
        num_epochs: number of epochs; None (default) for no end.
        seed: an int in `[0, 2^32)` for random operations; None (default): the loader can have none.

    Raises:
        ValueError: if a number is outside its range, there are fewer records than `batch_size`, or
            `batch_size` is not a multiple of the number of shards.
        TypeError: if a number is not an int, or `shard_options` has the wrong type.

    >>> from headrace import Batch, DataLoader
    >>> sampler = BpttSampler(num_records=8, batch_size=2, num_epochs=1)
    >>> loader = DataLoader(data_source=range(8), sampler=sampler, operations=[Batch(2)])
    >>> [batch.tolist() for batch in loader]
    [[0, 4], [1, 5], [2, 6], [3, 7]]
    """

    num_records: int
    batch_size: int
    shard_options: ShardOptions = field(default_factory=NoSharding)
    num_epochs: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        shard = as_shard_options(self.shard_options)
        records = whole_number(
            "num_records",
            self.num_records,
            1,
            1 << 55,
            "the number of records in the source, len(source)",
        )
        rows = whole_number(
            "batch_size",
            self.batch_size,
            1,
            records,
            f"an int of at most {records}, the number of records",
        )
        epochs = whole_number_or_none(
            "num_epochs", self.num_epochs, 1, None, "a positive int, or None for an endless stream"
        )
        seed = whole_number_or_none(
            "seed", self.seed, 0, (1 << 32) - 1, "an int in [0, 2^32), seed=0 for example"
        )
        if rows % shard.shard_count:
            raise ValueError(
                f"batch_size={rows} cannot be divided among {shard.shard_count} shards. Pass a "
                f"multiple of {shard.shard_count}, so that each row of a shard's batches continues."
            )
        vars(self).update(
            num_records=records, batch_size=rows, shard_options=shard, num_epochs=epochs, seed=seed
        )

    def __len__(self) -> int:
        """Return the number of positions of all shards together; `sys.maxsize` if endless."""
        return ENDLESS if self.num_epochs is None else self.length_over(self.num_epochs)

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches in an epoch."""
        return self.num_records // self.batch_size

    @property
    def epoch_length(self) -> int:
        """Number of positions in an epoch."""
        return self.steps_per_epoch * self.batch_size

    @property
    def facts(self) -> OrderFacts:
        return OrderFacts(records=self.num_records, same_records=True, has_later_epochs=True)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The values that determine the order, as JSON values, without the shard."""
        names = ("num_records", "batch_size", "num_epochs", "seed")
        return {"kind": "BpttSampler", **{name: vars(self)[name] for name in names}}

    def record_keys(self, positions: Int64s) -> Int64s:
        """Return the record keys `int64[n]` at global positions `int64[n]` in `[0, len(self))`."""
        step, row = np.divmod(positions, self.batch_size)
        keys: Int64s = row * self.steps_per_epoch + step % self.steps_per_epoch
        return keys

    def position_of(self, record_key: int, epoch: int) -> int | None:
        """Return the global position of a record within an epoch, in O(1).

        Return None if the order does not read the record.
        """
        if record_key >= self.epoch_length:
            return None
        row, step = divmod(record_key, self.steps_per_epoch)
        return (epoch * self.steps_per_epoch + step) * self.batch_size + row

    def over(self, epochs: int | None) -> Self:
        """Return the same order with `epochs` times as many epochs.

        The result is endless if `epochs` is None or this order is endless.
        """
        whole = None if epochs is None or self.num_epochs is None else self.num_epochs * epochs
        return dataclasses.replace(self, num_epochs=whole)

    def with_shard_options(self, shard_options: ShardOptions) -> Self:
        """Return this sampler for the shard `shard_options`."""
        return dataclasses.replace(self, shard_options=shard_options)
