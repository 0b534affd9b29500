"""Data sources that exist only in Grain.

In: elements, or paths. Out: sources of records.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, SupportsIndex

from ...errors import MissingExtraError
from ...sources import MemorySource
from ...sources import RangeDataSource as OurRange
from ...sources.facts import SourceFacts


class SharedMemoryDataSource(MemorySource):
    """A source of elements in memory, which worker processes share with their parent.

    Args:
        elements: the records.
        name: name of Grain's shared memory block; no effect here.

    Raises:
        ValueError: if `elements` is None. Records of another process cannot be found by `name`
            here.

    >>> SharedMemoryDataSource([1, 2, 3])[1]
    2
    """

    def __init__(self, elements: Sequence[Any] | None = None, *, name: str | None = None) -> None:
        if elements is None:
            raise ValueError(
                f"SharedMemoryDataSource(name={name!r}) needs elements=, because headrace does not "
                "share memory by name. Pass the elements. Worker processes share them."
            )
        self.elements, self.name = elements, name
        if len(elements):
            super().__init__(elements)

    def __len__(self) -> int:
        return len(self.elements)

    def __getitem__(self, key: SupportsIndex) -> Any:
        if not len(self.elements):
            raise IndexError("the source is empty. Check len(source) first.")
        return super().__getitem__(key)

    def __reduce__(self) -> tuple[type[SharedMemoryDataSource], tuple[Any]]:
        return type(self), (self.elements,)

    def close(self) -> None:
        """Do nothing; there is no shared memory block to close."""

    def unlink(self) -> None:
        """Do nothing; there is no shared memory block to remove."""


class RangeDataSource(OurRange):
    """The integers of Python's `range(start, stop, step)`; the range may be empty.

    >>> len(RangeDataSource(0, 0, 1)), RangeDataSource(0, 6, 2)[1]
    (0, 2)
    """

    def _take_empty(self) -> None:
        """Do nothing, so that an empty range is accepted.

        `headrace.RangeDataSource` raises ValueError.
        """

    def __repr__(self) -> str:
        """Return the text that Grain prints."""
        return (
            f"RangeDataSource(start={self._range.start}, stop={self._range.stop}, "
            f"step={self._range.step})"
        )


class BagDataSource:
    """The records of Bagz files, as bytes.

    It needs the package `bagz`. Files are opened when the first record is read, or its length is
    asked for.

    Args:
        path: path of a file, a list of paths, or `name@8.bagz` for the files
            `name-00000-of-00008.bagz` and so on.

    Raises:
        MissingExtraError: when the files are opened, if `bagz` is not installed.
    """

    def __init__(self, path: Any) -> None:
        self.paths = (
            [os.fspath(path)]
            if isinstance(path, (str, os.PathLike))
            else list(map(os.fspath, path))
        )

    @cached_property
    def _readers(self) -> list[Any]:
        try:
            import bagz
        except ImportError as error:
            raise MissingExtraError("BagDataSource needs bagz: pip install bagz") from error
        return [bagz.Reader(path) for path in self.paths]

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(map(len, self._readers)))

    @property
    def fingerprint(self) -> dict[str, Any]:
        return {
            "kind": "BagDataSource",
            "files": list(map(os.path.basename, self.paths)),
            "records": len(self),
        }

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, record_key: SupportsIndex) -> bytes:
        key = range(len(self))[record_key]
        file = bisect_right(self._ends, key)
        record: bytes = self._readers[file][key - self._ends[file] + len(self._readers[file])]
        return record

    def __getstate__(self) -> dict[str, Any]:
        """Return the paths, without the open files."""
        return {"paths": self.paths}


class NoRecords:
    """A source without records, for an empty dataset; reading one raises IndexError.

    >>> len(NoRecords())
    0
    """

    facts = SourceFacts(reads_ahead=False)
    fingerprint = {"kind": "NoRecords"}  # noqa: RUF012 - nobody changes it

    def __len__(self) -> int:
        return 0

    def __getitem__(self, key: int) -> Any:
        raise IndexError("the source is empty. Check len(source) first.")
