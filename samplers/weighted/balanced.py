"""Draw classes in proportions that the user chooses, independent of their numbers of records.

In: positions in the global order. Out: record keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.identity.values import digest_of
from ...common.messages import a_kind_of, short_repr
from ...common.validation import array_of
from ..balance import Balance
from ..facts import OrderFacts
from ..mix.order import MixOrder
from ..mix.weights import quoted, weights_of
from ..protocol import Int64s
from ..sharding import ShardOptions
from .drawn import MOST_SAMPLES, DrawnRecords
from .draws import key_of, permute_each, words
from .files import MOST_RECORDS

_STREAM, _STREAM_OF_ROUNDS = 3, 4  # of the seed


class BalancedSampler(DrawnRecords):
    """Draw all classes equally often, or in proportion to class weights.

    O(1) time for any position. Without `class_weights`, positions form rounds: each class is drawn
    once per round, in another order in each round. With `class_weights`, at every position the
    number of draws of each class follows its weight, to within about one. The records of a class
    are shuffled: all of them are drawn before one comes again, and then in another order.

    To give shards records of equal cost, use `Balance`.

    Memory: 4 bytes per record, shared by the worker processes of a machine.

    Args:
        labels: the class of each record, ints or strings.
        class_weights: a dict by class, or a list in the order of the sorted classes; a class of
            weight 0 is not drawn. None (default): equal weights.
        num_samples: number of positions in an epoch; None (default): the number of records.
        num_epochs: number of epochs; None (default) for no end. The order continues from one epoch
            to the next.
        seed: an int in `[0, 2^32)`; default 0.
        shard_options: the shard of this process; None (default): no sharding.
        balance: a `Balance` with the lengths of all records, with which loaders divide the records
            of each global batch among the shards by cost; None (default): in turn.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if an argument is outside its range, `labels` is empty, or `class_weights` are
            not for these classes.
        LengthsError: if `balance` has fewer lengths than there are records.

    >>> import numpy as np
    >>> labels = np.array(["cat"] * 98 + ["owl"] * 2)
    >>> sampler = BalancedSampler(labels, seed=0)
    >>> keys = sampler.record_keys(np.arange(100))
    >>> int((labels[keys] == "owl").sum()), sorted(keys[labels[keys] == "owl"][:4].tolist())
    (50, [98, 98, 99, 99])
    """

    of_each_record = "labels"

    def __init__(
        self,
        labels: Any,
        class_weights: Mapping[Any, float] | Sequence[float] | None = None,
        *,
        num_samples: int | None = None,
        num_epochs: int | None = None,
        seed: int = 0,
        shard_options: ShardOptions | None = None,
        balance: Balance | None = None,
    ) -> None:
        classes, of_record = classes_of(labels)
        self.num_records = len(of_record)
        self.classes: list[Any] = classes.tolist()
        wanted = self.num_records if num_samples is None else num_samples
        super().__init__(
            wanted,
            MOST_SAMPLES,
            "the number of positions in an epoch",
            num_epochs,
            seed,
            shard_options,
            balance,
        )
        self._records = np.argsort(of_record, kind="stable").astype(np.uint32)
        self._sizes = np.bincount(of_record, minlength=len(classes))
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._order = None if class_weights is None else _order_of(self.classes, class_weights)
        self._digest = digest_of(self._records, self._sizes)

    def __repr__(self) -> str:
        return (
            f"BalancedSampler({self.num_records} records, {len(self.classes)} classes, "
            f"seed={self.seed})"
        )

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The values that determine the order, as JSON values.

        A state can only be restored if it has the same values.
        """
        return {
            "kind": "BalancedSampler",
            "records": self.num_records,
            "labels": self._digest,
            "weights": None if self._order is None else list(self._order.stages[0][1]),
            "samples": self.num_samples,
            "length": self._total,
            "seed": self.seed,
            **self._balance_entry,
        }

    @property
    def facts(self) -> OrderFacts:
        weights = (
            np.ones(len(self._sizes))
            if self._order is None
            else np.array(self._order.stages[0][1], float)
        )
        drawn = weights > 0
        # All records of a class come before one comes again. Twice, since a class begins again in
        # the middle of an epoch.
        longest = 2 * float(np.max(self._sizes[drawn] / (weights[drawn] / weights.sum())))
        return super().facts._replace(epochs_for_all=ceil(min(longest / self.num_samples, 1e12)))

    def _records_at(self, positions: Int64s) -> Int64s:
        classes, visits = self._classes_at(positions)
        sizes = self._sizes[classes]
        epochs = visits // sizes
        keys = words(words(key_of(self.seed, _STREAM), classes), epochs)
        places = permute_each(visits - epochs * sizes, sizes, keys)
        found: Int64s = self._records[self._starts[classes] + places].astype(np.int64)
        return found

    def _classes_at(self, positions: Int64s) -> tuple[Int64s, Int64s]:
        """Return the index of the class at each position, and how often it was drawn before."""
        if self._order is not None:
            return self._order.places(positions)
        count = len(self.classes)
        rounds = positions // count
        keys = words(key_of(self.seed, _STREAM_OF_ROUNDS), rounds)
        return permute_each(
            positions - rounds * count, np.full_like(positions, count), keys
        ), rounds


