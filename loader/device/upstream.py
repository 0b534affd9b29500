"""The iterator that a feeder reads ("upstream"), and the position of the feeder's user in it.

In: the iterator of a loader, or any other. Out: the same interface for both. The reading thread
takes a mark (a position) after every batch. The state at a mark is computed only when the user asks
for it, on the user's thread.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from ...common.closing import close_of
from ...common.messages import a_kind_of
from ..state.files import has_state
from .options import CommonOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..iterator import DataLoaderIterator
    from ..plan.pipeline import Pipeline
    from ..state.live.changes import Change
    from ..state.position import StreamPosition


class Upstream:
    """Wrapper of the iterator that a feeder reads; the iterator may have a state or not.

    The feeder's threads have a reference to the wrapper, and not to the feeder, so that a feeder
    that nobody uses is deleted.

    Args:
        iterator: the iterator.
        owned: True if the feeder opened the iterator, and so has to close it.
    """

    def __init__(self, iterator: Any, owned: bool) -> None:
        self.iterator = iterator
        from ..iterator import DataLoaderIterator

        self.host_iterator = iterator if isinstance(iterator, DataLoaderIterator) else None
        self.goes_back = has_state(iterator)  # else `go_back` does nothing
        self.user_mark: Any = None  # position of the user; None: the iterator's position
        self.changes: list[Change] = []  # since the start or the last `set_state`
        self._new_changes: list[Change] = []  # those that the iterator does not know
        self.gone = False  # the feeder was closed or dropped
        self.stops = False  # this process is asked to end
        self.owned = owned  # the feeder opened it
        self._batch: tuple[Pipeline, _LastBatch | None] | None = (
            None  # of the pipeline that was asked about last
        )

    @classmethod
    def of(cls, description: CommonOptions) -> Upstream:
        """Wrap a new iterator over a feeder's source, or the source itself if it is an iterator.

        Raises:
            ValueError: `on_uneven="repeat"`, and the source cannot be iterated again from its
                beginning.
        """
        iterator = iter(description.source)
        upstream = cls(iterator, owned=iterator is not description.source)
        if description.on_uneven == "repeat" and (
            upstream.host_iterator is None or not upstream.owned
        ):
            upstream.leave()
            raise ValueError(
                'on_uneven="repeat" begins the stream again, which '
                f"{a_kind_of(description.source)} cannot. Feed from a DataLoader or a dataset, or "
                'pass on_uneven="pad".'
            )
        return upstream

    def loader(self, what: str) -> DataLoaderIterator:
        """Return the iterator, which must be the iterator of a `DataLoader`.

        Args:
            what: what the caller wants to do with the iterator, for the error message.

        Raises:
            TypeError: the iterator is not that of a `DataLoader`.
        """
        if self.host_iterator is None:
            raise _no_loader(what, a_kind_of(self.iterator))
        return self.host_iterator

    def mark(self) -> Any:
        """Return an object for the current position of the iterator that a feeder reads.

        The object has the methods of `StreamPosition`. If the iterator is not a `DataLoader`'s, all
        of these methods except `get_state` raise an error.
        """
        host = self.host_iterator
        return OtherMark(self.iterator, self.goes_back) if host is None else host.here()

    def read(self) -> Any:
        """Return the next batch of the iterator that a feeder reads.

        If the user has made changes (`feeder.change`), they are first passed on to the iterator.

        Raises:
            StopIteration: the iterator has no more batches.
        """
        self._take_up()
        return next(self.iterator)

    def _take_up(self) -> None:
        # removed first: meanwhile the user's thread may put another one in its place
        while self._new_changes:
            self.loader("change").take_up(self._new_changes.pop(0))

    def change(
        self, here: StreamPosition, wanted: Mapping[str, Any], at_step: int | None, ahead: int
    ) -> None:
        """Check the arguments of `feeder.change`, and add the change; see `change_of`.

        Args:
            here: the user's position, with all earlier changes.
            wanted: the new value of each kind of change, by name of the argument.
            at_step: number of the first step after the change; None for the first possible one.
            ahead: number of steps after the user's position that may have been read already.
        """
        from ..state.live.changes import change_of

        made = self.loader("change").as_made[0]
        self.add(change_of(here, made, self.changes, wanted, at_step, ahead))

    def add(self, change: Change) -> None:
        """Add a change of a feeder's run, such as new weights of a mix.

        The iterator that the feeder reads gets the change before its next batch, but the change may
        begin at a later step. If it changes a mix, it replaces earlier changes of the mix that have
        not begun yet.
        """
        self._new_changes = [
            *(each for each in self._new_changes if not change.replaces(each)),
            change,
        ]
        self.changes = [*(each for each in self.changes if not change.replaces(each)), change]

    def forget_changes(self) -> None:
        """Forget all changes of a feeder's run, such as new weights of a mix.

        Called after the iterator that the feeder reads was moved to a state, because the state
        contains the changes that are in effect at its position.
        """
        self.changes, self._new_changes = [], []

    def describe_at(self, mark: Any) -> str:
        """Return a text about the iterator that a feeder reads, for `repr` of the feeder.

        If the iterator is a `DataLoader`'s, the text also describes the position `mark`.
        """
        host = self.host_iterator
        return (
            f"source={type(self.iterator).__name__}"
            if host is None
            else mark.describe(host.snapshot().worker_count)
        )

    def set_state(self, state: Any, strict: bool) -> None:
        """Move the iterator that a feeder reads to a state.

        Args:
            state: the state.
            strict: False accepts a state of another source, sampler or other operations. It has no
                effect if the iterator is not a `DataLoader`'s.

        Raises:
            TypeError: the iterator has no `get_state` and `set_state`.
            CheckpointError: the state is damaged, or belongs to another pipeline.
        """
        if not self.goes_back:
            raise _no_state("set_state", a_kind_of(self.iterator))
        self.iterator.set_state(*((state,) if self.host_iterator is None else (state, strict)))

    def steady(self, mark: Any) -> int:
        """Return how many consecutive batches are known to have equally many rows.

        The first of these batches is the one before the position `mark`; all whole batches after it
        follow. Their number is known if each step has the same number of positions, the last
        operation only stacks elements to batches, and nothing was skipped. Otherwise the result is
        1.

        Args:
            mark: a position of the iterator.
        """
        batch = self._batch_of(mark)
        if batch is None or not batch.only_stacks or not mark.pipeline.aligned or mark.kept.skipped:
            return 1
        return 1 + int(
            mark.pipeline.leaf.left_from(mark.cursor.positions[0]) // mark.pipeline.stages[0].unit
        )

    def usual_rows(self, mark: Any, rows: int, transformed: bool) -> int:
        """Return the number of rows to which a batch with fewer rows is filled up.

        Return 0 if the batch is not filled up. This is so in three cases:

        * the batch has all its rows;
        * no `Batch` operation decides its number of rows;
        * it was a whole batch, and a function after the `Batch` removed rows.

        Args:
            mark: position after the batch.
            rows: number of rows of the batch, after all functions.
            transformed: True if the feeder's `transform` may have changed the number of rows.
        """
        batch = self._batch_of(mark)
        if batch is None or rows >= batch.size:
            return 0
        if (batch.only_stacks and not transformed) or mark.run is None:
            return batch.size
        # a function may have made fewer rows of a whole batch
        table = mark.run.origin.table(np.array([mark.row]))
        return batch.size if table.row.max(initial=-1) + 1 < batch.size else 0

    def _batch_of(self, mark: Any) -> _LastBatch | None:
        """Return facts about the `Batch` operation that decides a batch's number of rows.

        Return None if there is no such operation.

        Args:
            mark: position after the batch.
        """
        if self.host_iterator is None:
            return None
        if self._batch is None or self._batch[0] is not mark.pipeline:
            self._batch = mark.pipeline, _last_batch(mark.pipeline)
        return self._batch[1]

    def go_back(self) -> None:
        """Move the iterator that a feeder reads back to the position of the feeder's user.

        Do nothing if the iterator has no state, or if the user's position is not known.
        """
        if self.user_mark is None:
            return
        if self.host_iterator is not None:
            self.host_iterator.go_back(self.user_mark)
            # The mark may be of a batch that was read before a change of a mix. Other changes wait
            # in the iterator.
            new = self._new_changes
            self._new_changes = [each for each in self.changes if each in new or each.is_of_order]
            self._take_up()
        elif self.goes_back:
            self.iterator.set_state(self.user_mark.get_state())

    def leave(self) -> None:
        """Stop reading from the iterator that a feeder reads.

        An iterator that the feeder opened is closed. An iterator that the user gave to the feeder
        is moved back to the position after the last batch that the user received.
        """
        if not self.owned:
            self.go_back()
        else:
            close_of(self.iterator)()

    def way_out(self) -> None:
        """At the end of the reader thread, stop reading from the iterator that the feeder reads.

        This calls `leave`, unless the feeder still needs the iterator. It needs an iterator that it
        opened itself, as long as the feeder is neither closed nor deleted. Errors are suppressed.
        """
        if self.gone or not self.owned:
            with contextlib.suppress(Exception):  # another caller of `leave` gets the same error
                self.leave()


class OtherMark:
    """Position in an iterator that is not a `DataLoader`'s.

    It contains the iterator's state, if there is one. Reading any other fact about the position,
    such as its step, raises an error.

    Args:
        iterator: the iterator.
        goes_back: True if the iterator has `get_state` and `set_state`.
    """

    def __init__(self, iterator: Any, goes_back: bool) -> None:
        self._kind = a_kind_of(iterator)
        self._state = (iterator.get_state(),) if goes_back else ()

    def get_state(self) -> Any:
        if not self._state:
            raise _no_state("get_state", self._kind)
        return self._state[0]

    def __getattr__(self, question: str) -> NoReturn:
        error = _no_loader(question, self._kind)
        # of which `hasattr` is asked
        raise AttributeError(str(error)) if question in ("part_epochs", "part_records") else error


class _LastBatch(NamedTuple):
    """Facts about the last `Batch` operation of a pipeline.

    Attributes:
        size: number of rows of a whole batch.
        only_stacks: True if no function can change the number of rows, because the `Batch` stacks
            elements without a function and is the last operation.
    """

    size: int
    only_stacks: bool


def _last_batch(pipeline: Pipeline) -> _LastBatch | None:
    """Return facts about the last `Batch` operation of a pipeline.

    Return None if there is no `Batch`, or if a later step decides the number of rows: an operation
    that splits or regroups batches, or a join of streams.
    """
    if pipeline.top.stage is None:
        return None
    operations = pipeline.stages[pipeline.top.stage].operations
    for number in range(len(operations) - 1, -1, -1):
        one = operations[number]
        if one.takes is not None and one.one_to_one and not one.puts_together:
            return _LastBatch(one.takes, one.only_stacks and number == len(operations) - 1)
        if not (one.one_to_one or one.only_filters or one.keeps_elements):
            return None
    return None


def _no_state(method: str, kind: str) -> TypeError:
    return TypeError(
        f"{method} needs an iterator with get_state and set_state, but {kind} has none. Feed from "
        "a headrace.DataLoader, or from an iterator that has them."
    )


def _no_loader(what: str, kind: str) -> TypeError:
    return TypeError(
        f"{what} needs the iterator of a DataLoader, but this is {kind}. Feed from a "
        "headrace.DataLoader."
    )
