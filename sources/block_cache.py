"""Cache of decoded blocks. Each block is decoded once at a time, and the least recently used is dropped first.

If several threads ask for the same block, the first decodes it, outside the lock, and the others wait for its result.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, Protocol, TypeVar

from ..files.reader_pool import forget_after_fork


class Sized(Protocol):
    """Protocol of a block that the cache keeps."""

    nbytes: int


BlockT = TypeVar("BlockT", bound=Sized)


class BlockCache(Generic[BlockT]):
    """At most `limit` bytes of decoded blocks, and always the last one used. Thread-safe.

    Args:
        decode: makes the block of a number. Called without the lock, on the thread that asks.
        limit: maximum bytes. A larger block is kept until another one is requested.

    >>> import numpy as np
    >>> cache = BlockCache(lambda number: np.full(4, number), limit=100)
    >>> cache.get(3)
    array([3, 3, 3, 3])
    """

    _blocks: OrderedDict[int, BlockT]
    _pending: dict[int, Future[BlockT]]
    _bytes: int

    def __init__(self, decode: Callable[[int], BlockT], limit: int) -> None:
        self._decode = decode
        self._limit = limit
        self.forget()
        forget_after_fork(self)

    def get(self, number: int) -> BlockT:
        """Return a block, decoded if necessary. An exception of `decode` reaches every thread that waits for it."""
        with self._lock:
            block = self._blocks.get(number)
            if block is not None:
                self._blocks.move_to_end(number)
                return block
            waiting = self._pending.get(number)
            if waiting is None:
                mine: Future[BlockT] = Future()
                self._pending[number] = mine
        return waiting.result() if waiting is not None else self._fill(number, mine)

    def forget(self) -> None:
        """Reset the lock and pending work. Called in a child after a fork, where the decoding threads no longer exist."""
        self._lock = threading.Lock()
        self._pending = {}
        self._blocks, self._bytes = OrderedDict(), 0  # The parent may have been forked in the middle of a change.

    def _fill(self, number: int, mine: Future[BlockT]) -> BlockT:
        try:
            block = self._decode(number)
        except BaseException as error:
            with self._lock:
                self._pending.pop(number, None)
            mine.set_exception(error)
            raise
        with self._lock:
            self._blocks[number] = block
            self._bytes += block.nbytes
            while self._bytes > self._limit and len(self._blocks) > 1:
                _, oldest = self._blocks.popitem(last=False)
                self._bytes -= oldest.nbytes
            self._pending.pop(number, None)
        mine.set_result(block)
        return block
