"""Joins: one stream of rows made of several, or of one, by a rule that looks at no row.

In: numbers of inputs. Out: whose row comes next.

A rule is a pure function of its note, a few integers, which a cursor keeps. What a join does not know beforehand, because
filters come before it, is where an input ends: the rule is asked then how to go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...errors import JoinError
from ...samplers.mix_order import MixOrder
from .cursor import Note, Size

BLOCK = 1024
"""Rows of a mix to look up at a time: a few are as dear as many."""


class Rule(Protocol):
    """Whose row comes next.

    Attributes:
        start: the note at the beginning.
        restarts: an input that has ended begins anew, if the rule goes on.
        together: where the first input ends, all must.
        keeps: rows stay in memory, to be given again when a join above begins anew.
    """

    @property
    def start(self) -> Note: ...

    @property
    def restarts(self) -> bool: ...

    @property
    def together(self) -> bool: ...

    @property
    def keeps(self) -> bool: ...

    @property
    def fingerprint(self) -> dict[str, Any]: ...

    def choices(self, note: Note, count: int) -> NDArray[np.int64]:
        """The inputs `int64[count]` of the next rows; fewer where the join ends after them."""

    def after(self, note: Note, count: int) -> Note:
        """The note after `count` rows more."""

    def ended(self, note: Note, number: int) -> Note | None:
        """How it goes on when an input whose row comes next has ended; None: that is the end.

        Raises:
            JoinError: that input may not end here.
        """

    def shared(self, notes: Sequence[Note], shards: int) -> Note:
        """The note of each of some shards that go on after others, which stand at these notes.

        Raises:
            JoinError: they cannot.
        """

    def is_note(self, note: Note) -> bool:
        """Whether that may be a note of this rule."""


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


class _Block(NamedTuple):
    """The inputs of many rows, from `first` on, after these inputs have ended."""

    first: int
    ends: Note
    inputs: NDArray[np.int64]

    def has(self, row: int, count: int, ends: Note) -> bool:
        return self.ends == ends and self.first <= row and row + count <= self.first + len(self.inputs)

    def of(self, row: int, count: int) -> NDArray[np.int64]:
        return self.inputs[row - self.first : row - self.first + count]


@dataclass(frozen=True)
class MixRows:
    """Rows in given proportions. The note: rows so far; then, for each input that has ended, its number and the rows then.

    Attributes:
        order: which input stands at which row.
        goes_on: an input that has ended is left out from then on; else the mix ends with it.
    """

    order: MixOrder
    goes_on: bool = False
    _orders: dict[Note, MixOrder] = field(default_factory=dict, compare=False, repr=False)
    _blocks: list[_Block] = field(default_factory=list, compare=False, repr=False)

    restarts: ClassVar[bool] = False
    together: ClassVar[bool] = False
    keeps: ClassVar[bool] = False
    start: ClassVar[Note] = (0,)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What decides the rule."""
        return {"kind": "mix", "order": self.order.to_values(), "goes_on": self.goes_on}

    def choices(self, note: Note, count: int) -> NDArray[np.int64]:
        """As the protocol says."""
        row, ends = note[0], note[1:]
        block = next(iter(self._blocks), None)
        if block is None or not block.has(row, count, ends):
            rows = np.arange(row, row + max(count, BLOCK), dtype=np.int64)
            block = _Block(row, ends, self._order(ends).places(rows)[0])
            self._blocks[:] = [block]
        return block.of(row, count)

    def _order(self, ends: Note) -> MixOrder:
        """The order without the inputs that have ended."""
        if not ends:
            return self.order
        if ends not in self._orders:
            order = self._order(ends[:-2]).without(ends[-2], ends[-1])
            assert order is not None, "a mix of which nobody is left has ended"
            self._orders[ends] = order
        return self._orders[ends]

    def after(self, note: Note, count: int) -> Note:
        """As the protocol says."""
        return (note[0] + count, *note[1:])

    def ended(self, note: Note, number: int) -> Note | None:
        """As the protocol says."""
        if not self.goes_on or self._order(note[1:]).without(number, note[0]) is None:
            return None
        return (*note, number, note[0])

    def shared(self, notes: Sequence[Note], shards: int) -> Note:
        """As the protocol says. Inputs that have ended are found again."""
        return (sum(note[0] for note in notes) // shards,)

    def is_note(self, note: Note) -> bool:
        """As the protocol says."""
        numbers, places = note[1::2], note[2::2]
        known = len(set(numbers)) == len(numbers) == len(places) < len(self.order.names)
        return (
            len(note) > 0 and known and _are_numbers(note) and all(number < len(self.order.names) for number in numbers)
        )


@dataclass(frozen=True)
class InTurn:
    """A row of each input, again and again. The note: rows so far.

    Attributes:
        count: of inputs.
        strict: all must end together.
    """

    count: int
    strict: bool = True

    restarts: ClassVar[bool] = False
    keeps: ClassVar[bool] = False
    start: ClassVar[Note] = (0,)

    @property
    def together(self) -> bool:
        """As the protocol says."""
        return self.strict

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What decides the rule."""
        return {"kind": "zip", "inputs": self.count, "strict": self.strict}

    def choices(self, note: Note, count: int) -> NDArray[np.int64]:
        """As the protocol says."""
        return np.arange(note[0], note[0] + count, dtype=np.int64) % self.count

    def after(self, note: Note, count: int) -> Note:
        """As the protocol says."""
        return (note[0] + count,)

    def ended(self, note: Note, number: int) -> Note | None:
        """As the protocol says."""
        if self.strict and number:
            raise JoinError(
                f"zip: argument {number + 1} is shorter than argument {number}; pass strict=False to end with the shortest."
            )
        return None

    def shared(self, notes: Sequence[Note], shards: int) -> Note:
        """As the protocol says."""
        if len({note[0] for note in notes}) > 1:
            raise JoinError("what is zipped can go on with other shards only where all stand at the same step.")
        return (0,)

    def is_note(self, note: Note) -> bool:
        """As the protocol says."""
        return len(note) == 1 and _are_numbers(note)


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
        return len(note) == 1 and _are_numbers(note)


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
        return len(note) == 1 and _are_numbers(note)


@dataclass(frozen=True)
class Again:
    """One input from its beginning to its end, several times. The note: how often it has ended.

    Attributes:
        times: None: for ever.
    """

    times: int | None

    restarts: ClassVar[bool] = True
    together: ClassVar[bool] = False
    keeps: ClassVar[bool] = False
    start: ClassVar[Note] = (0,)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What decides the rule."""
        return {"kind": "repeat", "times": self.times}

    def choices(self, note: Note, count: int) -> NDArray[np.int64]:
        """As the protocol says."""
        return np.zeros(0 if self.times is not None and note[0] >= self.times else count, dtype=np.int64)

    def after(self, note: Note, count: int) -> Note:
        """As the protocol says."""
        return note

    def ended(self, note: Note, number: int) -> Note | None:
        """As the protocol says."""
        return None if self.times is not None and note[0] + 1 >= self.times else (note[0] + 1,)

    def shared(self, notes: Sequence[Note], shards: int) -> Note:
        """As the protocol says."""
        if {*notes} == {self.start} and self.times == 1:
            return self.start
        raise JoinError(
            "IterDataset.repeat cannot go on with other shards, as these would stand in different repetitions; "
            "use MapDataset.repeat, before to_iter_dataset()."
        )

    def is_note(self, note: Note) -> bool:
        """As the protocol says."""
        return len(note) == 1 and _are_numbers(note)


@dataclass(frozen=True)
class Interleaved:
    """A row of each of the inputs that are open, in turn; where one ends, the next one is opened in its place.

    The note: whose turn it is, the number of the next input to be opened, and those that are open.

    Attributes:
        count: of inputs.
        cycle: how many are open at a time.
    """

    count: int
    cycle: int

    restarts: ClassVar[bool] = False
    together: ClassVar[bool] = False
    keeps: ClassVar[bool] = False

    @property
    def start(self) -> Note:
        """As the protocol says."""
        opened = min(self.cycle, self.count)
        return (0, opened, *range(opened))

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What decides the rule."""
        return {"kind": "interleave", "inputs": self.count, "cycle": self.cycle}

    def choices(self, note: Note, count: int) -> NDArray[np.int64]:
        """As the protocol says."""
        turn, _, *opened = note
        return np.array(opened, dtype=np.int64)[(turn + np.arange(count)) % len(opened)] if opened else np.empty(0, int)

    def after(self, note: Note, count: int) -> Note:
        """As the protocol says."""
        turn, following, *opened = note
        return ((turn + count) % len(opened), following, *opened)

    def ended(self, note: Note, number: int) -> Note | None:
        """As the protocol says."""
        turn, following, *opened = note
        if following < self.count:
            opened[turn] = following
            return (turn, following + 1, *opened)
        del opened[turn]
        return (turn % len(opened), following, *opened) if opened else None

    def shared(self, notes: Sequence[Note], shards: int) -> Note:
        """As the protocol says. Inputs that have ended are found again."""
        return self.start

    def is_note(self, note: Note) -> bool:
        """As the protocol says."""
        known = len(note) > 2 and _are_numbers(note) and note[0] < len(note) - 2 <= self.cycle and note[1] <= self.count
        return known and len({*note[2:]}) == len(note) - 2 and all(number < note[1] for number in note[2:])


def _are_numbers(note: Note) -> bool:
    return all(isinstance(value, int) for value in note)


@dataclass(frozen=True)
class Part:
    """A part of a pipeline: what comes out of a stage or of a join, and all that this is made of.

    Attributes:
        stage: number of the stage; None: of a join.
        join: number of the join.
        size: how many leaves, stages and joins belong to it.
    """

    stage: int | None
    join: int | None
    size: Size


@dataclass(frozen=True)
class Join:
    """Rows of several parts.

    Attributes:
        number: in the pipeline.
        inputs: the parts; none where the number is that of a source that can only be run through.
        rule: whose row comes next.
        names: of the inputs.
    """

    number: int
    inputs: tuple[Part, ...]
    rule: Rule
    names: tuple[str, ...] = ()
