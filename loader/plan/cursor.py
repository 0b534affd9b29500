"""The place where a stream goes on.

In: nothing. Out: a value of plain numbers; what checkpoints keep and stages start from.
"""

from __future__ import annotations

from typing import NamedTuple


class Cursor(NamedTuple):
    """The place where a stream goes on.

    Attributes:
        position: local position of the first record that is still to be read.
        skips: for each segment of the pipeline (see `plan`), how many of the rows that come next out of it were
            delivered before. All 0 except after a flat map.
    """

    position: int
    skips: tuple[int, ...]

    def then(self, skip: int) -> Cursor:
        """This cursor, continued by one segment."""
        return Cursor(self.position, (*self.skips, skip))
