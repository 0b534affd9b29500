"""Streams that come together, of every kind, for tests that hold for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace import (
    Batch,
    Filter,
    FlatMap,
    IndexSampler,
    MapWithIndexTransform,
    NoSharding,
    RandomMapTransform,
)
from headrace.loader.iterator import DataLoaderIterator
from headrace.loader.options import ExecutionOptions
from headrace.loader.plan.compile import compiled
from headrace.loader.plan.joins import Apply, Joined, Node, Read
from headrace.loader.plan.leaf import Leaf
from headrace.loader.plan.mix_rules import MixRows
from headrace.loader.plan.rules import Again, All, First, Interleaved, InTurn
from headrace.operations import WindowShuffle, ZipRows
from headrace.operations.transforms import as_operation
from headrace.samplers.mix.order import MixOrder
from headrace.sources import as_source

ONE = NoSharding()


def numbers(
    first: int, count: int, shard: Any = ONE, epochs: int | None = 1, name: str = ""
) -> Read:
    """The numbers from `first` on, shuffled."""
    sampler = IndexSampler(count, shard, shuffle=True, seed=first % 97, num_epochs=epochs)
    return Read(
        Leaf(
            as_source(list(range(first, first + count))), sampler, sampler.shard_options, name=name
        )
    )


def apply(node: Node, *operations: Any) -> Apply:
    """Operations on a stream."""
    return Apply(node, tuple(map(as_operation, operations)))


def mix(*inputs: Node, weights: Any, goes_on: bool = False) -> Joined:
    """A mix of rows."""
    return Joined(inputs, MixRows(MixOrder.of(weights), goes_on))


def _odd(x):
    return x % 2


def _twice(x):
    return [x, -x][: x % 3]


def _noise(x, rng):
    return x + rng.random()


def three(shard: Any) -> list[Node]:
    """Three streams: plain, filtered, and of rows by flat map."""
    return [
        numbers(1000, 60, shard),
        apply(numbers(2000, 50, shard), Filter(_odd)),
        apply(numbers(3000, 30, shard), FlatMap(_twice), lambda x: x + 0),
    ]


def batches(shard: Any) -> Node:
    """Batches that are taken apart: the rows of a record of several stages."""
    return apply(numbers(4000, 40, shard), Filter(_odd), Batch(3), FlatMap(list))


TREES: dict[str, Callable[[Any], Node]] = {
    "mix": lambda shard: mix(*three(shard), weights=[0.5, 0.3, 0.2]),
    "mix of all": lambda shard: mix(*three(shard), weights=[0.5, 0.3, 0.2], goes_on=True),
    "mix, batch": lambda shard: apply(
        mix(*three(shard), weights=[0.7, 0.2, 0.1], goes_on=True), Batch(4)
    ),
    "mix, random, filter, batch": lambda shard: apply(
        mix(*three(shard), weights=[1, 1, 2], goes_on=True),
        RandomMapTransform(_noise),
        Filter(lambda x: x % 3 > 1),
        Batch(5),
    ),
    "mix, index": lambda shard: apply(
        mix(*three(shard), weights=[1, 1, 2]), MapWithIndexTransform(lambda index, x: (index, x))
    ),
    "mix of a mix": lambda shard: apply(
        mix(
            mix(*three(shard), weights=[1, 2, 1], goes_on=True),
            batches(shard),
            weights=[0.6, 0.4],
            goes_on=True,
        ),
        Batch(3),
    ),
    "mix of batches": lambda shard: mix(
        apply(numbers(0, 40, shard), Batch(4)),
        apply(batches(shard), Batch(2)),
        weights=[1, 1],
        goes_on=True,
    ),
    "mix of a taken apart": lambda shard: apply(
        mix(batches(shard), numbers(10, 30, shard), weights=[1, 1], goes_on=True), lambda x: x + 1
    ),
    "mix, batch, flat map, batch": lambda shard: apply(
        mix(*three(shard), weights=[2, 1, 1], goes_on=True),
        Batch(6),
        FlatMap(lambda b: b[: int(b[0]) % 4]),
        Batch(5),
    ),
    "zip": lambda shard: apply(
        Joined(
            (numbers(0, 20, shard), apply(numbers(500, 40, shard), Filter(lambda x: x % 2))),
            InTurn(2, strict=False),
        ),
        ZipRows(2, ["a", "b"]),
        Batch(3),
    ),
    "limit": lambda shard: Joined((apply(numbers(0, 50, shard), Filter(_odd)),), First(17)),
    "limit, batch": lambda shard: apply(Joined((numbers(0, 50, shard),), First(17)), Batch(5)),
    "repeat": lambda shard: Joined(
        (apply(numbers(0, 20, shard), Filter(_odd), Batch(3)),), Again(3)
    ),
    "repeat, batch": lambda shard: apply(
        Joined((apply(numbers(0, 20, shard), Filter(_odd)),), Again(3)), Batch(4)
    ),
    "cache, repeat": lambda shard: Joined(
        (Joined((apply(numbers(0, 20, shard), Filter(_odd)),), All(True)),), Again(3)
    ),
    "cache of a mix, random, repeat, batch": lambda shard: apply(
        Joined(
            (
                apply(
                    Joined((mix(*three(shard), weights=[1, 1, 1], goes_on=True),), All(True)),
                    RandomMapTransform(_noise),
                ),
            ),
            Again(2),
        ),
        Batch(4),
    ),
    "interleave": lambda shard: Joined(
        tuple(apply(numbers(100 * n, 5 + 3 * n, shard), Filter(_odd)) for n in range(5)),
        Interleaved(5, 2),
    ),
    "repeat, random": lambda shard: apply(
        Joined((apply(numbers(0, 20, shard), Filter(_odd)),), Again(3)),
        RandomMapTransform(_noise),
        Batch(4),
    ),
    "interleave, index": lambda shard: apply(
        Joined(
            tuple(apply(numbers(100 * n, 5 + 3 * n, shard), Filter(_odd)) for n in range(5)),
            Interleaved(5, 2),
        ),
        MapWithIndexTransform(lambda index, x: (index, x)),
    ),
    "window": lambda shard: apply(
        mix(*three(shard), weights=[1, 1, 1], goes_on=True), WindowShuffle(8, seed=5), Batch(3)
    ),
    "window on records": lambda shard: apply(numbers(0, 50, shard), WindowShuffle(8), Batch(3)),
    "batch of batches of a mix": lambda shard: apply(
        mix(*three(shard), weights=[1, 1, 1], goes_on=True),
        Batch(2, drop_remainder=True),
        Batch(3, drop_remainder=True),
    ),
}


def iterate(node: Node, worker_count: int = 0, **execution: Any) -> DataLoaderIterator:
    """What runs a tree."""
    return DataLoaderIterator(compiled(node), ExecutionOptions(worker_count, **execution))


def flat(elements: Any) -> list[float]:
    """The numbers in all elements."""
    found: list[float] = []
    for element in elements:
        parts = (
            element.values()
            if isinstance(element, dict)
            else element
            if isinstance(element, tuple)
            else [element]
        )
        found += [number for part in parts for number in np.ravel(part).tolist()]
    return found
