"""Cache of decoded blocks that drops the least recently used block first.

If several threads request the same block, the first one decodes it, without holding the lock. The
others wait for its result.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, Protocol, TypeVar

from ...files.reader_pool import forget_after_fork


class Sized(Protocol):
    """Protocol of a cached block: it says how many bytes it takes."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the block takes."""


BlockT = TypeVar("BlockT", bound=Sized)


class BlockCache(Generic[BlockT]):
    """Cache of decoded blocks, limited in bytes. Thread-safe.

    Args:
        decode: function that takes the index of a block and returns the block. It is called on the
            thread that requests the block, without the lock.
        limit: maximum number of bytes in the cache. The block used last stays even if it is larger.

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
        """Return the block with this index, decoded if necessary.

        Raises:
            Exception: whatever `decode` raises; each thread that waits for the block gets it.
        """
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
        """Empty the cache, and replace its lock.

        Called by the constructor, and in a child after a fork, where the threads that were decoding
        do not exist.
        """
        self._lock = threading.Lock()
        self._pending = {}
        # The parent may have been forked in the middle of a change.
        self._blocks, self._bytes = (OrderedDict(), 0)

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
