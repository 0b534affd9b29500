"""The two kinds of upstream: the iterator of a loader, and any other, that tells a state or does not.

In: whatever the user passed. Out: the face that the feeder knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ....wording import a_kind_of
from ...iterator import DataLoaderIterator
from ...state.mark import Mark
from .protocol import Upstream


class LoaderUpstream:
    """An iterator of a `DataLoader`."""

    goes_back = True

    def __init__(self, iterator: DataLoaderIterator) -> None:
        self.iterator = iterator
        self.mark = iterator._mark
        self.last_records = iterator._records_of
        self.records_at = iterator._records_at
        self.epoch = iterator._epoch
        self.part_epochs = iterator._part_epochs
        self.length = iterator._length
        self.description = iterator._description
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

    def state_at(self, mark: Mark) -> bytes:
        """As the protocol says."""
        return self.iterator._state(mark).to_json()

    def step(self, mark: Mark) -> int:
        """As the protocol says."""
        return mark.step

    def go_to(self, mark: Mark) -> None:
        """As the protocol says."""
        self.iterator._go_back(mark)

    def steady(self, mark: Mark) -> int:
        """As the protocol says: whole batches that are left of an aligned pipeline that ends with its `Batch`."""
        pipeline = self.iterator._pipeline
        if not pipeline.aligned or self.batch_size is None or self.iterator._skipped_steps:
            return 1
        return 1 + pipeline.leaf.left_from(mark.cursor.positions[0]) // pipeline.stages[0].unit


class OtherUpstream:
    """Any iterator, with a state or without."""

    batch_size = None

    def __init__(self, iterator: Iterator[Any]) -> None:
        self.iterator = iterator
        self.goes_back = hasattr(iterator, "get_state") and hasattr(iterator, "set_state")

    def mark(self) -> Any:
        """As the protocol says: the state itself."""
        return self.iterator.get_state() if self.goes_back else None  # type: ignore[attr-defined]

    def state_at(self, mark: Any) -> Any:
        """As the protocol says."""
        self._must_have("get_state")
        return mark

    def last_records(self, mark: Any) -> Any:
        """As the protocol says."""
        raise self._no_loader("last_records")

    def records_at(self, mark: Any, step: int) -> Any:
        """As the protocol says."""
        raise self._no_loader("records_at")

    def step(self, mark: Any) -> int:
        """As the protocol says."""
        raise self._no_loader("step")

    def epoch(self, mark: Any) -> int:
        """As the protocol says."""
        raise self._no_loader("epoch")

    def part_epochs(self, mark: Any) -> dict[str, int]:
        """As the protocol says."""
        raise AttributeError(str(self._no_loader("part_epochs")))

    def length(self, mark: Any) -> int:
        """As the protocol says."""
        raise self._no_loader("len")

    def description(self, mark: Any) -> str:
        """As the protocol says."""
        return f"source={type(self.iterator).__name__}"

    @property
    def skipped_count(self) -> int:
        """As the protocol says."""
        raise self._no_loader("skipped_count")

    def go_to(self, mark: Any) -> None:
        """As the protocol says."""
        if self.goes_back:
            self.iterator.set_state(mark)  # type: ignore[attr-defined]

    def set_state(self, state: Any, strict: bool) -> None:
        """As the protocol says."""
        self._must_have("set_state")
        self.iterator.set_state(state)  # type: ignore[attr-defined]

    def set_states(self, states: Sequence[Any], strict: bool) -> None:
        """As the protocol says."""
        raise self._no_loader("set_states")

    def steady(self, mark: Any) -> int:
        """As the protocol says."""
        return 1

    def _must_have(self, method: str) -> None:
        if not self.goes_back:
            raise TypeError(
                f"{method} needs an iterator that has get_state and set_state, and {a_kind_of(self.iterator)} has not; "
                "feed from a millrace.DataLoader, or from an iterator that has."
            )

    def _no_loader(self, what: str) -> TypeError:
        return TypeError(f"{what} needs the iterator of a DataLoader, and this is {a_kind_of(self.iterator)}.")


def as_upstream(iterator: Iterator[Any]) -> Upstream:
    """The face of an iterator."""
    return LoaderUpstream(iterator) if isinstance(iterator, DataLoaderIterator) else OtherUpstream(iterator)
