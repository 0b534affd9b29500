"""In: record keys. Out: documents, as slices of files of tokens that are mapped into memory.

Nothing is read before somebody looks at it, and nothing is copied: a document is a read-only view, and the system's page cache,
which all worker processes share, holds what was read. Sources hold paths and open the files when they are first asked; no
descriptor stays open, so that there may be thousands of files.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ...common.messages import first_few, short_repr, shorten
from ...common.validation import whole_number
from ...errors import NoRecordsError, SourceError
from ...files.paths import PathLike, Paths, text_of
from ...files.storage_options import StorageOptionsLike, storage_options_of
from ...files.urls import name_of
from ..file_source import FileSource, hex_digest
from ..growing.generation import FileFacts
from ..parts import by_part, of_each, part_of
from ..provenance import FilePlace
from .document_file import DocumentFile, Documents
from .files import Array, integer_dtype, offsets_path

_PATTERNS = ("*.npy",)
"""The files of a directory that count."""

_PIECES_LOOKED_AT = 8
"""So many pieces of all files tell two sources apart; of each file at least two."""


class TokenSource(FileSource[Any]):
    """Documents of tokens, as slices of files that are mapped into memory. Thread-safe, picklable, safe to fork.

    A record is a dict with one read-only array of the files' dtype, `{"tokens": tokens[start:stop]}`; it may be empty.
    Nothing is copied, and the memory that is taken does not grow with the files. `TokenWriter` and `headrace.convert` write
    such files; those of others can be read, too. A file must not be changed while a source uses it: write new versions under
    new names.

    Args:
        paths: `.npy` files with an integer array of one axis, or raw files of integers: a path, a glob, a directory (its
            `*.npy` files) or a list of these. A glob and a directory are sorted by name; a list keeps its order. The
            documents of the files follow each other.
        offsets: where documents begin: n + 1 ascending integers for n documents, of which document k is
            `tokens[offsets[k]:offsets[k + 1]]`. An array, or the path of a `.npy` file, for one file of tokens. Default:
            for each file of tokens the file `<path>.offsets`.
        dtype: of a raw file's tokens, such as `np.uint16`. A `.npy` file tells its own.
        document_length: in place of offsets: all documents have so many tokens. What remains at the end of a file is left
            out.
        name: of the array in the record, default "tokens". None: the record is the array itself.
        storage_options: how files in a store are reached and kept (docs/how-to/remote-files.md). Their documents are read
            when they are asked for; their offsets are copied into the cache.
        growing: more files may come, in generations that are written down beside the data, in `.headrace-generations`, or in a
            folder that is passed here; see `docs/how-to/data-that-changes.md`. Default False.
        generation: read the files of this generation, from 0, and look for no others.

    Raises:
        SourceNotFoundError: nothing is found under a path.
        SourceError: a file is empty, cut off or something else; the offsets do not ascend, or go beyond the last token; files
            have different dtypes; there are no documents.
        ValueError: `offsets` and `document_length` are both given, `offsets` for several files, `document_length` is less
            than 1, or `paths` is an empty list.
        TypeError: a path is no path, `dtype` no integer type, `name` no string, or `offsets` no integers.

    >>> import pathlib, tempfile
    >>> from headrace import TokenWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, documents in {"a.npy": [[1, 2, 3], [4, 5]], "b.npy": [[6]]}.items():
    ...         with TokenWriter(pathlib.Path(folder, name), dtype=np.uint16) as writer:
    ...             writer.extend(documents)
    ...     with TokenSource(folder) as source:
    ...         print(source[1], source.lengths)
    {'tokens': array([4, 5], dtype=uint16)} {'tokens': array([3, 2, 1])}
    """

    _unit = "documents"
    _beside = (".offsets", ".unfinished")
    _settles = False
    _files: tuple[DocumentFile, ...]
    """In the order of their documents; one that is listed twice is there twice."""
    _name: str | None

    def __init__(
        self,
        paths: Paths,
        offsets: PathLike | npt.ArrayLike | None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        document_length: int | None = None,
        name: str | None = "tokens",
        storage_options: StorageOptionsLike = None,
        growing: bool | PathLike = False,
        generation: int | None = None,
    ) -> None:
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name={short_repr(name)} must be a string, or None for records that are bare arrays.")
        self._name = name
        self._raw = None if dtype is None else integer_dtype(dtype)
        self._documents, self._storage = _documents(offsets, document_length), storage_options_of(storage_options)
        self._document_length, self._has_own_offsets = document_length, offsets is not None
        self._settles = self._raw is not None
        kind = [document_length, str(self._raw)] if document_length else None
        if offsets is not None and (growing is not False or generation is not None):
            raise ValueError("offsets= are those of one file, and growing= is for several; give each <path>.offsets.")
        self._begin(paths, _PATTERNS, self._storage, growing, generation, kind)

    def _look_at(self, path: str) -> DocumentFile:
        documents = offsets_path(path) if self._documents is None else self._documents
        return DocumentFile(path, documents, self._raw, self._storage)

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
        if self._has_own_offsets and len(paths) > 1:
            raise ValueError(
                f"offsets= are those of one file, and there are {len(paths)}: {first_few(paths)}; give each its own, "
                "in <path>.offsets."
            )
        self._paths, self._files = tuple(paths), tuple(self._looked_at(paths))
        self._ends = np.cumsum([file.count for file in self._files], dtype=np.int64)
        for file in self._files:
            self._check_alike(self._files[0], file)
        if not paths or not self._ends[-1]:
            length = self._document_length
            less = f"{sum(file.tokens for file in self._files)} tokens are less than one document of document_length={length}"
            told = "" if length is None else f": {less} in each file."
            raise NoRecordsError(f"no documents in {first_few(paths)}{told}")

    def _read_part(self, number: int, keys: npt.NDArray[np.int64]) -> list[Any]:
        documents, name = self._files[number].read(self._places(number, keys)), self._name
        return documents if name is None else [{name: document} for document in documents]

    def file_place(self, key: int) -> FilePlace:
        number, place = part_of(key, self._ends)
        file = self._files[number]
        return FilePlace(file.path, place, tokens=file.bounds(place))

    def _announce(self, keys: npt.NDArray[np.int64]) -> None:
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
        sums = {"records": len(self), "tokens": sum(file.tokens for file in self._files)}
        return {"kind": "TokenSource", **sums, "content": digest.hexdigest()[:16], **self._names()}

    def _names(self) -> dict[str, str]:
        """A digest of the names of several files; the content of one alone tells which it is."""
        names = [(name_of(file.path), file.size) for file in self._files]
        return {"files": hex_digest(repr(names))} if len(names) > 1 else {}

    def close(self) -> None:
        """Let go of the files; documents that you hold stay readable. The source stays usable: reading opens them again."""
        for file in self._files:
            file.close()


def _documents(offsets: Any, document_length: int | None) -> Documents | None:
    """The beginnings of documents; None: each file has its offsets beside it."""
    if document_length is None:
        return None if offsets is None else _offsets(offsets)
    if offsets is not None:
        raise ValueError("offsets= and document_length= both say where documents begin; pass one of them.")
    return whole_number("document_length", document_length, 1, None, "a number of tokens, such as 1024")


def _offsets(offsets: Any) -> str | Array:
    if isinstance(offsets, (str, bytes, os.PathLike)):
        return text_of(offsets)
    array = np.asarray(offsets).view()
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise TypeError(f"offsets={short_repr(offsets)} must be integers with one axis: n + 1 of them for n documents.")
    array.flags.writeable = False
    return array
