"""Random generators as Grain makes them, so that random operations draw the same numbers.

In: a seed and an index. Out: a `numpy.random.Generator`, moved from index to index: a new one costs twenty times as much.
"""

from __future__ import annotations

import threading
from typing import Any, cast

from numpy.random import Generator, Philox

_MASK = (1 << 64) - 1


class _Moved:
    """A Philox generator with lists in place of its arrays: so it is set twice as fast."""

    def __init__(self, philox: Philox) -> None:
        self._philox = philox
        self.generator = Generator(philox)
        self.state = cast(Any, philox.state)
        self.state["state"]["key"] = [int(word) for word in self.state["state"]["key"]]
        self.state["state"]["counter"] = [0, 0, 0, 0]
        self.state["buffer"] = [0, 0, 0, 0]

    def begin_anew(self) -> Generator:
        """The generator, as the state has it."""
        self._philox.state = self.state
        return self.generator


class OfLoader(threading.local):
    """Generators of a `DataLoader`: `Philox(key=seed + index)`, one for all operations on a record. Each thread has its own.

    >>> generators = OfLoader()
    >>> first = generators.at(seed=1, index=5).random()
    >>> generators.current.random() == first, generators.at(seed=2, index=4).random() == first
    (False, True)
    """

    def __init__(self) -> None:
        self._moved = _Moved(Philox(key=0))
        self._key = self._moved.state["state"]["key"]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()

    def at(self, seed: int, index: int) -> Generator:
        """The generator of a record, at its beginning."""
        self._key[0], self._key[1] = (seed + index) & _MASK, (seed + index) >> 64
        return self._moved.begin_anew()

    @property
    def current(self) -> Generator:
        """The generator of the record asked for last, as operations left it."""
        return self._moved.generator


class OfDataset(threading.local):
    """Generators of a dataset's `random_map`: `Philox(seed)`, counting from `[0, 0, op_seed, index]`. Each thread has its own.

    Args:
        seed: any number that is not negative.

    >>> generators = OfDataset(7)
    >>> first = generators.at(3).random()
    >>> generators.at(4).random() == first, generators.at(3).random() == first
    (False, True)
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._moved = _Moved(Philox(seed))
        self._counter = self._moved.state["state"]["counter"]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._seed,)

    def at(self, index: int, op_seed: int = 0) -> Generator:
        """The generator of an element, at its beginning."""
        self._counter[2], self._counter[3] = op_seed, index & _MASK
        return self._moved.begin_anew()
