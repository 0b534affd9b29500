"""One open file of tokens, and the places of its documents.

Tokens are read when they are needed. A mapped file needs no open file descriptor.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np

from ...files.opened import check_open_file, local_copy, open_file, stamp_of
from ...files.stamps import Stamp
from ...files.storage_options import StorageOptions
from ...files.urls import is_remote
from ...formats.index import Index, IndexKind, index_of
from .bounds import Int64s, Split, spread
from .files import Array, DType, MappedTokens, ReadTokens, Tokens

_PIECE = 2048
"""Number of tokens in each piece of a file that is digested for the fingerprint."""


class DocumentFacts(NamedTuple):
    """Facts about a file of tokens. The file need not be open.

    Attributes:
        path: path or URL of the file.
        dtype: dtype of the tokens.
        documents: number of documents.
        tokens: number of tokens.
        stamps: stamp (size and modification time) of the file of tokens, and of the file with its
            offsets if there is one.
        content: digest of parts of the content; None if it was not requested.
    """

    path: str
    dtype: DType
    documents: int
    tokens: int
    stamps: tuple[Stamp, ...]
    content: str | None


class DocumentFile:
    """File of tokens, with the places of its documents. Thread-safe, safe to fork.

    Args:
        path: path or URL of the tokens.
        split: finds where documents begin.
        storage: how files in a store are reached.
        stamps: expected stamps of the file of tokens and the file of offsets. Default: any.
        mapped: True: documents of a local file are views of mapped memory. False: they are copies.

    Raises:
        SourceNotFoundError: a file is missing.
        SourceError: a file is empty, cut off or of another kind, or does not have its expected
            stamp.
    """

    path: str

    def __init__(
        self,
        path: str,
        split: Split,
        storage: StorageOptions,
        stamps: Sequence[Stamp] = (),
        mapped: bool = True,
    ) -> None:
        self.path, self._storage, self._is_mapped = path, storage, mapped and not is_remote(path)
        beside = split.beside(path)
        self._files = (path,) if beside is None else (path, beside)
        self._stamps = dict(zip(self._files, stamps))
        self.check_unchanged()
        self._tokens, self._bounds = split.open(self)

    def facts(self, pieces: int = 0) -> DocumentFacts:
        """Check the documents, and return facts about the file.

        Args:
            pieces: number of pieces of the content to digest. 0: no digest.

        Raises:
            SourceError: the documents do not fit the tokens.
        """
        stamps = tuple(stamp_of(file, self._storage) for file in self._files)
        documents, tokens, dtype = self.counts()
        content = hashlib.sha256(self.sample(pieces)).hexdigest()[:16] if pieces else None
        return DocumentFacts(self.path, dtype, documents, tokens, stamps, content)

    def counts(self) -> tuple[int, int, DType]:
        """Check the documents, and return their number, the number of tokens, and the dtype.

        Raises:
            SourceError: the documents do not fit the tokens.
        """
        self._bounds.check(len(self._tokens))
        return len(self._bounds), len(self._tokens), self._tokens.dtype

    def check_unchanged(self) -> None:
        """Raise SourceError if the file of tokens or the file of its offsets was modified."""
        # Reading a mapped page that does not exist any more would end the process (SIGBUS).
        for path, stamp in self._stamps.items():
            check_open_file(path, stamp)

    def read(self, places: Int64s) -> list[Array]:
        """Return the tokens of some documents, one read-only array for each.

        For a mapped file, the arrays are views.

        Args:
            places: `int64[n]`, indices of the documents in the file.

        Raises:
            SourceError: the file was modified, or cannot be read.
        """
        self.check_unchanged()
        return self._tokens.pieces(*self._bounds.of(places))

    def prefetch(self, places: Int64s) -> None:
        """Start to fetch documents, given by index, of a file in a store.

        Does nothing for a local file.
        """
        self._tokens.prefetch(*self._bounds.of(places))

    def bounds(self, places: Int64s) -> tuple[Array, Array]:
        """Return two arrays: for each of these documents, its first token and the end.

        They have the index of its first token, and that after its last token.

        Args:
            places: `int64[n]`, indices of the documents in the file.

        Raises:
            SourceError: the file was modified.
        """
        self.check_unchanged()
        return self._bounds.of(places)

    def lengths(self) -> Int64s:
        starts, stops = self.bounds(np.arange(len(self._bounds)))
        return (stops - starts).astype(np.int64, copy=False)

    def sample(self, pieces: int) -> bytes:
        """Return the bytes of some documents' bounds, and of pieces of the tokens, for a digest.

        The bounds are beginning and end.

        Args:
            pieces: number of pieces.

        Raises:
            SourceError: the file was modified, or cannot be read.
        """
        self.check_unchanged()
        starts = spread(len(self._tokens), pieces)
        found = self._tokens.pieces(starts, np.minimum(starts + _PIECE, len(self._tokens)))
        return self._bounds.sample() + b"".join(array.tobytes() for array in found)

    def close(self) -> None:
        """Close the files. Documents that are in use stay readable.

        The caller must ensure that no thread is reading the file.
        """
        self._tokens.close()

    def tokens(self, dtype: DType | None, may_be_empty: bool = False) -> Tokens:
        if self._is_mapped:
            return MappedTokens(self.path, dtype, may_be_empty)
        return ReadTokens(
            open_file(self.path, self._storage, self._stamps.get(self.path)), dtype, may_be_empty
        )

    def copy_of(self, path: str) -> AbstractContextManager[str]:
        return local_copy(path, self._storage, self._stamps.get(path))

    def index(self, kind: IndexKind, folder: str | None) -> Index:
        return index_of(self.path, kind, folder, self._storage, self._stamps.get(self.path))
