"""In: record keys. Out: documents, as slices of files of tokens that are mapped into memory.

Nothing is read before somebody looks at it, and nothing is copied: a document is a read-only view, and the system's page cache,
which all worker processes share, holds what was read. Sources hold paths and open the files when they are first asked; no
descriptor stays open, so that there may be thousands of files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...common.messages import first_few, short_repr, shorten
from ...errors import NoRecordsError, SourceError
from ...files.paths import PathLike, Paths
from ...files.storage_options import StorageOptionsLike, storage_options_of
from ...files.urls import name_of
from ..file_source import FileSource, hex_digest
from ..growing.generation import FileFacts
from ..parts import by_part, of_each, part_of
from ..provenance import FilePlace
from .bounds import Int64s, Split
from .document_file import DocumentFile

_PIECES_LOOKED_AT = 8
"""So many pieces of all files tell two sources apart; of each file at least two."""


class DocumentSource(FileSource[Any]):
    """A base of sources of documents. Thread-safe, picklable, safe to fork."""

    _unit = "documents"
    _files: tuple[DocumentFile, ...]
    """In the order of their documents; one that is listed twice is there twice."""
    _name: str | None
    _split: Split

    def _read_from(
        self,
        paths: Paths,
        patterns: Sequence[str],
        split: Split,
        name: str | None,
        storage_options: StorageOptionsLike,
        growing: bool | PathLike,
        generation: int | None,
        kind: Any,
    ) -> None:
        """Take the arguments of a constructor, and the `split` that it made of some of them."""
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name={short_repr(name)} must be a string, or None for records that are bare arrays.")
        self._name, self._split, self._storage = name, split, storage_options_of(storage_options)
        self._begin(paths, patterns, self._storage, growing, generation, kind)

    def _look_at(self, path: str) -> DocumentFile:
        return DocumentFile(path, self._split, self._storage)

    def _facts(self, found: DocumentFile) -> FileFacts:
        content = hashlib.sha256(found.looked_at(2)).hexdigest()[:16]
        return FileFacts(found.count, found.stamp, content)

    def _check_alike(self, first: DocumentFile, other: DocumentFile) -> None:
        if other.dtype != first.dtype:
            raise SourceError(
                f"{shorten(other.path)} has tokens of dtype {other.dtype}, and {shorten(first.path)} of {first.dtype}; write "
                "all files of a source with one dtype."
            )

    def _take(self, paths: Sequence[str]) -> None:
        self._check_paths(paths)
        self._paths, self._files = tuple(paths), tuple(self._looked_at(paths))
        self._ends = np.cumsum([file.count for file in self._files], dtype=np.int64)
        for file in self._files:
            self._check_alike(self._files[0], file)
        if not paths or not self._ends[-1]:
            raise NoRecordsError(f"no documents in {first_few(paths)}{self._why_none()}")

    def _check_paths(self, paths: Sequence[str]) -> None:
        """Raise ValueError where so many files cannot be read."""

    def _why_none(self) -> str:
        """The end of the error about files without documents."""
        return ""

    def _read_part(self, number: int, keys: Int64s) -> list[Any]:
        documents, name = self._files[number].read(self._places(number, keys)), self._name
        return documents if name is None else [{name: document} for document in documents]

    def file_place(self, key: int) -> FilePlace:
        number, place = part_of(key, self._ends)
        file = self._files[number]
        (start,), (stop,) = file.bounds().of(np.array([place]))
        return FilePlace(file.path, place, tokens=(int(start), int(stop)))

    def _announce(self, keys: Int64s) -> None:
        for number, some in by_part(keys, self._ends):
            self._files[number].prefetch(self._places(number, some))

    @property
    def reads_ahead(self) -> bool:
        """True of files in stores: of a mapped file a record is a view, and the disk is read by what looks at it."""
        return self._is_in_store()

    @cached_property
    def lengths(self) -> Any:
        """The number of tokens of each document, in the tree of a record: `{"tokens": int64[documents]}`, read-only."""
        lengths = np.concatenate([file.lengths for file in self._files])
        lengths.flags.writeable = False
        return lengths if self._name is None else {self._name: lengths}

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Documents, tokens, a digest of dtype, name, some offsets and some tokens; of several files one of their names, too.

        The same wherever the files lie.
        """
        digest = hashlib.sha256(f"{self._files[0].dtype.str} {self._name!r}".encode())
        pieces = max(_PIECES_LOOKED_AT // len(self._files), 2)
        for told in of_each(lambda file: file.looked_at(pieces), self._files):
            digest.update(told)
        sums = {"records": len(self), "tokens": sum(file.token_count for file in self._files)}
        return {"kind": type(self).__name__, **sums, "content": digest.hexdigest()[:16], **self._names()}

    def _names(self) -> dict[str, str]:
        """A digest of the names of several files; the content of one alone tells which it is."""
        names = [(name_of(file.path), file.size) for file in self._files]
        return {"files": hex_digest(repr(names))} if len(names) > 1 else {}

    def close(self) -> None:
        """Let go of the files; documents that you hold stay readable. The source stays usable: reading opens them again."""
        for file in self._files:
            file.close()
