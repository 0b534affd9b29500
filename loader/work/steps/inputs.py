"""The inputs of a stage's operations, with the positions and tags of their records.

A stage is a group of operations that run in one task. A tag is a number that names a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import length_hint
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class Inputs:
    """Inputs of a stage, with functions that return the positions and tags of their records.

    A stage is a group of operations that run together in one task. A tag is a number that stands
    for a record (source and position).

    Attributes:
        elements: iterator of the inputs. Its length hint is the number of inputs left.
        count: number of inputs.
        made_of: number of positions or rows that the inputs were made of.
        positions: function that returns, for each input, the position of its first record or row,
            counted over all shards. It is called only if positions are needed.
        tags: function that returns, for each input, the tag of this record. It is called only if
            tags are needed, for example after a failure.
        rows: for each input, its index among all rows that were made of the same position; empty if
            all are 0.
        place: index, in the stage, of the first operation that gets the inputs.
    """

    elements: Iterator[Any]
    count: int
    made_of: int
    positions: Callable[[], NDArray[np.int64]]
    tags: Callable[[], NDArray[np.int64]]
    rows: Sequence[int]
    place: int

    @property
    def last(self) -> int:
        return max(self.count - length_hint(self.elements) - 1, 0)
