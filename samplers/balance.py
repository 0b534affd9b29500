"""Balanced global batches: divide the records of each batch so that all shards have equal work.

In: the costs of all records, and positions of a run's order. Out: positions of the sampler's order.

Shard s of S reads the positions s, s + S, … of the run's order. The sum of the costs of these
records is nearly equal for all shards. Records are only exchanged within a block of positions, i.e.
within one global batch or a few of them.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..common.costs import Cost, as_lengths, costs_of, whole_costs
from ..common.distinct import distinct
from ..common.messages import a_kind_of, first_few, short_repr
from ..common.validation import whole_number, whole_number_or_none
from ..errors import LengthsError
from .dealing import Blocks, dealt
from .protocol import ENDLESS, Int64s

MAX_BLOCK = 1 << 22
"""Maximal number of records in a block."""

_KEPT = 4
"""Number of planned blocks that a `Dealing` keeps, since a shard asks for each several times."""

BalanceLike: TypeAlias = "bool | Cost | Balance"
"""What a user can pass as `balance` to `headrace.load`.

True: the cost of a record is its length. False: no balance. A function: it computes costs from an
array of lengths.
"""


class Balance:
    """Divide the records of each global batch among the shards, with nearly equal costs.

    With `batches=1`, a global batch contains the same records as without balance, and each shard
    gets equally many of them; of an incomplete last batch, some shards may get one more. Each
    record is read once, also if the run resumes with another number of shards. Lengths and costs
    take 16 bytes per record in memory; planning a batch takes about a millisecond. Lengths are not
    compared with the records: wrong lengths make the sums unequal, but lose no record.

    With a `Pack` in the loader, rows of packed documents are divided instead of records; the cost
    of a row is the sum of the costs of its segments. Rows are planned from the lengths, and are the
    same as on one shard without balance. With `Pack`, wrong lengths raise an error.

    To draw classes equally often, use `BalancedSampler`.

    Args:
        lengths: the length of each record, `int[records]`, in the order of record keys; for a mix,
            a dict of such arrays by part name.
        cost: function that computes costs from an array of lengths, such as `headrace.attention(a,
            b)`; None (default): the cost is the length.
        global_batch: number of records in one batch of all shards together; None (default):
            computed from the loader's `Batch`. It must be given if there is none, or if a filter or
            another operation that omits or adds records comes before it.
        batches: number of global batches that are balanced together (default 1). With more than 1,
            records may move between these batches; batches without long records then need not wait
            for batches with long ones.

    Raises:
        TypeError: if an argument has the wrong type.
        LengthsError: if a length or cost is negative, infinite or NaN, a length is not a whole
            number, or there is not one cost for each length.
        ValueError: if `global_batch` or `batches` is outside `[1, 2^22]`.

    >>> import numpy as np
    >>> from headrace import Balance, ShardOptions, load
    >>> lengths = np.array([9, 1, 8, 2, 7, 3, 5, 5])
    >>> settings = dict(balance=Balance(lengths), batch_size=4, num_epochs=1)
    >>> shards = [load(lengths, shard_options=ShardOptions(i, 2), **settings) for i in range(2)]
    >>> [next(iter(shard)).tolist() for shard in shards]
    [[9, 1, 5, 5], [8, 2, 7, 3]]
    """

    def __init__(
        self,
        lengths: Any,
        cost: Cost | None = None,
        *,
        global_batch: int | None = None,
        batches: int = 1,
    ) -> None:
        if isinstance(lengths, Mapping) and lengths:
            for name, own in lengths.items():
                _check_array(f"Balance: lengths[{short_repr(name)}]", own)
            parts = {
                name: as_lengths(own, len(own), f"Balance: lengths of {name}")
                for name, own in lengths.items()
            }
            self.sizes = {name: len(own) for name, own in parts.items()}
            lengths = np.concatenate(list(parts.values()))
        else:
            _check_array("Balance: lengths", lengths)
        self.cost, self.lengths = cost, as_lengths(lengths, len(lengths), "Balance: lengths")
        self.costs = whole_costs(costs_of(self.lengths, cost))
        remedy = "the number of records in a batch of all shards together"
        self.global_batch = whole_number_or_none("global_batch", global_batch, 1, MAX_BLOCK, remedy)
        self.batches = whole_number(
            "batches", batches, 1, MAX_BLOCK, "the number of batches to be balanced together"
        )

    sizes: Mapping[str, int] | None = None
    """For a mix: number of lengths of each part, in their order; None if lengths are one array."""

    rounds: Int64s | None = None
    """Number of records of each part of a mix after which costs repeat under higher keys.

    None: costs do not repeat; a key after the last record has no cost.
    """

    def of_parts(self, names: Sequence[str]) -> Balance:
        """Return the balance for the record keys of a mix.

        With `n` parts, record `i` of part `p` has key `i * n + p`.

        Args:
            names: names of the parts; the index `p` of a part is its index in this list.

        Raises:
            LengthsError: if the lengths are one array, or a dict with names other than the names of
                the parts.
        """
        if self.sizes is None or self.sizes.keys() != {*names}:
            array_or_parts = (
                "one array" if self.sizes is None else f"the parts {first_few(self.sizes, 8)}"
            )
            raise LengthsError(
                f"balance= has lengths of {array_or_parts}, but the mix has the parts "
                f"{first_few(names, 8)}. Pass a dict of arrays to Balance, one for each part."
            )
        ends = dict(zip(self.sizes, np.cumsum(list(self.sizes.values())).tolist()))
        lengths, costs = np.zeros((2, len(names) * max(self.sizes.values())), np.int64)
        for place, name in enumerate(names):
            own = slice(ends[name] - self.sizes[name], ends[name])
            for found, given in ((lengths, self.lengths), (costs, self.costs)):
                found[place :: len(names)][: self.sizes[name]] = given[own]
        return self._with(costs, lengths=lengths)

    def of_costs(self, costs: npt.NDArray[np.float64]) -> Balance:
        """Return this balance with the costs of rows that an operation makes of several records.

        Args:
            costs: `float64[rows]`, the cost of each row.
        """
        return self._with(whole_costs(costs), sizes=None)

    def going_round(self, sizes: Sequence[int]) -> Balance:
        """Return this balance for sources that are read again after their end.

        In a source of `n` records, the record key `n + i` then means record `i`, read once more.
        Both keys have the same cost.

        Args:
            sizes: number of records of each part of a mix; without a mix, of the only source.
        """
        return self._with(self.costs, rounds=np.array(sizes, np.int64))

    def _with(self, costs: Int64s, **changes: Any) -> Balance:
        other = copy.copy(self)
        vars(other).pop("fingerprint", None)
        vars(other).update(costs=costs, **changes)
        return other

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """A dict for checkpoints: `{"costs": digest of all costs, "batches": batches}`."""
        return {
            "costs": hashlib.sha256(self.costs.tobytes()).hexdigest()[:12],
            "batches": self.batches,
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Balance) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[Any, ...]:
        return (*self.fingerprint.values(), self.global_batch)

    def __repr__(self) -> str:
        return (
            f"Balance({len(self.costs)} lengths, global_batch={self.global_batch}, "
            f"batches={self.batches})"
        )

    def covering(self, records: int, part: str | None = None) -> Balance:
        """Return this balance, after checking that it has a cost for each record.

        Args:
            records: number of records.
            part: name of the part of a mix that the records belong to; None if there is no mix.

        Raises:
            LengthsError: if there are fewer lengths than records, or lengths are given by part and
                there is no mix.
        """
        if part is None and self.sizes is not None:
            raise LengthsError(
                f"balance= has lengths of the parts {first_few(self.sizes, 8)}, but the source is "
                "not a mix. Pass a single array to Balance."
            )
        count = len(self.costs) if part is None or self.sizes is None else self.sizes[part]
        if count < records:
            of_part = "" if part is None else f" of part {short_repr(part)}"
            raise LengthsError(
                f"balance= has {count} lengths{of_part}, but there are {records} records. Pass one "
                "length for each record."
            )
        return self

    def costs_of_keys(self, keys: Int64s) -> Int64s:
        """Return the costs `int64[n]` of records, by their keys `int64[n]`.

        Raises:
            LengthsError: if a key is above all keys that have a cost. (In a mix, a lower key past
                the end of its part has the cost 0.)
        """
        if self.rounds is not None:
            index, part = np.divmod(keys, len(self.rounds))
            keys = index % self.rounds[part] * len(self.rounds) + part
        if len(keys) and keys.max() >= len(self.costs):
            raise LengthsError(
                f"balance= has {len(self.costs)} lengths, but the sampler draws record "
                f"{keys.max()}. Pass one length for each record."
            )
        return self.costs[keys]

    def blocks(self, batch: int | None, shards: int, exact: bool) -> Blocks:
        """Divide a run's positions into equal blocks, in which shards may exchange records.

        Args:
            batch: number of records in a shard's batch; None if the loader makes no batches.
            shards: number of shards of the run.
            exact: True if `batch` records make exactly one batch, so that the attribute
                `global_batch` must be `batch * shards` or None.

        Returns:
            the blocks, each of one or several global batches.

        Raises:
            ValueError: if neither `batch` nor `global_batch` is given, `global_batch` is not a
                multiple of `shards`, or not `batch * shards` with `exact`, or a block has more than
                2^22 records.
        """
        if self.global_batch is None and batch is None:
            raise ValueError(
                "balance= must know how many records of the source are in one batch. This is "
                "unknown here, because the pipeline has no batch, or because a Filter, FlatMap, "
                "mix or other operation before the batch changes the number of elements. Pass "
                "Balance(…, global_batch=…), the number of records in a batch of all shards; or, "
                "if there is no batch, add headrace.Batch(…), or pass load(batch_size=)."
            )
        if exact and batch and self.global_batch not in (None, batch * shards):
            raise ValueError(
                f"balance=: batches of {batch} records on {shards} shards are global batches of "
                f"{batch * shards}, but global_batch={self.global_batch}. Leave global_batch= out, "
                f"or pass {batch * shards}."
            )
        size = (self.global_batch or (batch or 1) * shards) * self.batches
        if self.global_batch and self.global_batch % shards:
            raise ValueError(
                f"balance=: global_batch={self.global_batch} cannot be divided among {shards} "
                f"shards. Pass a multiple of {shards}."
            )
        if size > MAX_BLOCK:
            of_each, smaller = size // self.batches, "Use smaller batches"
            if of_each <= MAX_BLOCK:
                smaller += f", or pass at most {MAX_BLOCK // of_each} as batches="
            raise ValueError(
                f"balance=: batches={self.batches} of {of_each} records on all shards together are "
                f"{size} records to divide at once, more than {MAX_BLOCK}. {smaller}."
            )
        return Blocks(shards, 0, size)


def _check_array(name: str, lengths: Any) -> None:
    try:
        is_array = bool(np.ndim(lengths))
    except ValueError:  # lists of unequal lengths
        is_array = False
    if not is_array:
        raise TypeError(
            f"{name}={short_repr(lengths)} is {a_kind_of(lengths)}. Pass an array with one length "
            "for each record; for a mix, a non-empty dict with such an array for each part. "
            "headrace.load(…, balance=True, lengths=…) also takes the name of a field, or a "
            "function."
        )


def checked(balance: Any) -> Balance:
    """Return `balance` if it is a `Balance`.

    Raises:
        TypeError: if it is something else.
    """
    if isinstance(balance, Balance):
        return balance
    raise TypeError(
        f"balance={short_repr(balance)} is {a_kind_of(balance)}. Pass headrace.Balance(lengths, "
        "cost)."
    )


class Dealing:
    """Order of a run with balanced costs: maps its positions to positions of the sampler's order.

    Records are exchanged within blocks (consecutive positions of one or several global batches).
    Positions before the first block are not moved.

    Args:
        balance: the costs.
        record_keys: function that returns the record keys `int64[n]` at positions `int64[n]` of the
            sampler.
        total: number of positions of all shards. Positions left over when the last block is divided
            by the number of shards are not moved.
        blocks: the blocks of the run.
    """

    def __init__(
        self, balance: Balance, record_keys: Callable[[Int64s], Int64s], total: int, blocks: Blocks
    ) -> None:
        self._balance, self._record_keys, self._blocks = balance, record_keys, blocks
        self._end = total if total >= ENDLESS else total - (total - blocks.first) % blocks.shards
        self._known: dict[int, Int64s] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_known": {}}

    def positions(self, places: Int64s) -> Int64s:
        """Return the position of the sampler's order that is read at each position of the run.

        Args:
            places: `int64[n]`, positions of the run.

        Returns:
            `int64[n]`, positions of the sampler's order.

        Raises:
            LengthsError: if a record in one of the blocks (positions that are balanced together) of
                `places` has no cost.
        """
        first, size = self._blocks.first, self._blocks.size
        found = places.copy()
        numbers = (places - first) // size
        within = (places >= first) & (places < self._end)
        for number in distinct(numbers[within]):
            own = within & (numbers == number)
            start = first + number * size
            found[own] = start + self._dealt(number)[places[own] - start]
        return found

    def place_of(self, position: int) -> int:
        """Return the position of the run at which a position of the sampler's order is read.

        This is the inverse of `positions`.

        Raises:
            LengthsError: if a record in the block of `position` (the positions that are balanced
                together) has no cost.
        """
        first, size = self._blocks.first, self._blocks.size
        if not first <= position < self._end:
            return position
        number, index = divmod(position - first, size)
        return first + number * size + int(np.flatnonzero(self._dealt(number) == index)[0])

    def _dealt(self, number: int) -> Int64s:
        """Return which record is read at each position of a block.

        The results for the last 4 blocks are kept in memory.

        Args:
            number: number of the block, from 0.

        Returns:
            `int64[positions in the block]`, indices within the block.
        """
        # Two threads may compute the same block at the same time; both get the same result.
        known = self._known.get(number)
        if known is None:
            shards, first, size = self._blocks
            start = first + number * size
            positions = np.arange(start, min(start + size, self._end), dtype=np.int64)
            costs = self._balance.costs_of_keys(self._record_keys(positions))
            known = dealt(costs, shards, self._balance.batches, number)
            # Replaced as a whole.
            self._known = {**dict(list(self._known.items())[1 - _KEPT :]), number: known}
        return known
