"""One file of tokens, and where its documents begin. In: places of documents. Out: their tokens.

Nothing is read before somebody looks at it. No descriptor of a file on this machine stays open.
"""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt

from ...common.messages import shorten
from ...errors import SourceError
from ...files.opened import OpenFile, check_open_file, local_copy, open_file, stamp_of
from ...files.stamps import Stamp
from ...files.storage_options import StorageOptions
from ...files.urls import is_remote
from .files import Array, DType, layout_of, map_integers, offsets_path

Documents = str | int | Array
"""The path of the offsets, the length of a document, or the offsets."""

_OFFSETS_LOOKED_AT = 4096
_PIECE = 2048
"""So many offsets, and pieces of so many tokens, tell two files apart."""

_AT_ONCE = 1 << 20
"""Offsets that are checked at a time: there may be more of them than the memory holds."""


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
    """

    path: str
    dtype: DType
    count: int
    """How many documents there are."""
    tokens: int
    """How many tokens there are."""
    size: int
    """Of the file of tokens, in bytes."""
    stamp: Stamp
    """Of the file of tokens."""
    _opened: tuple[Array | _RemoteTokens, Array] | None
    """Tokens and offsets, once they are open. One value, so that threads see both or none."""

    def __init__(self, path: str, documents: Documents, dtype: DType | None, storage: StorageOptions) -> None:
        self.path, self._documents, self._raw, self._storage = path, documents, dtype, storage
        self._stamps: dict[str, Stamp] = {}
        self._opened = tokens, offsets = self._map()
        files = [file for file in (path, documents) if isinstance(file, str)]
        self._stamps = {file: stamp_of(file, storage) for file in files}
        _check(path, documents, len(tokens), offsets)
        self.dtype, self.count, self.tokens = tokens.dtype, len(offsets) - 1, len(tokens)
        self.stamp = self._stamps[path]
        self.size = self.stamp.size

    def read(self, places: npt.NDArray[np.int64]) -> list[Array]:
        """The tokens of the documents at these places, read-only; of a file on this machine they are views.

        Raises:
            SourceError: the file was changed, or cannot be read.
        """
        tokens, offsets = self._open()
        return _pieces(tokens, offsets[places], offsets[places + 1])

    def prefetch(self, places: npt.NDArray[np.int64]) -> None:
        """Begin to bring documents closer: of a file in a store. Otherwise the system reads ahead."""
        tokens, offsets = self._open()
        if isinstance(tokens, _RemoteTokens):
            tokens.file.prefetch(*tokens.ranges(offsets[places], offsets[places + 1]))

    def bounds(self, place: int) -> tuple[int, int]:
        """The first token of a document, and the one after its last, in the file."""
        offsets = self._open()[1]
        return int(offsets[place]), int(offsets[place + 1])

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        return np.diff(self._open()[1]).astype(np.int64, copy=False)

    def looked_at(self, pieces: int) -> bytes:
        """Some offsets, and so many pieces of the tokens: what tells this file from others."""
        tokens, offsets = self._open()
        starts = _spread(len(tokens), pieces)
        found = _pieces(tokens, starts, np.minimum(starts + _PIECE, len(tokens)))
        some = offsets[_spread(len(offsets), _OFFSETS_LOOKED_AT)].astype("<i8")
        return b"".join(array.tobytes() for array in (some, *found))

    def close(self) -> None:
        """Let go of the files; documents that somebody holds stay readable. Reading opens them again."""
        self._opened = None

    def _open(self) -> tuple[Array | _RemoteTokens, Array]:
        # A page that is no longer in the file would end the process (SIGBUS): this is the last moment for an error.
        for path, stamp in self._stamps.items():
            check_open_file(path, stamp)
        opened = self._opened
        if opened is None:
            self._opened = opened = self._map()
        return opened

    def _map(self) -> tuple[Array | _RemoteTokens, Array]:
        tokens: Array | _RemoteTokens
        if is_remote(self.path):
            tokens = _RemoteTokens(open_file(self.path, self._storage, self._stamps.get(self.path)), self._raw)
        else:
            tokens = map_integers(self.path, self._raw)
        if isinstance(self._documents, int):
            return tokens, np.arange(0, len(tokens) + 1, self._documents)
        return tokens, self._map_offsets(self._documents) if isinstance(self._documents, str) else self._documents

    def _map_offsets(self, path: str) -> Array:
        if not is_remote(path) and not os.path.exists(path) and path == offsets_path(self.path):
            raise SourceError(
                f"{shorten(self.path)}: where do documents begin? There is no file {shorten(path)}, which TokenWriter writes; "
                "pass offsets=, or document_length= for documents of one length."
            )
        with local_copy(path, self._storage, self._stamps.get(path)) as copy:
            return map_integers(copy, name=path)

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_opened": None}


class _RemoteTokens:
    """Tokens of a file in a store, read when they are asked for."""

    def __init__(self, file: OpenFile, dtype: DType | None) -> None:
        self.file = file
        self.dtype, self._length, self._start = layout_of(file, file.path, dtype)

    def __len__(self) -> int:
        return self._length

    def ranges(self, starts: Array, stops: Array) -> tuple[Array, Array]:
        return self._start + starts * self.dtype.itemsize, (stops - starts) * self.dtype.itemsize


def _pieces(tokens: Array | _RemoteTokens, starts: Array, stops: Array) -> list[Array]:
    if isinstance(tokens, _RemoteTokens):
        return [np.frombuffer(data, tokens.dtype) for data in tokens.file.read_many(*tokens.ranges(starts, stops))]
    return [tokens[start:stop] for start, stop in zip(starts.tolist(), stops.tolist())]


def _check(path: str, documents: Documents, tokens: int, offsets: Array) -> None:
    if isinstance(documents, int):
        return
    name = shorten(documents) if isinstance(documents, str) else f"{shorten(path)} with offsets="
    _check_offsets(offsets, tokens, name)
    # A writer's own offsets tell of all tokens.
    if isinstance(documents, str) and documents == offsets_path(path) and offsets[-1] != tokens:
        raise SourceError(
            f"{name}: the documents end at token {offsets[-1]}, but there are {tokens} tokens; the two files belong to "
            "different runs. Write both anew."
        )


def _spread(count: int, most: int) -> npt.NDArray[np.int64]:
    """At most so many of the first `count` places, the first and the last among them."""
    return np.unique(np.arange(most, dtype=np.int64) * (count - 1) // (most - 1)) if count else np.empty(0, np.int64)


def _check_offsets(offsets: Array, tokens: int, name: str) -> None:
    """Raise SourceError unless offsets ascend from 0 or more to at most the number of tokens. `name` is for the message."""
    if not len(offsets):
        raise SourceError(
            f"{name}: there are no offsets; document k is tokens[offsets[k]:offsets[k + 1]], so that n documents have n + 1."
        )
    for first in range(0, len(offsets) - 1, _AT_ONCE):
        some = offsets[first : first + _AT_ONCE + 1]
        falls = np.flatnonzero(some[1:] < some[:-1])
        if len(falls):
            place = int(falls[0])
            raise SourceError(
                f"{name}: offset {first + place + 1} is {some[place + 1]}, less than the {some[place]} before it; "
                "offsets must ascend."
            )
    if offsets[0] < 0 or offsets[-1] > tokens:
        raise SourceError(
            f"{name}: the offsets go from {offsets[0]} to {offsets[-1]}, but there are {tokens} tokens; they count tokens, "
            "not bytes, and belong to one file."
        )
