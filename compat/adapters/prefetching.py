"""Streams that are made on threads or with options, and functions of Grain on streams."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from ...common.validation import whole_number
from ...loader.plan.joins import Apply
from ...operations import FlatMap
from ...operations.function import as_kind
from ...operations.trees import rows_of
from .chains.at_index import expanded
from .chains.iter_dataset import Named, same
from .chains.slicing import check_can_be_sliced
from .transforms import Batch

T = TypeVar("T")


class RebatchIterDataset(Named[Any]):
    """Batches of `batch_size` of the rows of the batches of `parent`.

    `drop_remainder` drops a last one that is not full.

    >>> from headrace.compat.grain import MapDataset
    >>> batches = RebatchIterDataset(MapDataset.range(5).batch(2).to_iter_dataset(), 3)
    >>> [batch.tolist() for batch in batches]
    [[0, 1, 2], [3, 4]]
    """

    def __init__(self, parent: Any, batch_size: int, drop_remainder: bool = False) -> None:
        self.batch_size = whole_number("batch_size", batch_size, 1, None, "a positive int")
        rows = expanded(parent, rows_of, "batch_idx")
        tree = Apply(rows.tree, (Batch(self.batch_size, drop_remainder),))
        super().__init__(parent, dataclasses.replace(rows, tree=tree))


class FlatMapIterDataset(Named[Any]):
    """A stream that makes several elements of each.

    They are made by the method `flat_map` of `transform`, or by `transform`, if it is a function.
    """

    def __init__(self, parent: Any, transform: Any) -> None:
        super().__init__(
            parent, expanded(parent, as_kind(FlatMap, transform).function, "next_index_in_buffer")
        )


class ThreadPrefetchIterDataset(Named[T]):
    """The same stream, made on a thread up to `prefetch_buffer_size` elements ahead.

    Not with 0, workers or `seed_globals`.

    Raises:
        ValueError: `prefetch_buffer_size` is negative.
    """

    def __init__(self, parent: Any, *, prefetch_buffer_size: int) -> None:
        if prefetch_buffer_size < 0:
            raise ValueError(
                "`prefetch_buffer_size` must be greater than or equal to 0, but got "
                f"{prefetch_buffer_size}. Pass 0 to read no elements ahead."
            )
        stream = same(parent)
        if (
            prefetch_buffer_size
            and stream.execution.worker_count == 0
            and not stream.execution.seed_globals
        ):
            stream = stream.with_options(
                worker_count=1, worker_kind="thread", worker_buffer_size=prefetch_buffer_size
            )
        super().__init__(parent, stream)


class WithOptionsIterDataset(Named[T]):
    """The same stream; filters warn or raise at the limits in `options` (`DatasetOptions`).

    Other options have no effect.
    """

    def __init__(self, parent: Any, options: Any) -> None:
        self.options = self.dataset_options = options
        super().__init__(parent, same(parent))


def multithread_prefetch(
    ds: Any, num_threads: int, buffer_size: int, sequential_slice: bool = False
) -> Any:
    """Make the elements of a stream on threads.

    Args:
        ds: the stream.
        num_threads: number of threads; 0 for none. With more than 1, ValueError if workers cannot
            divide the stream.
        buffer_size: number of finished elements that each thread keeps ready.
        sequential_slice: no effect, since the order is the same.
    """
    threads = whole_number("num_threads", num_threads, 0, None, "a number of threads, 0 for none")
    if threads > 1:
        check_can_be_sliced(ds)
    return ds.with_options(
        worker_count=threads, worker_kind="thread", worker_buffer_size=max(buffer_size, 1)
    )


def apply_transformations(ds: Any, transformations: Any) -> Any:
    """Apply a transform, or each transform of a list: `ds.apply(transformations)`."""
    return ds.apply(transformations)
