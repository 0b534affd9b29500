"""Grain's streams that are made by name, in place of by a method; the engine does all of them.

In: streams. Out: streams.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar

from ....chains.stream import Stream, cached, limited, repeated, zipped
from ....common.validation import whole_number
from ....loader.plan.joins import Apply
from ....operations import Batch, FlatMap
from ....operations.function import as_kind
from ....operations.trees import rows_of
from .at_index import Below, ShuffledWindows
from .counted import applied, counted
from .iter_dataset import Named, as_stream
from .seeds import stream_of_dataset

T = TypeVar("T")


class LimitIterDataset(Named[T]):
    """The first elements.

    >>> from headrace.compat.grain import MapDataset
    >>> list(LimitIterDataset(MapDataset.range(5).to_iter_dataset(), 2))
    [0, 1]
    """

    def __init__(self, parent: Any, count: int) -> None:
        super().__init__(parent, limited(stream_of_dataset(parent), count))


class RepeatIterDataset(Named[T]):
    """All elements, so many times, each time the same; None (default): for ever."""

    def __init__(self, parent: Any, num_epochs: int | None = None) -> None:
        super().__init__(parent, repeated(stream_of_dataset(parent), num_epochs))


class CacheIterDataset(Named[T]):
    """The same elements; a `RepeatIterDataset` after it makes them once."""

    def __init__(self, parent: Any) -> None:
        super().__init__(parent, cached(stream_of_dataset(parent)))


class WindowShuffleIterDataset(Named[Any]):
    """Windows of consecutive elements, each in Grain's random order."""

    def __init__(self, parent: Any, *, window_size: int, seed: int) -> None:
        window = whole_number("window_size", window_size, 1, None, "a positive int")
        stream, unit = counted(stream_of_dataset(parent))
        super().__init__(parent, applied(ShuffledWindows(window, seed, unit), stream))


class ZipIterDataset(Named[tuple[Any, ...]]):
    """An element of each stream, together.

    Args:
        parents: the streams.
        strict: True (default): that one ends before the others is a ValueError; False: it ends with the shortest.
    """

    def __init__(self, parents: Sequence[Any], *, strict: bool = True) -> None:
        if not parents:
            raise ValueError("At least one parent must be provided. Pass ZipIterDataset a list of streams.")
        streams = list(map(as_stream, parents))
        super().__init__(streams, zipped(list(map(stream_of_dataset, streams)), None, strict))


class TakenApart(FlatMap):
    """Several elements of each, of which Grain's state tells how many were delivered.

    Args:
        function: gives them.
        told_as: the name in the state.
    """

    def __init__(self, function: Any, told_as: str) -> None:
        super().__init__(function)
        self.told_as = told_as

    def below(self, state: dict[str, Any]) -> Below:
        return Below(state["parent"], given=state[self.told_as])


def _taken_apart(parent: Any, function: Any, told_as: str) -> Stream:
    """Several elements of each of a stream; a state tells from which one on, so that none may be left out."""
    return applied(TakenApart(function, told_as), counted(stream_of_dataset(parent))[0])


class RebatchIterDataset(Named[Any]):
    """Batches of another size, of the same rows in the same order.

    >>> from headrace.compat.grain import MapDataset
    >>> batches = RebatchIterDataset(MapDataset.range(5).batch(2).to_iter_dataset(), 3)
    >>> [batch.tolist() for batch in batches]
    [[0, 1, 2], [3, 4]]
    """

    def __init__(self, parent: Any, batch_size: int, drop_remainder: bool = False) -> None:
        self.batch_size = whole_number("batch_size", batch_size, 1, None, "a positive int")
        rows = _taken_apart(parent, rows_of, "batch_idx")
        tree = Apply(rows.tree, (Batch(self.batch_size, drop_remainder),))
        super().__init__(parent, dataclasses.replace(rows, tree=tree))


class FlatMapIterDataset(Named[Any]):
    """Several elements of each."""

    def __init__(self, parent: Any, transform: Any) -> None:
        super().__init__(parent, _taken_apart(parent, as_kind(FlatMap, transform).function, "next_index_in_buffer"))


def _same(dataset: Any) -> Stream:
    stream = stream_of_dataset(dataset)
    return stream.on(stream.tree)


class ThreadPrefetchIterDataset(Named[T]):
    """The same stream: the engine reads ahead by itself."""

    def __init__(self, parent: Any, *, prefetch_buffer_size: int) -> None:
        whole_number("prefetch_buffer_size", prefetch_buffer_size, 0, None, "a number of elements")
        super().__init__(parent, _same(parent))


class WithOptionsIterDataset(Named[T]):
    """The same stream; the options do nothing here."""

    def __init__(self, parent: Any, options: Any) -> None:
        self.options = options
        super().__init__(parent, _same(parent))


def multithread_prefetch(ds: Any, num_threads: int, buffer_size: int, sequential_slice: bool = False) -> Any:
    """The same stream, made on threads.

    Args:
        ds: a stream.
        num_threads: 0 for none.
        buffer_size: finished elements held ready for each.
        sequential_slice: does nothing: the order is the same.
    """
    threads = whole_number("num_threads", num_threads, 0, None, "a number of threads, 0 for none")
    return ds.with_options(worker_count=threads, worker_kind="thread", worker_buffer_size=max(buffer_size, 1))


def apply_transformations(ds: Any, transformations: Any) -> Any:
    """Apply a transform, or each of a list, to a dataset: `ds.apply(transformations)`."""
    return ds.apply(transformations)
