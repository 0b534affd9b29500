"""Base class of sources on files.

The records lie in consecutive parts: files, or row groups of files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, SupportsIndex, TypeVar

import numpy as np
import numpy.typing as npt

from ..common.messages import first_few
from ..common.validation import whole_number
from ..files.urls import any_remote
from .facts import SourceFacts
from .growing.growing_files import GrowingFiles
from .keys import Keys, check_key, check_keys
from .parts import Int64s, read_by_part
from .provenance import FilePlace, FileRun

RecordT = TypeVar("RecordT")


class FileSource(GrowingFiles[Any], Generic[RecordT]):
    """Base class of sources on files.

    A `with` block closes the files at its end; a later read opens them again.

    A subclass defines `_inspect_file`, `_facts`, `file_place`, and these two methods. `_take`
    receives the paths of the files, and sets `_paths`, `_ends` (the first key after each part) and
    `_identity` (digests for the fingerprint). `_read_part` reads records of one part, i.e. of a
    file or of a row group of a file. `_prepare` creates the attributes that are not pickled;
    `_unpickled` lists their names. `_announce` is needed if files may be in a store.
    """

    _kind: ClassVar[str] = ""
    """Name of the source's kind in fingerprints; "": the name of the class."""
    _unit: str = "records"
    _unpickled: ClassVar[tuple[str, ...]] = ("_pool",)

    _ends: npt.NDArray[np.int64]
    """`int64[parts]`: first key after the last record of each part."""
    _paths: tuple[str, ...]
    _identity: tuple[str, str]
    """Two digests for the fingerprint: of facts about the files, and of their indices.

    The facts are names, sizes and others.
    """
    _pool: Any
    """Pool of open files, a `ReaderPool`."""

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, key: SupportsIndex) -> RecordT:
        checked = check_key(key, len(self), type(self).__name__)
        return self.__getitems__(np.array([checked], np.int64))[0]

    def __getitems__(self, keys: Keys) -> list[RecordT]:
        """Return the records of `keys`, in order. Each part that has some of them is read once.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
            SourceError: a file cannot be read, or was modified. The message names the file.
        """
        return read_by_part(
            check_keys(keys, len(self), type(self).__name__), self._ends, self._read_part
        )

    def _read_part(self, part: int, keys: Int64s) -> list[RecordT]:
        raise NotImplementedError

    def _places(self, part: int, keys: Int64s) -> Int64s:
        return keys - self._ends[part - 1] if part else keys

    def file_place(self, key: int) -> FilePlace:
        """Return the file of the record `key`, and the index of the record in it."""
        raise NotImplementedError

    def file_runs(self) -> Iterator[FileRun]:
        """Yield one `FileRun`, consecutive records of one file, for each part that has records."""
        first = 0
        for end in self._ends.tolist():
            if first < end:
                place = self.file_place(first)
                yield FileRun(place.file, place.record, first, end - first)
            first = end

    @property
    def facts(self) -> SourceFacts:
        return SourceFacts(
            array_keys=True,
            checks_keys=True,
            announce=self._announce if self._is_in_store else None,
            file_place=self.file_place,
            file_runs=self.file_runs,
            file_count=lambda: len(set(self._paths)),
            generations=self,
        )

    @cached_property
    def _is_in_store(self) -> bool:
        return any_remote(self._paths)

    def _announce(self, keys: Int64s) -> None:
        """Start to fetch the records of `keys`, which will be read soon.

        Only called if the files are in a store.
        """
        raise NotImplementedError

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What identifies the source.

        It has its kind, number of records, and digests of file names, sizes and indices.

        It does not depend on the folder of the files.
        """
        files, index = self._identity
        return {
            "kind": self._kind or type(self).__name__,
            "records": len(self),
            "files": files,
            "index": index,
        }

    def close(self) -> None:
        """Close the open files. A file that is being read is closed when that read ends.

        The source stays usable: the next read opens the files again.
        """
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _prepare(self) -> None:
        """Create the attributes that are not pickled. Called by `_take` and after unpickling."""

    def __getstate__(self) -> dict[str, Any]:
        kind = type(self)
        computed = {
            name for name in vars(self) if isinstance(getattr(kind, name, None), cached_property)
        }
        left_out = {*self._unpickled, *computed, "_known"}
        return {name: value for name, value in vars(self).items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} {self._unit} in {first_few(self._paths)})"


def hex_digest(text: str, length: int = 16) -> str:
    """Return the first `length` hexadecimal digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def open_files_limit(max_open_files: int | None) -> int | None:
    """Return the user's `max_open_files=` after a check.

    Raises:
        TypeError: it is neither None nor an integer.
        ValueError: it is less than 1.
    """
    if max_open_files is None:
        return None
    return whole_number("max_open_files", max_open_files, 1, None, "a number of files, such as 64")
