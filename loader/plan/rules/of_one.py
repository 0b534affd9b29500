"""Rules of one input: its first rows, all of them, or all several times; and where it is a source that is run through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ....errors import JoinError
from ..cursor import Note, are_numbers


@dataclass(frozen=True)
class First:
    """The first rows of one input. The note: rows so far."""

    count: int

    restarts: ClassVar[bool] = False
    together: ClassVar[bool] = False
    keeps: ClassVar[bool] = False
    start: ClassVar[Note] = (0,)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What decides the rule."""
        return {"kind": "limit", "count": self.count}

    def choices(self, note: Note, count: int) -> NDArray[np.int64]:
        """As the protocol says."""
        return np.zeros(max(min(count, self.count - note[0]), 0), dtype=np.int64)

    def after(self, note: Note, count: int) -> Note:
        """As the protocol says."""
        return (note[0] + count,)

    def ended(self, note: Note, number: int) -> Note | None:
        """As the protocol says."""
        return None

    def shared(self, notes: Sequence[Note], shards: int) -> Note:
        """As the protocol says."""
        raise JoinError("limit counts the elements of one shard; keep the number of shards, or slice the MapDataset.")

    def is_note(self, note: Note) -> bool:
        """As the protocol says."""
        return len(note) == 1 and are_numbers(note)


@dataclass(frozen=True)
class All:
    """All rows of one input. The note: rows so far.

    Attributes:
        keeps: as the protocol says.
    """

    keeps: bool = False

    restarts: ClassVar[bool] = False
    together: ClassVar[bool] = False
    start: ClassVar[Note] = (0,)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What decides the rule; to keep rows changes nothing."""
        return {"kind": "all"}

    def choices(self, note: Note, count: int) -> NDArray[np.int64]:
        """As the protocol says."""
        return np.zeros(count, dtype=np.int64)

    def after(self, note: Note, count: int) -> Note:
        """As the protocol says."""
        return (note[0] + count,)

    def ended(self, note: Note, number: int) -> Note | None:
        """As the protocol says."""
        return None

    def shared(self, notes: Sequence[Note], shards: int) -> Note:
        """As the protocol says."""
        return self.start

    def is_note(self, note: Note) -> bool:
        """As the protocol says."""
        return len(note) == 1 and are_numbers(note)


@dataclass(frozen=True)
class Again:
    """One input from its beginning to its end, several times. The note: rows so far, and how often it has ended.

    Attributes:
        times: None: for ever.
    """

    times: int | None

    restarts: ClassVar[bool] = True
    together: ClassVar[bool] = False
    keeps: ClassVar[bool] = False
    start: ClassVar[Note] = (0, 0)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What decides the rule."""
        return {"kind": "repeat", "times": self.times}

    def choices(self, note: Note, count: int) -> NDArray[np.int64]:
        """As the protocol says."""
        return np.zeros(0 if self.times is not None and note[1] >= self.times else count, dtype=np.int64)

    def after(self, note: Note, count: int) -> Note:
        """As the protocol says."""
        return (note[0] + count, note[1])

    def ended(self, note: Note, number: int) -> Note | None:
        """As the protocol says."""
        return None if self.times is not None and note[1] + 1 >= self.times else (note[0], note[1] + 1)

    def shared(self, notes: Sequence[Note], shards: int) -> Note:
        """As the protocol says."""
        if self.times == 1:
            return (sum(note[0] for note in notes) // shards, 0)
        raise JoinError(
            "IterDataset.repeat cannot go on with other shards, as these would stand in different repetitions; "
            "use MapDataset.repeat, before to_iter_dataset()."
        )

    def is_note(self, note: Note) -> bool:
        """As the protocol says."""
        return len(note) == 2 and are_numbers(note)


@dataclass(frozen=True)
class RunThrough:
    """No join: the place for what a source that can only be run through must know to go on.

    The note: a local position and the source's state there, as text; empty: from the beginning.
    """

    restarts: ClassVar[bool] = False
    together: ClassVar[bool] = False
    keeps: ClassVar[bool] = False
    start: ClassVar[Note] = ()

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What decides the rule."""
        return {"kind": "in order"}

    def choices(self, note: Note, count: int) -> NDArray[np.int64]:
        """As the protocol says."""
        return np.empty(0, dtype=np.int64)

    def after(self, note: Note, count: int) -> Note:
        """As the protocol says."""
        return note

    def ended(self, note: Note, number: int) -> None:
        """As the protocol says."""

    def shared(self, notes: Sequence[Note], shards: int) -> Note:
        """As the protocol says."""
        raise JoinError(
            "a dataset of your own that can only be run through cannot go on with other shards; keep their number."
        )

    def is_note(self, note: Note) -> bool:
        """As the protocol says."""
        return [*map(type, note)] in ([], [int, str])
