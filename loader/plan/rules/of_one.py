"""Rules of one input: its first rows, all of them, or all several times; and where it is a source that is run through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import JoinError
from ..cursor import JoinState
from ..joins import JoinPolicy


@dataclass(frozen=True)
class First(JoinPolicy):
    """The first rows of one input. The note: rows so far."""

    count: int

    limits = True

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The values that decide the rule."""
        return {"kind": "limit", "count": self.count}

    def taken(self, rows: int) -> Sequence[int]:
        return [rows] if rows <= self.count else []

    def choices(self, note: JoinState, count: int) -> NDArray[np.int64]:
        return np.zeros(max(min(count, self.count - note[0]), 0), dtype=np.int64)

    def shared(self, notes: Sequence[JoinState], shards: int) -> JoinState:
        raise JoinError("limit counts the elements of one shard; keep the number of shards, or slice the MapDataset.")


@dataclass(frozen=True)
class All(JoinPolicy):
    """All rows of one input. The note: rows so far."""

    keeps: bool = False

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The values that decide the rule; to keep rows changes nothing."""
        return {"kind": "all"}

    def choices(self, note: JoinState, count: int) -> NDArray[np.int64]:
        return np.zeros(count, dtype=np.int64)

    def shared(self, notes: Sequence[JoinState], shards: int) -> JoinState:
        return self.start


@dataclass(frozen=True)
class Again(JoinPolicy):
    """One input from its beginning to its end, several times. The note: rows so far, and how often it has ended."""

    times: int | None  # None: for ever

    restarts = True

    @property
    def start(self) -> JoinState:
        """No row, and no end."""
        return (0, 0)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The values that decide the rule."""
        return {"kind": "repeat", "times": self.times}

    def choices(self, note: JoinState, count: int) -> NDArray[np.int64]:
        return np.zeros(0 if self.times is not None and note[1] >= self.times else count, dtype=np.int64)

    def ended(self, note: JoinState, number: int) -> JoinState | None:
        return None if self.times is not None and note[1] + 1 >= self.times else (note[0], note[1] + 1)

    def shared(self, notes: Sequence[JoinState], shards: int) -> JoinState:
        if self.times == 1:
            return super().shared(notes, shards)
        raise JoinError(
            "IterDataset.repeat cannot go on with other shards, as these would stand in different repetitions; "
            "use MapDataset.repeat, before to_iter_dataset()."
        )


@dataclass(frozen=True)
class RunThrough(JoinPolicy):
    """No join: the place for what a source that can only be run through must know to go on.

    The note: a local position and the source's state there, as text; empty: from the beginning.
    """

    @property
    def start(self) -> JoinState:
        """From the beginning."""
        return ()

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The values that decide the rule."""
        return {"kind": "in order"}

    def shared(self, notes: Sequence[JoinState], shards: int) -> JoinState:
        raise JoinError(
            "a dataset of your own that can only be run through cannot go on with other shards; keep their number."
        )

    def is_note(self, note: JoinState) -> bool:
        return [*map(type, note)] in ([], [int, str])
