"""The iterator that a device feeder reads ("upstream") and the position of the feeder's user in it.

In: the iterator of a loader, or any other. Out: the same interface for both. The reading thread
takes a mark (a position) after every batch; its state is computed only when the user asks for it,
on the user's thread.
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
    from ..iterator import DataLoaderIterator
    from ..plan.pipeline import Pipeline
    from ..state.live.changes import Change


class Upstream:
    """Wrapper of the iterator that a feeder reads; the iterator may have a state or not.

    The feeder's threads refer to it, and not to the feeder.

    Args:
        iterator: the iterator.
        owned: True if the feeder opened it, so that the feeder closes it.
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
        """Return a new iterator over a feeder's source; or the source itself if it is an iterator.

        Raises:
            ValueError: batches shall be repeated, and the source cannot begin again.
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
        """Return the iterator if it is a `DataLoader`'s.

        Args:
            what: the purpose, which the error names.

        Raises:
            TypeError: it is another iterator.
        """
        if self.host_iterator is None:
            raise _no_loader(what, a_kind_of(self.iterator))
        return self.host_iterator

    def mark(self) -> Any:
        """Return the iterator's position.

        The result has the methods of `StreamPosition`; some of them raise an error if the iterator
        has no state.
        """
        host = self.host_iterator
        return OtherMark(self.iterator, self.goes_back) if host is None else host.here()

    def read(self) -> Any:
        """Return the next batch.

        If the user has made changes (`feeder.change`), the iterator gets them first.

        Raises:
            StopIteration: at the end.
        """
        self._take_up()
        return next(self.iterator)

    def _take_up(self) -> None:
        # removed first: meanwhile the user's thread may put another one in its place
        while self._new_changes:
            self.loader("change").take_up(self._new_changes.pop(0))

    def add(self, change: Change) -> None:
        """Add a change, which the iterator makes before its next batch.

        A change of a mix replaces later changes of the mix.
        """
        self._new_changes = [
            *(each for each in self._new_changes if not change.replaces(each)),
            change,
        ]
        self.changes = [*(each for each in self.changes if not change.replaces(each)), change]

    def forget_changes(self) -> None:
        """Forget all changes: the iterator was moved to a state, which has its own changes."""
        self.changes, self._new_changes = [], []

    def describe_at(self, mark: Any) -> str:
        """Describe the iterator and, if known, the position `mark`, for `repr`."""
        host = self.host_iterator
        return (
            f"source={type(self.iterator).__name__}"
            if host is None
            else mark.describe(host.snapshot().worker_count)
        )

    def set_state(self, state: Any, strict: bool) -> None:
        """Move the iterator to a state. If it is a `DataLoader`'s, `strict` is passed on.

        Raises:
            TypeError: the iterator has no `get_state` and `set_state`.
            CheckpointError: the state is damaged, or belongs to another pipeline.
        """
        if not self.goes_back:
            raise _no_state("set_state", a_kind_of(self.iterator))
        self.iterator.set_state(*((state,) if self.host_iterator is None else (state, strict)))

    def steady(self, mark: Any) -> int:
        """Return how many consecutive batches are known to have equally many rows.

        The first of them is the batch before a position. If each step has the same number of
        positions, the last operation is a `Batch`, and nothing was skipped, these are the batch
        before the position and all whole batches after it. Otherwise the result is 1.

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
        """Return the number of rows to which a batch with fewer rows is filled up; 0 if it is not.

        A batch is not filled up if it has all its rows, if no `Batch` decides its number of rows,
        or if a function after a whole batch removed rows.

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
        """Return facts about the `Batch` that decides the number of rows in a batch at a position.

        Return None if there is none.
        """
        if self.host_iterator is None:
            return None
        if self._batch is None or self._batch[0] is not mark.pipeline:
            self._batch = mark.pipeline, _last_batch(mark.pipeline)
        return self._batch[1]

    def go_back(self) -> None:
        """Move the iterator back to the user's position, if it has a state and that is known."""
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
        """Close the iterator; or, if the user passed it, move it back to the user's position."""
        if not self.owned:
            self.go_back()
        else:
            close_of(self.iterator)()

    def way_out(self) -> None:
        """Close the iterator, or move it back to the user's position.

        Called at the end of the reader thread. Does nothing if the feeder is still in use and made
        the iterator itself.
        """
        if self.gone or not self.owned:
            with contextlib.suppress(Exception):  # another caller of `leave` gets the same error
                self.leave()


class OtherMark:
    """Position in an iterator that is not a `DataLoader`'s.

    It knows the iterator's state, if there is one, and nothing else.

    Args:
        iterator: the iterator.
        goes_back: True if it has `get_state` and `set_state`.
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
    """The last `Batch` of a pipeline.

    Attributes:
        size: number of rows of a whole batch.
        only_stacks: True if it only stacks, and no function follows that could change the number of
            rows.
    """

    size: int
    only_stacks: bool


def _last_batch(pipeline: Pipeline) -> _LastBatch | None:
    """Return facts about the last `Batch` of a pipeline.

    None if there is none, or if it does not decide the number of rows. It does not if a later
    operation splits or regroups batches, or if streams are joined after it.
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
