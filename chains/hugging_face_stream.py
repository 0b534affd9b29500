"""Stream of a Hugging Face `datasets.IterableDataset`, resumed with the states of `datasets`.

A state has the number of the epoch, and the dataset's `state_dict()` within the epoch. When a run
resumes, `datasets` itself moves to the saved row; headrace counts no rows. `datasets` keeps the
position of a loop in the dataset object, so each iterator has a copy of the dataset.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from ..common.messages import a_kind_of, first_few, short_repr
from ..common.validation import whole_number
from ..errors import CheckpointError, ShardingError
from ..samplers import ShardOptions
from ..samplers.sharding import as_shard_options
from .iter_dataset import IterDataset
from .stream import Stream, run_through

_LOOPS = "_owned_loops_and_tasks"
"""Attribute of a step of `datasets` with the event loops, and their tasks, of async functions."""

_TABLE_FORMATS = ("arrow", "pandas", "polars")


class HuggingFaceStream(IterDataset[Any]):
    """Stream the rows of a Hugging Face dataset loaded with `streaming=True`, in its order.

    It can be used in a chain like any `IterDataset`. Only one thread or worker at a time reads it.
    The same thread or worker also runs the operations that follow, up to the first of these: a
    join, a `limit`, or a batch after a filter. All workers share this batch, and all operations
    after it, or after the join or `limit`.

    A run resumes exactly, with any number of workers. For this, `datasets` itself moves to the
    saved row, and may have to read a file from its start. If the dataset is stored in files,
    `ParquetDataSource` and similar sources can read these files with random access, and can resume
    on another number of hosts.

    Args:
        dataset: a `datasets.IterableDataset`, from `load_dataset(…, streaming=True)` or
            `to_iterable_dataset()`. It may be mapped, filtered, interleaved, or divided by
            `split_dataset_by_node`.
        num_epochs: number of epochs (`set_epoch` is called with the number of each); None: endless.
            Default: 1.
        shard_options: the shard of this process: it reads every shard_count-th of the dataset's own
            shards (its files), which may have unequal numbers of rows. Default: all. To read all
            files in each process and keep every n-th row, use `.shard(shard_options)` instead.

    Raises:
        TypeError: if `dataset` is not an `IterableDataset`; if its format is "arrow", "pandas" or
            "polars", which gives tables instead of rows; or if another argument has a wrong type.
        ValueError: if the dataset shuffles in a buffer of more than one row (the states of
            `datasets` do not contain this buffer; use `window_shuffle` after this stream instead),
            or if `num_epochs` is below 1.
        ShardingError: if `shard_options` is given, and the dataset has fewer shards than there are
            processes, or `drop_remainder` is True.

    Example (needs `datasets`):
        `HuggingFaceStream(load_dataset(name, streaming=True, split="train")).map(encode).batch(8)`
    """

    def __init__(
        self, dataset: Any, *, num_epochs: int | None = 1, shard_options: ShardOptions | None = None
    ) -> None:
        super().__init__()
        _check(dataset)
        self.num_epochs = (
            None
            if num_epochs is None
            else whole_number("num_epochs", num_epochs, 1, None, "at least 1")
        )
        self.dataset = (
            dataset if shard_options is None else _part(dataset, as_shard_options(shard_options))
        )

    @cached_property
    def chain_stream(self) -> Stream:
        return run_through(_Epochs(self.dataset, self.num_epochs), endless=self.num_epochs is None)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "dataset": _fresh(self.dataset)}

    def __repr__(self) -> str:
        shards = self.dataset.num_shards
        return (
            f"HuggingFaceStream({shards} shard{'s' * (shards != 1)}, num_epochs={self.num_epochs})"
        )


class _Epochs:
    """The rows of all epochs of a dataset, as an iterable with a fingerprint.

    Args:
        dataset: a `datasets.IterableDataset`.
        num_epochs: number of epochs; None for no end.
    """

    def __init__(self, dataset: Any, num_epochs: int | None) -> None:
        self._dataset, self._num_epochs = dataset, num_epochs

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Values that identify the dataset in states.

        The dict has the dataset's name, split, columns and number of shards; the kinds of its
        steps, such as map or filter; and the number of its first epoch and the number of epochs.
        """
        info = self._dataset.info
        return {
            "name": [
                info.dataset_name or info.builder_name,
                info.config_name,
                str(self._dataset.split),
            ],
            "columns": self._dataset.column_names,
            "shards": self._dataset.num_shards,
            "steps": _kinds_in(self._dataset.state_dict()),
            "epochs": [self._dataset.epoch, self._num_epochs],
        }

    def __iter__(self) -> _Rows:
        return _Rows(self._dataset, self._num_epochs)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_dataset": _fresh(self._dataset)}


