"""Records by weight, drawn again and again or each once an epoch.

In: positions in the global order. Out: record keys.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.identity.values import digest_of
from ...common.messages import short_repr
from ...common.validation import true_or_false
from ...errors import CheckpointError
from ..balance import Balance
from ..sharding import ShardOptions
from .alias import AliasTable
from .drawn import BLOCK, MOST_SAMPLES, DrawnRecords
from .draws import key_of, words
from .files import weights_of
from .orders import Orders

Positions = NDArray[np.int64]

_STREAM = 1  # of the seed
_MOST_CHANGES = 64


class WeightedSampler(DrawnRecords):
    """Records in proportion to their weights; O(1) access to any position, the same on any number of workers and shards.

    With replacement, each position draws a record by itself: record i with the chance `weights[i] / sum(weights)`. Without,
    each epoch draws records one after another among those that are left, so that each comes at most once an epoch.

    Memory: with replacement 12 bytes a record; without 8, and 8 more for the orders of two epochs. Worker processes on one
    machine share it.

    Weights may change from one run to the next. `set_state(state, strict=False)` goes on at the next position, by the new
    weights; the state notes their digest and from which position they hold. Without replacement, a record that was read before
    in the epoch under way may then come again in it.

    Args:
        weights: an array or list of a weight for each record, at least 0, which need not sum to one; or the path of an
            .npy file of them, which is mapped into memory.
        num_samples: positions in an epoch; None (default): the number of weights, or without replacement of those above 0.
        replacement: True (default) draws with replacement.
        num_epochs: None (default) never ends; `len()` is then `sys.maxsize`.
        seed: int in `[0, 2^32)`; 0 by default.
        shard_options: as for `IndexSampler`.
        balance: likewise: shards get records of equal cost, by the lengths of all records.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: an argument outside its range; a weight is negative, NaN or infinite, or all are 0; or without replacement
            there are fewer weights above 0 than `num_samples`.
        LengthsError: `balance` has fewer lengths than there are records.
        OSError: the file of weights cannot be read.

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
        self.num_records = len(checked)
        self.replacement = true_or_false("replacement", replacement)
        most = MOST_SAMPLES if self.replacement else int(np.count_nonzero(checked))
        remedy = "the number of positions in an epoch, without replacement at most that of weights above 0"
        wanted = (self.num_records if self.replacement else most) if num_samples is None else num_samples
        super().__init__(wanted, most, remedy, num_epochs, seed, shard_options, balance)
        self._digest = digest_of(checked)
        self._changes: tuple[tuple[int, str], ...] = ()
        self._table = AliasTable.of(checked) if self.replacement else None
        self._orders = None if self.replacement else Orders(checked, self.seed, self.num_samples)

    def __repr__(self) -> str:
        how = "with" if self.replacement else "without"
        return f"WeightedSampler({self.num_records} weights, {how} replacement, seed={self.seed})"

    @property
    def block_size(self) -> int:
        """Positions worth asking for at a time; of few epochs, where each has an order of its own."""
        return BLOCK if self.replacement else min(BLOCK, max(2 * self.num_samples, 1024))

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The values that decide the order, and from which position on these weights hold if others did before."""
        changes = {"changes": [list(change) for change in self._changes]} if self._changes else {}
        return {
            "kind": "WeightedSampler",
            "records": self.num_records,
            "weights": self._digest,
            "samples": self.num_samples,
            "length": self._total,
            "replacement": self.replacement,
            "seed": self.seed,
            **self._balance_told,
            **changes,
        }

    def record_keys(self, positions: Positions) -> Positions:
        return super().record_keys(positions) if self._orders is None else self._orders.records(positions)

    def _records_at(self, positions: Positions) -> Positions:
        assert self._table is not None, "with replacement"
        return self._table.records(words(key_of(self.seed, _STREAM), np.ascontiguousarray(positions)))

    @property
    def weights_told(self) -> str:
        """The digest of the weights, and from which position on they hold, in words."""
        since = f", from position {self._changes[-1][0]:,} on" if self._changes else ""
        return f"weights {self._digest}{since}"

    def former_weights(self, position: int) -> str | None:
        """The digest of other weights that held at a position; None if these did."""
        for until, digest in self._changes:
            if position < until:
                return digest
        return None

    def going_on(self, saved: Mapping[str, Any], position: int, changes: bool) -> WeightedSampler:
        """The sampler that goes on from a run of one with other weights.

        Args:
            saved: the fingerprint of that run's sampler.
            position: from which on nothing has been read.
            changes: whether this one may be another one.

        Raises:
            CheckpointError: the fingerprint is damaged.
        """
        other = copy.copy(self)
        other._changes = _changes_of(saved)
        if changes and position > 0 and saved.get("weights") != self._digest:
            other._changes = (*other._changes, (position, str(saved.get("weights"))))[-_MOST_CHANGES:]
        return other


def _changes_of(saved: Mapping[str, Any]) -> tuple[tuple[int, str], ...]:
    """The former weights that a fingerprint notes: up to which position, and their digest."""
    try:
        return tuple((int(until), str(digest)) for until, digest in saved.get("changes", []))
    except (TypeError, ValueError):
        raise CheckpointError(f"the state is damaged: changes={short_repr(saved.get('changes'))}.") from None
