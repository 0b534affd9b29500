"""Random generators that draw the same numbers as Grain's.

In: a seed and an index. Out: a `numpy.random.Generator`, set to the index.
"""

from __future__ import annotations

import threading
from typing import Any, cast

from numpy.random import Generator, Philox

_MASK = (1 << 64) - 1


class _Moved(threading.local):
    """One generator per thread, which is set to its start again for each index.

    Attributes:
        current: the generator of the last index that `at` was called with, in the state in which
            operations left it.
    """

    def __init__(self, **arguments: int) -> None:
        self._philox = Philox(**arguments)
        self.current = Generator(self._philox)
        # Lists in place of the arrays: NumPy then takes half the time to set the state.
        self._state = cast(Any, self._philox.state)
        self._key = self._state["state"]["key"] = [
            int(word) for word in self._state["state"]["key"]
        ]
        self._counter = self._state["state"]["counter"] = [0, 0, 0, 0]
        self._state["buffer"] = [0, 0, 0, 0]

    def _begun(self) -> Generator:
        self._philox.state = self._state  # a new generator would cost twenty times as much
        return self.current


class OfLoader(_Moved):
    """Generators of a `DataLoader`: `Philox(key=seed + index)`, one for all operations on a record.

    Each thread has its own generator.

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
        """Return the generator of the record at `index`, set to its start.

        It changes with the thread's next call.
        """
        self._key[0], self._key[1] = (seed + index) & _MASK, (seed + index) >> 64
        return self._begun()


class OfDataset(_Moved):
    """Generators of a dataset's `random_map`: `Philox(seed)` with counter `[0, 0, op_seed, index]`.

    Each thread has its own generator.

    Args:
        seed: an int, 0 or more.

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
        """Return the generator of the element at `index`, set to its start.

        It changes with the thread's next call.

        Args:
            index: index of the element.
            op_seed: number that gives each operation numbers of its own.
        """
        self._counter[2], self._counter[3] = op_seed, index & _MASK
        return self._begun()