class _Rows:
    """Iterator over the rows of all epochs of a dataset, with a state.

    It ends early if an epoch has no rows.

    Args:
        dataset: a `datasets.IterableDataset`.
        num_epochs: number of epochs, from `dataset.epoch` on; None for no end.
    """

    def __init__(self, dataset: Any, num_epochs: int | None) -> None:
        self._dataset = dataset
        self._end = None if num_epochs is None else dataset.epoch + num_epochs
        self._go_to(dataset.epoch, None)

    def _go_to(self, epoch: int, place: Any) -> None:
        """Move to the start of an epoch, or to a place within the epoch.

        Args:
            epoch: number of the epoch.
            place: a state of `datasets`, which is a place within the epoch; None for the start.
        """
        self._epoch, self._place = epoch, place
        self._reading: Any = None
        self._rows: Iterator[Any] = iter(())
        self._given = place is not None

    def _open(self) -> None:
        # Each epoch reads a copy of the dataset, so that the states of several loops do not mix.
        reading = _fresh(self._dataset)
        reading.set_epoch(self._epoch)
        if self._place is not None:
            reading.load_state_dict(self._place)
        self._reading, self._rows = reading, iter(reading)

    def __iter__(self) -> _Rows:
        return self

    def __next__(self) -> Any:
        while self._end is None or self._epoch < self._end:
            if self._reading is None:
                self._open()
            for row in self._rows:
                self._given = True
                return row
            if not self._given:  # an epoch without a row: so is each that follows
                break
            self._go_to(self._epoch + 1, None)
        raise StopIteration

    def get_state(self) -> dict[str, Any]:
        """Return the current position, as a dict with the keys "epoch" and "place".

        "epoch" is the number of the epoch. "place" is a state of `datasets`, i.e. a place within
        the epoch; None at the start of the epoch.
        """
        place = (
            self._reading.state_dict() if self._reading is not None and self._given else self._place
        )
        return {"epoch": self._epoch, "place": place}

    def set_state(self, state: dict[str, Any]) -> None:
        """Move to the position of a state that `get_state` returned.

        Raises:
            CheckpointError: if the dataset of the state was made by other steps (such as map or
                filter) than this dataset.
        """
        place = state["place"]
        known = _kinds_in(self._dataset.state_dict())
        if place is not None and (saved := _kinds_in(place)) != known:
            raise CheckpointError(
                f"the state belongs to a stream made by {first_few(saved, 8)}, but this one is "
                f"made by {first_few(known, 8)}. Make the dataset with the same maps, filters and "
                "shards as in the run that was saved."
            )
        self._go_to(state["epoch"], place)


def _fresh(dataset: Any) -> Any:
    """Return a copy of a dataset, without the event loops that an iteration over it has opened."""
    # Event loops of an async `map` cannot be copied.
    loops = [getattr(step, _LOOPS, None) for step in _steps_of(dataset)]
    return copy.deepcopy(dataset, {id(opened): [] for opened in loops if opened is not None})


def _check(dataset: Any) -> None:
    kinds = [f"{kind.__module__}.{kind.__name__}" for kind in type(dataset).__mro__]
    if "datasets.iterable_dataset.IterableDataset" not in kinds:
        raise TypeError(
            f"HuggingFaceStream takes a datasets.IterableDataset, not {a_kind_of(dataset)}. Pass a "
            "split loaded with streaming=True. To read a datasets.Dataset, use "
            "headrace.load(dataset, …)."
        )
    formatting = getattr(dataset, "_formatting", None)
    form = None if formatting is None else formatting.format_type
    if form in _TABLE_FORMATS:
        raise TypeError(
            f'a datasets.IterableDataset with_format("{form}") gives tables, not rows. Pass '
            'dataset.with_format("numpy"), or with_format(None) for Python objects.'
        )
    for step in _steps_of(dataset):
        if (
            type(step).__name__ == "BufferShuffledExamplesIterable"
            and (size := step.buffer_size) > 1
        ):
            raise ValueError(
                f"the dataset shuffles in a buffer of {short_repr(size)} rows. The states of "
                "datasets do not contain these rows, so a run that resumes would lose them. Pass "
                "the dataset before its shuffle, and shuffle with "
                f"HuggingFaceStream(dataset).window_shuffle({short_repr(size)}, seed=0). To "
                "shuffle the shards too, call dataset.shuffle(seed=0, buffer_size=1) first."
            )


def _steps_of(dataset: Any) -> Iterator[Any]:
    return _steps(getattr(dataset, "_ex_iterable", None))


def _steps(step: Any) -> Iterator[Any]:
    """Yield a step of a `datasets` dataset (for example a map) and all steps before it."""
    if step is not None:
        yield step
        for below in (getattr(step, "ex_iterable", None), *getattr(step, "ex_iterables", ())):
            yield from _steps(below)


def _kinds_in(state: Any) -> list[str]:
    """Return the class names of the transformations in a Hugging Face dataset's `state_dict`.

    Each name comes once; the list is sorted.
    """
    # How often a kind occurs may differ from epoch to epoch.
    return sorted(set(_kinds(state)))


def _kinds(state: Any) -> Iterator[str]:
    if isinstance(state, dict):
        if isinstance(kind := state.get("type"), str):
            yield kind
        for name, below in state.items():
            if not name.startswith("previous_"):  # an earlier place in the same steps
                yield from _kinds(below)
    elif isinstance(state, list):
        for below in state:
            yield from _kinds(below)


def _part(dataset: Any, shard: ShardOptions) -> Any:
    """Return the part of a `datasets.IterableDataset` that one shard reads.

    The dataset has shards of its own (its files). The part consists of every shard_count-th of
    these.

    Args:
        dataset: a `datasets.IterableDataset`.
        shard: the shard.

    Raises:
        ShardingError: if the dataset has fewer shards than `shard_count`, or `drop_remainder` is
            True.
    """
    index, count = shard.shard_index, shard.shard_count
    if shard.drop_remainder:
        raise ShardingError(
            "drop_remainder=True needs shards of equal length, but the number of rows in the files "
            "of a stream is unknown. Leave drop_remainder out, and pass num_epochs=None if no "
            "shard must end before the others. Or use "
            "HuggingFaceStream(dataset).shard(shard_options), where each shard takes every n-th "
            "row."
        )
    if dataset.num_shards < count:
        raise ShardingError(
            f"the dataset has {dataset.num_shards} shards, but shard_count={count}. Pass a dataset "
            "of more files, or dataset.reshard() if its format can be divided. Or use "
            "HuggingFaceStream(dataset).shard(shard_options): each process reads all of it and "
            "takes every n-th row."
        )
    return dataset.shard(num_shards=count, index=index, contiguous=False)
