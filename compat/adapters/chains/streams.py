"""Datasets whose elements depend on all that came before: run through in order, in one worker.

In: streams. Out: one. The streams below may have workers of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ....checks import whole_number
from ....samplers.grain_order import shuffled
from .iter_dataset import IterDataset
from .iterators import DatasetIterator
from .orders import WORD, Mix, whole_weights
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
        """As the base says; Grain's states have other names for the count."""
        self._parent.set_state(state["parent"])
        self._count = next(state[name] for name in ("count", "counter", "index_for_rng") if name in state)


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
        return {"parents": parents, "index": self._index, "stop": self._ended}

    def set_state(self, state: dict[str, Any]) -> None:
        parents = state["parents"]  # of Grain's mix of a list, a list
        parents = parents if isinstance(parents, dict) else {str(number): each for number, each in enumerate(parents)}
        for name, parent in self._named.items():
            if name in parents:
                parent.set_state(parents[name])  # type: ignore[attr-defined]
        self._index, self._ended = state["index"], state["stop"]


class WindowShuffleIterDataset(IterDataset[Any]):
    """Windows of consecutive elements, each in Grain's random order."""

    def __init__(self, parent: Any, *, window_size: int, seed: int) -> None:
        super().__init__(parent)
        self.window_size = whole_number("window_size", window_size, 1, None, "a positive int")
        self.window_seed = seed

    def __iter__(self) -> Any:
        return WindowIterator(iter(self._parent), self.window_size, self.window_seed)


class WindowIterator(DatasetIterator[Any]):
    """Its state is where the parent stood before the window, and how many elements of the window were given."""

    def __init__(self, parent: DatasetIterator[Any], window_size: int, seed: int) -> None:
        super().__init__(parent)
        self._size, self._seed = window_size, seed
        self._number = self._given = 0
        self._window: list[Any] = []
        self._before = parent._state_later()

    def __next__(self) -> Any:
        if self._given == len(self._window):
            self._number += bool(self._window)
            self._before, self._given = self._parent._state_later(), 0
            self._fill()
        if not self._window:
            raise StopIteration
        self._given += 1
        return self._window[-self._given]

    def _fill(self) -> None:
        taken = list(islice(self._parent, self._size))
        if taken:
            places = shuffled(np.arange(len(taken)), len(taken) - 1, (self._seed + self._number) % WORD).tolist()
            taken = [taken[place] for place in places]
        self._window = taken

    def get_state(self) -> dict[str, Any]:
        return {"parent": self._before(), "window": self._number, "given": self._given}

    def set_state(self, state: dict[str, Any]) -> None:
        self._parent.set_state(state["parent"])
        self._before, self._number, self._given = (lambda: state["parent"]), state["window"], state["given"]
        self._window = []
        if self._given:
            self._fill()


class InterleaveIterDataset(IterDataset[Any]):
    """An element of each of the open streams, in turn; where one has ended, the next is opened when its turn comes again.

    Args:
        datasets: streams, or datasets with random access; a `MapDataset` of these, too, of which few are made at a time.
        cycle_length: how many are open at a time.
        num_make_iter_threads: does nothing here, as the other arguments: workers make the elements ahead.
        make_iter_buffer_size: does nothing.
        iter_buffer_size: does nothing.
    """

    def __init__(
        self,
        datasets: Any,
        *,
        cycle_length: int,
        num_make_iter_threads: int = 1,
        make_iter_buffer_size: int = 1,
        iter_buffer_size: int = 1,
    ) -> None:
        super().__init__()
        self.datasets = datasets
        self.cycle_length = whole_number("cycle_length", cycle_length, 1, None, "a positive int")

    def __iter__(self) -> Any:
        return InterleaveIterator(self.datasets, min(self.cycle_length, len(self.datasets)))


class InterleaveIterator(DatasetIterator[Any]):
    """Its state is, for each place of the cycle, the number of the stream and its state; None where there is none open."""

    def __init__(self, datasets: Any, cycle_length: int) -> None:
        super().__init__()
        self._datasets = datasets
        self._open: list[tuple[int, Any] | None] = [None] * cycle_length
        self._turn = self._next_dataset = 0

    def __next__(self) -> Any:
        idle = 0
        while idle <= len(self._open):
            opened = self._open[self._turn] or self._opened(self._turn)
            if opened is None:
                idle += 1
            else:
                try:
                    element = next(opened[1])
                except StopIteration:
                    self._open[self._turn] = None
                    idle = 0
                else:
                    self._pass_on()
                    return element
            self._pass_on()
        raise StopIteration

    def _pass_on(self) -> None:
        self._turn = (self._turn + 1) % len(self._open)

    def _opened(self, place: int) -> tuple[int, Any] | None:
        if self._next_dataset >= len(self._datasets):
            return None
        self._open[place] = self._at(self._next_dataset)
        self._next_dataset += 1
        return self._open[place]

    def _at(self, number: int) -> tuple[int, Any]:
        return number, iter(as_stream(self._datasets[number]))

    def get_state(self) -> dict[str, Any]:
        places = [None if opened is None else [opened[0], opened[1].get_state()] for opened in self._open]
        return {"open": places, "turn": self._turn, "next_dataset": self._next_dataset}

    def set_state(self, state: dict[str, Any]) -> None:
        self._turn, self._next_dataset = state["turn"], state["next_dataset"]
        self._open = [None if place is None else self._at(place[0]) for place in state["open"]]
        for opened, place in zip(self._open, state["open"]):
            if opened is not None:
                opened[1].set_state(place[1])

    def close(self) -> None:
        """As the base says."""
        for opened in self._open:
            if opened is not None:
                opened[1].close()
