"""The tree of nodes that a user describes, and joins: one stream of rows made of several, or of one, by a rule.

In: what the user passed, checked. Out: a tree, which `compile` turns into leaves, stages and joins; and what a rule is.

A rule is a pure function of its note, a few integers, which a cursor keeps; the first of them counts the rows so far. It looks
at no row. What a join does not know beforehand, because filters come before it, is where an input ends: the rule is asked then
how to go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...operations import Operation
from .cursor import JoinState, Subtree, are_numbers
from .leaf import Leaf


class JoinPolicy:
    """Whose row comes next. Here: what most rules have in common. Rules are frozen dataclasses."""

    kind: ClassVar[str]  # in fingerprints
    decisive: ClassVar[tuple[str, ...] | None] = None  # names of the fields that decide the rule; None: all
    start: ClassVar[JoinState] = (0,)  # the note at the beginning
    restarts: ClassVar[bool] = False  # an input that has ended begins anew, if the rule goes on
    limits: ClassVar[bool] = False  # it may end before its inputs do
    strict = False  # where the first input ends, all must
    keeps = False  # rows stay in memory, to be given again when a join above begins anew

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The plain JSON values that decide the rule."""
        names = vars(self) if self.decisive is None else self.decisive
        return {"kind": self.kind, **{name: getattr(self, name) for name in names}}

    def choices(self, note: JoinState, count: int) -> NDArray[np.int64]:
        """The inputs `int64[count]` of the next rows; fewer where the join ends after them."""
        raise NotImplementedError

    def after(self, note: JoinState, count: int) -> JoinState:
        """The note after `count` rows more."""
        return (note[0] + count, *note[1:])

    def taken(self, rows: int) -> Sequence[int]:
        """The number of rows of each input among the first ones of the join; none where the inputs decide it."""
        return ()

    def wanted(self, note: JoinState, most: int | None) -> int | None:
        """The most rows that its inputs have to give, if no more than `most` of the join are wanted; None: any number."""
        return None

    def ended(self, note: JoinState, number: int) -> JoinState | None:
        """The state after an input ends whose row comes next; None ends the join.

        Raises:
            JoinError: that input may not end here.
        """
        return None

    def shared(self, notes: Sequence[JoinState], shards: int) -> JoinState:
        """The note of each of some shards that go on after others, which stand at these notes.

        Inputs that have ended are found again.

        Raises:
            JoinError: they cannot.
        """
        return (sum(note[0] for note in notes) // shards, *self.start[1:])

    def is_note(self, note: JoinState) -> bool:
        """True if a note may be one of this rule."""
        return len(note) == len(self.start) and are_numbers(note)


@dataclass(frozen=True)
class Join:
    """Rows of several parts."""

    number: int  # in the pipeline
    inputs: tuple[Subtree, ...]  # the parts; none where the number is that of a source that can only be run through
    rule: JoinPolicy  # whose row comes next
    names: tuple[str, ...] = ()  # of the inputs

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The rule, and the names and sizes of the inputs, in plain JSON values."""
        return {**self.rule.fingerprint, "names": list(self.names), "sizes": [list(part.size) for part in self.inputs]}


@dataclass(frozen=True)
class Read:
    """The records of a source, in an order."""

    leaf: Leaf


@dataclass(frozen=True)
class Apply:
    """Operations on another stream."""

    input: Node
    operations: tuple[Operation, ...]


@dataclass(frozen=True)
class Joined:
    """Rows of other streams, as a rule takes them."""

    inputs: tuple[Node, ...]  # the streams
    rule: JoinPolicy  # whose row comes next
    names: tuple[str, ...] = ()  # of the inputs, for states and messages; none: numbers


Node: TypeAlias = Read | Apply | Joined
