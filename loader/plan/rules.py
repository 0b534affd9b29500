"""Rules of joins, which decide from which input the next row comes: zip, interleave, limit, repeat.

Their base class, `JoinPolicy`, is in `joins`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import JoinError
from ...samplers.protocol import ENDLESS, Int64s
from .cursor import JoinState, are_numbers
from .joins import JoinPolicy


@dataclass(frozen=True)
class InTurn(JoinPolicy):
    """Rule of zip: one row of each input in turn. Its state: the number of rows so far.

    Attributes:
        inputs: number of inputs.
        strict: True if all inputs must end at the same row.
    """

    inputs: int
    strict: bool = True

    kind = "zip"

    def choices(self, state: JoinState, count: int) -> Int64s:
        return np.arange(state[0], state[0] + count, dtype=np.int64) % self.inputs

    def taken(self, rows: int) -> Sequence[int]:
        return [(rows - number - 1) // self.inputs + 1 for number in range(self.inputs)]

    def ended(self, state: JoinState, number: int) -> JoinState | None:
        if self.strict and number:
            raise JoinError(
                f"zip: argument {number + 1} is shorter than argument {number}. Pass strict=False "
                "to end with the shortest."
            )
        return None

    def shared(self, states: Sequence[JoinState], shards: int) -> JoinState:
        if len({state[0] for state in states}) > 1:
            raise JoinError(
                "zipped datasets can change their number of shards only from states that all "
                "shards saved at the same step. Pass such states, or keep the number of shards."
            )
        return self.start


@dataclass(frozen=True)
class Interleaved(JoinPolicy):
    """Rule of interleave: one row of each open input in turn.

    If an input ends, the next one is opened in its place. Its state: the number of rows so far, the
    place (among the open inputs) of the input whose turn it is, the index of the next input to be
    opened, and the indices of the open inputs.

    Attributes:
        inputs: number of inputs.
        cycle: number of inputs that are open at a time.
    """

    inputs: int
    cycle: int

    kind = "interleave"

    @property
    def start(self) -> JoinState:  # type: ignore[override]  # it depends on the numbers
        opened = min(self.cycle, self.inputs)
        return (0, 0, opened, *range(opened))

    def choices(self, state: JoinState, count: int) -> Int64s:
        _, turn, _, *opened = state
        return (
            np.array(opened, dtype=np.int64)[(turn + np.arange(count)) % len(opened)]
            if opened
            else np.empty(0, int)
        )

    def after(self, state: JoinState, count: int) -> JoinState:
        rows, turn, following, *opened = state
        return (rows + count, (turn + count) % len(opened), following, *opened)

    def ended(self, state: JoinState, number: int) -> JoinState | None:
        rows, turn, following, *opened = state
        if following < self.inputs:
            opened[turn] = following
            return (rows, turn, following + 1, *opened)
        del opened[turn]
        return (rows, turn % len(opened), following, *opened) if opened else None

    def is_state(self, state: JoinState) -> bool:
        if len(state) < 4 or not are_numbers(state):
            return False
        _, turn, following, *opened = state
        known = turn < len(opened) <= self.cycle and following <= self.inputs
        return (
            known and len({*opened}) == len(opened) and all(number < following for number in opened)
        )


class OfOne(JoinPolicy):
    """Base of the rules of joins that have only one input."""

    def choices(self, state: JoinState, count: int) -> Int64s:
        return np.zeros(count, dtype=np.int64)

    def length(self, rows: int) -> int:
        """Return the number of rows of the joined stream, if its input has `rows`.

        `ENDLESS` stands for no end.
        """
        return rows


@dataclass(frozen=True)
class First(OfOne):
    """Rule of limit: the first `count` rows of one input. Its state: the number of rows so far."""

    count: int

    kind = "limit"
    limits = True

    def taken(self, rows: int) -> Sequence[int]:
        return [rows] if rows <= self.count else []

    def length(self, rows: int) -> int:
        return min(rows, self.count)

    def choices(self, state: JoinState, count: int) -> Int64s:
        return super().choices(state, max(min(count, self.count - state[0]), 0))

    def wanted(self, state: JoinState, most: int | None) -> int:
        left: int = max(self.count - state[0], 0)
        return left if most is None else min(left, most)

    def shared(self, states: Sequence[JoinState], shards: int) -> JoinState:
        raise JoinError(
            "limit counts the elements of one shard, so the number of shards cannot change. Keep "
            "the number of shards, or slice the MapDataset in place of the limit."
        )


@dataclass(frozen=True)
class All(OfOne):
    """Rule that gives all rows of one input. Its state: the number of rows so far.

    Attributes:
        keeps: True if rows are kept in memory, because a later join reads them again.
    """

    keeps: bool = False

    kind = "all"
    decisive = ()  # to keep rows changes nothing

    def wanted(self, state: JoinState, most: int | None) -> int | None:
        return most

    def shared(self, states: Sequence[JoinState], shards: int) -> JoinState:
        return self.start


@dataclass(frozen=True)
class Again(OfOne):
    """Rule of repeat: one input from beginning to end, several times.

    Its state: the number of rows so far, and how many times the input has ended.

    Attributes:
        times: how many times the input is read; None: for ever.
    """

    times: int | None

    kind = "repeat"
    restarts = True
    start = (0, 0)

    @property
    def endless(self) -> bool:  # type: ignore[override]  # it depends on the number
        return self.times is None

    def length(self, rows: int) -> int:
        return min(rows * self.times, ENDLESS) if self.times is not None else ENDLESS

    def choices(self, state: JoinState, count: int) -> Int64s:
        return super().choices(
            state, 0 if self.times is not None and state[1] >= self.times else count
        )

    def ended(self, state: JoinState, number: int) -> JoinState | None:
        return (
            None
            if self.times is not None and state[1] + 1 >= self.times
            else (state[0], state[1] + 1)
        )

    def shared(self, states: Sequence[JoinState], shards: int) -> JoinState:
        if self.times == 1:
            return super().shared(states, shards)
        raise JoinError(
            "a stream with IterDataset.repeat cannot change its number of shards, because shards "
            "would be in different repetitions. Use MapDataset.repeat, before to_iter_dataset()."
        )


@dataclass(frozen=True)
class RunThrough(JoinPolicy):
    """Rule of a source without random access: chooses nothing, and only stores the source's state.

    Such a source has an entry in the `notes` of a cursor (place in the stream), like a join. The
    entry has two values: a local position, and the source's state there as text. An empty text
    means the beginning.
    """

    kind = "in order"
    start = (0, "")

    def shared(self, states: Sequence[JoinState], shards: int) -> JoinState:
        raise JoinError(
            "a dataset that can only be read from its beginning, without random access, cannot "
            "change its number of shards. Keep the number of shards."
        )

    def is_state(self, state: JoinState) -> bool:
        return [*map(type, state)] == [int, str]
