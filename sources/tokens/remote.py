"""Tokens in a store. In: where documents begin and end. Out: their tokens, by ranged reads; offsets, from a local copy."""

from __future__ import annotations

import io

import numpy as np

from ...common.messages import shorten
from ...errors import SourceError
from ...files.opened import OpenFile, local_copy, open_file
from ...files.stamps import Stamp
from ...files.storage_options import StorageOptions
from .files import MAGIC, Array, DType, map_integers, npy_errors, token_count, tokens_of_header

_HEADER_BYTES = 4096
"""More than the header of an array with one axis takes."""


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


def map_remote(path: str, storage: StorageOptions, stamp: Stamp | None) -> Array:
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
