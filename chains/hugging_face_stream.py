"""In: a Hugging Face `datasets.IterableDataset`. Out: an `IterDataset` whose states hold those that `datasets` gives.

A state is the number of the epoch, and within one the `state_dict()` of the dataset. The library goes to that place; nothing
is counted here. Each iterator has a copy of the dataset, as the library keeps the place of a loop in the dataset itself.
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
"""Where a step of `datasets` keeps the event loops of its async function, each with its tasks."""

_TABLE_FORMATS = ("arrow", "pandas", "polars")


class HuggingFaceStream(IterDataset[Any]):
    """The rows of a streaming Hugging Face dataset, in its order: `load_dataset(…, streaming=True)`, `to_iterable_dataset()`.

    It stands in a chain as any `IterDataset` does. One thread or worker reads it; the operations after it are shared by all
    workers. A run goes on exactly, with any number of workers: `datasets` goes to the place, and may read again from the
    beginning of a file. Where the dataset is in files, `ParquetDataSource` and its like read at random, and on other hosts.

    Args:
        dataset: a `datasets.IterableDataset`: mapped, filtered, interleaved or divided by `split_dataset_by_node` as you like.
        num_epochs: how often it is read, each time with its next `set_epoch`; None: for ever. Default: once.
        shard_options: the part for this process: every shard_count-th of the dataset's own shards (its files). They may hold
            unequal numbers of rows. Default: all. To read all shards in each process, and take every n-th row, use
            `.shard(shard_options)` in their place.

    Raises:
        TypeError: it is no `IterableDataset`, or its format is "arrow", "pandas" or "polars", which has no rows.
        ValueError: the dataset shuffles in a buffer: its rows are in no state of `datasets`. Use `window_shuffle` after this.
        ShardingError: the dataset has fewer shards than processes, or `drop_remainder` asks for equal parts.

    Example (needs `datasets`):
        `HuggingFaceStream(load_dataset(name, split="train", streaming=True)).map(encode).window_shuffle(1000, seed=0).batch(8)`
    """

    def __init__(self, dataset: Any, *, num_epochs: int | None = 1, shard_options: ShardOptions | None = None) -> None:
        super().__init__()
        _check(dataset)
        self.num_epochs = None if num_epochs is None else whole_number("num_epochs", num_epochs, 1, None, "at least 1")
        self.dataset = dataset if shard_options is None else _part(dataset, as_shard_options(shard_options))

    @cached_property
    def chain_stream(self) -> Stream:
        return run_through(_Epochs(self.dataset, self.num_epochs))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "dataset": _fresh(self.dataset)}

    def __repr__(self) -> str:
        shards = self.dataset.num_shards
        return f"HuggingFaceStream({shards} shard{'s' * (shards != 1)}, num_epochs={self.num_epochs})"


class _Epochs:
    """The epochs of a dataset, as the engine runs through them."""

    def __init__(self, dataset: Any, num_epochs: int | None) -> None:
        self._dataset, self._num_epochs = dataset, num_epochs

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The name, split, columns and shards of the dataset, the kinds of its steps, and which epochs there are."""
        info = self._dataset.info
        return {
            "name": [info.dataset_name or info.builder_name, info.config_name, str(self._dataset.split)],
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
    """One run over the epochs, with a place."""

    def __init__(self, dataset: Any, num_epochs: int | None) -> None:
        self._dataset = dataset
        self._end = None if num_epochs is None else dataset.epoch + num_epochs
        self._go_to(dataset.epoch, None)

    def _go_to(self, epoch: int, place: Any) -> None:
        """Stand in an epoch, at its beginning or at a place that `state_dict` told."""
        self._epoch, self._place = epoch, place
        self._reading: Any = None
        self._rows: Iterator[Any] = iter(())
        self._given = place is not None

    def _open(self) -> None:
        """Have `datasets` go to the place; each epoch reads a copy, as states of several loops must not meet."""
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
        """The epoch, and what `datasets` says of the place in it; None at its beginning."""
        place = self._reading.state_dict() if self._reading is not None and self._given else self._place
        return {"epoch": self._epoch, "place": place}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go to such a place.

        Raises:
            CheckpointError: it is a place in a dataset that was made in other steps.
        """
        place = state["place"]
        known = _kinds_in(self._dataset.state_dict())
        if place is not None and (saved := _kinds_in(place)) != known:
            raise CheckpointError(
                f"the state is of a stream made by {first_few(saved, 8)}, and this one is made by "
                f"{first_few(known, 8)}; map, filter and shard the dataset as in the run that was saved."
            )
        self._go_to(state["epoch"], place)


def _fresh(dataset: Any) -> Any:
    """A copy of a dataset as it was before any loop over it: an async `map` keeps event loops, which have no copies."""
    loops = [getattr(step, _LOOPS, None) for step in _steps(getattr(dataset, "_ex_iterable", None))]
    return copy.deepcopy(dataset, {id(opened): [] for opened in loops if opened is not None})


def _check(dataset: Any) -> None:
    kinds = [f"{kind.__module__}.{kind.__name__}" for kind in type(dataset).__mro__]
    if "datasets.iterable_dataset.IterableDataset" not in kinds:
        raise TypeError(
            f"HuggingFaceStream takes a datasets.IterableDataset, not {a_kind_of(dataset)}; pass a split loaded with "
            "streaming=True. A datasets.Dataset is a source as it is: headrace.load(dataset, …)."
        )
    form = getattr(getattr(dataset, "_formatting", None), "format_type", None)
    if form in _TABLE_FORMATS:
        raise TypeError(
            f'a datasets.IterableDataset with_format("{form}") gives tables, not rows; pass dataset.with_format("numpy"), or '
            "with_format(None) for Python objects."
        )
    for step in _steps(getattr(dataset, "_ex_iterable", None)):
        if type(step).__name__ == "BufferShuffledExamplesIterable" and (size := step.buffer_size) > 1:
            raise ValueError(
                f"the dataset shuffles in a buffer of {short_repr(size)} rows, which are in no state of datasets: a run that "
                "goes on would lose them. Pass the dataset before shuffle, and shuffle here: HuggingFaceStream(dataset)"
                f".window_shuffle({short_repr(size)}, seed=0). dataset.shuffle(seed=0, buffer_size=1) before it shuffles its "
                "shards."
            )


def _steps(step: Any) -> Iterator[Any]:
    """The steps of which a dataset is made, down to its files."""
    if step is not None:
        yield step
        for below in (getattr(step, "ex_iterable", None), *getattr(step, "ex_iterables", ())):
            yield from _steps(below)


def _kinds_in(state: Any) -> list[str]:
    """The kinds of steps that a state tells of; how many there are of one may be another number in each epoch."""
    return sorted(set(_kinds(state)))


def _kinds(state: Any) -> Iterator[str]:
    """The kind of each step that a state tells of."""
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
    """Every shard_count-th of the dataset's own shards."""
    index, count = shard.shard_index, shard.shard_count
    if shard.drop_remainder:
        raise ShardingError(
            "drop_remainder=True asks for shards of equal length, and nobody knows how many rows the files of a stream have; "
            "use HuggingFaceStream(dataset).shard(shard_options), which takes every n-th row, or num_epochs=None."
        )
    if dataset.num_shards < count:
        raise ShardingError(
            f"the dataset has {dataset.num_shards} shards of its own for shard_count={count}; pass one of more files, "
            "dataset.reshard() where its format can be divided, or HuggingFaceStream(dataset).shard(shard_options), which "
            "reads all of it in each process and takes every n-th row."
        )
    return dataset.shard(num_shards=count, index=index, contiguous=False)
