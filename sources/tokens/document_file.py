"""One file of tokens, and where its documents begin. In: places of documents. Out: their tokens.

Nothing is read before somebody looks at it. No descriptor of a file on this machine stays open.
"""

from __future__ import annotations

import io
import os

import numpy as np
import numpy.typing as npt

from ...common.messages import shorten
from ...errors import SourceError
from ...files.opened import OpenFile, check_open_file, local_copy, open_file, stamp_of
from ...files.stamps import Stamp
from ...files.storage_options import StorageOptions
from ...files.urls import is_remote
from .files import (
    MAGIC,
    Array,
    DType,
    MappedTokens,
    Tokens,
    check_offsets,
    map_integers,
    npy_errors,
    offsets_path,
    token_count,
    tokens_of_header,
)

Documents = str | int | Array
"""The path of the offsets, the length of a document, or the offsets."""

_HEADER_BYTES = 4096
"""More than the header of an array with one axis takes."""

_OFFSETS_LOOKED_AT = 4096
_PIECE = 2048
"""So many offsets, and pieces of so many tokens, tell two files apart."""


class DocumentFile:
    """A file of tokens, and where its documents begin. Thread-safe, picklable, safe to fork.

    Args:
        path: of the tokens.
        documents: where they begin.
        dtype: of a raw file; None for a `.npy` file.
        storage: how files in a store are reached.

    Raises:
        SourceNotFoundError: a file is missing.
        SourceError: a file is empty, cut off or something else, or the offsets do not fit it.

    Attributes:
        path: of the tokens.
        dtype: of the tokens.
        count: how many documents there are.
        tokens: how many tokens there are.
        size: of the file of tokens, in bytes.
    """

    path: str
    dtype: DType
    count: int
    tokens: int
    size: int
    _documents: Documents
    _raw: DType | None
    _storage: StorageOptions
    _stamps: dict[str, Stamp]
    _opened: tuple[Tokens, Array] | None
    """Tokens and offsets, once they are open. One value, so that threads see both or none."""

    def __init__(self, path: str, documents: Documents, dtype: DType | None, storage: StorageOptions) -> None:
        self.path, self._documents, self._raw, self._storage, self._stamps = path, documents, dtype, storage, {}
        self._opened = tokens, offsets = self._map()
        files = [file for file in (path, documents) if isinstance(file, str)]
        self._stamps = {file: stamp_of(file, storage) for file in files}
        _check(path, documents, len(tokens), offsets)
        self.dtype, self.count, self.tokens = tokens.dtype, len(offsets) - 1, len(tokens)
        self.size = self._stamps[path].size

    def read(self, places: npt.NDArray[np.int64]) -> list[Array]:
        """The tokens of the documents at these places, read-only; of a file on this machine they are views.

        Raises:
            SourceError: the file was changed, or cannot be read.
        """
        tokens, offsets = self._open()
        return tokens.many(offsets[places], offsets[places + 1])

    def prefetch(self, places: npt.NDArray[np.int64]) -> None:
        tokens, offsets = self._open()
        tokens.prefetch(offsets[places], offsets[places + 1])

    def bounds(self, place: int) -> tuple[int, int]:
        """The first token of a document, and the one after its last, in the file."""
        offsets = self._open()[1]
        return int(offsets[place]), int(offsets[place + 1])

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of tokens of each document."""
        return np.diff(self._open()[1]).astype(np.int64, copy=False)

    def looked_at(self, pieces: int) -> bytes:
        """Some offsets, and so many pieces of the tokens: what tells this file from others."""
        tokens, offsets = self._open()
        starts = _spread(len(tokens), pieces)
        found = tokens.many(starts, np.minimum(starts + _PIECE, len(tokens)))
        some = offsets[_spread(len(offsets), _OFFSETS_LOOKED_AT)].astype("<i8")
        return b"".join(array.tobytes() for array in (some, *found))

    def close(self) -> None:
        """Let go of the files; documents that somebody holds stay readable. Reading opens them again."""
        self._opened = None

    def _open(self) -> tuple[Tokens, Array]:
        """The open files.

        Raises:
            SourceError: a file was changed, or cannot be read.
        """
        # A page that is no longer in the file would end the process (SIGBUS): this is the last moment for an error.
        self._check_unchanged()
        opened = self._opened
        if opened is None:
            self._opened = opened = self._map()
        return opened

    def _map(self) -> tuple[Tokens, Array]:
        tokens: Tokens
        if is_remote(self.path):
            tokens = RemoteTokens(self.path, self._raw, self._storage, self._stamps.get(self.path))
        else:
            tokens = MappedTokens(map_integers(self.path, self._raw))
        if isinstance(self._documents, int):
            return tokens, np.arange(0, len(tokens) + 1, self._documents)
        return tokens, self._map_offsets(self._documents) if isinstance(self._documents, str) else self._documents

    def _map_offsets(self, path: str) -> Array:
        if is_remote(path):
            return _map_remote(path, self._storage, self._stamps.get(path))
        if not os.path.exists(path) and path == offsets_path(self.path):
            raise SourceError(
                f"{shorten(self.path)}: where do documents begin? There is no file {shorten(path)}, which TokenWriter writes; "
                "pass offsets=, or document_length= for documents of one length."
            )
        return map_integers(path)

    def _check_unchanged(self) -> None:
        for path, stamp in self._stamps.items():
            check_open_file(path, stamp)

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_opened": None}


def _check(path: str, documents: Documents, tokens: int, offsets: Array) -> None:
    if isinstance(documents, int):
        return
    name = shorten(documents) if isinstance(documents, str) else f"{shorten(path)} with offsets="
    check_offsets(offsets, tokens, name)
    # A writer's own offsets tell of all tokens.
    if isinstance(documents, str) and documents == offsets_path(path) and offsets[-1] != tokens:
        raise SourceError(
            f"{name}: the documents end at token {offsets[-1]}, but there are {tokens} tokens; the two files belong to "
            "different runs. Write both anew."
        )


def _spread(count: int, most: int) -> npt.NDArray[np.int64]:
    """At most so many of the first `count` places, the first and the last among them."""
    return np.unique(np.arange(most, dtype=np.int64) * (count - 1) // (most - 1)) if count else np.empty(0, np.int64)


class RemoteTokens:
    """Those of a file in a store, read when they are asked for; `Tokens` says what it does.

    Args:
        path: a URL.
        dtype: of a raw file; None for a `.npy` file.
        storage: how it is reached.
        stamp: the version that is read, None for any.

    Raises:
        SourceNotFoundError: it is not there.
        SourceError: it cannot be read, or holds something else.
    """

    dtype: DType

    def __init__(self, path: str, dtype: DType | None, storage: StorageOptions, stamp: Stamp | None) -> None:
        self.file: OpenFile = open_file(path, storage, stamp)
        head = self.file.read(0, min(_HEADER_BYTES, self.file.size))
        if head.startswith(MAGIC):
            self.dtype, self._count, self._start = _npy(path, head, dtype)
            if self._start + self._count * self.dtype.itemsize > self.file.size:
                raise SourceError(
                    f"{shorten(path)} has {self.file.size} bytes, fewer than its header says; it is cut off."
                )
        else:
            self._count, self._start = token_count(path, self.file.size, dtype), 0
            assert dtype is not None, "it was needed to count the tokens"
            self.dtype = dtype

    def __len__(self) -> int:
        return self._count

    def many(self, starts: Array, stops: Array) -> list[Array]:
        size = self.dtype.itemsize
        read = self.file.read_many(self._start + starts * size, (stops - starts) * size)
        return [np.frombuffer(data, self.dtype) for data in read]

    def prefetch(self, starts: Array, stops: Array) -> None:
        size = self.dtype.itemsize
        self.file.prefetch(self._start + starts * size, (stops - starts) * size)


def _map_remote(path: str, storage: StorageOptions, stamp: Stamp | None) -> Array:
    """The integers of a `.npy` file in a store, from a copy on this machine."""
    with local_copy(path, storage, stamp) as copy:
        return map_integers(copy, name=path)


def _npy(path: str, head: bytes, dtype: DType | None) -> tuple[DType, int, int]:
    """Dtype, number of tokens, and where they begin."""
    file = io.BytesIO(head)
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    with npy_errors(path):
        shape, _, found = read(file)
    return (*tokens_of_header(path, shape, found, dtype), file.tell())
