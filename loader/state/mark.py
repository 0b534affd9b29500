"""A mark of where an iterator stands, set at no cost and made a state of when somebody asks.

In: what the iterator delivered last. Out: the cursor that follows it. A device feeder takes one for every batch.
"""

from __future__ import annotations

from typing import NamedTuple

from ..plan.cursor import Cursor
from ..stream.rows import Rows
from .loader_state import Unfinished
from .unfinished import Row


class Mark(NamedTuple):
    """Where a user stands who has received one element and not the next.

    Attributes:
        start: where the iterator began, or was set to.
        run: the rows of which the element is one; None: nothing was delivered since the start.
        row: its number among the rows of the run's block.
        step: elements delivered in all.
        unfinished: what came before `start` when the iterator began there.
    """

    start: Cursor
    run: Rows | Row | None
    row: int
    step: int
    unfinished: tuple[Unfinished, ...] = ()

    @property
    def cursor(self) -> Cursor:
        """Where the stream goes on."""
        return self.start if self.run is None else self.run.cursor_after(self.row)

    @property
    def left(self) -> tuple[Unfinished, ...]:
        """What is to come before the cursor."""
        return self.unfinished if self.run is None else self.run.unfinished if isinstance(self.run, Row) else ()
