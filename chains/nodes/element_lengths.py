"""Lengths of a dataset's elements, from what a user passes as `lengths=`.

In: a node, `lengths=`. Out: an array, or a dict of arrays.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...common.costs import Cost
from ...common.messages import short_repr
from ...errors import LengthsError
from ...samplers.index_maps import Indices
from ...sources.lengths import lengths_in_file, lengths_of
from .node import Node, fingerprint_of_node


class NodeElements:
    """The elements of one epoch of a node, as a source whose records can be measured.

    Args:
        node: the node that makes the elements.
    """

    array_keys = True

    def __init__(self, node: Node) -> None:
        self._node = node

    def __len__(self) -> int:
        return self._node.length

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The fingerprint of the node."""
        return fingerprint_of_node(self._node)

    def packed_costs(self, cost: Cost | None) -> Any:
        """Return the costs of packed rows, `float64[n]`; None if the elements are not packed.

        Args:
            cost: function of an array of lengths; None: the cost is the length.
        """
        return self._node.packed_costs(cost)

    @property
    def lengths(self) -> Any:
        """The lengths of the node's elements; None if they are unknown without reading."""
        return self._node.lengths_at(np.arange(len(self), dtype=np.int64))

    def __getitem__(self, index: int) -> Any:
        return self._node.records(np.array([index]))[0]

    def __getitems__(self, indices: Indices) -> Sequence[Any]:
        return self._node.records(indices)


def lengths_of_elements(node: Node, lengths: Any, method: str) -> Any:
    """Return the lengths of a node's elements; None if they are unknown without reading.

    Args:
        node: the node.
        lengths: None: the lengths that the source knows. A text: the name of a field of the
            source's records; the chain must not change more than their order. A path: a file
            written by `measure_lengths`, for the source's records or for the elements. A function
            of an element: it is called with each. Anything else is returned unchanged.
        method: name of the dataset method, for error messages.

    Returns:
        an array `int[len(node)]`, or a dict of such arrays by leaf (field of an element).

    Raises:
        LengthsError: if the source has no such field, if maps may change it, or if the file belongs
            to other data.
    """
    elements = NodeElements(node)
    if isinstance(lengths, os.PathLike):
        kept = lengths_in_file(lengths, elements)
        if kept is not None:
            return kept
    if lengths is None or isinstance(lengths, (str, os.PathLike)):
        known = node.lengths_at(np.arange(len(elements), dtype=np.int64), lengths)
        if known is None and isinstance(lengths, str):
            raise LengthsError(
                f"lengths={short_repr(lengths)} is a field of the source's records, but maps before {method} may "
                "change it. Pass an array, or a function of an element."
            )
        return lengths_of(elements, lengths) if known is None and lengths is not None else known
    return lengths_of(elements, lengths) if callable(lengths) else lengths
