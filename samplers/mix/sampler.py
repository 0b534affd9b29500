"""A mix of several sources: for each position, a part and one of its records, chosen by weights.

In: positions in the global order. Out: record keys of a `MixedSource` of the parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...common.distinct import distinct
from ...common.messages import first_few, short_repr, shorten
from ...common.validation import one_of, whole_number_or_none
from ...errors import CheckpointError, EmptyStreamError
from ..balance import Balance, checked
from ..changing.orders import living
from ..changing.sampler import refuse_balance
from ..facts import OrderFacts
from ..history import part_named
from ..protocol import ENDLESS, Int64s, VectorSampler
from ..sharding import NoSharding, ShardOptions, as_shard_options
from .ends import ends_of, parts_changed_from
from .order import MixOrder
from .parts import as_order, parts_by_name
from .past import MixPast
from .shuffles import FEW, PartShuffles
from .weights import MaxEpochs, Schedule, Weights, epochs_of, ramped, stages_of

BLOCK = 65536


class MixSampler(MixPast):
    """Mix several sources in one order, in proportion to weights.

    At every position, the number of records drawn from each part follows its weights, to within
    about one record. Each part is read in its own order, with each of its records once per epoch
    (unless its sampler draws by weight or class). Pass the same parts as `data_source` to
    `DataLoader`.

    Args:
        parts: a dict by name, or a list (names "0", "1", …), with one entry per part: its source,
            or its number of records, for an order that `shuffle` and `seed` decide; or a sampler
            such as `IndexSampler`, for an order and number of epochs of its own.
        weights: a dict by name or a list of numbers, which need not sum to one; a part of weight 0
            is not drawn. Or a schedule, `[(0, {…}), (10_000, {…})]`: pairs of a first step and the
            weights from it on. None (default): equal weights. The order of the parts in a dict has
            no effect.
        shuffle: True shuffles each epoch of the parts given by source or number of records; needs
            `seed`.
        seed: an int in `[0, 2^32)`; also used by random operations.
        when_exhausted: "first" (default): the mix ends when it needs a record of a part that has
            run out; "all": it continues without that part until all have ended; "repeat": a part
            that has run out begins its next epoch, and only `max_epochs` can end the mix.
        max_epochs: numbers of epochs after which a part leaves the mix, whatever `when_exhausted`
            is: a dict by name, or a list with None for parts without a limit. The other parts then
            get its positions, in proportion to their weights; if no part with a weight above 0 is
            left, the mix ends. None (default): no limits.
        ramp: True changes the weights of a schedule linearly from one stage to the next, in up to
            32 steps.
        records_per_step: number of records in a step of the schedule: 1 (default) counts records;
            pass the global batch size to count batches.
        shard_options: the shard of this process; None (default): no sharding.
        balance: a `Balance` (lengths: dict of arrays by part) that divides records among shards by
            cost; None: in turn.

    Raises:
        TypeError: if an argument has the wrong type, or a part has no records.
        LengthsError: if `balance` has fewer lengths than a part has records, or is not given by
            part.
        ValueError: if an argument is outside its range, or the weights are not for these parts.

    >>> from headrace import DataLoader, MixSampler
    >>> parts = {"web": ["w0", "w1", "w2", "w3", "w4", "w5", "w6"], "books": ["b0", "b1", "b2"]}
    >>> mix = MixSampler(parts, weights={"web": 0.7, "books": 0.3})
    >>> list(DataLoader(data_source=parts, sampler=mix))
    ['w0', 'b0', 'w1', 'w2', 'b1', 'w3', 'w4', 'w5', 'b2', 'w6']
    """

    seed: int | None
    shard_options: ShardOptions

    def __init__(
        self,
        parts: Mapping[str, Any] | Sequence[Any],
        weights: Weights | Schedule | None = None,
        *,
        shuffle: bool = False,
        seed: int | None = None,
        when_exhausted: Literal["first", "all", "repeat"] = "first",
        max_epochs: MaxEpochs | None = None,
        ramp: bool = False,
        records_per_step: int = 1,
        shard_options: ShardOptions | None = None,
        balance: Balance | None = None,
    ) -> None:
        self.seed = whole_number_or_none(
            "seed", seed, 0, (1 << 32) - 1, "an int in [0, 2^32), seed=0 for example"
        )
        self.when_exhausted = one_of("when_exhausted", when_exhausted, "first", "all", "repeat")
        self.shard_options = as_shard_options(shard_options or NoSharding())
        named = parts_by_name(parts)
        epochs = None if when_exhausted == "repeat" else 1
        self._max_epochs = epochs_of(max_epochs, list(named))
        self._parts: dict[str, VectorSampler] = {
            name: as_order(name, part, shuffle, self.seed, self._max_epochs.get(name, epochs))
            for name, part in named.items()
        }
        self._given = stages_of(weights, list(named), records_per_step)
        self._ramp = bool(ramp and ramped(self._given))
        self.balance = None if balance is None else checked(balance).of_parts(self.names)
        for name, part in self._parts.items():
            if self.balance is not None:
                self.balance.covering(part.facts.records or 0, name)

    @property
    def names(self) -> list[str]:
        """Names of the parts; the index of a part in record keys is its index in this list."""
        return list(self._parts)

    @cached_property
    def facts(self) -> OrderFacts:
        # Blocks are large, since each part gets only some positions, and a small call takes as long
        # as a larger one.
        most = min([BLOCK, *(part.facts.most_at_once for part in self._parts.values())])
        return OrderFacts(most, parts=tuple(self._parts), balance=self.balance)

    @property
    def parts(self) -> dict[str, VectorSampler]:
        """The sampler of each part, which gives the part's order, in a dict by part name."""
        return dict(self._parts)

    def with_parts(self, parts: Mapping[str, VectorSampler]) -> MixSampler:
        """Return this mix with other samplers for the parts that `parts` names."""
        other = self._copied()
        other._parts = {name: parts.get(name, part) for name, part in self._parts.items()}
        return other

    def without(self, keys: Mapping[str, Int64s]) -> MixSampler:
        """Return the same mix without some records of its parts.

        Args:
            keys: for each part's name, the keys to omit.

        Raises:
            ValueError: if the mix has a `balance`, or records cannot be omitted from the order of a
                named part.
            EmptyStreamError: if no record of a part is left.
        """
        parts = {}
        for name, of_part in keys.items():
            try:
                refuse_balance(self)
                parts[name] = living(self._parts[name]).without({"": of_part})
            except (ValueError, EmptyStreamError) as error:
                raise type(error)(
                    f"part {short_repr(name)} of the mix: {shorten(error, 400)}."
                ) from None
        return self.with_parts(parts)

    def omits(self, record_keys: Int64s) -> NDArray[np.bool_]:
        """Return a bool array: True for each record (key of a `MixedSource`) that is omitted."""
        indices, places = np.divmod(record_keys, len(self._parts))
        found = np.zeros(len(record_keys), dtype=bool)
        for place, part in enumerate(self._parts.values()):
            found |= (places == place) & np.isin(indices, part.omitted_keys)
        return found

    def __repr__(self) -> str:
        return (
            f"MixSampler({len(self._parts)} parts: {first_few(self.names, 8)}; "
            f"when_exhausted={self.when_exhausted!r})"
        )

    @cached_property
    def _ended(self) -> tuple[MixOrder, int, tuple[tuple[str, int], ...]]:  # type: ignore[override]
        """The order of the mix with the ends of its parts.

        Returns:
            the order, in which a part is not drawn after its end; its number of positions; and for
            each part that ends before the mix, a pair (part name, position of its end).
        """
        lengths = {
            name: part.length_over(self._max_epochs[name])
            if name in self._max_epochs
            else len(part)
            for name, part in self._parts.items()
        }
        since = parts_changed_from(self._own_changes)
        return ends_of(self._drawn, lengths, self.when_exhausted, self._max_epochs, since)

    @property
    def order(self) -> MixOrder:
        """The order in which parts are drawn. A part is not drawn after its end."""
        return self._ended[0]

    def __len__(self) -> int:
        """Return the number of positions of all shards together; `sys.maxsize` if it never ends."""
        return self.of_equal_shards(self._ended[1])

    @property
    def epoch_length(self) -> int:
        """Number of positions in an epoch: all positions of the mix, if the mix ends.

        For an endless mix, it is the sum of the epoch lengths of its parts.
        """
        whole = self._ended[1]
        return whole if whole < ENDLESS else sum(part.epoch_length for part in self._parts.values())

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """The values with which the user's program describes the mix, as JSON values.

        Changes during the run are in the attribute `changes` instead.
        """
        return {
            "kind": "MixSampler",
            "seed": self.seed,
            "when_exhausted": self.when_exhausted,
            **({"max_epochs": self._max_epochs} if self._max_epochs else {}),
            **({} if self.balance is None else {"balance": self.balance.fingerprint}),
            **self.weights_values,
            **{part_named(name): part.fingerprint for name, part in self._parts.items()},
        }

    def record_keys(self, positions: Int64s) -> Int64s:
        """Return the records at positions, as keys of a `MixedSource`.

        Args:
            positions: `int64[n]`, global positions in `[0, len(self))`; not checked.

        Returns:
            `int64[n]`.
        """
        keys = np.empty(len(positions), dtype=np.int64)
        few: list[tuple[int, Int64s, Int64s]] = []
        for number, indices, places in self.order.by_part(positions) if len(positions) else ():
            name = self.order.names[number]
            place = self._place_of(name)
            if len(indices) < FEW and self._shuffles.has(place):
                few.append((place, indices, places))
            else:
                within = indices % self._ends[name] if name in self._ends else indices
                found = self._parts[name].record_keys(within)
                keys[places] = found * len(self._parts) + place
        if few:
            parts = np.repeat(
                [place for place, _, _ in few], [len(indices) for _, indices, _ in few]
            )
            found = self._shuffles.keys(parts, np.concatenate([indices for _, indices, _ in few]))
            keys[np.concatenate([places for _, _, places in few])] = (
                found * len(self._parts) + parts
            )
        return keys

    @cached_property
    def _shuffles(self) -> PartShuffles:
        return PartShuffles(list(self._parts.values()))

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self._parts)}

    @property
    def lacks_parts(self) -> bool:
        """True if this mix resumes a run that drew parts which this mix no longer has."""
        return not self._parts.keys() >= {*self.order.names}

    def check_present(self, positions: Int64s) -> None:
        """Check that all parts drawn at positions `int64[n]` are still in the mix.

        Raises:
            CheckpointError: if one of these parts was removed.
        """
        for number in distinct(self.order.places(positions)[0]):
            self._place_of(self.order.names[number])

    @cached_property
    def _ends(self) -> dict[str, int]:
        """Numbers of positions of the parts whose samplers end, in a dict by part name.

        A part whose sampler can compute positions after its end is left out. If the mix draws from
        a part in the dict after its end, it reads the part again from its beginning.
        """
        parts = self._parts.items()
        return {
            name: len(part)
            for name, part in parts
            if len(part) < ENDLESS and not part.facts.has_later_epochs
        }

    def _place_of(self, name: str) -> int:
        if name not in self._parts:
            raise CheckpointError(
                f"part {short_repr(name)} was removed from the mix, but some of its records must "
                "still be delivered: the checkpoint was saved while a Pack, window_shuffle or the "
                "like held some of its records, or when shards were at different steps. Keep the "
                "part, with weight 0."
            )
        return self._places[name]

    def part_at(self, position: int) -> tuple[str, int]:
        """Return the name of the part that a position draws from, and the position in this part."""
        number, place = self.order.place(position)
        return self.order.names[number], place

    def drawn_at(self, name: str, index: int) -> int | None:
        """Return the position at which record `index` of the part `name` is drawn.

        If the part leaves the mix before this record, return the position at which the part leaves.
        Return None if the record is never drawn and the part does not leave.
        """
        position = self.order.position_of(self.order.names.index(name), index)
        ends = dict(self._ended[2])
        return ends.get(name) if position is None else position

    def part_epochs(self, position: int) -> dict[str, int]:
        """Return a dict with the epoch (from 0) of each part at a position, by part name.

        It is the epoch of the part's last record that was drawn up to and including the position; 0
        if no record of the part was drawn.
        """
        drawn = self.part_records(position + 1)
        return {name: part.epoch_at(max(drawn[name] - 1, 0)) for name, part in self._parts.items()}

    def part_records(self, position: int) -> dict[str, int]:
        """Return how many records of each part are drawn before a position, by part name."""
        drawn = dict(zip(self.order.names, self.order.counts(position).tolist()))
        return {name: drawn[name] for name in self._parts}

    def position_of(self, record_key: int, epoch: int) -> int:
        """Raise TypeError, because a record of a mix has no single position.

        Each part of the mix has epochs of its own.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            "find() does not work for a mix, because its parts have epochs of their own. Use "
            "loader.records_at(step)."
        )

    def check_parts(self, lengths: Mapping[str, int]) -> None:
        """Check that the source has the parts of this mix, with enough records.

        Args:
            lengths: number of records of each part of the source, by name.

        Raises:
            ValueError: if the source has other parts than this mix; if a part of the source has
                fewer records than the part's sampler reads; or if that sampler is a
                `WeightedSampler` or `BalancedSampler`, and the part has more records.
        """
        if set(lengths) != set(self._parts):
            raise ValueError(
                f"the sampler has the parts {first_few(self.names, 8)}, but the source has "
                f"{first_few(lengths, 8)}. Pass the same parts to MixSampler and DataLoader."
            )
        for name, part in self._parts.items():
            part.for_source(lengths[name], name)
