"""The two kinds of upstream: the iterator of a loader, and any other, that tells a state or does not.

In: whatever the user passed. Out: the face that the feeder knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from ....wording import a_kind_of
from ...iterator import DataLoaderIterator
from ...state.mark import Mark
from .protocol import Upstream


class LoaderUpstream:
    """An iterator of a `DataLoader`."""

    goes_back = True

    def __init__(self, iterator: DataLoaderIterator) -> None:
        self.iterator = iterator
        self.mark = iterator._here
        self.told_at = iterator._told_at
        self.go_to = iterator._go_back
        self.set_state = iterator.set_state
        self.set_states = iterator.set_states

    @property
    def skipped_count(self) -> int:
        """Of the iterator."""
        return self.iterator.skipped_count

    @property
    def batch_size(self) -> int | None:
        """Of a `Batch` that comes last."""
        operations = self.iterator._pipeline.operations
        last = operations[-1] if operations else None
        return last.takes if last is not None and last.only_stacks else None

    def steady(self, mark: Mark) -> int:
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
        raise AttributeError(str(error)) if question == "part_epochs" else error  # of which `hasattr` is asked


class OtherUpstream:
    """Any iterator, with a state or without."""

    batch_size = None

    def __init__(self, iterator: Any) -> None:
        self.iterator = iterator
        self.goes_back = hasattr(iterator, "get_state") and hasattr(iterator, "set_state")
        self._kind = a_kind_of(iterator)

    def mark(self) -> OtherMark:
        """Costs what the iterator's `get_state` does."""
        return OtherMark(self.iterator, self.goes_back)

    def told_at(self, mark: OtherMark) -> str:
        """Its kind is all that is known."""
        return f"source={type(self.iterator).__name__}"

    @property
    def skipped_count(self) -> int:
        """Unknown."""
        raise _no_loader("skipped_count", self._kind)

    def go_to(self, mark: OtherMark) -> None:
        """By its state."""
        if self.goes_back:
            self.iterator.set_state(mark.get_state())

    def set_state(self, state: Any, strict: bool) -> None:
        """Others know no `strict`."""
        if not self.goes_back:
            raise _no_state("set_state", self._kind)
        self.iterator.set_state(state)

    def set_states(self, states: Sequence[Any], strict: bool) -> None:
        """Never: shards are those of a loader."""
        raise _no_loader("set_states", self._kind)

    def steady(self, mark: OtherMark) -> int:
        """The one before the mark."""
        return 1


def _no_state(method: str, kind: str) -> TypeError:
    return TypeError(
        f"{method} needs an iterator that has get_state and set_state, and {kind} has not; "
        "feed from a millrace.DataLoader, or from an iterator that has."
    )


def _no_loader(what: str, kind: str) -> TypeError:
    return TypeError(f"{what} needs the iterator of a DataLoader, and this is {kind}.")


def as_upstream(iterator: Iterator[Any]) -> Upstream:
    """The face of an iterator."""
    return LoaderUpstream(iterator) if isinstance(iterator, DataLoaderIterator) else OtherUpstream(iterator)
