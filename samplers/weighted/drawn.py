"""Base of samplers that draw records, with a number of samples per epoch that the user chooses.

In: the user's arguments. Out: lengths, and record keys.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from ...common.messages import short_repr
from ...common.validation import whole_number, whole_number_or_none
from ..balance import Balance, checked
from ..facts import OrderFacts
from ..protocol import ENDLESS, Int64s, VectorSampler
from ..sharding import NoSharding, ShardOptions, as_shard_options

BLOCK = 16384
"""Number of positions to compute at a time."""

MOST_SAMPLES = 1 << 55


class DrawnRecords(VectorSampler):
    """Base of samplers whose epochs have a number of samples that the user chooses.

    A subclass sets `num_records` before it calls `__init__`.

    Args:
        num_samples: number of positions in an epoch.
        most: maximal value of `num_samples`.
        remedy: what to pass instead, for error messages.
        num_epochs: number of epochs; None for no end.
        seed: an int in `[0, 2^32)`.
        shard: the shard of this process; None: no sharding.
        balance: a `Balance` with a length for each record, or None.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if a number is outside its range.
        LengthsError: if `balance` has fewer lengths than there are records.
    """

    of_each_record: ClassVar[str]
    """Plural noun for what the user gives for each record, for errors: "labels" or "weights"."""

    num_records: int
    shard_options: ShardOptions
    seed: int

    def __init__(
        self,
        num_samples: int,
        most: int,
        remedy: str,
        num_epochs: int | None,
        seed: int,
        shard: ShardOptions | None,
        balance: Balance | None,
    ) -> None:
        self.num_samples = whole_number("num_samples", num_samples, 1, most, remedy)
        self.num_epochs = whole_number_or_none(
            "num_epochs", num_epochs, 1, None, "a positive int, or None for an endless stream"
        )
        self.seed = whole_number(
            "seed", seed, 0, (1 << 32) - 1, "an int in [0, 2^32), seed=0 for example"
        )
        self.shard_options = as_shard_options(shard or NoSharding())
        self.balance = None if balance is None else checked(balance).covering(self.num_records)

    def for_source(self, records: int, part: str | None = None) -> Self:
        """Return this sampler, after checking that a source has the sampler's number of records.

        Args:
            records: number of records of the source.
            part: name of the source in a mix; None if there is no mix.

        Raises:
            ValueError: if the source has another number of records.
        """
        if records != self.num_records:
            source_or_part = "the source" if part is None else f"part {short_repr(part)}"
            raise ValueError(
                f"the sampler has {self.num_records} {self.of_each_record}, but {source_or_part} "
                f"has {records} records. Pass one for each record."
            )
        return self

    @property
    def _balance_entry(self) -> dict[str, Any]:
        """The entry `balance` of the fingerprint, in a dict; {} if there is no balance."""
        return {} if self.balance is None else {"balance": self.balance.fingerprint}

    def __len__(self) -> int:
        """Return the number of positions of all shards together; `sys.maxsize` if endless.

        With `drop_remainder`, positions that cannot be divided evenly over the shards do not count.
        """
        return self.of_equal_shards(self._total)

    @property
    def _total(self) -> int:
        return ENDLESS if self.num_epochs is None else self.length_over(self.num_epochs)

    @property
    def epoch_length(self) -> int:
        """Number of positions in an epoch."""
        return self.num_samples

    @property
    def facts(self) -> OrderFacts:
        return OrderFacts(
            BLOCK, records=self.num_records, balance=self.balance, has_later_epochs=True
        )

    def record_keys(self, positions: Int64s) -> Int64s:
        """Return the record keys at positions.

        Args:
            positions: `int64[n]`, global positions in `[0, len(self))`; not checked.

        Returns:
            `int64[n]` in `[0, num_records)`.
        """
        records = np.empty(len(positions), dtype=np.int64)
        for start in range(0, len(positions), BLOCK):
            some = slice(start, start + BLOCK)
            records[some] = self._records_at(positions[some])
        return records

    def _records_at(self, positions: Int64s) -> Any:
        raise NotImplementedError
