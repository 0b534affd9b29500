"""Batches taken apart into their rows.

In: a tree of arrays with one leading axis. Out: a tree for each row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import BatchError
from ..operations.trees import flatten


def rows_of(batch: Any) -> Iterator[Any]:
    """The rows of a batch, in order; the arrays of a row are views.

    Raises:
        BatchError: a leaf is no array with a leading axis, or leaves have unequal numbers of rows.

    >>> import numpy as np
    >>> [int(row["x"]) for row in rows_of({"x": np.arange(3)})]
    [0, 1, 2]
    """
    leaves, structure = flatten(batch)
    lengths = {leaf.shape[0] if getattr(leaf, "ndim", 0) else None for leaf in leaves}
    if len(lengths) != 1 or None in lengths:
        raise BatchError(
            f"rebatch needs batches whose leaves have one leading axis in common; these have {sorted(map(str, lengths))} rows."
        )
    return (structure.unflatten(list(row)) for row in zip(*leaves))
