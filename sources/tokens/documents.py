"""Base classes of sources of documents: slices of mapped files of tokens or bytes.

A document is a read-only view of mapped memory, so nothing is copied, and all worker processes
share the system's page cache. A source has paths, and opens a file on first use. No file
descriptor stays open, so thousands of files are possible. If there are more than `MOST_MAPPED`
files, or a file is in a store, documents are copies that are read from open files.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache, cached_property
from typing import Any, Self, TypeVar

import numpy as np

from ...common.messages import first_few, short_repr, shorten
from ...errors import NoRecordsError, SourceError
from ...files.paths import PathLike, Paths
from ...files.reader_pool import MOST_MAPPED, ReaderPool
from ...files.stamps import Stamps
from ...files.storage_options import StorageOptionsLike, storage_options_of
from ...files.urls import name_of
from ..facts import SourceFacts
from ..file_source import FileSource, hex_digest
from ..growing.generation import FileFacts
from ..kept_facts import MANY_FILES, kept_facts_of
from ..parts import by_part, of_each, part_of
from ..provenance import FilePlace
from .bounds import Int64s, Split, spread
from .document_file import DocumentFacts, DocumentFile
from .files import Array, DType

_SAMPLED_PIECES = 8
"""Number of pieces of all files together that are digested for the fingerprint.

