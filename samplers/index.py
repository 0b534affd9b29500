"""The two samplers that most runs use: every record once in each epoch, in order or shuffled.

In: positions of the global order, `int64[n]`. Out: record keys, `int64[n]`. Memory does not grow
with the number of records.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from ..common.messages import short_repr
from ..common.validation import one_of, true_or_false, whole_number, whole_number_or_none
from ..migration_hints.decorators import explains_init
from ..migration_hints.remarks import Remarks
from .balance import Balance, checked
from .block_shuffle import BlockOrder, BlockShuffle
from .facts import OrderFacts
from .permutation import MAX_SIZE, permute, unpermute
from .protocol import ENDLESS, Int64s, VectorSampler
from .sharding import NoSharding, ShardOptions, as_shard_options

if TYPE_CHECKING:
    from .grain.grain_order import GrainOrder


@explains_init
@dataclass(frozen=True)
class IndexSampler(Remarks, VectorSampler):
    """Read every record once in each epoch; O(1) memory, and O(1) time for any position.

    The order is global: the epoch of a position is `position // num_records`, and shard s of S
    reads the positions s, s + S, s + 2S, … So the shards together read, step by step, what one
    loader without shards would read. With several epochs, the positions of a shard continue across
    the ends of epochs.

    Args:
        num_records: number of records, 1 to 2^55.
        shard_options: the shard of this process; default `NoSharding()`.
        shuffle: False (default) keeps the order of the source. True gives each epoch another random
            order. `BlockShuffle(…)` permutes blocks of neighbouring records and shuffles some
            blocks together, for files in stores, where random reads are slow.
        num_epochs: number of epochs; None (default) for no end, with `len()` equal to
            `sys.maxsize`.
        seed: an int in `[0, 2^32)`; required to shuffle and by random operations.
        algorithm: "headrace" (default; shuffles well at every size, see docs/shuffle.md) or
            "grain", which gives the order of Grain's IndexSampler for the same arguments (except
            that no record comes twice where Grain repeats one, see docs/shuffle.md). With "grain",
            each shard shuffles its own contiguous part of the records; but if `shard_options` is
            only given to the loader, shards read parts of one order.
        balance: a `Balance`, with which loaders divide the records of each global batch among the
            shards by cost; None (default): in turn. `record_keys` returns the order before this
            division.

    Raises:
        ValueError: if an argument is outside its range, `shuffle` is given without `seed`, or
            `algorithm="grain"` is combined with a `BlockShuffle`, a `balance` or a shard without
            records.
        TypeError: if a number is not an int, `shuffle` is neither a bool nor a `BlockShuffle`,
            `shard_options` has the wrong type, or `balance` is not a `Balance`.
        LengthsError: if `balance` has fewer lengths than there are records, or lengths by part.

    >>> import numpy as np
    >>> sampler = IndexSampler(num_records=5, shuffle=True, seed=1, num_epochs=2)
    >>> len(sampler), sorted(sampler.record_keys(np.arange(5)).tolist())
    (10, [0, 1, 2, 3, 4])
    >>> int(sampler.record_keys(np.array([7]))[0]) == sampler[7].record_key
    True
    """

    _asked_as = "IndexSampler"

    num_records: int
    shard_options: ShardOptions = field(default_factory=NoSharding)
    shuffle: bool | BlockShuffle = False
    num_epochs: int | None = None
    seed: int | None = None
    algorithm: Literal["headrace", "grain"] = "headrace"
    balance: Balance | None = None

    def __post_init__(self) -> None:
        vars(self).update(
            num_records=whole_number(
                "num_records",
                self.num_records,
                1,
                MAX_SIZE,
                "the number of records in the source, len(source)",
            ),
            num_epochs=whole_number_or_none(
                "num_epochs",
                self.num_epochs,
                1,
                None,
                "a positive int, or None for an endless stream",
            ),
            shard_options=as_shard_options(self.shard_options),
            shuffle=self.shuffle
            if isinstance(self.shuffle, BlockShuffle)
            else true_or_false("shuffle", self.shuffle, "True, False or headrace.BlockShuffle(…)"),
            seed=whole_number_or_none(
                "seed", self.seed, 0, (1 << 32) - 1, "an int in [0, 2^32), seed=0 for example"
            ),
        )
        if self.shuffle and self.seed is None:
            raise ValueError(
                f"shuffle={short_repr(self.shuffle)} needs a seed. Pass seed=0, or another int in "
                "[0, 2^32)."
            )
        one_of("algorithm", self.algorithm, "headrace", "grain")
        if self.algorithm == "grain" and isinstance(self.shuffle, BlockShuffle):
            raise ValueError(
                "shuffle=BlockShuffle(…) works only with headrace's own order. "
                'Leave out algorithm="grain".'
            )
        if self.balance is None:
            # An operation that holds a sampler is identified by its attributes.
            del vars(self)["balance"]
        elif checked(self.balance) and self.algorithm == "grain":
            raise ValueError(
                'balance= needs one order for all shards, but algorithm="grain" gives each shard '
                "an order of its own. Leave out algorithm=."
            )
        else:
            self.balance.covering(self.num_records)
        if self.algorithm == "grain":
            self._check_part()

    def _check_part(self) -> None:
        self._grain_order().refuse_empty_part()

    def __len__(self) -> int:
        """Return the number of positions of all shards together; `sys.maxsize` if endless.

        With `drop_remainder`, positions that cannot be divided evenly among the shards are not
        counted. There are such positions at the end of all epochs; with `algorithm="grain"`, at the
        end of each epoch.
        """
        if self.num_epochs is None:
            return ENDLESS
        if self.algorithm == "grain":
            return min(self.of_equal_shards(self.num_records) * self.num_epochs, ENDLESS)
        return self.of_equal_shards(self.length_over(self.num_epochs))

    @property
    def epoch_length(self) -> int:
        """Number of positions in an epoch."""
        return self.num_records

    @property
    def epoch_count(self) -> int | None:
        """Number of epochs, counting an incomplete last one; None: the order is endless.

        With `algorithm="grain"` this is `num_epochs`, on every shard.
        """
        count = super().epoch_count
        return self.num_epochs if count and self.algorithm == "grain" else count

    @property
    def epoch_stride(self) -> int:
        """Number of global positions between the starts of consecutive epochs of this shard.

        This is `num_records`; with `algorithm="grain"`, this shard's number of records times the
        number of shards.
        """
        if self.algorithm == "grain":
            return self._grain_order().part()[1] * self.shard_options.shard_count
        return self.num_records

    @property
    def facts(self) -> OrderFacts:
        return OrderFacts(
            block_size=self._block_size,
            records=self.num_records,
            balance=self.balance,
            shuffle=self.shuffle,
            shards="own" if self.algorithm == "grain" else "stripe",
            same_records=True,
            has_later_epochs=True,
            can_change=True,
            is_one_shuffle=type(self) is IndexSampler
            and self.shuffle is True
            and self.algorithm == "headrace",
        )

    @property
    def _block_size(self) -> int:
        # Below some thousands, NumPy's calls cost more than their work. But each epoch of Grain's
        # order has a fixed cost, however few its records are.
        if isinstance(self.shuffle, BlockShuffle):
            return min(
                max(self.shuffle.records_at_hand // self.shard_options.shard_count, 1024), 1 << 18
            )
        return (
            16384
            if self.algorithm == "headrace"
            else min(16384, max(4 * self._grain_order().part()[1], 1))
        )

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The JSON values that determine the order; a checkpoint saves the shard separately."""
        return {
            "kind": type(self).__name__,
            "records": self.num_records,
            "shuffle": self.shuffle.parameters
            if isinstance(self.shuffle, BlockShuffle)
            else self.shuffle,
            "epochs": self.num_epochs,
            "seed": self.seed,
            "algorithm": self.algorithm,
            **(
                {}
                if self.algorithm == "headrace"
                else {"drop_remainder": self.shard_options.drop_remainder}
            ),
            **({} if self.balance is None else {"balance": self.balance.fingerprint}),
        }

    def record_keys(self, positions: Int64s) -> Int64s:
        """Return the record keys at positions.

        Args:
            positions: `int64[n]`, global positions in `[0, len(self))`; not checked.

        Returns:
            `int64[n]` in `[0, num_records)`.
        """
        if self.algorithm == "grain":
            return self._grain_order().record_keys(positions)
        epochs = positions // self.num_records
        places = positions - epochs * self.num_records  # three times faster than divmod
        if not self.shuffle:
            return places
        assert self.seed is not None
        if isinstance(self.shuffle, BlockShuffle):
            return BlockOrder(self.shuffle, self.num_records, self.seed).record_keys(places, epochs)
        return permute(places, epochs, self.num_records, self.seed)

    def position_of(self, record_key: int, epoch: int) -> int | None:
        """Return the global position of a record within an epoch, in O(1).

        Return None for a record beyond `num_records`; with `algorithm="grain"`, for one that this
        shard does not read. The epoch is not checked.

        Args:
            record_key: index of the record in the source.
            epoch: number of the epoch, from 0.
        """
        if self.algorithm == "grain":
            return self._grain_order().position_of(record_key, epoch)
        if record_key >= self.num_records:
            return None
        place = int(self.places_of(np.array([record_key]), epoch)[0])
        return epoch * self.num_records + place

    def places_of(self, record_keys: Int64s, epoch: int) -> Int64s:
        """Return each record's index within an epoch, from 0: `int64[n] -> int64[n]`.

        The index counts the records of all shards.

        Args:
            record_keys: the records.
            epoch: number of the epoch, from 0.
        """
        epochs, seed = np.full(len(record_keys), epoch, dtype=np.int64), self.seed or 0
        if not self.shuffle:
            return record_keys
        if self.algorithm == "grain":
            return self._grain_order().places_of(record_keys, epoch)
        if isinstance(self.shuffle, BlockShuffle):
            return BlockOrder(self.shuffle, self.num_records, seed).places_of(record_keys, epochs)
        return unpermute(record_keys, epochs, self.num_records, seed)

    @property
    def joining(self) -> bool | BlockShuffle:
        """Order of records that are appended during an epoch and are still read in this epoch.

        True: shuffled together with the records of the epoch that are not yet read. False: after
        these records, in the order of the source. A `BlockShuffle`: after these records, shuffled
        in blocks.
        """
        return self.shuffle

    def resized(self, records: int) -> IndexSampler:
        """Return the same sampler for a source of `records` records.

        Raises:
            ValueError: if each shard has an order of its own (`algorithm="grain"` with several
                shards), or `records` is not in `[1, 2^55]`.
        """
        if self.algorithm == "grain" and self.shard_options.shard_count > 1:
            raise ValueError(
                'algorithm="grain" gives each shard an order of its own, which cannot be combined '
                "with a growing source or omit=. Leave out algorithm=, or pass shard_options= "
                "to the loader in place of the sampler."
            )
        return dataclasses.replace(self, num_records=records)

    def over(self, epochs: int | None) -> IndexSampler:
        """Return the same order with `epochs` times as many epochs.

        The result is endless if `epochs` is None or this order is endless.
        """
        whole = None if epochs is None or self.num_epochs is None else self.num_epochs * epochs
        return dataclasses.replace(self, num_epochs=whole)

    def _grain_order(self) -> GrainOrder:
        from .grain.grain_order import GrainOrder

        return GrainOrder(self.num_records, self.shard_options, self.seed if self.shuffle else None)

    def with_shard_options(self, shard_options: ShardOptions) -> Self:
        """Return this sampler for the shard `shard_options`."""
        return dataclasses.replace(self, shard_options=shard_options)


