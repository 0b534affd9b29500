"""Sources that only Grain has.

In: elements. Out: sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...sources import MemorySource


class SharedMemoryDataSource(MemorySource):
    """Elements in memory. Worker processes share memory with their parent anyway.

    Args:
        elements: the records.
        name: of a piece of shared memory; not needed here.

    Raises:
        ValueError: there are no elements: those of another process's name cannot be found here.

    >>> SharedMemoryDataSource([1, 2, 3])[1]
    2
    """

    def __init__(self, elements: Sequence[Any] | None = None, *, name: str | None = None) -> None:
        if elements is None:
            raise ValueError(
                f"SharedMemoryDataSource(name={name!r}) needs elements=: no memory is shared by name here. Pass the elements; "
                "worker processes share them."
            )
        super().__init__(elements)
        self.name = name

    def __reduce__(self) -> tuple[type[SharedMemoryDataSource], tuple[Any]]:
        return type(self), (self._data,)

    def close(self) -> None:
        """Does nothing."""

    def unlink(self) -> None:
        """There is no name."""


class NoRecords:
    """A source without records, which a dataset may have.

    >>> len(NoRecords())
    0
    """

    reads_ahead = False
    fingerprint = {"kind": "NoRecords"}  # noqa: RUF012 - nobody changes it

    def __len__(self) -> int:
        return 0

    def __getitem__(self, key: int) -> Any:
        raise IndexError("the source is empty.")
