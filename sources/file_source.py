"""A base of sources on files. In: record keys over parts (files, row groups) that lie end to end. Out: their records."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import ClassVar, Generic, Self, SupportsIndex, TypeVar

import numpy as np
import numpy.typing as npt

from .keys import Keys, check_key, check_keys
from .parts import Int64s, read_by_part

RecordT = TypeVar("RecordT")


class FileSource(Generic[RecordT]):
    """Records of files. Their files are closed at the end of a `with` block; the source stays usable: reading opens them again.

    A subclass sets `_ends`, and reads the records of one part.
    """

    array_keys: ClassVar[bool] = True
    checks_keys: ClassVar[bool] = True

    _ends: npt.NDArray[np.int64]
    """`int64[parts]`: the first key after each part."""

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, key: SupportsIndex) -> RecordT:
        checked = check_key(key, len(self), type(self).__name__)
        return self.__getitems__(np.array([checked], np.int64))[0]

    def __getitems__(self, keys: Keys) -> list[RecordT]:
        """The records of `keys`, in their order; each part that they touch is read once.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
            SourceError: a file cannot be read, or was changed; the message names the file and the key.
        """
        return read_by_part(check_keys(keys, len(self), type(self).__name__), self._ends, self._read_part)

    def _read_part(self, part: int, keys: Int64s) -> list[RecordT]:
        raise NotImplementedError

    def _places(self, part: int, keys: Int64s) -> Int64s:
        """Numbers of records in their part."""
        return keys - self._ends[part - 1] if part else keys

    @property
    def announce(self) -> Callable[[Int64s], None] | None:
        """Takes the keys of records that will be asked for soon, of files in stores."""
        return self._announce if self._is_in_store() else None

    def _is_in_store(self) -> bool:
        raise NotImplementedError

    def _announce(self, keys: Int64s) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Closes the open files, those in use when their read ends. The source stays usable: reading reopens them."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
