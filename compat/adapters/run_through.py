"""Datasets whose elements depend on all that came before: run through in order, in one worker.

In: streams. Out: one. The streams below may have workers of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .iter_dataset import IterDataset
from .iterators import DatasetIterator
from .orders import Mix, whole_weights
from .random_maps import AtIndex


def as_stream(dataset: Any) -> Any:
    """A dataset of either kind as a stream."""
    return dataset.to_iter_dataset() if hasattr(dataset, "to_iter_dataset") else dataset


class Counted(IterDataset[Any]):
    """A function of the index of each element among those that arrive, and the element."""

    def __init__(self, parent: Any, operation: AtIndex) -> None:
        super().__init__(parent)
        self.operation = operation

    def __iter__(self) -> Any:
        return CountedIterator(iter(self._parent), self.operation.applied())


class CountedIterator(DatasetIterator[Any]):
    """Counts the elements that it takes."""

    def __init__(self, parent: Any, function: Callable[[int, Any], Any]) -> None:
        super().__init__(parent)
        self._function = function
        self._count = 0

    def __next__(self) -> Any:
        element = next(self._parent)
        self._count += 1
        return None if element is None else self._function(self._count - 1, element)

    def get_state(self) -> dict[str, Any]:
        return {"parent": self._parent.get_state(), "count": self._count}

    def set_state(self, state: dict[str, Any]) -> None:
        self._parent.set_state(state["parent"])
        self._count = state["count"]


class MixedIterDataset(IterDataset[Any]):
    """Elements of several streams in Grain's order; a state goes on with other weights, and with streams added or removed."""

    def __init__(self, datasets: Sequence[Any] | Mapping[str, Any], weights: Any) -> None:
        named = (
            datasets if isinstance(datasets, Mapping) else {str(number): each for number, each in enumerate(datasets)}
        )
        names = sorted(named) if isinstance(datasets, Mapping) else list(named)
        if isinstance(weights, Mapping):
            weights = [weights[name] for name in names]
        super().__init__([as_stream(named[name]) for name in names])
        self.names = tuple(names)
        self.weights = whole_weights(weights, len(names))

    def __iter__(self) -> Any:
        return MixedIterator(dict(zip(self.names, map(iter, self._parents))), self.weights)


class MixedIterator(DatasetIterator[Any]):
    """Ends when the stream to draw from has ended, and stays ended."""

    def __init__(self, named: Mapping[str, Iterator[Any]], weights: tuple[int, ...]) -> None:
        super().__init__(list(named.values()))
        self._named, self._choice = named, Mix((1,) * len(weights), weights)
        self._index, self._ended = 0, False

    def __next__(self) -> Any:
        if self._ended:
            raise StopIteration
        which, _ = self._choice.one(self._index)
        self._index += 1
        try:
            return next(self._parents[which])
        except BaseException:
            self._ended = True
            raise

    def get_state(self) -> dict[str, Any]:
        parents = {name: parent.get_state() for name, parent in self._named.items()}  # type: ignore[attr-defined]
        return {"parents": parents, "index": self._index, "ended": self._ended}

    def set_state(self, state: dict[str, Any]) -> None:
        for name, parent in self._named.items():
            if name in state["parents"]:
                parent.set_state(state["parents"][name])  # type: ignore[attr-defined]
        self._index, self._ended = state["index"], state["ended"]
