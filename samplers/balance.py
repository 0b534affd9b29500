"""Global batches in which every shard has as much to do as another.

In: the costs of all records, and positions of a run's order. Out: positions of the sampler's order, so that the shards, which
stripe the run's order, get records of equal cost. Blocks of positions stay together: each is a global batch, or some of them.
"""

from __future__ import annotations

import copy
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..common.costs import Cost, as_lengths, costs_of
from ..common.distinct import distinct
from ..common.messages import a_kind_of, first_few, short_repr
from ..common.validation import whole_number
from ..errors import LengthsError
from .dealing import Int64s, dealt
from .protocol import ENDLESS

MAX_BLOCK = 1 << 22
"""Records of a block at most."""

_COST_BITS = 40
"""Costs are whole numbers below 2 to this power: those of a block can be summed."""

_KEPT = 4
"""Blocks that are remembered: a shard asks for each several times."""


BalanceLike: TypeAlias = "bool | Cost | Balance"
"""As users say how shards are balanced: see `headrace.load`."""


class Balance:
    """Records of each global batch go to shards so that the sums of their costs are as equal as can be.

    The same records make the same global batch as without it; each shard gets as many of them. Each is read once, whatever
    number of shards goes on with the run. Lengths and costs are kept, 16 bytes a record: a batch is planned in a
    millisecond wherever it is. Lengths are not compared with the records: wrong ones make unequal sums, and lose nothing.

    With a `Pack` in the loader, the rows of packed documents are dealt: a row costs the sum of the costs of its segments.
    The rows are planned from the lengths, those that one shard makes without balance; there, wrong lengths are an error.

    Classes that come equally often are another matter: `BalancedSampler`.

    Args:
        lengths: of all records, `int[records]`, in the order of keys; for a mix, a dict of such arrays by part.
        cost: a function of an array of lengths, such as `headrace.attention(a, b)`; None (default): the length.
        global_batch: records in a batch of all shards together; None (default): as the loader's `Batch` has it. A loader
            with a filter, or another operation that leaves out or adds records before the batch, needs it.
        batches: so many global batches are balanced together (default 1): then records may change places within these, and
            a batch without a long record may wait for none.

    Raises:
        TypeError: an argument of the wrong kind.
        LengthsError: a length or cost is negative or NaN, or lengths are not whole.
        ValueError: a number is not positive.

    >>> import numpy as np
    >>> from headrace import Balance, ShardOptions, load
    >>> lengths = np.array([9, 1, 8, 2, 7, 3, 5, 5])
    >>> balanced = dict(balance=Balance(lengths), batch_size=4, num_epochs=1)
    >>> [next(iter(load(lengths, shard_options=ShardOptions(shard, 2), **balanced))).tolist() for shard in range(2)]
    [[9, 1, 5, 5], [8, 2, 7, 3]]
    """

    def __init__(
        self, lengths: Any, cost: Cost | None = None, *, global_batch: int | None = None, batches: int = 1
    ) -> None:
        if isinstance(lengths, Mapping) and lengths:
            parts = {name: as_lengths(own, len(own), f"Balance: lengths of {name}") for name, own in lengths.items()}
            self.sizes = {name: len(own) for name, own in parts.items()}
            lengths = np.concatenate(list(parts.values()))
        elif not np.ndim(lengths):
            raise TypeError(
                f"Balance: lengths={short_repr(lengths)} is {a_kind_of(lengths)}; pass an array with one for each record, or "
                "headrace.load(…, balance=True, lengths=…)."
            )
        self.cost, self.lengths = cost, as_lengths(lengths, len(lengths), "Balance: lengths")
        self.costs = _whole(costs_of(self.lengths, cost))
        remedy = "the number of records in a batch of all shards together"
        self.global_batch = (
            None if global_batch is None else whole_number("global_batch", global_batch, 1, MAX_BLOCK, remedy)
        )
        self.batches = whole_number("batches", batches, 1, MAX_BLOCK, "the number of batches to be balanced together")

    sizes: Mapping[str, int] | None = None
    """The number of lengths of each part of a mix, in whose order they are."""

    rounds: Int64s | None = None
    """Of each part the records after which its costs come again, under the next keys; None: keys end there."""

    def of_parts(self, names: Sequence[str]) -> Balance:
        """It for the record keys of a mix: key i·n + p is record i of part p, of n.

        Raises:
            LengthsError: it is not of these parts.
        """
        if self.sizes is None or self.sizes.keys() != {*names}:
            known = "one array" if self.sizes is None else f"parts {first_few(self.sizes, 8)}"
            raise LengthsError(
                f"balance has lengths of {known}, and the mix has the parts {first_few(names, 8)}; pass Balance a dict of "
                "arrays, one for each part."
            )
        ends = dict(zip(self.sizes, np.cumsum(list(self.sizes.values())).tolist()))
        lengths, costs = np.zeros((2, len(names) * max(self.sizes.values())), np.int64)
        for place, name in enumerate(names):
            own = slice(ends[name] - self.sizes[name], ends[name])
            for found, given in ((lengths, self.lengths), (costs, self.costs)):
                found[place :: len(names)][: self.sizes[name]] = given[own]
        return self._with(costs, lengths=lengths)

    def of_costs(self, costs: npt.NDArray[np.float64]) -> Balance:
        """It for what was made of the records, and costs so much each."""
        return self._with(_whole(costs), sizes=None)

    def going_round(self, sizes: Sequence[int]) -> Balance:
        """It for parts of so many records, or one, which come again after the last one, under the next keys."""
        return self._with(self.costs, rounds=np.array(sizes, np.int64))

    def _with(self, costs: Int64s, **changes: Any) -> Balance:
        other = copy.copy(self)
        vars(other).pop("fingerprint", None)
        vars(other).update(costs=costs, **changes)
        return other

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """A digest of the costs, and the number of batches; a state tells the size of them itself."""
        return {"costs": hashlib.sha256(self.costs.tobytes()).hexdigest()[:12], "batches": self.batches}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Balance) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[Any, ...]:
        return (*self.fingerprint.values(), self.global_batch)

    def __repr__(self) -> str:
        return f"Balance({len(self.costs)} lengths, global_batch={self.global_batch}, batches={self.batches})"

    def covering(self, records: int, part: str | None = None) -> Balance:
        """It, if it knows the cost of each record, of a mix or of a part of one.

        Raises:
            LengthsError: it does not.
        """
        if part is None and self.sizes is not None:
            raise LengthsError(
                f"balance has lengths of parts {first_few(self.sizes, 8)}, and this is no mix; pass Balance one array."
            )
        known = len(self.costs) if part is None or self.sizes is None else self.sizes[part]
        if known < records:
            of = "" if part is None else f" of part {short_repr(part)}"
            raise LengthsError(
                f"balance has {known} lengths{of}, and there are {records} records; pass one length for each record."
            )
        return self

    def costs_of_keys(self, keys: Int64s) -> Int64s:
        """The costs of records.

        Raises:
            LengthsError: there is none for a key.
        """
        if self.rounds is not None:
            index, part = np.divmod(keys, len(self.rounds))
            keys = index % self.rounds[part] * len(self.rounds) + part
        if len(keys) and keys.max() >= len(self.costs):
            raise LengthsError(
                f"balance has {len(self.costs)} lengths, and the order has record {keys.max()}; pass one for each record."
            )
        return self.costs[keys]

    def blocks(self, batch: int | None, shards: int, exact: bool) -> Blocks:
        """The blocks of a run.

        Args:
            batch: records that a shard takes at a time, as for a batch; None: one by one.
            shards: of the run.
            exact: they make one batch, so that `global_batch` can be nothing else.

        Raises:
            ValueError: the shards cannot have equal parts of a block, it is too large, or it is no batch of the loader's.
        """
        if self.global_batch is None and batch is None:
            raise ValueError(
                "balance: nothing can be dealt in batches of one record of each shard; pass batch_size=, or Balance(…, "
                "global_batch=…) where a filter, or a mix of streams, comes before the batch."
            )
        if exact and batch and self.global_batch not in (None, batch * shards):
            raise ValueError(
                f"balance: batches of {batch} records on {shards} shards are global batches of {batch * shards}, and "
                f"global_batch={self.global_batch}; leave it out, or pass {batch * shards}."
            )
        size = (self.global_batch or (batch or 1) * shards) * self.batches
        if self.global_batch and self.global_batch % shards:
            raise ValueError(
                f"balance: global_batch={self.global_batch} cannot be dealt to {shards} shards; pass a multiple of {shards}."
            )
        if size > MAX_BLOCK:
            raise ValueError(
                f"balance: {size} records in {self.batches} global batches are more than {MAX_BLOCK}; pass fewer batches=."
            )
        return Blocks(shards, 0, size)


