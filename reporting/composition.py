"""Find out what a batch consists of, and from which parts (datasets) of a mix batches are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..loader.iterator import DataLoaderIterator
from ..loader.options import ExecutionOptions, ReadOptions
from ..loader.state.schema import LoaderState
from ..operations.trees import Structure, flatten
from ..sources.facts import used_records
from .loops import host_iterator

LOOKED_UP = 1000
"""Number of latest positions whose records are counted.

It is used if datasets are mixed before they are shuffled or packed.
"""


class BatchLeaf(NamedTuple):
    """An array or another value in the tree of a batch.

    Attributes:
        name: readable name, such as "image.pixels".
        kind: dtype of an array; for another value, the name of its type.
        shape: shape of an array; () for another value.
        nbytes: size of an array in bytes; 0 for another value.
        filled: for segment ids, the share of tokens that belong to a segment; None for other
            leaves.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    nbytes: int
    filled: float | None


class MixPart(NamedTuple):
    """One part (dataset) of a mix, and how much of it was delivered.

    Attributes:
        name: name of the part.
        records: number of its records that were delivered, in all runs and shards. If datasets are
            mixed before they are shuffled or packed: among this shard's last 1,000 positions, each
            record once in an epoch.
        epoch: epoch of the part, from 0; None if unknown.
    """

    name: str
    records: int
    epoch: int | None


class Composition(NamedTuple):
    """Contents of a loop's batches: arrays, other values, and parts of the mix they come from."""

    leaves: tuple[BatchLeaf, ...] = ()
    parts: tuple[MixPart, ...] = ()


def composition(loop: Any) -> Composition:
    """Return what a loop's batches consist of, as far as it is known.

    The fields are empty otherwise.

    The first element is made a second time to find its arrays.
    """
    host = host_iterator(loop)
    return Composition() if host is None else Composition(_leaves(host), _parts(loop, host))


def _parts(loop: Any, host: DataLoaderIterator) -> tuple[MixPart, ...]:
    if hasattr(loop, "part_records"):
        epochs = loop.part_epochs
        return tuple(
            MixPart(name, records, epochs[name]) for name, records in loop.part_records.items()
        )
    if len(host.pipeline.leaves) != 1 or host.pipeline.leaf.in_order:
        return ()
    # a mix below the order, as in `mix(…).pack(…)`: each record of the last positions counts once
    # in an epoch
    leaf, stop = host.pipeline.leaf, LoaderState.from_json(loop.get_state()).cursor.positions[0]
    positions = leaf.positions(max(stop - LOOKED_UP, 0), min(stop, leaf.total))
    records = {
        (position // leaf.sampler.epoch_length, used.datasets, used.key)
        for position, key in zip(positions.tolist(), leaf.record_keys(positions).tolist())
        for used in used_records(leaf.source, key)
        if used.datasets
    }
    counts = Counter(datasets[0] for _, datasets, _ in records)
    return tuple(MixPart(name, count, None) for name, count in sorted(counts.items()))


def _leaves(host: DataLoaderIterator) -> tuple[BatchLeaf, ...]:
    pipeline = host.pipeline
    if any(leaf.in_order for leaf in pipeline.leaves):  # what comes once is the user's
        return ()
    alone = ExecutionOptions(read_options=ReadOptions(num_threads=0), observe=False)
    try:
        with DataLoaderIterator(pipeline, alone) as iterator:
            leaves, structure = flatten(next(iterator))
    except (
        Exception
    ):  # the user's functions may fail when their program has ended; then this is not shown
        return ()
    return tuple(_leaf(name, leaf) for name, leaf in zip(_names(structure), leaves))


def _names(structure: Structure) -> Iterator[str]:
    """Yield readable names of the leaves of a tree, such as `tokens`, `image.pixels`, `0.label`.

    It is "" if the tree is one leaf.
    """
    for accessor in structure.accessors():
        yield ".".join(
            str(getattr(entry, "name", None) or getattr(entry, "field", None) or entry.entry)
            for entry in accessor
        )


def _leaf(name: str, leaf: Any) -> BatchLeaf:
    if not isinstance(leaf, (np.ndarray, np.generic)):
        return BatchLeaf(name, type(leaf).__name__, (), 0, None)
    ids = "segment_ids" in name and leaf.size > 0
    return BatchLeaf(
        name,
        str(leaf.dtype),
        leaf.shape,
        int(leaf.nbytes),
        float(np.mean(leaf != 0)) if ids else None,
    )
