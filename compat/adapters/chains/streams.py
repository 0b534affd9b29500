"""Grain's streams that join several, or shuffle windows; the engine does mixes and windows, in workers.

In: streams. Out: one. An interleave, whose streams are made when their turn comes, is run through in order, in one worker.
"""

from __future__ import annotations

from typing import Any

from ....common.validation import whole_number
from .at_index import ShuffledWindows
from .counted import applied, counted
from .iter_dataset import IterDataset, Named, as_stream
from .iterators import DatasetIterator
from .seeds import stream_of_dataset


class WindowShuffleIterDataset(Named[Any]):
    """Windows of consecutive elements, each in Grain's random order."""

    def __init__(self, parent: Any, *, window_size: int, seed: int) -> None:
        window = whole_number("window_size", window_size, 1, None, "a positive int")
        stream, unit = counted(stream_of_dataset(parent))
        super().__init__(parent, applied(ShuffledWindows(window, seed, unit), stream))


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
        """Accepts Grain's states, too."""
        state = state if "open" in state else _of_grains(state)
        self._turn, self._next_dataset = state["turn"], state["next_dataset"]
        self._open = [None if place is None else self._at(place[0]) for place in state["open"]]
        for opened, place in zip(self._open, state["open"]):
            if opened is not None:
                opened[1].set_state(place[1])

    def close(self) -> None:
        for opened in self._open:
            if opened is not None:
                opened[1].close()


def _of_grains(state: dict[str, Any]) -> dict[str, Any]:
    """Grain's state of an interleave as ours."""
    numbers, states, ended = (
        state[f"{name}"] for name in ("iterators_in_use_indices", "iterators_in_use_states", "exhausted")
    )
    places = [None if over or each is None else [number, each] for number, each, over in zip(numbers, states, ended)]
    return {"open": places, "turn": state["next_index_in_cycle"], "next_dataset": state["next_index_in_datasets"]}