Each file has at least two.
"""

_MAX_ALL_SAMPLED, _SAMPLED_FILES = 32768, 1024
"""Maximum number of files that are all digested for the fingerprint; and number if more."""

FoundT = TypeVar("FoundT")


class DocumentSource(FileSource[Any]):
    """Base class of sources of documents. Thread-safe, picklable, safe to fork.

    A subclass defines `_records_of`, and its constructor calls `_read_from`. A document is a slice
    of a file of tokens or bytes.
    """

    _unit = "documents"
    _dtype: DType
    _token_counts: Int64s
    """Number of tokens of each file. If a file is listed twice, it has two entries."""
    _stamps: tuple[Stamps, ...]
    """Stamps of all files of tokens; and, as a second item, of any files of offsets."""
    _name: str | None = None
    """Name of the array in a record; None if a record is not a dict."""
    _split: Split
    _digested: dict[int, tuple[int, Any]]
    """State of the fingerprint's digest, so that a later generation can continue it.

    It maps the number of pieces per file to the number of digested files and their digest.
    """
    _unpickled = ("_pool", "_digested")

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
        """Store the arguments of a constructor, and find the files.

        Args:
            paths: paths, globs or folders.
            patterns: patterns of the files that are read from a folder.
            split: finds where documents begin in a file.
            name: name of the array in a record, or None.
            storage_options: the user's `storage_options=`.
            growing: the user's `growing=`.
            generation: the user's `generation=`.
            kind: JSON values that the number of records in a file depends on.

        Raises:
            TypeError: `name` is neither a string nor None.
            SourceNotFoundError: a path matches no file.
            SourceError: a file cannot be read, there are no documents, or files have different
                dtypes.
        """
        if name is not None and not isinstance(name, str):
            raise TypeError(
                f"name={short_repr(name)} is not a string. Pass a string, or None for records that "
                "are arrays without a name."
            )
        self._name, self._split, self._storage = name, split, storage_options_of(storage_options)
        self._begin(paths, patterns, self._storage, growing, generation, kind)

    def _inspect_file(self, path: str) -> DocumentFacts:
        with closing(DocumentFile(path, self._split, self._storage)) as file:
            return file.facts(0 if self._growth is None else 2)

    def _facts(self, found: DocumentFacts) -> FileFacts:
        return FileFacts(found.documents, found.stamps[0], found.content or "")

    def _check_alike(self, first: DocumentFacts, other: DocumentFacts) -> None:
        if other.dtype != first.dtype:
            raise _unlike(other.path, other.dtype, first.path, first.dtype)

    def _take(self, paths: Sequence[str]) -> None:
        self._check_paths(paths)
        self._paths = tuple(paths)
        numbers = self._numbers()
        documents, self._token_counts, dtypes = numbers.T.copy()
        self._ends, self._dtype = np.cumsum(documents), _dtype_of(int(dtypes[0]))
        other = int((dtypes != dtypes[0]).argmax())
        if other:
            raise _unlike(paths[other], _dtype_of(int(dtypes[other])), paths[0], self._dtype)
        if not self._ends[-1]:
            raise NoRecordsError(
                f"the files {first_few(paths)} contain no {self._unit}. {self._why_none()}."
            )
        self._prepare()

    def _numbers(self) -> Int64s:
        """Return `int64[files, 3]`: number of documents, tokens, and dtype's code of each file.

        The stamps (sizes and modification times) of the files are stored in the source.
        """
        if self._growth is None and len(self._paths) >= MANY_FILES and not self._is_in_store:
            stamps, numbers = kept_facts_of(
                self._paths,
                [type(self).__name__, repr(self._split)],
                self._stamped,
                self._counts,
                3,
            )
            self._stamps = tuple(Stamps(*stamps[:, each].T) for each in range(stamps.shape[1]))
            return numbers
        files = self._inspected(self._paths)
        self._stamps = tuple(map(Stamps.of, zip(*(file.stamps for file in files))))
        return np.array(
            [_numbers(file.documents, file.tokens, file.dtype) for file in files], np.int64
        )

    def _counts(self, path: str) -> tuple[int, ...]:
        with closing(DocumentFile(path, self._split, self._storage)) as file:
            return _numbers(*file.counts())

    def _stamped(self, path: str) -> tuple[str, ...]:
        beside = self._split.beside(path)
        return (path,) if beside is None else (path, beside)

    def _check_paths(self, paths: Sequence[str]) -> None:
        """Raise ValueError if the source cannot read these files together.

        A subclass may override it.
        """

    def _why_none(self) -> str:
        """Return the end of the error message for files without documents.

        It has the reason, if it is known, and a remedy.
        """
        return "Pass other files"

    def _prepare(self) -> None:
        # the pool must not hold this
        paths, split, storage, stamps = (self._paths, self._split, self._storage, self._stamps)
        mapped = len(paths) <= MOST_MAPPED and not self._is_in_store

        def opened(number: int) -> DocumentFile:
            return DocumentFile(
                paths[number], split, storage, [column[number] for column in stamps], mapped
            )

        self._pool: ReaderPool[DocumentFile] = ReaderPool(opened, None, mapped=mapped)
        self._digested = {}

    def at_generation(self, generation: int) -> Self:
        """Return the same source with the files of another generation.

        A record has the same key in both.

        Args:
            generation: number of the generation, from 0.

        Raises:
            SourceError: the generation does not exist, a file was modified, or the source was made
                without `growing=`.
        """
        other = super().at_generation(generation)
        other._digested = self._digested
        return other

    def _of_file(self, number: int, ask: Callable[[DocumentFile], FoundT]) -> FoundT:
        with self._pool.lend(number) as file:
            return ask(file)

    def _read_part(self, number: int, keys: Int64s) -> list[Any]:
        with self._pool.lend(number) as file:
            return self._records_of(file.read(self._places(number, keys)))

    def _records_of(self, documents: list[Array]) -> list[Any]:
        """Return a record for each document, a read-only array of tokens or bytes."""
        raise NotImplementedError

    def file_place(self, key: int) -> FilePlace:
        number, place = part_of(key, self._ends)
        (start,), (stop,) = self._of_file(number, lambda file: file.bounds(np.array([place])))
        return FilePlace(self._paths[number], place, tokens=(int(start), int(stop)))

    def _announce(self, keys: Int64s) -> None:
        for number, some in by_part(keys, self._ends):
            with self._pool.lend(number) as file:
                file.prefetch(self._places(number, some))

    @property
    def facts(self) -> SourceFacts:
        # A record of a mapped file is a view, and is read from disk when it is used.
        return super().facts._replace(reads_ahead=self._is_in_store)

    @cached_property
    def _lengths(self) -> Int64s:
        """Length of each document in tokens, `int64[documents]`, read-only."""
        lengths = np.concatenate(self._of_files(DocumentFile.lengths, range(len(self._paths))))
        lengths.flags.writeable = False
        return lengths

    def _of_files(
        self, ask: Callable[[DocumentFile], FoundT], numbers: Sequence[int]
    ) -> list[FoundT]:
        return of_each(lambda number: self._of_file(number, ask), numbers)

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Number of documents and tokens, and a digest of dtype, name, some offsets and tokens.

        For several files also a digest of their names and sizes.

        It does not depend on where the files are. Of more than 32,768 files, 1,024 are digested.
        """
        count = len(self._paths)
        pieces = max(_SAMPLED_PIECES // count, 2)
        done, digest = self._digested.get(pieces, (0, None))
        if digest is None or not done <= count <= _MAX_ALL_SAMPLED:
            done, digest = 0, hashlib.sha256(f"{self._dtype.str} {self._name!r}".encode())
        numbers = (
            range(done, count)
            if count <= _MAX_ALL_SAMPLED
            else spread(count, _SAMPLED_FILES).tolist()
        )
        digest = digest.copy()
        for sampled in self._of_files(lambda file: file.sample(pieces), numbers):
            digest.update(sampled)
        if count <= _MAX_ALL_SAMPLED:
            self._digested[pieces] = count, digest
        sums = {"records": len(self), "tokens": int(self._token_counts.sum())}
        return {
            "kind": type(self).__name__,
            **sums,
            "content": digest.hexdigest()[:16],
            **self._names(),
        }

    def _names(self) -> dict[str, str]:
        """Return `{"files": digest of the files' names and sizes}`; {} for only one file."""
        name = name_of if self._is_in_store else os.path.basename  # which takes a third of the time
        names = list(zip(map(name, self._paths), self._stamps[0].sizes))
        return {"files": hex_digest(repr(names))} if len(names) > 1 else {}


class TokenDocuments(DocumentSource):
    """Base class of sources of documents of tokens.

    A record is an array, or a dict with one array.
    """

    @property
    def facts(self) -> SourceFacts:
        return super().facts._replace(lengths=lambda: self.lengths)

    def _records_of(self, documents: list[Array]) -> list[Any]:
        return (
            documents if self._name is None else [{self._name: document} for document in documents]
        )

    @property
    def lengths(self) -> Any:
        """Number of tokens of each document: `{"tokens": int64[documents]}`.

        They are in the structure of a record, and read-only.
        """
        return self._lengths if self._name is None else {self._name: self._lengths}


def _numbers(documents: int, tokens: int, dtype: DType) -> tuple[int, ...]:
    return documents, tokens, int.from_bytes(dtype.str.encode(), "big")


@cache
def _dtype_of(number: int) -> DType:
    return np.dtype(number.to_bytes(8, "big").lstrip(b"\0").decode())


def _unlike(path: str, dtype: DType, first: str, of_first: DType) -> SourceError:
    return SourceError(
        f"{shorten(path)} has values of dtype {dtype}, but {shorten(first)} has {of_first}. Write "
        "all files of a source with the same dtype, or make one source for each dtype."
    )
