"""Iterators of Grain's datasets: iterators that headrace runs, and the base class for a user's own.

In: an iterator of headrace's, or a user's dataset. Out: elements, and states that are dicts.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from ....common.fields import replaced
from ....common.messages import a_kind_of, short_repr
from ....errors import CheckpointError, JoinError, StateIndexError, StructureError
from ....loader.plan.cursor import Subtree
from ....loader.plan.joins import Node
from ....loader.plan.rules import All, First
from ....loader.state.files import restore_later, write_later
from ....loader.state.schema import LoaderState
from ..inner.stats import NO_STATS
from ..wording import NotedIterator, reword
from .states import chain_state_after, is_grains, is_of_another_mix

T = TypeVar("T")
State: TypeAlias = Any
"""A dict of JSON values, or a function that returns it."""


class DatasetIterator(Generic[T], Iterator[T], ABC):
    """Base class for your own dataset iterators: define `__next__`, `get_state` and `set_state`.

    Args:
        parents: the iterators from which this one reads. If there is exactly one, it is
            `self._parent`.
    """

    _parents: tuple[Any, ...] = ()
    _stats = NO_STATS  # iterators of others take times with it

    def __init__(self, parents: Any = ()) -> None:
        self._parents = tuple(parents) if isinstance(parents, Sequence) else (parents,)

    @property
    def _parent(self) -> Any:
        (parent,) = self._parents
        return parent

    @abstractmethod
    def get_state(self) -> dict[str, Any]:
        """Return the state: a dict of JSON values."""

    @abstractmethod
    def set_state(self, state: dict[str, Any]) -> None:
        """Resume from a state of this or another iterator of the same dataset."""

    def state_later(self) -> Callable[[], dict[str, Any]]:
        """Return a function that returns the state of now, even if it is called later."""
        state = self.get_state()
        return lambda: state

    def start_prefetch(self) -> None:
        """Start to read ahead now, in the iterators that this one reads from."""
        for parent in self._parents:
            parent.start_prefetch()

    def close(self) -> None:
        """Stop all work of the iterators that this one reads from. A second call does nothing."""
        for parent in self._parents:
            parent.close()

    async def save(self, directory: Any) -> Awaitable[None]:
        """Return an awaitable that writes the state of now into a directory (Orbax's protocol)."""
        return write_later(directory, self.get_state())

    async def load(self, directory: Any) -> Awaitable[None]:
        """Return an awaitable that restores the state of a directory (Orbax's protocol).

        Then the iterator starts to prefetch.
        """
        return restore_later(directory, self)


class Resumed(DatasetIterator[T]):
    """An iterator over a generator function that can begin at any state.

    Args:
        begin: function that yields pairs `(element, state after it)`, starting from a given state.
            It is called with None to start from the current states of `parents`.
        state: state at the beginning.
        parents: the iterators that the generator reads from.
    """

    def __init__(
        self, begin: Callable[[Any], Iterator[tuple[T, State]]], state: State, parents: Any = ()
    ) -> None:
        super().__init__(parents)
        self._begin, self._state = begin, state
        self._is_fresh = bool(self._parents)  # they stand where they begin
        self._elements: Any = None

    def __next__(self) -> T:
        if self._elements is None:
            self._elements = self._begin(None if self._is_fresh else self.get_state())
            self._is_fresh = False
        try:
            element, self._state = next(self._elements)
        except StopIteration:
            raise
        except BaseException:
            self._elements = (
                None  # a generator ends with its error: the next one tries the same element again
            )
            raise
        return element  # type: ignore[no-any-return]

    def get_state(self) -> dict[str, Any]:
        state: dict[str, Any] = self._state() if callable(self._state) else self._state
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        if self._elements is not None:
            self._elements.close()
        self._elements, self._is_fresh = self._begin(state), False
        self._state = state

    def close(self) -> None:
        """Stop the generator; the next `next(…)` starts a new one at the current state."""
        if self._elements is not None:
            self._state = self.get_state()
            self._elements.close()
            self._elements = None
        super().close()


class EngineRun(NotedIterator):
    """Iterator of headrace's engine that can be moved to a `LoaderState`."""

    def go_to(self, state: LoaderState, strict: bool = True) -> None:
        """Move to a state.

        Args:
            state: the state.
            strict: False allows a state of a mix with other weights or datasets.

        Raises:
            CheckpointError: if the state is of another pipeline.
        """
        self._go_to([state], strict)


class HasIndex(ABC):
    """Base of iterators whose elements may have an index, to which they can move."""

    @abstractmethod
    def next_index(self) -> int:
        """Return the index of the next element."""

    @abstractmethod
    def go_to_index(self, index: int) -> None:
        """Move to the element with this index."""


class EngineIterator(HasIndex, DatasetIterator[T]):
    """An iterator over one pass of a dataset, run by headrace's engine.

    Args:
        begin: returns a new iterator of the engine over the pass.
        tree: the plan of the dataset, which is needed to read states of Grain.
    """

    def __init__(self, begin: Callable[[], EngineRun], tree: Node) -> None:
        self._begin, self._tree = begin, tree
        self.run = begin()
        self._is_closed = False

    def __next__(self) -> T:
        if self._is_closed:
            raise ValueError(
                "this iterator was closed. Make a new one, iter(dataset), or give this one a "
                "state, set_state(state)."
            )
        try:
            return next(self.run)  # type: ignore[no-any-return]
        except (JoinError, StructureError) as error:
            reword(error)
            raise

    def __repr__(self) -> str:
        return repr(self.run).replace("EngineRun", "DatasetIterator")

    def get_state(self) -> dict[str, Any]:
        """Return the state after the last delivered element.

        The state is a dict of JSON values. It can be restored with any number of workers.
        """
        return self.run.state_dict()

    def state_later(self) -> Callable[[], dict[str, Any]]:
        mark = self.run.here()
        return lambda: mark.state.to_dict()

    def set_state(self, state: dict[str, Any]) -> None:
        """Resume from a state of this or another iterator of the dataset, of headrace or of Grain.

        Works also after the iterator has ended or was closed.

        Raises:
            CheckpointError: if `state` is not a state, or is one of another dataset.
        """
        if self._is_closed:
            self.run, self._is_closed = self._begin(), False
        pipeline = self.run.pipeline
        read = (
            chain_state_after(state, self._tree, pipeline)
            if is_grains(state)
            else LoaderState.from_dict(state)
        )
        self.run.go_to(read, strict=not is_of_another_mix(read, pipeline))

    def start_prefetch(self) -> None:
        self.run.start_prefetch()

    def close(self) -> None:
        """Stop all work.

        A later `next(…)` raises ValueError; `set_state` opens the iterator again.
        """
        self.run.close()
        self._is_closed = True

    def next_index(self) -> int:
        """Return the index of the next element, or of the next batch if the dataset is batched.

        Raises:
            NotImplementedError: if elements have no index, for example after a filter, or with
                several datasets.
        """
        pipeline = self.run.pipeline
        only_counts = (
            all(isinstance(join.rule, (All, First)) for join in pipeline.joins)
            and not pipeline.skips_errors
        )
        if (
            len(pipeline.leaves) > 1
            or not only_counts
            or not all(stage.one_to_one for stage in pipeline.stages)
        ):
            raise NotImplementedError(
                "the elements of this stream have no index, because of a filter, a flat map, a "
                "packing, a window shuffle, a repeat of a stream, a dataset class of your own, "
                "several datasets, or an on_error= that skips. Use get_state() and set_state()."
            )
        return self.run.step

    def go_to_index(self, index: int) -> None:
        """Move to the element with this index.

        Raises:
            NotImplementedError: if elements have no index, for example after a filter, or with
                several datasets.
            StateIndexError: if the index is negative, or past the end.
        """
        if index < 0:
            raise StateIndexError(
                f"index {short_repr(index)} is negative. Pass the index of an element, from 0."
            )
        self.next_index()
        state, pipeline = self.run.here().state, self.run.pipeline
        rows, notes = index, list[tuple[int]]()  # of joins that count their rows
        part: Subtree | None = pipeline.top
        while part is not None:
            if part.stage is None:
                notes.insert(0, (rows,))
                part = pipeline.joins[part.join or 0].inputs[0]
            else:
                rows *= pipeline.stages[part.stage].unit
                part = pipeline.stages[part.stage].input
        cursor = replaced(
            state.cursor,
            positions=(rows,),
            skips=(0,) * len(state.cursor.skips),
            notes=tuple(notes),
        )
        try:
            self.run.go_to(dataclasses.replace(state, cursor=cursor, step=index))
        except CheckpointError as error:
            raise StateIndexError(
                f"Checkpoint `next_index` {index} is out of range. The largest valid one is the "
                "index of the last element plus 1. Restore a checkpoint that was saved with this "
                "dataset."
            ) from error


def get_next_index(ds_iter: Any) -> int:
    """Return the index, from 0, of the next element.

    Args:
        ds_iter: an iterator over a dataset.

    Raises:
        NotImplementedError: if elements have no index, for example after a filter.
    """
    return _with_index(ds_iter, "get_next_index").next_index()


def set_next_index(ds_iter: Any, index: int) -> None:
    """Move to the element with this index, from 0. Reads no records.

    Args:
        ds_iter: an iterator over a dataset.
        index: the index.

    Raises:
        NotImplementedError: if elements have no index, for example after a filter.
        IndexError: if the index is negative, or above the number of elements.
    """
    _with_index(ds_iter, "set_next_index").go_to_index(index)


def _with_index(iterator: Any, function: str) -> HasIndex:
    if not isinstance(iterator, HasIndex):
        raise NotImplementedError(
            f"{function} is not supported for {a_kind_of(iterator)}, because its elements have no "
            "index. Use get_state() and set_state()."
        )
    return iterator
