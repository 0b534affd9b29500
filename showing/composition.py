"""What a batch is made of.

In: a loop. Out: its leaves, and the parts of a mix that it comes from.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..loader.iterator import DataLoaderIterator
from ..loader.options import ExecutionOptions, ReadOptions
from ..operations.trees import flatten, leaf_names
from .loops import host_iterator


class Leaf(NamedTuple):
    """An array of a batch, or something else."""

    name: str
    kind: str  # the dtype, or the type of what is no array
    shape: tuple[int, ...]
    nbytes: int
    filled: float | None  # of segment ids: the share that belongs to a segment


class Part(NamedTuple):
    """Of a mix."""

    name: str
    records: int  # that were delivered
    epoch: int


class Composition(NamedTuple):
    """Of the batches of a loop."""

    leaves: tuple[Leaf, ...] = ()
    parts: tuple[Part, ...] = ()


def composition(loop: Any) -> Composition:
    """What is known. To know the leaves the first element is made once more, in this thread."""
    host = host_iterator(loop)
    if host is None:
        return Composition()
    parts: tuple[Part, ...] = ()
    if hasattr(loop, "part_records"):
        epochs = loop.part_epochs
        parts = tuple(Part(name, records, epochs[name]) for name, records in loop.part_records.items())
    return Composition(_leaves(host), parts)


def _leaves(host: DataLoaderIterator) -> tuple[Leaf, ...]:
    pipeline = host._pipeline
    if any(leaf.in_order for leaf in pipeline.leaves):  # what comes once is the user's
        return ()
    alone = ExecutionOptions(read_options=ReadOptions(num_threads=0), observe=False)
    try:
        with DataLoaderIterator(pipeline, alone) as iterator:
            leaves, structure = flatten(next(iterator))
    except Exception:  # the user's functions may fail when their program has ended; then this is not shown
        return ()
    return tuple(_leaf(name, leaf) for name, leaf in zip(leaf_names(structure), leaves))


def _leaf(name: str, leaf: Any) -> Leaf:
    if not isinstance(leaf, (np.ndarray, np.generic)):
        return Leaf(name, type(leaf).__name__, (), 0, None)
    ids = "segment_ids" in name and leaf.size > 0
    return Leaf(name, str(leaf.dtype), leaf.shape, int(leaf.nbytes), float(np.mean(leaf != 0)) if ids else None)
