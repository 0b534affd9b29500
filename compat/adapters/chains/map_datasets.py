"""Grain's datasets with random access that are made by name, in place of by a method.

In: datasets. Out: datasets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....chains.arguments import as_named
from ....chains.map_dataset import MapDataset as OurMapDataset
from ....chains.nodes.items import FlatMapped
from ....chains.nodes.joins import Zipped
from ....chains.nodes.reordered import Reordered
from ....common.validation import whole_number
from ....operations.transforms import fan_out_of
from .map_dataset import Chain
from .orders import WindowShuffle
from .seeds import node_of


class _Named(Chain[Any]):
    """A dataset that a class makes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Chain, (self._tree,)


class WindowShuffleMapDataset(_Named):
    """Each window of consecutive indices in Grain's random order.

    >>> from headrace.compat.grain import MapDataset
    >>> shuffled = WindowShuffleMapDataset(MapDataset.range(6), window_size=3, seed=1)
    >>> sorted(shuffled[[0, 1, 2]])
    [0, 1, 2]
    """

    def __init__(self, parent: OurMapDataset[Any], *, window_size: int, seed: int) -> None:
        window = whole_number("window_size", window_size, 1, None, "a positive int")
        super().__init__(Reordered(node_of(parent), WindowShuffle(window, seed, len(parent))))


class ZipMapDataset(_Named):
    """Tuples of the elements that datasets of one length have at the same index.

    Raises:
        ValueError: there is none, or their lengths differ.
    """

    def __init__(self, parents: Sequence[OurMapDataset[Any]]) -> None:
        if not parents:
            raise ValueError("At least one parent must be provided. Pass ZipMapDataset a list of datasets.")
        datasets, _ = as_named("ZipMapDataset", list(parents), OurMapDataset)
        lengths = list(map(len, datasets))
        if len(set(lengths)) > 1:
            raise ValueError(f"All parents must have the same length. They have {lengths[:20]}; slice the longer ones.")
        super().__init__(Zipped(tuple(map(node_of, datasets))))


class FlatMapMapDataset(_Named):
    """Several elements of each; those that are not there are None.

    Args:
        parent: the dataset.
        transform: has `max_fan_out`, the number of indices for each element.
    """

    def __init__(self, parent: OurMapDataset[Any], transform: Any) -> None:
        super().__init__(FlatMapped(node_of(parent), fan_out_of(transform, None)))
