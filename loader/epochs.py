"""Loop over epochs: one iterator for each epoch, and one state for all epochs together."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from ..common.messages import a_kind_of
from ..common.validation import whole_number
from ..errors import CheckpointError, ClosedError
from ..samplers.one_epoch import OneEpoch
from ..samplers.protocol import ENDLESS
from .plan.build import not_empty
from .plan.cursor import Cursor
from .plan.pipeline import Pipeline
from .state.growing import as_epoch_begins
from .state.kept import ExtraState
from .state.position import StreamPositionAPI
from .state.resumable import Resumable
from .state.schema import LoaderState, parsed

Kind = TypeVar("Kind", bound=StreamPositionAPI)
T = TypeVar("T", bound=StreamPositionAPI)


class Epochs(Resumable, ExtraState, Generic[Kind]):
    """Epochs, one after another, each with its own iterator; made by `loader.epochs(…)`.

    The state is the state after the last batch that you received, in any epoch. If the state was
    taken inside the loop over an epoch, even after its last batch, a restored run continues in this
    loop. If it was taken after the loop, a restored run continues with the next epoch. Steps are
    counted over all epochs. Leaving a loop early skips the rest of its epoch. Taking the next epoch
    closes the iterator of the previous epoch. To stop all threads at once, close this object, use
    it as a context manager, or delete it.

    >>> import headrace
    >>> epochs = headrace.load(range(5), batch_size=2).epochs(2)
    >>> for epoch in epochs:
    ...     for batch in epoch:
    ...         print(epoch.epoch, epoch.step, batch.tolist())
    0 1 [0, 1]
    0 2 [2, 3]
    0 3 [4]
    1 4 [0, 1]
    1 5 [2, 3]
    1 6 [4]
    """

    def __init__(
        self, loader_of: Callable[[int], Any], count: int | None, open_loader: Callable[[Any], Kind]
    ) -> None:
        self.loader_of = loader_of  # makes the loader of an epoch, for tools
        self._count = count
        self._open_loader = open_loader
        self._closed = False
        self._number = 0
        self._batches = self._open(0)
        self._begun = False  # whether the user has them

    def opened_by(self, open_loader: Callable[[Any], T]) -> Epochs[T]:
        """Return the same epochs, from the beginning, with iterators of another kind.

        Args:
            open_loader: function that takes the loader of an epoch, and makes the epoch's iterator.
        """
        return Epochs(self.loader_of, self._count, open_loader)

    def _open(self, number: int) -> Kind:
        return self._open_loader(self.loader_of(number))

    def __next__(self) -> Kind:
        """Return the iterator of the next epoch.

        In the first call after a state was restored, return an iterator over the rest of the
        restored epoch.

        Raises:
            StopIteration: if the iterators of all epochs were returned.
            ClosedError: if this object was closed.
        """
        if self._closed:
            raise ClosedError(
                "these epochs were closed. Make new ones, loader.epochs(…), and restore the state "
                "in them."
            )
        if self._begun:
            self.set_state(self._state_after())
        if self._count is not None and self._number >= self._count:
            raise StopIteration
        self._begun = True
        return self._batches

    def here(self) -> Any:
        """Return an object for the position after the last batch received in the current epoch.

        It is a `StreamPosition`; or a `RemotePosition` if the epochs are those of a `RemoteLoader`.
        """
        return self._batches.here()

    @property
    def open_epoch(self) -> Kind:  # for tools
        return self._batches

    def __repr__(self) -> str:
        return f"Epochs(count={self._count}, {self._batches!r})"

    @property
    def step(self) -> int:
        """Number of the next batch, counted over all epochs."""
        return self._batches.step

    @property
    def epoch(self) -> int:
        """Number, from 0, of the epoch whose batches you receive.

        After the loop over an epoch has ended, this is the number of the next epoch.
        """
        return self._number + self._batches.ended

    def start_prefetch(self) -> None:
        """Start the work for the current epoch now, in the background.

        After the last epoch, do nothing.

        Raises:
            ClosedError: if this object was closed before the end of the last epoch.
        """
        if self._count is None or self._number < self._count:
            self._batches.start_prefetch()

    def get_state(self) -> bytes:
        """Return the state as JSON bytes, for `set_state` of an `Epochs` object.

        An iterator of `iter(loader)` does not accept such a state, except with `strict=False`.
        """
        state: bytes = self._state_after() if self._batches.ended else self._batches.get_state()
        return state

    def set_state(self, state: bytes, strict: bool = True) -> None:
        """Move to the position of a state from `get_state` of this or another `Epochs` object.

        If an error is raised, the position stays the same.

        Args:
            state: result of `get_state`.
            strict: False accepts a state of another source, sampler or other operations.

        Raises:
            CheckpointError: if `state` is not a state of epochs, is from another shard, or has a
                position that does not exist in this pipeline. With `strict`, also if it is from
                another pipeline (source, sampler or operations).
        """
        self._go_to(
            epoch_of(LoaderState.from_json(state)), lambda batches: batches.set_state(state, strict)
        )

    def set_states(
        self, states: Sequence[bytes], strict: bool = True, equal_steps: bool = False
    ) -> None:
        """Resume after a run on another number of shards.

        If an error is raised, the position stays the same.

        Args:
            states: results of `get_state` on each of the shards of the earlier run, in any order.
            strict: False accepts states of another source, sampler or other operations.
            equal_steps: True restores from the state of any one shard, if all shards were at the
                same step and none had ended.

        Raises:
            CheckpointError: if a state is missing, or belongs to another pipeline or epoch.
        """
        read = parsed(states)
        self._go_to(
            epoch_of(read[0]) if read else 0,
            lambda batches: batches.set_states(states, strict, equal_steps),
        )

    def close(self) -> None:
        """Stop the workers and the prefetching of this loop over epochs. May be called twice.

        `get_state` still works afterwards.
        """
        self._batches.close()
        self._closed = True

    def _go_to(self, number: int, set_state: Callable[[Kind], None]) -> None:
        batches = self._open(number)
        set_state(batches)
        self._batches.close()
        self._number, self._batches, self._begun = number, batches, False

    def _state_after(self) -> bytes:
        return start_of_epoch(self._number + 1, self._batches.get_state(), self._batches.step)


def start_of_epoch(number: int, state: bytes, step: int) -> bytes:
    """Return the state at the start of an epoch.

    Args:
        number: number of the epoch, from 0.
        state: state in another epoch of the same shard, from which all values except the position
            are copied.
        step: number of the epoch's first step, counted over all epochs.
    """
    other = LoaderState.from_json(state)
    identity = other.identity.with_order(0, {**other.identity.order, "epoch": number})
    start = Cursor((0,) * len(other.cursor.positions), (0,) * len(other.cursor.skips))
    return LoaderState(start, step, other.shard, identity, kept=other.kept).to_json()


def epoch_of(state: LoaderState) -> int:
    """Return the number of the epoch in which a state was saved.

    Raises:
        CheckpointError: if the state is from `iter(loader)`, not from `loader.epochs(…)`.
    """
    epoch = state.identity.order.get("epoch")
    if type(epoch) is not int or not 0 <= epoch < 1 << 31:
        raise CheckpointError(
            "this state was saved by iter(loader), whose batches can cross the end of an epoch. "
            "Restore it in iter(loader), or save a state of loader.epochs(…)."
        )
    return epoch


def count_of_epochs(pipeline: Pipeline, count: int | None) -> int | None:
    """Return the number of epochs to loop over; None if there is no end.

    Args:
        pipeline: pipeline of the loader.
        count: number that the user wants. None: all epochs of the sampler.

    Raises:
        TypeError: if `count` is not an integer.
        ValueError: if `count` is below 1, or the sampler has fewer epochs. Also if appended records
            would be added during an epoch (`growth="now"`), or to a mix.
        EmptyStreamError: if an epoch has too few records for a batch.
    """
    leaf = pipeline.leaf
    if leaf.growth is not None and leaf.has_parts:
        raise ValueError(
            "epochs() does not work for a mix of growing sources, because each source begins its "
            'epochs at another time. Loop over iter(loader). Or pass growth="hand", which reads '
            "only the records that exist now."
        )
    if leaf.growth is not None and leaf.growth.at == "now":
        raise ValueError(
            'each epoch of epochs() reads the records that existed when it began, but growth="now" '
            'reads appended records at once. Pass growth="epoch", which reads them from the next '
            "epoch on. Or loop over iter(loader), and read the epoch from iterator.epoch."
        )
    not_empty(one_epoch(pipeline, 0))
    there = leaf.sampler.epoch_count
    if count is None:
        return there
    count = whole_number(
        "count", count, 1, None, "a number of epochs, or None for all that the sampler has"
    )
    if there is not None and count > there:
        raise ValueError(
            f"epochs({count}) needs a sampler of at least {count} epochs, but this one has "
            f"{there}. Pass num_epochs={count} or more to it, or to load(). In place of a "
            "SequentialSampler, pass an IndexSampler; to a MixSampler, pass "
            'when_exhausted="repeat".'
        )
    return count


def one_epoch(pipeline: Pipeline, epoch: int) -> Pipeline:
    """Return the pipeline of one epoch.

    If the source grows, the epoch has the records that exist when the epoch begins.

    Args:
        pipeline: pipeline of all epochs.
        epoch: number of the epoch, from 0.

    Raises:
        CheckpointError: if `epoch`, which may come from a damaged state, is too large.
    """
    pipeline = as_epoch_begins(pipeline, epoch)
    leaf = pipeline.leaf
    if (epoch + 1) * leaf.sampler.epoch_length > ENDLESS:
        raise CheckpointError(
            f"the state is damaged: its epoch, {epoch}, is too large for epochs of "
            f"{leaf.sampler.epoch_length} records. Restore another checkpoint."
        )
    source, sampler = leaf.source, leaf.sampler
    source, sampler = (
        source.of_epoch(sampler, epoch)
        if leaf.source_facts.planned
        else (source, OneEpoch(sampler, epoch))
    )
    return pipeline.with_leaf(source=source, sampler=sampler, epoch=epoch, growth=None)


def epochs_of(loader: Any, count: int | None) -> Epochs[Any] | None:
    """Return `loader.epochs(count)`, or None if `loader` is not a `DataLoader`."""
    loops = getattr(loader, "epochs", None)
    epochs = loops(count) if callable(loops) else None
    return epochs if isinstance(epochs, Epochs) else None


def fed_epochs(description: Any, count: int | None) -> Epochs[Any]:
    """Return the epochs of the loader that a feeder reads.

    Each epoch is read by a feeder of its own.

    Args:
        description: the feeder's description, a dataclass with the loader in its field `source`.
        count: number of epochs; None for all epochs of the sampler.

    Raises:
        TypeError: if the source is not a `DataLoader`, or `count` is not an integer.
        ValueError: as in `DataLoader.epochs`.
    """
    source = description.source
    epochs = None if isinstance(source, type(description)) else epochs_of(source, count)
    if epochs is None:
        raise TypeError(
            "epochs() needs a DataLoader, but this feeder takes its batches from "
            f"{a_kind_of(source)}. Feed it from a DataLoader."
        )
    return epochs.opened_by(lambda loader: iter(dataclasses.replace(description, source=loader)))