def checked(balance: Any) -> Balance:
    """A balance, if it is one.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(balance, Balance):
        return balance
    raise TypeError(f"balance={short_repr(balance)} is {a_kind_of(balance)}; pass headrace.Balance(lengths, cost).")


class Blocks(NamedTuple):
    """The blocks of positions that a run deals to its shards, as a state keeps them."""

    shards: int
    first: int  # position at which the first one begins
    size: int  # positions in each


class Dealing:
    """The order of a run: which position of the sampler each of its positions has. A bijection within each block.

    Args:
        balance: the costs.
        record_keys: of the sampler's positions.
        total: number of positions; what the last block has over a multiple of the shards stays where it is.
        blocks: of the run.
    """

    def __init__(self, balance: Balance, record_keys: Callable[[Int64s], Int64s], total: int, blocks: Blocks) -> None:
        self._balance, self._record_keys, self._blocks = balance, record_keys, blocks
        self._end = total if total >= ENDLESS else total - (total - blocks.first) % blocks.shards
        self._known: OrderedDict[int, Int64s] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_known": OrderedDict()}

    def positions(self, places: Int64s) -> Int64s:
        """The sampler's positions `int64[n]` at positions of the run."""
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
        """The position of the run that has a position of the sampler; the inverse."""
        first, size = self._blocks.first, self._blocks.size
        if not first <= position < self._end:
            return position
        number, index = divmod(position - first, size)
        return first + number * size + int(np.flatnonzero(self._dealt(number) == index)[0])

    def _dealt(self, number: int) -> Int64s:
        """The index in block `number` at each place in it. Threads may find it at the same time, at worst each its own."""
        known = self._known.get(number)
        if known is None:
            shards, first, size = self._blocks
            start = first + number * size
            positions = np.arange(start, min(start + size, self._end), dtype=np.int64)
            costs = self._balance.costs_of_keys(self._record_keys(positions))
            known = dealt(costs, shards, self._balance.batches, number)
            known_now = OrderedDict(list(self._known.items())[1 - _KEPT :])
            known_now[number] = known
            self._known = known_now  # replaced as a whole
        return known


def _whole(costs: npt.NDArray[np.float64]) -> Int64s:
    """Costs as whole numbers below 2^40; those that are not are scaled by a power of two and rounded."""
    most = float(costs.max(initial=0))
    if most >= 1 << _COST_BITS or (np.trunc(costs) != costs).any():
        costs = np.rint(np.ldexp(costs, _COST_BITS - int(np.frexp(most)[1])))
    return np.minimum(costs, (1 << _COST_BITS) - 1).astype(np.int64)
