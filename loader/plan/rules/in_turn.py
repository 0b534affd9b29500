"""Rules that take a row of each input, in turn: zip and interleave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import JoinError
from ..cursor import JoinState, are_numbers
from ..joins import JoinPolicy


@dataclass(frozen=True)
class InTurn(JoinPolicy):
    """A row of each input, again and again. The note: rows so far."""

    count: int  # of inputs
    together: bool = True  # all must end at the same row

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The values that decide the rule."""
        return {"kind": "zip", "inputs": self.count, "strict": self.together}

    def choices(self, note: JoinState, count: int) -> NDArray[np.int64]:
        return np.arange(note[0], note[0] + count, dtype=np.int64) % self.count

    def taken(self, rows: int) -> Sequence[int]:
        return [(rows - number - 1) // self.count + 1 for number in range(self.count)]

    def ended(self, note: JoinState, number: int) -> JoinState | None:
        if self.together and number:
            raise JoinError(
                f"zip: argument {number + 1} is shorter than argument {number}; pass strict=False to end with the shortest."
            )
        return None

    def shared(self, notes: Sequence[JoinState], shards: int) -> JoinState:
        if len({note[0] for note in notes}) > 1:
            raise JoinError("what is zipped can go on with other shards only where all stand at the same step.")
        return (0,)


@dataclass(frozen=True)
class Interleaved(JoinPolicy):
    """A row of each of the inputs that are open, in turn; where one ends, the next one is opened in its place.

    The note: rows so far, whose turn it is, the number of the next input to be opened, and those that are open.
    """

    count: int  # of inputs
    cycle: int  # how many are open at a time

    @property
    def start(self) -> JoinState:
        opened = min(self.cycle, self.count)
        return (0, 0, opened, *range(opened))

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The values that decide the rule."""
        return {"kind": "interleave", "inputs": self.count, "cycle": self.cycle}

    def choices(self, note: JoinState, count: int) -> NDArray[np.int64]:
        _, turn, _, *opened = note
        return np.array(opened, dtype=np.int64)[(turn + np.arange(count)) % len(opened)] if opened else np.empty(0, int)

    def after(self, note: JoinState, count: int) -> JoinState:
        rows, turn, following, *opened = note
        return (rows + count, (turn + count) % len(opened), following, *opened)

    def ended(self, note: JoinState, number: int) -> JoinState | None:
        rows, turn, following, *opened = note
        if following < self.count:
            opened[turn] = following
            return (rows, turn, following + 1, *opened)
        del opened[turn]
        return (rows, turn % len(opened), following, *opened) if opened else None

    def is_note(self, note: JoinState) -> bool:
        if len(note) < 4 or not are_numbers(note):
            return False
        _, turn, following, *opened = note
        known = turn < len(opened) <= self.cycle and following <= self.count
        return known and len({*opened}) == len(opened) and all(number < following for number in opened)
