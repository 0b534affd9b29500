"""The rule of a mix of streams, which takes rows of several inputs in given proportions.

In: an order of inputs, or the description of a mix in a checkpoint, whose weights or inputs have
changed since then. Out: the rule of the current or of that former mix, and joins with it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...common.messages import short_repr, shorten
from ...errors import CheckpointError
from ...samplers.mix.order import MixOrder
from ...samplers.protocol import Int64s
from .cursor import JoinState, are_numbers
from .joins import Join, JoinPolicy


class RowOrder(Protocol):
    """Interface of an order that decides from which input of a mix each row comes."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the mix's inputs."""

    def places(self, positions: Int64s) -> tuple[Int64s, Int64s]:
        """Return, for n rows of the mix, the input's index and the row's index in this input.

        They are two arrays `int64[n]`.
        """

    def taken(self, rows: int) -> Sequence[int]:
        """Return how many of the first `rows` rows come from each input.

        The result is empty if computing it would take long.
        """

    def without(self, part: int, position: int) -> RowOrder | None:
        """Return the order without an input from some row on; None if no input remains.

        The other inputs keep their indices.

        Args:
            part: index of the input.
            position: index of the first row of the mix that must not come from it.
        """

    def to_values(self) -> Any:
        """Return the plain JSON values that identify the order."""


# Looking up a few rows takes as long as many.
BLOCK = 1024
"""Number of rows of a mix for which the inputs are computed in one call."""


class _Block(NamedTuple):
    """The inputs from which consecutive rows of a mix come.

    Attributes:
        first: index of the first row.
        ends: for each input that had ended before these rows, two numbers: the index of the input,
            and the row at which it ended.
        inputs: index of the input of each row, `int64[rows]`.
    """

    first: int
    ends: JoinState
    inputs: Int64s

    def has(self, row: int, count: int, ends: JoinState) -> bool:
        return (
            self.ends == ends and self.first <= row and row + count <= self.first + len(self.inputs)
        )

    def of(self, row: int, count: int) -> Int64s:
        return self.inputs[row - self.first : row - self.first + count]


@dataclass(frozen=True)
class MixRows(JoinPolicy):
    """Rule of a mix of streams: it takes rows of the inputs in given proportions.

    Its state: the number of rows so far; then, for each input that has ended, its index and the
    row at which it ended.

    Attributes:
        order: decides from which input each row comes.
        goes_on: what happens when an input ends. True: the mix continues with the other inputs.
            False: the mix ends.
        leaving: indices of inputs after whose end the mix continues even if `goes_on` is False.
    """

    order: RowOrder
    goes_on: bool = False
    leaving: tuple[int, ...] = ()
    _orders: dict[JoinState, RowOrder] = field(default_factory=dict, compare=False, repr=False)
    _blocks: list[_Block] = field(default_factory=list, compare=False, repr=False)

    kind = "mix"

    @property
    def fingerprint(self) -> dict[str, Any]:
        leaving = {"leaving": list(self.leaving)} if self.leaving else {}
        return {
            "kind": self.kind,
            "order": self.order.to_values(),
            "goes_on": self.goes_on,
            **leaving,
        }

    def _leaves(self, number: int) -> bool:
        return self.goes_on or number in self.leaving

    def choices(self, state: JoinState, count: int) -> Int64s:
        row, ends = state[0], state[1:]
        block = next(iter(self._blocks), None)
        if block is None or not block.has(row, count, ends):
            rows = np.arange(row, row + max(count, BLOCK), dtype=np.int64)
            block = _Block(row, ends, self._order(ends).places(rows)[0])
            self._blocks[:] = [block]
        return block.of(row, count)

    def taken(self, rows: int) -> Sequence[int]:
        return self.order.taken(rows)

    def _order(self, ends: JoinState) -> RowOrder:
        """Return the order of the mix without the inputs that have ended.

        Args:
            ends: for each input that has ended, its index and the row at which it ended, in one
                list.
        """
        if not ends:
            return self.order
        if ends not in self._orders:
            order = self._order(ends[:-2]).without(ends[-2], ends[-1])
            assert order is not None, "a mix of which nobody is left has ended"
            self._orders[ends] = order
        return self._orders[ends]

    def ended(self, state: JoinState, number: int) -> JoinState | None:
        if not self._leaves(number) or self._order(state[1:]).without(number, state[0]) is None:
            return None
        return (*state, number, state[0])

    def ended_inputs(self, state: JoinState) -> Sequence[int]:
        return state[1::2]

    def is_state(self, state: JoinState) -> bool:
        if len(state) % 2 == 0 or not are_numbers(state):
            return False
        row, *ends = state
        numbers, places = ends[::2], ends[1::2]
        known = len({*numbers}) == len(numbers) and max(numbers, default=0) < len(self.order.names)
        # Each input may have ended at its row, and the mix went on without it.
        return (
            known
            and sorted([*places, row]) == [*places, row]
            and all(
                MixRows.ended(self, (place, *ends[: 2 * before]), number)
                for before, (number, place) in enumerate(zip(numbers, places))
            )
        )


@dataclass(frozen=True)
class FormerMix(MixRows):
    """Rule of a mix as it was in an earlier run. In its state, inputs have the indices of that run.

    Attributes:
        numbers: for each input of that run, its current index.
    """

    numbers: tuple[int, ...] = ()

    def choices(self, state: JoinState, count: int) -> Int64s:
        return np.array(self.numbers, dtype=np.int64)[super().choices(state, count)]

    def taken(self, rows: int) -> Sequence[int]:
        return ()

    def ended(self, state: JoinState, number: int) -> JoinState | None:
        return super().ended(state, self.numbers.index(number))


def text_of(saved: Mapping[str, Any]) -> str:
    """Return the JSON text that a `Leftover` stores for a mix, to make the mix again.

    Args:
        saved: the description of the mix in a state (its field `identity`).
    """
    leaving = ["leaving"] if "leaving" in saved else []
    return json.dumps(
        {name: saved.get(name) for name in ("goes_on", *leaving, "names", "order")},
        separators=(",", ":"),
    )


def former_mix(join: Join, text: str) -> Join:
    """Return a join that mixes the current input streams as in an earlier run.

    Args:
        join: the current join of the streams.
        text: the mix of the earlier run, as `text_of` returned it.

    Raises:
        CheckpointError: the text is not a mix, or the mix has a dataset that was removed.
    """
    try:
        saved = json.loads(text)
        names, order, goes_on = (
            saved["names"],
            MixOrder.from_values(saved["order"]),
            bool(saved["goes_on"]),
        )
        leaving = tuple(map(int, saved.get("leaving", ())))
        if len(names) != len(order.names):
            raise ValueError("the mix must have as many names as weights")
        missing = [name for name in names if name not in join.names]
    except (ValueError, TypeError, LookupError) as error:
        raise CheckpointError(
            f"the state is damaged: its former mix cannot be read ({shorten(error)}). Restore "
            "another checkpoint."
        ) from None
    if missing:
        raise CheckpointError(
            f"dataset {short_repr(missing[0])} was removed from the mix, but the checkpoint was "
            "saved while a batch, Pack, window_shuffle or the like held some of its records. Keep "
            "it among the datasets, with weight 0."
        )
    numbers = tuple(map(join.names.index, names))
    return dataclasses.replace(join, rule=FormerMix(order, goes_on, leaving, numbers=numbers))
