"""Base classes of sources that wrap another source.

They forward to it how records are announced and read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from ..facts import SourceFacts, facts_of
from ..keys import Keys, check_key, check_keys
from ..protocol import DataSource, reader_of

Int64s = npt.NDArray[np.int64]


class OnSource:
    """Base class of sources whose records are made of records of another source.

    A subclass defines `_records_of`.

    Attributes:
        source: the other source.
    """

    source: DataSource[Any]

    @cached_property
    def _read(self) -> Callable[[Int64s], Sequence[Any]]:
        return reader_of(self.source)

    def _records_of(self, keys: Int64s) -> Int64s:
        """Return the keys `int64[m]` in the source below that this source's records `keys` need."""
        raise NotImplementedError

    @property
    def facts(self) -> SourceFacts:
        """Facts about the records of this source. The other source says how they are read."""
        below = facts_of(self.source)
        announce = below.announce
        return SourceFacts(
            array_keys=True,
            checks_keys=True,
            reads_ahead=below.reads_ahead,
            reads_singly=below.reads_singly,
            has_own_threads=below.has_own_threads,
            announce=None if announce is None else lambda keys: announce(self._records_of(keys)),
            file_count=below.file_count,
            records_together=below.records_together,
            grows_within=below.grows,
        )


class ByOtherKeys(OnSource):
    """Base class of sources that return records of another source unchanged, under other keys."""

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

    @property
    def facts(self) -> SourceFacts:
        """Facts about the records of this source.

        They are the facts of the other source, under the keys of this source.
        """
        below = facts_of(self.source)
        read, by = below.read_in_loop, below.lengths_by
        return super().facts._replace(
            read_in_loop=None if read is None else lambda keys: read(self._below(keys)),
            lengths=lambda: self._of_keys(below.lengths()),
            lengths_by=None if by is None else lambda name: self._of_keys(by(name)),
            record_bytes=lambda: self._of_keys(below.record_bytes()),
        )

    def _of_keys(self, numbers: Any) -> Any:
        """Return numbers of this source's records from numbers of the other's records.

        They are in the order of its keys.

        Args:
            numbers: one number for each record of the other source, in an array; a dict (perhaps
                nested) of such arrays; or None, which is returned.
        """
        if isinstance(numbers, Mapping):
            return {name: self._of_keys(each) for name, each in numbers.items()}
        return None if numbers is None else self._chosen(numbers)

    def _chosen(self, numbers: Int64s) -> Int64s:
        """Return the numbers of this source's records, from those of the other source's records."""
        raise NotImplementedError

    def _below(self, keys: Keys) -> Int64s:
        """Check keys of this source; return the records' keys in the other source, `int64[n]`.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
        """
        return self._records_of(check_keys(keys, len(self), type(self).__name__))