def classes_of(labels: Any, name: str = "labels") -> tuple[NDArray[Any], Int64s]:
    """Return the sorted classes, and the index of each record's class.

    Args:
        labels: the class of each record: ints, bools or strings.
        name: name of the argument, for error messages.

    Returns:
        an array of the different labels, sorted; and `int64[n]`, for each record an index in this
        array.

    Raises:
        TypeError: if labels are neither ints nor strings.
        ValueError: if `labels` is empty, not one-dimensional, or has 2^32 entries or more.
    """
    array = array_of(labels)
    if array.ndim != 1 or not 0 < len(array) <= MOST_RECORDS:
        raise ValueError(
            f"{name}= has shape {array.shape}. Pass a list or a one-dimensional array with a label "
            f"for each record, 1 to {MOST_RECORDS:,} labels."
        )
    if array.dtype.kind not in "iubUSO" or (
        array.dtype.kind == "O" and not all(isinstance(x, str) for x in array)
    ):
        raise TypeError(
            f"{name}={short_repr(labels)} has dtype {array.dtype}. Pass labels that are all "
            "integers or all strings."
        )
    classes, of_record = np.unique(array, return_inverse=True)
    return classes, of_record.astype(np.int64, copy=False)


def _order_of(classes: list[Any], weights: Mapping[Any, float] | Sequence[float]) -> MixOrder:
    if isinstance(weights, Mapping):
        missing, unknown = (
            [each for each in classes if each not in weights],
            [each for each in weights if each not in classes],
        )
        if missing:
            raise ValueError(
                f"class_weights= has no weight for the labels {quoted(missing)}. Pass a weight for "
                "each class of the labels, 0 for a class that is not drawn."
            )
        if unknown:
            raise ValueError(
                f"class_weights= has weights for {quoted(unknown)}, but no record has such a "
                "label. Leave these weights out."
            )
        weights = [weights[each] for each in classes]
    if isinstance(weights, (str, bytes)) or not isinstance(weights, Sized):
        raise TypeError(
            f"class_weights={short_repr(weights)} is {a_kind_of(weights)}. Pass a dict with a "
            "weight for each class, or a list of weights in the order of the sorted classes."
        )
    if len(weights) != len(classes):
        raise ValueError(
            f"class_weights= has {len(weights)} weights, but the labels have {len(classes)} "
            f"classes: {quoted(classes)}. Pass one weight for each class."
        )
    names = list(map(str, classes))
    return MixOrder.of(weights_of(weights, names), names)
