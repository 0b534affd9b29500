"""Filters that count the elements they omit, and warn or raise at a limit, as in Grain.

In: the tree of a stream, and `DatasetOptions`. Out: the same tree, with filters that count.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable
from typing import Any

from ....common.identity.values import described
from ....loader.plan.joins import Apply, Node, Read
from ....operations import Filter, Operation
from ....sources.run_through import run_through_dataset
from ..options import DatasetOptions, ReadOptions
from .at_index import Indexed

LOGGER = logging.getLogger("headrace")
EVERY, SECONDS = 1000, 60.0


class TakesOptions:
    """Base of streams that pass `DatasetOptions` on to the datasets that they read."""

    def with_dataset_options(self, options: Any) -> Any:
        """Return a copy whose datasets have these `DatasetOptions`."""
        raise NotImplementedError


def watched(tree: Node, options: DatasetOptions | None, read_options: Any = None) -> Node:
    """Return a tree in which filters count, and the datasets of sources have the options.

    Args:
        tree: the plan of a stream.
        options: the options; None: the defaults, and sources are not changed.
        read_options: how records are read ahead, for the text of warnings.
    """
    chosen = options or DatasetOptions()
    if isinstance(tree, Read):
        return tree if options is None else _with_options(tree, options)
    if not isinstance(tree, Apply):
        return dataclasses.replace(
            tree, inputs=tuple(watched(each, options, read_options) for each in tree.inputs)
        )
    below = watched(tree.input, options, read_options)
    reader = _reader(read_options) if isinstance(tree, Indexed) else ""
    operations = tuple(_watched(each, reader, chosen) for each in tree.operations)
    return dataclasses.replace(tree, input=below, operations=operations)


def _with_options(tree: Read, options: DatasetOptions) -> Read:
    """Return a source whose datasets have the options; `tree` itself if they take none."""
    dataset: Any = run_through_dataset(tree.leaf.source)
    if not isinstance(dataset, TakesOptions):
        return tree
    source = tree.leaf.source.of(dataset.with_dataset_options(options))
    return Read(dataclasses.replace(tree.leaf, source=source))


def _reader(read_options: Any) -> str:
    """Return the text that Grain's warnings show for the reader of a `MapDataset`."""
    own = read_options or ReadOptions()
    numbers = f"num_threads={own.num_threads}, prefetch_buffer_size={own.prefetch_buffer_size}"
    return f"PrefetchDatasetIterator(read_options=ReadOptions({numbers}), allow_nones=False)"


def _watched(operation: Operation, reader: str, options: DatasetOptions) -> Operation:
    if not isinstance(operation, Filter):
        return operation
    name = reader or f"FilterDatasetIterator(transform={operation.name_in_stats})"
    return WatchedFilter(operation, name, options)


class WatchedFilter(Filter):
    """A filter that counts the elements it omits.

    It has the same identity as the filter that it wraps.

    Args:
        watched: the filter.
        name: name of the filter in messages.
        options: limits for the share of omitted elements, for warnings and for errors.
    """

    def __init__(self, watched: Filter, name: str, options: DatasetOptions) -> None:
        super().__init__(watched.function)
        self.watched, self.name, self.options = watched, name, options
        self.begin()

    def __repr__(self) -> str:
        return repr(self.watched)

    @property
    def fingerprint(self) -> Any:
        """The fingerprint of the wrapped filter."""
        explicit = self.watched.fingerprint
        return described(self.watched) if explicit is None else explicit

    @property
    def user_function(self) -> Callable[..., Any]:
        return self.watched.user_function

    @property
    def name_in_stats(self) -> str:
        return self.watched.name_in_stats

    def begin(self) -> None:
        """Set the counts to 0, for a new iterator.

        Iterators of one dataset that run together in a process share their counts.
        """
        self._counts = _Counts(self.name, self.options)

    @property
    def function(self) -> Callable[..., Any]:
        """The filter's function, which also counts its results.

        It raises ValueError at the limit in the options.
        """
        function = self.watched.function

        def counted(element: Any) -> bool:
            passes = bool(function(element))
            self._counts.add(passes)
            return passes

        return counted

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.watched, self.name, self.options)


class _Counts:
    """Counts of the elements that reached a filter, and of the elements that it omitted.

    Args:
        name: name of the filter in messages.
        options: limits for the share of omitted elements, for warnings and for errors.
    """

    def __init__(self, name: str, options: DatasetOptions) -> None:
        self._name, self._options = name, options
        self._seen = self._left_out = 0
        self._last_warned = -SECONDS

    def add(self, passes: bool) -> None:
        """Count one element; `passes` is False if the filter omitted it.

        After each 1,000 elements, log a warning if the share omitted reaches the warning limit, at
        most once in 60 seconds.

        Raises:
            ValueError: if the share omitted of these 1,000 elements reaches the limit for errors.
        """
        self._seen += 1
        self._left_out += not passes
        if self._seen >= EVERY:
            left_out, self._seen, self._left_out = self._left_out, 0, 0
            self._look(left_out / EVERY)

    def _look(self, ratio: float) -> None:
        options = self._options
        if ratio >= (options.filter_raise_threshold_ratio or float("inf")):
            raise ValueError(self._text(ratio, "filter_raise_threshold_ratio"))
        if (
            ratio >= (options.filter_warn_threshold_ratio or float("inf"))
            and time.monotonic() >= self._last_warned + SECONDS
        ):
            self._last_warned = time.monotonic()
            LOGGER.warning(self._text(ratio, "filter_warn_threshold_ratio"))

    def _text(self, ratio: float, option: str) -> str:
        share = f"{ratio:.2%}".replace("%", " %")
        return (
            f"Transformation {self._name} skipped {share} of the last seen {EVERY} elements. "
            f"Filter the source beforehand, or set {option}=None in the DatasetOptions of "
            "WithOptionsIterDataset."
        )
