"""Draw records by weight, with or without replacement.

In: positions in the global order. Out: record keys.
"""

from __future__ import annotations

import copy
from math import ceil
from typing import Any

import numpy as np

from ...common.identity.values import digest_of
from ...common.messages import short_repr
from ...common.validation import true_or_false
from ...errors import CheckpointError
from ..balance import Balance
from ..facts import OrderFacts
from ..history import Changes, OrderChange, SavedOrder
from ..protocol import Int64s
from ..sharding import ShardOptions
from .alias import AliasTable
from .drawn import BLOCK, MOST_SAMPLES, DrawnRecords
from .draws import key_of, words
from .files import weights_of
from .orders import Orders

_STREAM = 1  # of the seed
_MOST_CHANGES = 64

_MISSING = 8
"""A record that is expected this many times is missing with probability exp(-8)."""


class WeightedSampler(DrawnRecords):
    """Draw records in proportion to weights; O(1) time for any position, with replacement.

    The order is the same for any number of workers and shards. With replacement, each position
    draws a record independently: record i with probability `weights[i] / sum(weights)`. Without
    replacement, each epoch draws records one after another among the records not yet drawn, so that
    each record comes at most once per epoch; the order of a whole epoch is computed when a position
    of it is first needed.

    Memory: with replacement 12 bytes per record; without 8, and 8 more for the orders of two
    epochs. The worker processes of a machine share it.

    Weights may change from one run to the next: `set_state(state, strict=False)` resumes at the
    next position with the new weights. The state has a digest of the weights, and the position from
    which they are used. Without replacement, a record that was already read in the current epoch
    may then come again in this epoch.

    Args:
        weights: a weight, 0 or more, for each record, as an array or list; they need not sum to
            one. Or the path of an .npy file of weights, which is mapped into memory.
        num_samples: number of positions in an epoch; None (default): the number of weights; without
            replacement, the number of weights above 0.
        replacement: True (default) draws with replacement.
        num_epochs: number of epochs; None (default) for no end, with `len()` equal to
            `sys.maxsize`.
        seed: an int in `[0, 2^32)`; default 0.
        shard_options: the shard of this process; None (default): no sharding.
        balance: a `Balance` with the lengths of all records, with which loaders divide the records
            of each global batch among the shards by cost; None (default): in turn.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if an argument is outside its range; if a weight is negative, NaN or infinite,
            or all are 0; if the file of weights is damaged; or if, without replacement, fewer
            weights than `num_samples` are above 0.
        LengthsError: if `balance` has fewer lengths than there are records.
        OSError: if the file of weights cannot be read.

    >>> import numpy as np
    >>> sampler = WeightedSampler([0.0, 1.0, 3.0], seed=1)
    >>> np.bincount(sampler.record_keys(np.arange(8000)), minlength=3).tolist()
    [0, 2014, 5986]
    >>> once = WeightedSampler([0.0, 1.0, 3.0], replacement=False, num_epochs=2, seed=1)
    >>> len(once), [once[position].record_key for position in range(4)]
    (4, [2, 1, 2, 1])
    """

    of_each_record = "weights"

    def __init__(
        self,
        weights: Any,
        num_samples: int | None = None,
        replacement: bool = True,
        *,
        num_epochs: int | None = None,
        seed: int = 0,
        shard_options: ShardOptions | None = None,
        balance: Balance | None = None,
    ) -> None:
        checked = weights_of(weights)
        self._samples_given = num_samples
        self.num_records = len(checked)
        self.replacement = true_or_false("replacement", replacement)
        most = MOST_SAMPLES if self.replacement else int(np.count_nonzero(checked))
        remedy = (
            "the number of records to draw in an epoch; without replacement, "
            "at most as many as weights are above 0"
        )
        wanted = (
            (self.num_records if self.replacement else most) if num_samples is None else num_samples
        )
        super().__init__(wanted, most, remedy, num_epochs, seed, shard_options, balance)
        self._digest = digest_of(checked)
        self._epochs_for_all = 1
        if self.replacement or self.num_samples < np.count_nonzero(checked):
            rarest = float(np.min(checked, where=checked > 0, initial=np.inf)) / float(
                np.sum(checked)
            )
            self._epochs_for_all = ceil(_MISSING / max(rarest * self.num_samples, 1e-12))
        self._changes: Changes = ()
        self._table = AliasTable.of(checked) if self.replacement else None
        self._orders = None if self.replacement else Orders(checked, self.seed, self.num_samples)

    def __repr__(self) -> str:
        how = "with" if self.replacement else "without"
        return f"WeightedSampler({self.num_records} weights, {how} replacement, seed={self.seed})"

    @property
    def facts(self) -> OrderFacts:
        # Without replacement, each epoch has an order of its own, so a block has few epochs.
        few = BLOCK if self.replacement else min(BLOCK, max(2 * self.num_samples, 1024))
        return super().facts._replace(block_size=few, epochs_for_all=self._epochs_for_all)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The values that determine the order, as JSON values.

        They contain a digest of the current weights. Earlier weights are in the attribute
        `changes`.
        """
        return {
            "kind": "WeightedSampler",
            "records": self.num_records,
            "weights": self._digest,
            "samples": self.num_samples,
            "length": self._total,
            "replacement": self.replacement,
            "seed": self.seed,
            **self._balance_entry,
        }

    @property
    def changes(self) -> Changes:
        """Changes of the weights: digests of the first weights, and of all later ones.

        Empty if the weights never changed.
        """
        return self._changes

    def record_keys(self, positions: Int64s) -> Int64s:
        return (
            super().record_keys(positions)
            if self._orders is None
            else self._orders.records(positions)
        )

    def _records_at(self, positions: Int64s) -> Int64s:
        assert self._table is not None, "with replacement"
        return self._table.records(
            words(key_of(self.seed, _STREAM), np.ascontiguousarray(positions))
        )

    def with_record_weights(self, weights: Any) -> WeightedSampler:
        """Return a sampler with other weights, and all other arguments of this sampler.

        Raises:
            TypeError, ValueError, OSError: if the weights are not valid for a `WeightedSampler`, or
                their number differs from the number of records.
        """
        return WeightedSampler(
            weights,
            self._samples_given,
            self.replacement,
            num_epochs=self.num_epochs,
            seed=self.seed,
            shard_options=self.shard_options,
            balance=self.balance,
        ).for_source(self.num_records)

    @property
    def weights_description(self) -> str:
        """A text for messages: the weights' digest, and the position of their first use."""
        since = f", from position {self.changes[-1].position:,} on" if self.changes else ""
        return f"weights {self._digest}{since}"

    def former_weights(self, position: int) -> str | None:
        used = [change.values["weights"] for change in self.changes if change.position <= position]
        return None if not self.changes or len(used) == len(self.changes) else str(used[-1])

    def differs_from(self, saved: SavedOrder) -> str:
        """Return "weights changed" if the saved order has other weights than this one, else ""."""
        return "" if saved.described.get("weights") == self._digest else "weights changed"

    def resumed(self, saved: SavedOrder, position: int, changes: bool) -> WeightedSampler:
        """Return the sampler that resumes a run, which may have had other weights.

        Args:
            saved: the order in the checkpoint.
            position: first position that no shard has read.
            changes: True if the weights may differ from the saved weights.

        Raises:
            CheckpointError: if `saved` is damaged.
        """
        other = copy.copy(self)
        other._changes = saved.changes
        if not all(isinstance(change.values.get("weights"), str) for change in saved.changes):
            raise CheckpointError(
                f"the state is damaged: changes={short_repr([*map(list, saved.changes)])}. Restore "
                "another checkpoint."
            )
        if changes and position > 0 and self.differs_from(saved):
            began = OrderChange(0, {"weights": saved.described["weights"]})
            every = (*(saved.changes or (began,)), OrderChange(position, {"weights": self._digest}))
            last = every[-_MOST_CHANGES:]
            other._changes = (last[0]._replace(position=0), *last[1:])
        return other
