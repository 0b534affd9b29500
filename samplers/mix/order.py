"""Compute which part of a mix is drawn at a position, and which of the part's records.

In: positions. Out: for each position, the index of the part, and the index of the element within
the part. No state is kept between calls.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import takewhile
from typing import Any

import numpy as np

from ...common.messages import short_repr
from ...errors import CheckpointError
from ..protocol import Int64s
from .stage import ONE, StageTables, WeightStage
from .weights import (
    MAX_POSITION,
    Schedule,
    Stages,
    Weights,
    in_units,
    is_schedule,
    ramped,
    stages_of,
)

# Enough to pay for NumPy's calls, few enough for the caches.
BLOCK = 8192
"""Number of positions computed at a time."""

FEW = 64
"""Up to this number of positions, they are computed one by one, which is faster."""

# From the least number on, part by part is faster.
MANY, MOST = 4096, 1 << 16
"""Least number of consecutive positions computed part by part; maximal number at a time."""


@dataclass(frozen=True)
class MixOrder:
    """The order of a mix of parts, by weights that may change.

    A stage is a range of positions with constant weights. At every position, the number of elements
    drawn from a part is close to its share, i.e. the sum of its weights over all positions before.
    The difference is at most 0.5 for two parts, at most 1 for equal weights and for most others,
    and never more than 1.4 while the weights stay the same. After a strong change of many weights
    at once, it may for a while be larger by one or two. Differences of several stages do not add
    up.

    Attributes:
        names: names of the parts, including parts that are no longer drawn. The index of a part is
            its index in `names`.
        stages: first position and weights of each stage, in ascending order from 0.
        made: computed first stages of another order that begins in the same way; they are not
            computed again.

    >>> order = MixOrder.of({"web": 0.7, "books": 0.3})
    >>> parts, indices = order.places(np.arange(10))
    >>> parts.tolist(), indices.tolist()
    ([0, 1, 0, 0, 1, 0, 0, 0, 1, 0], [0, 0, 1, 2, 1, 3, 4, 5, 2, 6])
    >>> order.counts(10**15).tolist()
    [700000000000000, 300000000000000]
    """

    names: tuple[str, ...]
    stages: Stages
    # Stages take time to make.
    made: tuple[WeightStage, ...] = field(default=(), repr=False, compare=False)
    """First stages, already computed, of an order that begins in the same way.

    By default, it is `()`, and all stages are computed.
    """

    @classmethod
    def of(
        cls,
        weights: Weights | Schedule | None,
        names: Sequence[str] | None = None,
        ramp: bool = False,
        records_per_step: int = 1,
    ) -> MixOrder:
        """Return the order for weights as a user writes them.

        Args:
            weights: a list, a dict by name, a schedule (pairs of a step and weights from this step
                on), or None for equal weights. Weights need not sum to one.
            names: names of the parts; None (default): the keys of a dict, or "0", "1", … for a
                list.
            ramp: True changes the weights linearly from one stage of a schedule to the next.
            records_per_step: number of elements in a step of a schedule.

        Raises:
            TypeError: if `weights` has another type.
            ValueError: if a weight is outside its range, the weights are not for these parts, or
                `ramp` is given without a schedule.
        """
        known = _names_in(weights) if names is None else tuple(names)
        stages = stages_of(weights, known, records_per_step)
        return cls(known, ramped(stages) if ramp else stages)

    def __reduce__(self) -> tuple[Any, ...]:
        return MixOrder, (self.names, self.stages)

    @cached_property
    def _stages(self) -> tuple[WeightStage, ...]:
        made = list(self.made) or [WeightStage.first(in_units(self.stages[0][1], ONE))]
        for start, weights in self.stages[len(made) :]:
            made.append(made[-1].followed_by(start, in_units(weights, ONE)))
        return tuple(made)

    @cached_property
    def _starts(self) -> list[int]:
        return [start for start, _ in self.stages]

    @cached_property
    def _tables(self) -> StageTables:
        return StageTables(self._stages)

    def _stage(self, position: int) -> WeightStage:
        return self._stages[bisect_right(self._starts, position) - 1]

    def places(self, positions: Int64s) -> tuple[Int64s, Int64s]:
        """Return the index of the part at each position, and the index of its element in the part.

        Args:
            positions: `int64[n]` in `[0, 2^62)`; not checked.

        Returns:
            `int64[n]`, indices of parts; and `int64[n]`, indices of elements within their parts.
        """
        if len(positions) <= FEW:
            found = np.array(
                [self.place(position) for position in positions.tolist()], dtype=np.int64
            ).reshape(-1, 2)
            return found[:, 0], found[:, 1]
        if len(positions) <= BLOCK:
            return self._tables.places(positions)
        cuts = np.split(positions, range(BLOCK, len(positions), BLOCK))
        parts, indices = zip(*map(self._tables.places, cuts))
        return np.concatenate(parts), np.concatenate(indices)

    def by_part(self, positions: Int64s) -> Iterator[tuple[int, Int64s, Int64s]]:
        """Group positions by the part that is drawn at them. A part may be yielded several times.

        Args:
            positions: `int64[n]`, at least one, ascending.

        Yields:
            the index of the part; the indices of its elements in the part; and the indices into
            `positions` at which they are drawn.
        """
        first, last = int(positions[0]), int(positions[-1])
        numbers = range(bisect_right(self._starts, first) - 1, bisect_right(self._starts, last))
        if len(positions) < MANY * len(numbers) or not (np.diff(positions) == 1).all():
            yield from _grouped(*self.places(positions))
            return
        for number in numbers:
            stop = (
                min(self._starts[number + 1], last + 1)
                if number + 1 < len(self._starts)
                else last + 1
            )
            for start in range(max(self._starts[number], first), stop, MOST):
                for part, index, places in self._stages[number].by_part(
                    start, min(start + MOST, stop)
                ):
                    yield part, np.arange(index, index + len(places)), places + (start - first)

    def place(self, position: int) -> tuple[int, int]:
        """Return, for one position, the index of the part, and of the element in the part."""
        stage = self._stage(position)
        part, visits = stage.place(position - stage.start)
        return part, visits + stage.counts[part]

    def counts(self, position: int) -> Int64s:
        """Return how many elements of each part are drawn before a position, `int64[parts]`."""
        return np.array(self._stage(position).counts_at(position), dtype=np.int64)

    def taken(self, rows: int) -> list[int]:
        """Return how many elements of each part are among the first `rows` rows of the mix.

        The list is empty if `rows` is 2^62 or more.
        """
        return self._stage(rows).counts_at(rows) if rows < MAX_POSITION else []

    def count(self, part: int, position: int) -> int:
        """Return how many elements of one part are drawn before a position.

        Args:
            part: index of the part.
            position: a position of the mix.
        """
        return self._stage(position).count_at(part, position)

    def position_of(self, part: int, index: int) -> int | None:
        """Return the position at which an element of a part is drawn.

        Args:
            part: index of the part.
            index: index of the element in the part.

        Returns:
            the position, or None if the element is not drawn before position 2^62.
        """
        number = bisect_right([stage.counts[part] for stage in self._stages], index) - 1
        stage, last = self._stages[number], number + 1 == len(self._stages)
        stop = MAX_POSITION if last else self._stages[number + 1].start
        if stage.count_at(part, stop) <= index:
            return None
        found = stage.position_of(part, index)
        return _bisected(stage, part, index, stop) if found is None else found

    def without(self, part: int, position: int) -> MixOrder | None:
        """Return this order, in which a part is no longer drawn from a position on.

        A later range of weights that draws no other part is removed, and the weights before it
        continue. Return None if no part is left.

        Args:
            part: index of the part.
            position: first position without the part.
        """
        before, after = _cut(self.stages, position)
        rest = [
            (
                start,
                tuple(0.0 if number == part else weight for number, weight in enumerate(weights)),
            )
            for start, weights in after
        ]
        drawing = [stage for stage in rest if any(stage[1])]
        if not drawing:
            return None
        return MixOrder(
            self.names,
            (*before, (position, drawing[0][1]), *drawing[1:]),
            self._stages[: len(before)],
        )

    def changed(self, position: int, other: MixOrder) -> MixOrder:
        """Return an order that is this order before `position`, and `other` from `position` on.

        Parts are matched by name. A part of both orders continues with its next element. Parts keep
        their indices; new parts come after them.
        """
        names = (*self.names, *(name for name in other.names if name not in self.names))
        before, _ = _cut(self.stages, position)
        _, after = _cut(other.stages, position)
        former = [
            (start, (*weights, *(0.0,) * (len(names) - len(self.names))))
            for start, weights in before
        ]
        later = (
            after
            if names == other.names
            else [(start, _for_names(names, other.names, each)) for start, each in after]
        )
        return MixOrder(names, (*former, *later))

    def begun_as(self, other: MixOrder) -> MixOrder:
        """Return this order, with the stages that are already computed in `other`.

        A stage is a range of positions with constant weights. Only the stages before the first
        difference of both orders are taken from `other`. They need not be computed again.
        """
        if self.names != other.names or "_stages" not in vars(other):
            return self
        same = sum(
            1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self.stages, other.stages))
        )
        return MixOrder(self.names, self.stages, other._stages[:same])

    def to_values(self) -> dict[str, Any]:
        """Return the order as JSON values, which `from_values` reads."""
        return {
            "names": list(self.names),
            "stages": [[start, list(weights)] for start, weights in self.stages],
        }

    @classmethod
    def from_values(cls, values: Any) -> MixOrder:
        """Read the values that `to_values` returned.

        Raises:
            CheckpointError: if the values are damaged.
        """
        try:
            names = tuple(values["names"])
            if len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
                raise ValueError
            return cls(
                names, stages_of([(start, weights) for start, weights in values["stages"]], names)
            )
        except (TypeError, ValueError, LookupError):
            raise CheckpointError(
                f"the state is damaged: mix={short_repr(values)}. Restore another checkpoint."
            ) from None


def _grouped(parts: Int64s, indices: Int64s) -> Iterator[tuple[int, Int64s, Int64s]]:
    """Group positions by part, and yield each part once.

    Args:
        parts: `int64[n]`, the index of the part at each position; at least one.
        indices: `int64[n]`, for each position, the index of the element within its part.

    Yields:
        the index of the part; the indices of its elements; and the indices into `parts` at which
        the part is drawn.
    """
    by_part = np.argsort(parts.astype(np.int16) if parts.max() < 1 << 15 else parts, kind="stable")
    in_order = parts[by_part]
    for places in np.split(by_part, np.flatnonzero(in_order[1:] != in_order[:-1]) + 1):
        yield int(parts[places[0]]), indices[places], places


def _names_in(weights: Any) -> tuple[str, ...]:
    """Return the part names in weights as a user writes them.

    For a dict: its keys. For a list: "0", "1", …. For a schedule: the names of its first weights.
    For any other value: ().
    """
    first = weights[0][1] if is_schedule(weights) else weights
    if isinstance(first, Mapping):
        return tuple(first)
    return tuple(map(str, range(len(first)))) if isinstance(first, Sized) else ()


def _cut(
    stages: Stages, position: int
) -> tuple[list[tuple[int, tuple[float, ...]]], list[tuple[int, tuple[float, ...]]]]:
    """Cut stages (ranges with constant weights) at a position.

    Returns:
        the stages before the position, and the stages from it on; the first of these begins at the
        position.
    """
    number = bisect_right([start for start, _ in stages], position)
    before = [stage for stage in stages[:number] if stage[0] < position]
    return before, [(position, stages[number - 1][1]), *stages[number:]]


def _for_names(
    names: Sequence[str], own: Sequence[str], weights: Sequence[float]
) -> tuple[float, ...]:
    by_name = dict(zip(own, weights))
    return tuple(by_name.get(name, 0.0) for name in names)


def _bisected(stage: WeightStage, part: int, index: int, stop: int) -> int:
    """Find by bisection the position at which an element of a part is drawn.

    Args:
        stage: the range of positions with constant weights in which the element is drawn.
        part: index of the part.
        index: index of the element in the part.
        stop: position at which the stage ends.
    """
    weight, visits = stage.weights[part], index - stage.counts[part]
    low = max(stage.start, stage.start + (visits - 4) * ONE // weight)
    high = min(stop, stage.start + (visits + 4) * ONE // weight + 1)
    # far from its share, after a change
    if stage.count_at(part, low) > index or stage.count_at(part, high) <= index:
        low, high = stage.start, stop
    counted = partial(stage.count_at, part)
    return bisect_right(range(high), index, low + 1, high, key=counted) - 1
