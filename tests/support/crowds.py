"""Sources that count how many of their reads are under way at the same time."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from typing import Any

from headrace import SourceFacts

PATIENCE_SECONDS = 0.05
"""How long a read waits for others: a slow source."""


class Crowd:
    """Counts the reads that are under way in one process, of one source or several; a read waits
    for `count` of them.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._begin()

    def _begin(self) -> None:
        self.under_way = self.most = 0
        self._changed = threading.Condition()

    def enter(self) -> None:
        """A read begins."""
        with self._changed:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            if self.under_way > self.count:
                raise AssertionError(f"{self.under_way} reads are under way, not {self.count}")
            self._changed.notify_all()

    def leave(self) -> dict[str, int]:
        """A read ends: where, and how many were under way at most."""
        with self._changed:
            self.under_way -= 1
            return {"process": os.getpid(), "most": self.most}

    def wait(self) -> None:
        """Until so many are under way, or were; but not for long: a worker gets few
        tasks at first.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.most >= self.count, PATIENCE_SECONDS)
        time.sleep(1e-3)  # then all of them are slow, too

    def __getstate__(self) -> int:
        return self.count

    def __setstate__(self, count: int) -> None:
        self.count = count
        self._begin()


class Slow:
    """Records are read one by one: each is where it was read, and how many reads were under way
    there at most.
    """

    def __init__(self, length: int, crowd: Crowd) -> None:
        self.length, self.crowd = length, crowd

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, key: int) -> Any:
        self.crowd.enter()
        self.crowd.wait()
        return self.crowd.leave()


class SlowMany(Slow):
    """Records are read many at a time: each tells how long the call's list was."""

    def __getitems__(self, keys: list[int]) -> Any:
        self.crowd.enter()
        self.crowd.wait()
        told = self.crowd.leave()
        return [{**told, "together": len(keys)} for _ in keys]


class SlowManyOf(SlowMany):
    """The same, of which so many calls at a time help."""

    def __init__(self, length: int, crowd: Crowd) -> None:
        super().__init__(length, crowd)
        self.facts = SourceFacts(reads_ahead=crowd.count)


class AsyncSlow(Slow):
    """`Slow` as a coroutine."""

    async def __getitem__(self, key: int) -> Any:
        self.crowd.enter()
        try:
            await asyncio.sleep(
                1e-3 if self.crowd.most >= self.crowd.count else 10 * PATIENCE_SECONDS
            )
        finally:
            told = self.crowd.leave()
        return told


class Counted:
    """Notes which keys were read, in the order in which reads began; `hold` keeps reads from
    ending. Not for processes.
    """

    def __init__(
        self, length: int, bad: tuple[int, ...] = (), error: type[BaseException] = OSError
    ) -> None:
        self.length, self.bad, self.error = length, bad, error
        self.keys: list[int] = []
        self.threads: set[str] = set()

    def __len__(self) -> int:
        return self.length

    def note(self, key: int) -> int:
        """A read."""
        self.keys.append(key)
        self.threads.add(threading.current_thread().name)
        if key in self.bad:
            raise self.error(f"cannot read {key}")
        return key

    def __getitem__(self, key: int) -> int:
        time.sleep(1e-3)
        return self.note(key)


class AsyncCounted(Counted):
    """`Counted` as a coroutine."""

    async def __getitem__(self, key: int) -> int:
        await asyncio.sleep(1e-3)
        return self.note(key)


class AsyncCountedMany(Counted):
    """With only `__getitems__`, a coroutine."""

    __getitem__ = None

    async def __getitems__(self, keys: list[int]) -> list[int]:
        await asyncio.sleep(1e-3)
        return [self.note(key) for key in keys]


class AsyncCountedBoth(AsyncCounted):
    """With both."""

    async def __getitems__(self, keys: list[int]) -> list[int]:
        await asyncio.sleep(1e-3)
        return [self.note(key) for key in keys]
