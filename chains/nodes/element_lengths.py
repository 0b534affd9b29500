"""Find the lengths of a dataset's elements, from the user's argument `lengths=`.

In: a node of the dataset's tree, and the argument. Out: an array with a length for each element, or
a dict of such arrays by leaf (field of an element).
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ...common.messages import short_repr
from ...errors import LengthsError
from ...sources.lengths import lengths_in_file, lengths_of
from .node import Evaluated, Node


def lengths_of_elements(node: Node, lengths: Any, method: str) -> Any:
    """Return the lengths of a node's elements; None if the elements must be read to know them.

    Args:
        node: the node (a dataset in a chain of dataset methods).
        lengths: the user's argument. None: the lengths that the source knows. A text: the name of a
            field of the source's records; then the chain may change only the order of the records.
            A path: a file written by `measure_lengths`, for the source's records or for the
            elements. A function: it is called with each element. Any other value is returned
            unchanged.
        method: name of the dataset method, for error messages.

    Returns:
        an array `int[len(node)]`, or a dict of such arrays by leaf (field of an element).

    Raises:
        LengthsError: if the source has no such field, if maps may have changed the field, or if the
            file belongs to other data, is missing or damaged.
    """
    elements = Evaluated(node, node.length)
    if isinstance(lengths, os.PathLike):
        kept = lengths_in_file(lengths, elements)
        if kept is not None:
            return kept
    if lengths is None or isinstance(lengths, (str, os.PathLike)):
        known = node.lengths_at(np.arange(len(elements), dtype=np.int64), lengths)
        if known is None and isinstance(lengths, str):
            raise LengthsError(
                f"lengths={short_repr(lengths)} names a field of the records of a source, but the "
                f"elements before {method} are not these records: a map or a join such as zip "
                "makes them. Pass lengths= an array with one length for each element, or a "
                "function of an element."
            )
        return lengths_of(elements, lengths) if known is None and lengths is not None else known
    return lengths_of(elements, lengths) if callable(lengths) else lengths
