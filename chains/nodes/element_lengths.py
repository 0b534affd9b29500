"""Lengths of a dataset's elements, by what a user says of them. In: a node, `lengths=`. Out: an array, or a dict of these."""

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
    """The elements of an epoch of a node as a source, to be measured."""

    array_keys = True

    def __init__(self, node: Node) -> None:
        self._node = node

    def __len__(self) -> int:
        return self._node.length

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The node's."""
        return fingerprint_of_node(self._node)

    def packed_costs(self, cost: Cost | None) -> Any:
        """As of the node."""
        return self._node.packed_costs(cost)

    @property
    def lengths(self) -> Any:
        """As of the node."""
        return self._node.lengths_at(np.arange(len(self), dtype=np.int64))

    def __getitem__(self, index: int) -> Any:
        return self._node.records(np.array([index]))[0]

    def __getitems__(self, indices: Indices) -> Sequence[Any]:
        return self._node.records(indices)


def lengths_of_elements(node: Node, lengths: Any, method: str) -> Any:
    """The lengths of a node's elements; None where only reading tells them.

    Args:
        node: whose elements these are.
        lengths: None takes what the source tells. The name of a field of the source's records, as long as nothing but their
            order is changed; a file that `measure_lengths` wrote, of the source likewise or of the elements; or a function of
            an element. Anything else is returned as it is.
        method: of the dataset, for messages.

    Raises:
        LengthsError: the source has no such field, or maps may change it; or the file is of something else.
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
                f"lengths={short_repr(lengths)} is a field of a source's records, and maps before {method} may change it; "
                "pass an array, or a function of an element."
            )
        return lengths_of(elements, lengths) if known is None and lengths is not None else known
    return lengths_of(elements, lengths) if callable(lengths) else lengths
