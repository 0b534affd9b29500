"""Joins: one stream of rows made of several, or of one, by a rule.

In: parts of a pipeline. Out: values that say what belongs together; and what a rule is.

A rule is a pure function of its note, a few integers, which a cursor keeps; the first of them counts the rows so far. It looks
at no row. What a join does not know
beforehand, because filters come before it, is where an input ends: the rule is asked then how to go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .cursor import Note
from .parts import Part


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
