"""An iterator's position in its stream; and the common methods of iterators, feeders and epochs.

In: which element the iterator delivered last. Out: the cursor (a place in the stream) after this
element, the state, and the records of the element. They are computed only when the caller asks for
them, so taking a position is cheap: a device feeder takes one for every batch.

Any thread may use a position, because it does not change, with one exception: its `keeper` holds
values that the user may set at any time, such as the extra state.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from ...common.messages import short_repr
from ...common.validation import whole_number
from ..plan.cursor import Cursor
from ..plan.pipeline import Pipeline
from ..plan.steps.lookup import number_of, part_epochs, part_records, passed_before, records_of_step
from ..plan.steps.skipped import Ranges, within
from ..stream.rows import Rows
from .checks.record_checks import marks_of
from .kept import ExtraState, Keeper, Kept
from .live.changeable import Changeable
from .resumable import Resumable
from .schema import LoaderState


class StreamPosition(NamedTuple):
    """A position in the stream, between the element that the user received last and the next one.

    Its methods compute the values that iterators return: state, step, epoch, records.

    Attributes:
        pipeline: the pipeline that runs. If the run was resumed from a state, it begins where the
            state says.
        keeper: holder of the other values that the run keeps in its states, such as skipped steps.
        start: cursor (place in the stream) at which the iterator began, or to which it was moved
            last.
        run: `Rows` object that contains the element delivered last; None if nothing was delivered
            since the start.
        row: index of that element in `run`.
        step: number of elements delivered or skipped by `skip()`, in all runs.
    """

    pipeline: Pipeline
    keeper: Keeper
    start: Cursor
    run: Rows | None
    row: int
    step: int

    @property
    def cursor(self) -> Cursor:
        """The cursor (place in the stream) of this position, from which the stream continues."""
        return self.start if self.run is None else self.run.origin.cursor_after(self.row)

    @property
    def kept(self) -> Kept:
        """Values that the run keeps in its states besides this position, such as skipped steps."""
        return self.keeper.kept

    @property
    def is_at_end(self) -> bool:
        """True if this shard has certainly read all of its positions.

        False if it has not, or if that is unknown because elements have different numbers of
        records, for example after a `Filter`.
        """
        return self.pipeline.aligned and self.cursor.positions[0] >= self.pipeline.leaf.total

    @property
    def state(self) -> LoaderState:
        """The state from which the stream continues after this position."""
        shard = self.pipeline.shard
        state = LoaderState(
            cursor=self.cursor,
            step=self.step,
            shard=(shard.shard_index, shard.shard_count),
            identity=self.pipeline.identity,
            history=self.pipeline.history,
            kept=self.keeper.kept,
        )
        marks = marks_of(self.pipeline, state)
        return dataclasses.replace(state, marks=marks) if marks else state

    def get_state(self) -> bytes:
        return self.state.to_json()

    @property
    def epoch(self) -> int:
        cursor = self.cursor
        position = cursor.positions[0]
        return self.pipeline.leaves[0].epoch_of(
            position if any(cursor.skips) else max(position - 1, 0)
        )

    @property
    def part_epochs(self) -> dict[str, int]:
        return part_epochs(self.pipeline, self.cursor)

    @property
    def part_records(self) -> dict[str, int]:
        return part_records(self.pipeline, self.cursor)

    def len(self) -> int:
        return number_of(self.pipeline, (self.cursor.positions[0], self.step), self.kept.skipped)

    @property
    def passed(self) -> int:
        """Number of elements before this position, counted as `len()` counts.

        Elements left out by `skip()` do not count.
        """
        return passed_before(
            self.pipeline, (self.cursor.positions[0], self.step), self.kept.skipped
        )

    @property
    def unread(self) -> Ranges:
        """Ranges of this shard's positions that will be skipped after this position.

        Empty if they are unknown, because elements can have different numbers of records.
        """
        if not self.pipeline.aligned:
            return ()
        at = (self.cursor.positions[0], self.step)
        return self.kept.skipped.positions(at, self.pipeline.stages[0].unit)

    def describe(self, worker_count: int) -> str:
        """Return a text for an iterator's `repr`: the position, number of workers and source."""
        place, source = (
            f"step={self.step}, epoch={self.epoch}",
            short_repr(self.pipeline.leaves[0].source),
        )
        return f"{place}, worker_count={worker_count}, data_source={source}"

    def records_at(self, step: int) -> Any:
        step = whole_number("step", step, 0, None, "the number of an element, from 0")
        if step < self.step or within(self.kept.skipped.absorbed, step) is not None:
            raise IndexError(
                f"step {short_repr(step)} was already delivered or skipped. The next step of this "
                f"iterator is {self.step}. Pass this one or a later one."
            )
        return records_of_step(
            self.pipeline, step, (self.cursor.positions[0], self.step), self.kept.skipped
        )

    def get_extra_state(self) -> Any:
        return self.kept.extra_values

    def set_extra_state(self, values: Any) -> None:
        self.keeper.set_extra(values)

    def last_records(self) -> Any:
        if self.run is None:
            raise ValueError(
                "last_records() needs an element that was delivered. Call next() first."
            )
        leaves, every = self.pipeline.leaves, self.pipeline.every_leaf
        table = self.run.origin.table(np.array([self.row]))
        found = [np.empty(0, dtype=np.int64) for _ in leaves]
        for number in dict.fromkeys(table.leaf.tolist()):
            positions, own = table.position[table.leaf == number], number % len(leaves)
            each_once = np.array(list(dict.fromkeys(positions.tolist())), dtype=np.int64)
            keys = every[number].record_keys(every[number].positions_of(each_once))
            found[own] = np.concatenate([found[own], keys])
        told = [leaf.source_facts.records_of(keys) for leaf, keys in zip(leaves, found)]
        return (
            told[0]
            if len(told) == 1
            else {leaf.name or str(n): told[n] for n, leaf in enumerate(leaves)}
        )


