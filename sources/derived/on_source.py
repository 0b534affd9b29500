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
    """Base class of sources whose records are made of records of another source, `source`.

    A subclass defines `_records_of`.
    """

    array_keys: ClassVar[bool] = True
    checks_keys: ClassVar[bool] = True

    source: DataSource[Any]

    @cached_property
    def _read(self) -> Callable[[Int64s], Sequence[Any]]:
        return reader_of(self.source)

    def _records_of(self, keys: Int64s) -> Int64s:
        """Return the keys, in the other source, of the records that some of this source's records consist of."""
        raise NotImplementedError

    @property
    def announce(self) -> Callable[[Int64s], None] | None:
        """Function that receives keys of records that will be read soon; None if the other source has no such function."""
        announce = getattr(self.source, "announce", None)
        return None if announce is None else lambda keys: announce(self._records_of(keys))

    @property
    def reads_ahead(self) -> Any:
        """Number of concurrent reads that the other source declares (`reads_ahead` in `sources/protocol.py`)."""
        return getattr(self.source, "reads_ahead", True)

    @property
    def reads_singly(self) -> bool:
        """True if threads share a batch of the other source, and each reads single records."""
        return reads_singly(self.source)

    @property
    def grows_within(self) -> bool:
        """True if the other source grows."""
        return grows_within(self.source)


class ByOtherKeys(OnSource):
    """Base class of sources that return the records of another source unchanged, under other keys."""

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self, key: SupportsIndex) -> Any:
        return self._read(self._below([check_key(key, len(self), type(self).__name__)]))[0]

    def __getitems__(self, keys: Keys) -> Sequence[Any]:
        """Return the records of `keys`, in order."""
        return self._read(self._below(keys))

    async def read_in_loop(self, keys: Int64s) -> Sequence[Any]:
        """Return the records of `keys`, in order, from an asynchronous source, in the event loop."""
        source: Any = self.source
        records: Sequence[Any] = await source.read_in_loop(self._below(keys))
        return records

    @property
    def in_event_loop(self) -> bool:
        """True if the other source is asynchronous."""
        return is_in_event_loop(self.source)

    def _below(self, keys: Keys) -> Int64s:
        """Check keys of this source, and return the keys of the same records in the other source."""
        return self._records_of(check_keys(keys, len(self), type(self).__name__))
