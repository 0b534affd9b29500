"""Keep blocks that are read repeatedly mapped into memory.

The mapped files are the files of the cache on disk, so all processes of a host share this memory.
If the cache removes a block, it still takes space on the disk until it is dropped here.
"""

from __future__ import annotations

import mmap
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable

from ...common.system import after_fork

HOT_BYTES = 128 << 20
"""Maximum bytes of mapped blocks in one process."""


class HotBlocks:
    """Most recently used blocks, by name, each a piece of mapped memory. Thread-safe, safe to fork.

    Args:
        limit: maximum number of bytes. If it is exceeded, the least recently used block is dropped.

    >>> kept = HotBlocks(10)
    >>> kept.put("a", mmap.mmap(-1, 5)), kept.put("b", mmap.mmap(-1, 5)), kept.get("a") is None
    (None, None, False)
    >>> kept.put("c", mmap.mmap(-1, 1)), kept.get("b"), kept.get("a") is None
    (None, None, False)
    >>> kept.drop(["c", "d"]), kept.get("c")
    (None, None)
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._held = limit, 0
        self._blocks: OrderedDict[Hashable, mmap.mmap] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: Hashable) -> mmap.mmap | None:
        with self._lock:
            block = self._blocks.get(name)
            if block is not None:
                self._blocks.move_to_end(name)
            return block

    def put(self, name: Hashable, block: mmap.mmap) -> None:
        """Keep a block, and drop the least recently used ones above the limit."""
        with self._lock:
            self._held += len(block) - len(self._blocks.pop(name, b""))
            self._blocks[name] = block
            while self._held > self._limit:
                self._held -= len(self._blocks.popitem(last=False)[1])

    def drop(self, names: Iterable[Hashable]) -> None:
        with self._lock:
            self._held -= sum(len(self._blocks.pop(name, b"")) for name in names)

    def clear(self) -> None:
        """Drop all blocks.

        Takes no lock: in a child after a fork, a thread that does not exist may hold it.
        """
        self._lock = threading.Lock()
        self._blocks, self._held = OrderedDict(), 0


HOT = HotBlocks(HOT_BYTES)
"""Blocks of this process."""

after_fork(HOT.clear)
