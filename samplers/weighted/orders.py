"""Orders of epochs in which records are drawn by weights, each at most once (without replacement).

In: weights, an epoch, places (indices within the epoch). Out: records.

Each record gets a random time: an exponential variate divided by its weight. Sorted by time, each
next record is drawn among the remaining ones with a chance in proportion to its weight (Efraimidis
and Spirakis 2006). The order of an epoch is a table of 4 bytes per record. Forked processes share
two tables, one for even and one for odd epochs: one process makes a table while the others wait.
"""
# A lock of the file system guards each table, since such a lock ends with a process that is killed.

from __future__ import annotations

import contextlib
import mmap
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.distinct import distinct
from ...common.system import anonymous_file
from ..protocol import Int64s, Words
from .draws import Floats, exponentials, key_of, words

try:
    import fcntl
except ImportError:  # Windows forks no processes
    fcntl = None  # type: ignore[assignment]

STREAM = 2  # of the seed
_BLOCK = 16384
_SMALL = 1 << 12
"""Below this number of records, orders of several epochs are computed at once and not kept."""

_HEADER = 4096

Table = NDArray[np.uint32]


def _fill(order: Table, weights: Floats, seed: int, epoch: int) -> None:
    """Draw the records of an epoch by weights, and write them into `order`, until it is full.

    Args:
        order: `uint32[count]`, receives the records.
        weights: `float64[n]`, the weight of each record.
        seed: the sampler's seed.
        epoch: number of the epoch.
    """
    # The last bits of each time are replaced by its record, so that both are sorted as one number.
    key = _key_of_epochs(seed, np.array([epoch], dtype=np.int64))[0]
    bits = max(len(weights) - 1, 1).bit_length()
    sorted_times = np.empty(len(weights), dtype=np.uint64)
    for start in range(0, len(weights), _BLOCK):
        stop = min(start + _BLOCK, len(weights))
        records = np.arange(start, stop)
        times = _times(words(key, records), weights[start:stop]).view(np.uint64)
        sorted_times[start:stop] = times >> np.uint64(bits) << np.uint64(bits) | records.view(
            np.uint64
        )
    sorted_times.sort()
    for start in range(0, len(order), _BLOCK):
        stop = min(start + _BLOCK, len(order))
        order[start:stop] = sorted_times[start:stop] & np.uint64((1 << bits) - 1)


def _key_of_epochs(seed: int, epochs: Int64s) -> Words:
    return words(key_of(seed, STREAM), epochs)


def _times(drawn: Words, weights: Floats) -> Floats:
    """Return a random time for each record. Sorted by time, the records are drawn by weight.

    A record of weight 0 has an infinite time.

    Args:
        drawn: a random word for each record.
        weights: the weight of each record.
    """
    with np.errstate(divide="ignore", over="ignore"):
        return exponentials(drawn) / weights


class Orders:
    """The orders of all epochs of records drawn by weights, each record at most once per epoch.

    Threads and forked processes may share one object. Memory: the weights, and two tables of 4
    bytes per record.

    Args:
        weights: `float64[n]`, 0 or more.
        seed: the sampler's seed.
        count: number of records in an epoch, at most the number of weights above 0.
    """

    def __init__(self, weights: Floats, seed: int, count: int) -> None:
        self._weights, self._seed, self._count = weights, seed, count

    @cached_property
    def tables(self) -> _SharedTables | None:
        """Two tables in memory shared by processes, each with the record order of one epoch.

        One table is for even and one for odd epochs. None if there are fewer than 4096 records
        (weights): then orders are computed when they are needed.
        """
        return None if len(self._weights) < _SMALL else _SharedTables(self._count)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the attributes, and make the tables at once, so that forked workers share them."""
        vars(self).update(state)
        _ = self.tables

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "tables"}

    def records(self, positions: Int64s) -> Int64s:
        """Return the indices of the records drawn at global positions.

        Args:
            positions: `int64[n]`, which may be in different epochs.

        Returns:
            `int64[n]`.
        """
        epochs = positions // self._count
        places = positions - epochs * self._count
        if self.tables is None:
            return self._of_few(epochs, places)
        records = np.empty(len(positions), dtype=np.int64)
        for epoch in distinct(epochs):
            chosen = epochs == epoch
            with self.tables.of(epoch, self.make) as table:
                records[chosen] = table[places[chosen]]
        return records

    def make(self, epoch: int, table: Table) -> None:
        """Write the order of an epoch into `table`, one entry for each record of an epoch."""
        _fill(table, self._weights, self._seed, epoch)

    def _of_few(self, epochs: Int64s, places: Int64s) -> Int64s:
        """Return the record at each place (index) within an epoch, when there are few records.

        The orders of the epochs are computed for this call and not kept.

        Args:
            epochs: `int64[n]`, the epoch of each place.
            places: `int64[n]`.

        Returns:
            `int64[n]`.
        """
        distinct, which = np.unique(epochs, return_inverse=True)
        records = np.empty(len(epochs), dtype=np.int64)
        at_once = max(_BLOCK * 4 // len(self._weights), 1)
        for first in range(0, len(distinct), at_once):
            keys = _key_of_epochs(self._seed, distinct[first : first + at_once])
            numbers = np.broadcast_to(
                np.arange(len(self._weights)), (len(keys), len(self._weights))
            )
            drawn = words(keys[:, None], np.ascontiguousarray(numbers))
            orders = np.argsort(_times(drawn, self._weights), axis=1, kind="stable")
            chosen = (which >= first) & (which < first + at_once)
            records[chosen] = orders[which[chosen] - first, places[chosen]]
        return records


class _SharedTables:
    """Two tables in memory shared by forked processes: the orders of one even and one odd epoch.

    A header before each table holds the number of its epoch plus 1.

    Args:
        count: number of entries of a table.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._size = _HEADER + 4 * count
        self._descriptor = anonymous_file("headrace-orders", 2 * self._size)
        weakref.finalize(self, os.close, self._descriptor)
        memory = mmap.mmap(self._descriptor, 2 * self._size)
        self._headers = [
            np.frombuffer(memory, np.int64, 1, offset=slot * self._size) for slot in (0, 1)
        ]
        self._slots = [
            np.frombuffer(memory, np.uint32, count, offset=slot * self._size + _HEADER)
            for slot in (0, 1)
        ]
        self._mutex = threading.Lock()  # locks of files are of processes, not of threads

    @contextlib.contextmanager
    def of(self, epoch: int, make: Callable[[int, Table], None]) -> Iterator[Table]:
        """Context manager that gives the table of an epoch, unchanged until the context ends.

        Args:
            epoch: number of the epoch.
            make: called as `make(epoch, table)` to fill the table, if it holds another epoch.
        """
        slot = epoch % 2
        header, table = self._headers[slot], self._slots[slot]
        with self._mutex:
            try:
                self._lock(slot, shared=True)
                while header[0] != epoch + 1:
                    self._lock(slot, shared=False)
                    if header[0] != epoch + 1:
                        header[0] = 0
                        make(epoch, table)
                        header[0] = epoch + 1
                    self._lock(slot, shared=True)
                yield table
            finally:
                self._unlock(slot)

    def _lock(self, slot: int, shared: bool) -> None:
        if fcntl is not None:
            self._unlock(slot)  # two that hold it shared would wait for one another
            fcntl.lockf(self._descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, 1, slot)

    def _unlock(self, slot: int) -> None:
        if fcntl is not None:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, slot)
