"""Random generators as Grain makes them, so that random operations draw the same numbers.

In: a seed and an index. Out: a `numpy.random.Generator`, moved from index to index: a new one costs twenty times as much.
"""

from __future__ import annotations

import threading
from typing import Any, cast

from numpy.random import Generator, Philox

_MASK = (1 << 64) - 1


class _Moved(threading.local):
    """A generator for each thread, with lists in place of Philox's arrays: so it is set twice as fast.

    Attributes:
        current: the generator of the index asked for last, as operations left it.
    """

    def __init__(self, **arguments: int) -> None:
        self._philox = Philox(**arguments)
        self.current = Generator(self._philox)
        self._state = cast(Any, self._philox.state)
        self._key = self._state["state"]["key"] = [int(word) for word in self._state["state"]["key"]]
        self._counter = self._state["state"]["counter"] = [0, 0, 0, 0]
        self._state["buffer"] = [0, 0, 0, 0]

    def _begun(self) -> Generator:
        self._philox.state = self._state
        return self.current


class OfLoader(_Moved):
    """Generators of a `DataLoader`: `Philox(key=seed + index)`, one for all operations on a record. Each thread has its own.

    >>> generators = OfLoader()
    >>> first = generators.at(seed=1, index=5).random()
    >>> generators.current.random() == first, generators.at(seed=2, index=4).random() == first
    (False, True)
    """

    def __init__(self) -> None:
        super().__init__(key=0)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()

    def at(self, seed: int, index: int) -> Generator:
        """The generator of a record, at its beginning."""
        self._key[0], self._key[1] = (seed + index) & _MASK, (seed + index) >> 64
        return self._begun()


class OfDataset(_Moved):
    """Generators of a dataset's `random_map`: `Philox(seed)`, counting from `[0, 0, op_seed, index]`. Each thread has its own.

    Args:
        seed: any number that is not negative.

    >>> generators = OfDataset(7)
    >>> first = generators.at(3).random()
    >>> generators.at(4).random() == first, generators.at(3).random() == first
    (False, True)
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed=seed)
        self._seed = seed

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._seed,)

    def at(self, index: int, op_seed: int = 0) -> Generator:
        """The generator of an element, at its beginning."""
        self._counter[2], self._counter[3] = op_seed, index & _MASK
        return self._begun()
