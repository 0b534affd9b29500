"""The iterator that a feeder reads from, and the position of the feeder's user in it.

In: the iterator of a loader, or any other. Out: one face for both. A mark of the place that follows is taken for every batch,
by the thread that reads; it is asked only when the user asks, on the user's thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from ...common.messages import a_kind_of

if TYPE_CHECKING:
    from ..iterator import DataLoaderIterator
    from ..state.position import StreamPosition
    from ..stats import IteratorStats


class Upstream:
    """Any iterator, with a state or without. The feeder's threads know this, and never the feeder."""

    iterator: Any
    batch_size: int | None = None  # of its batches, where that is known beforehand

    def __init__(self, iterator: Any, owned: bool) -> None:
        self.iterator = iterator
        self.goes_back = hasattr(iterator, "get_state") and hasattr(
            iterator, "set_state"
        )  # whether `go_to` does anything
        self.user_mark: Any = None  # where the user stands; None: where the iterator stands
        self.gone = False  # the feeder was closed or dropped
        self._owned = owned  # the feeder opened it

    def mark(self) -> Any:
        """The iterator's position: it has the methods of `StreamPosition`, or refuses."""
        return OtherMark(self.iterator, self.goes_back)

    def told_at(self, mark: Any) -> str:
        """The name of the iterator and, if known, the position of a mark."""
        return f"source={type(self.iterator).__name__}"

    @property
    def skipped_count(self) -> int:
        """Records or batches left out because they failed."""
        raise _no_loader("skipped_count", a_kind_of(self.iterator))

    def go_to(self, mark: Any) -> None:
        """Have the stream go on from a mark; nothing where that is impossible."""
        if self.goes_back:
            self.iterator.set_state(mark.get_state())

    def set_state(self, state: Any, strict: bool) -> None:
        """Have the stream go on from a state."""
        if not self.goes_back:
            raise _no_state("set_state", a_kind_of(self.iterator))
        self.iterator.set_state(state)

    def set_states(self, states: Sequence[Any], strict: bool) -> None:
        """Have it go on after a run on another number of shards."""
        raise _no_loader("set_states", a_kind_of(self.iterator))

    def steady(self, mark: Any) -> int:
        """The number of batches, from the one before the mark, that certainly have equal lengths; at least 1."""
        return 1

    @property
    def host_iterator(self) -> DataLoaderIterator | None:
        """The iterator, if it is of a `DataLoader`."""
        return None

    def stats(self) -> IteratorStats | None:
        """The iterator's statistics; None if it has none."""
        return None

    def go_back(self) -> None:
        """The iterator has read ahead of the user: have it go back."""
        if self.user_mark is not None:
            self.go_to(self.user_mark)

    def leave(self) -> None:
        """Close the iterator, or have it go back if others have it, too."""
        if not self._owned:
            self.go_back()
        elif (close := getattr(self.iterator, "close", None)) is not None:
            close()

    def way_out(self) -> None:
        """The last thing that a reader does: nobody may be there to wait for it."""
        if self.gone or not self._owned:
            with contextlib.suppress(Exception):  # whoever is there does the same, and hears of it
                self.leave()


class LoaderUpstream(Upstream):
    """An iterator of a `DataLoader`."""

    iterator: DataLoaderIterator

    def __init__(self, iterator: DataLoaderIterator, owned: bool) -> None:
        super().__init__(iterator, owned)
        last = iterator.pipeline.operations[-1:]
        self.batch_size = last[0].takes if last and last[0].only_stacks else None

    def mark(self) -> StreamPosition:
        return self.iterator._here()

    def told_at(self, mark: StreamPosition) -> str:
        return self.iterator._told_at(mark)

    @property
    def skipped_count(self) -> int:
        return self.iterator.skipped_count

    @property
    def host_iterator(self) -> DataLoaderIterator:
        return self.iterator

    def stats(self) -> IteratorStats:
        return self.iterator.stats()

    def go_to(self, mark: StreamPosition) -> None:
        """What was skipped stays counted."""
        self.iterator._go_back(mark)

    def set_state(self, state: Any, strict: bool) -> None:
        self.iterator.set_state(state, strict)

    def set_states(self, states: Sequence[Any], strict: bool) -> None:
        self.iterator.set_states(states, strict)

    def steady(self, mark: StreamPosition) -> int:
        """Whole batches that are left of an aligned pipeline that ends with its `Batch`."""
        pipeline = mark.pipeline
        if not pipeline.aligned or self.batch_size is None or mark.skipped:
            return 1
        return 1 + pipeline.leaf.left_from(mark.cursor.positions[0]) // pipeline.stages[0].unit


class OtherMark:
    """A place in an iterator of which nothing is known but, perhaps, its state."""

    def __init__(self, iterator: Any, goes_back: bool) -> None:
        self._kind = a_kind_of(iterator)
        self._state = (iterator.get_state(),) if goes_back else ()

    def get_state(self) -> Any:
        """The state, as the iterator gave it."""
        if not self._state:
            raise _no_state("get_state", self._kind)
        return self._state[0]

    def __getattr__(self, question: str) -> NoReturn:
        error = _no_loader(question, self._kind)
        raise (
            AttributeError(str(error)) if question in ("part_epochs", "part_records") else error
        )  # of which `hasattr` is asked


def _no_state(method: str, kind: str) -> TypeError:
    return TypeError(
        f"{method} needs an iterator that has get_state and set_state, and {kind} has not; "
        "feed from a headrace.DataLoader, or from an iterator that has."
    )


def _no_loader(what: str, kind: str) -> TypeError:
    return TypeError(f"{what} needs the iterator of a DataLoader, and this is {kind}.")


def as_upstream(iterator: Any, owned: bool) -> Upstream:
    """The upstream of an iterator; `owned` if the feeder opened it."""
    from ..iterator import DataLoaderIterator

    return (LoaderUpstream if isinstance(iterator, DataLoaderIterator) else Upstream)(iterator, owned)
