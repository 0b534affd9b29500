"""One file of tokens, and where its documents begin. In: places of documents. Out: their tokens.

Nothing is read before somebody looks at it. No descriptor of a file on this machine stays open.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import numpy as np

from ...files.opened import check_open_file, local_copy, open_file, stamp_of
from ...files.stamps import Stamp
from ...files.storage_options import StorageOptions
from ...files.urls import is_remote
from ...formats.index import Index, IndexKind, index_of
from .bounds import Bounds, Int64s, Split, spread
from .files import Array, DType, RemoteTokens, Tokens, map_integers

_PIECE = 2048
"""So many tokens of each piece tell two files apart."""


class DocumentFile:
    """A file of tokens, and where its documents begin. Thread-safe, picklable, safe to fork.

    Args:
        path: of the tokens.
        split: tells where documents begin.
        storage: how files in a store are reached.

    Raises:
        SourceNotFoundError: a file is missing.
        SourceError: a file is empty, cut off or something else, or the documents do not fit the tokens.
    """

    path: str
    dtype: DType
    count: int
    """How many documents there are."""
    token_count: int
    size: int
    """Of the file of tokens, in bytes."""
    stamp: Stamp
    """Of the file of tokens."""
    _opened: tuple[Tokens, Bounds] | None
    """Tokens and bounds, once they are open. One value, so that threads see both or none."""

    def __init__(self, path: str, split: Split, storage: StorageOptions) -> None:
        self.path, self._split, self._storage = path, split, storage
        self._stamps: dict[str, Stamp] = {}
        self._opened = tokens, bounds = split.open(self)
        beside = split.beside(path)
        self._stamps = {file: stamp_of(file, storage) for file in (path, beside) if file is not None}
        bounds.check(len(tokens))
        self.dtype, self.count, self.token_count = tokens.dtype, len(bounds), len(tokens)
        self.stamp = self._stamps[path]
        self.size = self.stamp.size

    def read(self, places: Int64s) -> list[Array]:
        """The tokens of the documents at these places, read-only; of a file on this machine they are views.

        Raises:
            SourceError: the file was changed, or cannot be read.
        """
        tokens, bounds = self._open()
        return _pieces(tokens, *bounds.of(places))

    def prefetch(self, places: Int64s) -> None:
        """Begin to bring documents closer: of a file in a store. Otherwise the system reads ahead."""
        tokens, bounds = self._open()
        if isinstance(tokens, RemoteTokens):
            tokens.file.prefetch(*tokens.ranges(*bounds.of(places)))

    def bounds(self) -> Bounds:
        """The beginnings and ends of its documents."""
        return self._open()[1]

    @property
    def lengths(self) -> Int64s:
        starts, stops = self.bounds().of(np.arange(self.count))
        return (stops - starts).astype(np.int64, copy=False)

    def looked_at(self, pieces: int) -> bytes:
        """Some bounds, and so many pieces of the tokens: what tells this file from others."""
        tokens, bounds = self._open()
        starts = spread(len(tokens), pieces)
        found = _pieces(tokens, starts, np.minimum(starts + _PIECE, len(tokens)))
        return bounds.looked_at() + b"".join(array.tobytes() for array in found)

    def close(self) -> None:
        """Let go of the files; documents that somebody holds stay readable. Reading opens them again."""
        self._opened = None

    def _open(self) -> tuple[Tokens, Bounds]:
        # A page that is no longer in the file would end the process (SIGBUS): this is the last moment for an error.
        for path, stamp in self._stamps.items():
            check_open_file(path, stamp)
        opened = self._opened
        if opened is None:
            self._opened = opened = self._split.open(self)
        return opened

    def tokens(self, dtype: DType | None) -> Tokens:
        if is_remote(self.path):
            return RemoteTokens(open_file(self.path, self._storage, self._stamps.get(self.path)), dtype)
        return map_integers(self.path, dtype)

    def copy_of(self, path: str) -> AbstractContextManager[str]:
        return local_copy(path, self._storage, self._stamps.get(path))

    def index(self, kind: IndexKind, folder: str | None) -> Index:
        return index_of(self.path, kind, folder, self._storage, self._stamps.get(self.path))

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_opened": None}


def _pieces(tokens: Tokens, starts: Array, stops: Array) -> list[Array]:
    if isinstance(tokens, RemoteTokens):
        return [np.frombuffer(data, tokens.dtype) for data in tokens.file.read_many(*tokens.ranges(starts, stops))]
    return [tokens[start:stop] for start, stop in zip(starts.tolist(), stops.tolist())]