class StreamPositionAPI(Changeable, ExtraState, Resumable):
    """Base class of the iterators of a `DataLoader` and of device feeders.

    It has the methods that both have: to save and restore the position in the stream, to change the
    run, and to return facts such as the step, the epoch and the last records. Most of the methods
    raise a TypeError for a feeder that reads from something other than a `DataLoader`.
    """

    _ended: bool  # `next` has told the end

    def here(self) -> StreamPosition:
        """Return the position after the last element that the user received, as an object.

        It is for tools such as `headrace`'s command line.

        A call takes less than a microsecond.

        Raises:
            TypeError: a feeder reads from something other than a `DataLoader`.
        """
        raise NotImplementedError

    def _description_text(self) -> str:
        """Return a text for `repr`: the position, the number of workers and the source."""
        raise NotImplementedError

    def __len__(self) -> int:
        """Return the number of elements of the whole stream, as `len(loader)` does.

        After `set_states` with the states of another number of shards, elements that those shards
        delivered are not counted. A device feeder (which puts batches on devices) with
        `on_uneven="drop"` or `"pad"` may deliver fewer or more elements, because their number then
        also depends on the other processes.

        Raises:
            TypeError: the stream is endless, or joined from several streams; or its length depends
                on an operation, or on failing records (`on_error`).
        """
        return self.here().len()

    @property
    def passed(self) -> int:
        """Number of delivered elements, also by earlier runs, without steps left out by `skip()`.

        One exception: if all elements have the same number of records, elements that were delivered
        before the number of shards changed are not counted. `len()` does not count them either.

        Raises:
            TypeError: the number is unknown, because a feeder reads from something other than a
                `DataLoader`.
        """
        return self.here().passed

    @property
    def ended(self) -> bool:
        """True if `next` has reported the end of the stream."""
        return self._ended

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._description_text()})"

    @property
    def step(self) -> int:
        """Number of the next element of this shard, from 0.

        Elements of earlier runs, and elements left out by `skip()`, count too. After `set_states`
        with the states of another number of shards, it is the largest step among these states.
        """
        return self.here().step

    @property
    def epoch(self) -> int:
        """Epoch, from 0, of the record delivered last; of the first record if none was delivered.

        Between rows of one window of a `Pack`, it is the epoch of the window's first record. If
        several streams are joined, it is the epoch of the first source.

        >>> import headrace
        >>> iterator = iter(headrace.load(range(6), batch_size=3))
        >>> [(next(iterator).tolist(), iterator.epoch) for _ in range(3)]
        [([0, 1, 2], 0), ([3, 4, 5], 0), ([0, 1, 2], 1)]
        """
        return self.here().epoch

    @property
    def part_epochs(self) -> dict[str, int]:
        """Epoch, from 0, that each part (dataset) of a mix has reached at this shard's last record.

        Each epoch is that of the part's last record before this shard's place in the order of all
        shards, so records of other shards count, too. Between rows of one window of a `Pack`, the
        epoch is computed at the window's first record. If several streams are joined, the dict has
        each of their sources.

        Raises:
            AttributeError: there is a single source that is not a mix. So `hasattr` is True only
                for mixes and other joined streams.

        >>> import headrace
        >>> parts = {"web": range(100), "books": range(2)}
        >>> sampler = headrace.MixSampler(parts, when_exhausted="repeat")
        >>> loader = headrace.DataLoader(
        ...     data_source=parts, sampler=sampler, operations=[headrace.Batch(10)]
        ... )
        >>> iterator = iter(loader)
        >>> batch = next(iterator)
        >>> iterator.part_epochs
        {'web': 0, 'books': 2}
        """
        return self.here().part_epochs

    @property
    def part_records(self) -> dict[str, int]:
        """Number of records of each part (dataset) of a mix, up to the record delivered last.

        Records of all runs and all shards are counted, if they come before this shard's place in
        the order of the stream. Other shards may have delivered some records after this place, or
        not yet all before it. If several streams are joined, the dict has each of their sources.

        Raises:
            AttributeError: there is a single source that is not a mix.

        >>> import headrace
        >>> parts = {"web": range(100), "books": range(20)}
        >>> sampler = headrace.MixSampler(parts, weights={"web": 0.7, "books": 0.3})
        >>> loader = headrace.DataLoader(
        ...     data_source=parts, sampler=sampler, operations=[headrace.Batch(10)]
        ... )
        >>> iterator = iter(loader)
        >>> batch = next(iterator)
        >>> iterator.part_records
        {'web': 7, 'books': 3}
        """
        return self.here().part_records

    def last_records(self) -> Any:
        """Return the keys `int64[records]` of the records in the element delivered last.

        A key is the index of a record in its source. The keys are in the order of the stream. A key
        is contained as often as the sampler drew the record, even if several rows were made of it.
        Records that a filter dropped are not included. The keys are computed when this method is
        called, so it costs nothing while the loop runs.

        For a mix, the result is a dict of such arrays by part. For joined datasets, it is a dict by
        the datasets' names (or, for datasets without names, their indices as texts).

        Raises:
            ValueError: no element was delivered since the start, the last `set_state`, a change of
                the run, or an error.

        >>> import headrace
        >>> no_thirds = headrace.Filter(lambda x: x % 3)
        >>> iterator = iter(headrace.load(range(10), transformations=[no_thirds], batch_size=3))
        >>> next(iterator).tolist(), iterator.last_records().tolist()
        ([1, 2, 4], [1, 2, 4])
        """
        return self.here().last_records()

    def records_at(self, step: int) -> Any:
        """Return the keys `int64[records in the element]` of the records of a step still to come.

        A key is the index of a record in its source; for a mix, the result is a dict of such arrays
        by part. Unlike `DataLoader.records_at`, this method also gives the right keys if the number
        of shards or the batch size has changed, or if steps are skipped.

        Args:
            step: number of the step, from 0; not less than the iterator's `step`.

        Raises:
            TypeError: streams are joined, or an operation or `on_error` decides which records are
                in an element; or `step` is not an integer.
            ValueError: `step` is negative.
            IndexError: the step was already delivered or skipped, or the stream ends before it.

        >>> import headrace
        >>> loader = headrace.load(range(10), batch_size=2, num_epochs=1)
        >>> iterator = iter(loader)
        >>> first, other = next(iterator), iter(loader.with_batch_size(3))
        >>> other.set_state(iterator.get_state())
        >>> other.records_at(2).tolist()
        [5, 6, 7]
        """
        return self.here().records_at(step)
