"""The place where a stream goes on.

In: nothing. Out: a value of plain numbers; what checkpoints keep and stages start from.
"""

from __future__ import annotations

from typing import NamedTuple


class Cursor(NamedTuple):
    """Where a pipeline goes on, or the part of one that ends with some stage.

    Leaves and stages are numbered so that the inputs of a stage stand right before it (see `compile`). So the cursor of a
    part of the pipeline is that of its inputs, one after the other, and the skip of its last stage.

    Attributes:
        positions: for each leaf, the local position of the first record that is still to be read.
        skips: for each stage, how many of the rows that come next out of it were delivered before. All 0 except after
            a flat map.
    """

    positions: tuple[int, ...]
    skips: tuple[int, ...]

    def then(self, skip: int) -> Cursor:
        """This cursor, continued by one stage."""
        return Cursor(self.positions, (*self.skips, skip))
