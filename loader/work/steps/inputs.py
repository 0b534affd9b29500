"""A class for the elements that are pushed through a stage (operations that run in one task).

It also has functions for the positions and tags (numbers of records) of the records from which the
elements were made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import length_hint
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class Inputs:
    """Elements to push into a stage, with functions for the positions and tags (numbers of records) of their records.

    A stage is a group of operations that run together in one task.

    Attributes:
        elements: the elements. Its length hint is the number of elements left.
        count: number of elements.
        made_of: number of positions or rows that the elements were made of.
        positions: function that returns the global position of each element's first record, or of
            each row. It is called only if they are needed.
        tags: function that returns the tags of the same records. It is called only if they are
            needed, for example after a failure.
        rows: for each element, its number among the rows of its position.
        place: number, in the stage, of the operation that the elements are pushed into.
    """

    elements: Iterator[Any]
    count: int
    made_of: int
    positions: Callable[[], NDArray[np.int64]]
    tags: Callable[[], NDArray[np.int64]]
    rows: Iterable[int]
    place: int

    @property
    def last(self) -> int:
        return max(self.count - length_hint(self.elements) - 1, 0)
