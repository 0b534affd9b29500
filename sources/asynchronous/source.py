"""Adapter for sources whose reads are coroutines.

They have `async def __getitem__(key)`, or `async def __getitems__(keys)`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..facts import SourceFacts, facts_of
from ..keys import Keys, check_key, check_keys
from ..protocol import checked_records, fingerprint_of, is_coroutine
from .event_loop import EventLoop, event_loop

TOGETHER = 64
"""Maximum number of records that one blocking call reads at the same time.

Most services allow this number.
"""


class AsyncSource:
    """Adapter of an asynchronous source to an ordinary one, whose methods wait for coroutines.

    Args:
        source: has `__len__`, and `async def __getitem__` or `async def __getitems__` or both. It
            may have any optional members of sources. If one of the two methods is not a coroutine
            function, it is not used.

    >>> class Service:
    ...     def __len__(self):
    ...         return 10
    ...
    ...     async def __getitem__(self, key):
    ...         await asyncio.sleep(0)
    ...         return key * key
    >>> AsyncSource(Service())[3]
    9
    """

    def __init__(self, source: Any) -> None:
        self.source = source
        self._reads_singly = not is_coroutine(source, "__getitems__")
        self._name = type(source).__qualname__
        self._own_loop: EventLoop | None = None

    @property
    def facts(self) -> SourceFacts:
        """The facts of the asynchronous source, which is read in the event loop."""
        return facts_of(self.source)._replace(
            array_keys=True,
            checks_keys=True,
            reads_singly=self._reads_singly,
            read_in_loop=self.read_in_loop,
        )

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, key: int) -> Any:
        return self._loop.run(self._read_one(check_key(key, len(self), self._name)))

    async def _read_one(self, key: int) -> Any:
        if is_coroutine(self.source, "__getitem__"):
            return await self.source[key]
        return checked_records(await self.source.__getitems__([key]), self.source, 1)[0]

    def __getitems__(self, keys: Keys) -> Sequence[Any]:
        """Return the records of `keys`, in order.

        Waits until all are read; at most 64 single reads run at the same time.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
            RuntimeError: called by a coroutine in the event loop.
            Exception: an error that the source's coroutine raises.
        """
        records: Sequence[Any] = self._loop.run(
            self._read_all(check_keys(keys, len(self), self._name))
        )
        return records

    async def _read_all(self, keys: npt.NDArray[np.int64]) -> Sequence[Any]:
        if not self._reads_singly:
            return await self.read_in_loop(keys)
        free = asyncio.Semaphore(TOGETHER)

        async def one(key: int) -> Any:
            async with free:
                return await self.source[key]

        reads = [asyncio.ensure_future(one(key)) for key in keys.tolist()]
        try:
            found: list[Any] = await asyncio.gather(*reads)
            return found
        finally:
            for read in reads:  # of which one has failed
                read.cancel()

    async def read_in_loop(self, keys: npt.NDArray[np.int64]) -> Sequence[Any]:
        """Return the records of `keys`, in order, when it is awaited in the event loop.

        They are read by one call, or one after the other if the source reads single keys only.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
        """
        self._loop  # noqa: B018 - lasts from now on as long as this
        checked = check_keys(keys, len(self), self._name).tolist()
        if self._reads_singly:
            return [await self.source[key] for key in checked]
        return checked_records(await self.source.__getitems__(checked), self.source, len(checked))

    @property
    def fingerprint(self) -> dict[str, Any]:
        return fingerprint_of(self.source)

    @property
    def _loop(self) -> EventLoop:
        """Event loop of this process.

        The source keeps it, because its connections belong to the loop.
        """
        if self._own_loop is None or not self._own_loop.alive:
            self._own_loop = event_loop()
        return self._own_loop

    def __reduce__(self) -> tuple[type[AsyncSource], tuple[Any]]:
        return type(self), (self.source,)

    def __repr__(self) -> str:
        return repr(self.source)
