"""Base classes of sources that wrap another source, and forward to it how records are announced and read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, SupportsIndex

import numpy as np
import numpy.typing as npt

from ..keys import Keys, check_key, check_keys
from ..protocol import DataSource, grows_within, is_in_event_loop, reader_of, reads_singly

Int64s = npt.NDArray[np.int64]


class OnSource:
    """Base class of sources whose records are made of records of another source.

    A subclass defines `_records_of`.

    Attributes:
        source: the other source.
    """

    array_keys: ClassVar[bool] = True
    checks_keys: ClassVar[bool] = True

    source: DataSource[Any]

    @cached_property
    def _read(self) -> Callable[[Int64s], Sequence[Any]]:
        return reader_of(self.source)

    def _records_of(self, keys: Int64s) -> Int64s:
        """Return the keys `int64[m]`, in the other source, of the records that make up the records `keys` of this one."""
        raise NotImplementedError

    @property
    def announce(self) -> Callable[[Int64s], None] | None:
        """Function that takes keys `int64[n]` of records that will be read soon.

        It passes the keys in the other source on to its `announce`. None if the other source has no such function.
        """
        announce = getattr(self.source, "announce", None)
        return None if announce is None else lambda keys: announce(self._records_of(keys))

    @property
    def reads_ahead(self) -> Any:
        """Number of concurrent reads of the wrapped source (`self.source`) that make reading faster.

        True: any number. False: none.
        """
        return getattr(self.source, "reads_ahead", True)

    @property
    def reads_singly(self) -> bool:
        """True if several readers share a batch of the wrapped source (`self.source`), each reading one record at a time."""
        return reads_singly(self.source)

    @property
    def grows_within(self) -> bool:
        """True if records may be appended to the wrapped source (`self.source`)."""
        return grows_within(self.source)


class ByOtherKeys(OnSource):
    """Base class of sources that return the records of another source unchanged, under other keys."""

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self, key: SupportsIndex) -> Any:
        return self._read(self._below([check_key(key, len(self), type(self).__name__)]))[0]

    def __getitems__(self, keys: Keys) -> Sequence[Any]:
        """Return the records of `keys`, in order.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
        """
        return self._read(self._below(keys))

    async def read_in_loop(self, keys: Int64s) -> Sequence[Any]:
        """Return the records of `keys`, in order, when it is awaited in the event loop. Only for an asynchronous source.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
        """
        source: Any = self.source
        records: Sequence[Any] = await source.read_in_loop(self._below(keys))
        return records

    @property
    def in_event_loop(self) -> bool:
        """True if the wrapped source (`self.source`) is asynchronous: coroutines read its records in the event loop."""
        return is_in_event_loop(self.source)

    def _below(self, keys: Keys) -> Int64s:
        """Check keys of this source, and return the keys `int64[n]` of the same records in the other source.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
        """
        return self._records_of(check_keys(keys, len(self), type(self).__name__))