class SequentialSampler(IndexSampler):
    """Read every record once, in the order of the source.

    Args:
        num_records: number of records, 1 to 2^55.
        shard_options: the shard of this process; None (default): `NoSharding()`.
        seed: an int in `[0, 2^32)` for random operations; None (default): the loader can have none.

    Raises:
        ValueError: if an argument is outside its range.
        TypeError: if a number is not an int.

    >>> [SequentialSampler(3)[position].record_key for position in range(3)]
    [0, 1, 2]
    """

    def __init__(
        self, num_records: int, shard_options: ShardOptions | None = None, seed: int | None = None
    ) -> None:
        super().__init__(
            num_records, shard_options or NoSharding(), shuffle=False, num_epochs=1, seed=seed
        )

    def with_shard_options(self, shard_options: ShardOptions) -> Self:
        """Return this sampler for the shard `shard_options`."""
        return type(self)(self.num_records, shard_options, self.seed)

    def resized(self, records: int) -> SequentialSampler:
        """Return this sampler for a source of `records` records.

        Raises:
            ValueError: if `records` is outside `[1, 2^55]`.
        """
        return type(self)(records, self.shard_options, self.seed)

    def over(self, epochs: int | None) -> IndexSampler:
        """Return an `IndexSampler` with `epochs` epochs in the same order; endless for None."""
        return IndexSampler(self.num_records, self.shard_options, num_epochs=epochs, seed=self.seed)


def index_order_of(fingerprint: Mapping[str, Any]) -> IndexSampler | None:
    """Return the `IndexSampler` that a saved fingerprint describes.

    Return None if the fingerprint is damaged, describes another kind of order, or has
    `algorithm="grain"`. A `balance` in the fingerprint is left out.
    """
    if (
        fingerprint.get("kind") not in ("IndexSampler", "SequentialSampler")
        or fingerprint.get("algorithm") != "headrace"
    ):
        return None
    try:
        shuffle = fingerprint["shuffle"]
        shuffle = BlockShuffle(**shuffle) if isinstance(shuffle, dict) else shuffle
        records, epochs = fingerprint["records"], fingerprint["epochs"]
        return IndexSampler(records, shuffle=shuffle, num_epochs=epochs, seed=fingerprint["seed"])
    except (TypeError, ValueError, LookupError):
        return None
