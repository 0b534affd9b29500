"""Elements that are pushed into the steps of a stage (operations that run in one task), and their positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import length_hint
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class Inputs:
    """Elements to push into a stage, with the positions and tags (numbers of records) of their records.

    A stage is a group of operations that run together in one task.
    """

    elements: Iterator[Any]  # tells exactly how many are left
    count: int  # of the elements
    made_of: int  # so many positions or rows
    positions: Callable[[], NDArray[np.int64]]  # theirs; not asked for where nobody wants to know
    tags: Callable[[], NDArray[np.int64]]  # what names the records that they come from, where one fails
    rows: Iterable[int]  # of the positions
    place: int  # number within the stage of the operation that they are pushed into

    @property
    def last(self) -> int:
        return max(self.count - length_hint(self.elements) - 1, 0)
