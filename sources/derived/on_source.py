"""Bases of sources that are made of another source, and pass on how its records are announced and read."""

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
    """Base of sources whose records are made of those of another source."""

    array_keys: ClassVar[bool] = True
    checks_keys: ClassVar[bool] = True

    source: DataSource[Any]

    @cached_property
    def _read(self) -> Callable[[Int64s], Sequence[Any]]:
        return reader_of(self.source)

    def _records_of(self, keys: Int64s) -> Int64s:
        """Return the records of the other source that some of this one's records are made of."""
        raise NotImplementedError

    @property
    def announce(self) -> Callable[[Int64s], None] | None:
        """Function that takes keys that will be read soon, if the other source has one."""
        announce = getattr(self.source, "announce", None)
        return None if announce is None else lambda keys: announce(self._records_of(keys))

    @property
    def reads_ahead(self) -> Any:
        """Number of concurrent reads, as of the other source."""
        return getattr(self.source, "reads_ahead", True)

    @property
    def reads_singly(self) -> bool:
        """True if the other source is read record by record."""
        return reads_singly(self.source)

    @property
    def grows_within(self) -> bool:
        """True if the other source grows."""
        return grows_within(self.source)


class ByOtherKeys(OnSource):
    """Base of sources that return the records of another source unchanged, under other keys."""

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self, key: SupportsIndex) -> Any:
        return self._read(self._below([check_key(key, len(self), type(self).__name__)]))[0]

    def __getitems__(self, keys: Keys) -> Sequence[Any]:
        """Return the records of `keys`, in order."""
        return self._read(self._below(keys))

    async def read_in_loop(self, keys: Int64s) -> Sequence[Any]:
        """Return the records of `keys`, in order, from an asynchronous source."""
        source: Any = self.source
        records: Sequence[Any] = await source.read_in_loop(self._below(keys))
        return records

    @property
    def in_event_loop(self) -> bool:
        """True if the other source is asynchronous."""
        return is_in_event_loop(self.source)

    def _below(self, keys: Keys) -> Int64s:
        """Check keys, and return those of the records in the other source."""
        return self._records_of(check_keys(keys, len(self), type(self).__name__))
