"""Megatron-LM's indexed datasets. In: `.bin` and `.idx` files as Megatron writes them. Out: documents, or sequences, of tokens.

    .idx   9 bytes MAGIC | uint64 version, 1 | uint8 code of the tokens' dtype | uint64 sequences | uint64 documents + 1
           int32[sequences] lengths in tokens | int64[sequences] places in the .bin, in bytes
           int64[documents + 1] the first sequence of each document, and the end | int8[sequences] modes, in some
    .bin   the tokens, without anything between them

All numbers are little-endian. Format: https://github.com/NVIDIA/Megatron-LM, megatron/core/datasets/indexed_dataset.py.
"""

from __future__ import annotations

import glob
import os
import struct
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np

from ...common.messages import shorten
from ...errors import SourceError, SourceNotFoundError
from ...files.mmap_files import map_readable
from ...files.opened import open_file
from ...files.paths import PathLike, Paths, file_system_of, path_list, text_of
from ...files.storage_options import StorageOptionsLike, storage_options_of
from .bounds import Bounds, Int64s, TokenFile, first_fall, spread
from .documents import TokenDocuments
from .files import Array, DType, Tokens

MAGIC = b"MMIDIDX\x00\x00"
"""What an `.idx` file begins with."""

_HEADER = struct.Struct("<9sQBQQ")
_VERSION = 1
_DTYPES = {
    code: np.dtype(name)
    for code, name in enumerate(("u1", "i1", "<i2", "<i4", "<i8", "<f8", "<f4", "<u2", "<u4", "<u8"), start=1)
}
"""By their codes. The last two are DeepSpeed's and fairseq's."""

_LOOKED_AT = 4096
_AT_ONCE = 1 << 20


class MegatronSource(TokenDocuments):
    """Documents of Megatron-LM's `.bin` and `.idx` files, read as they are. Thread-safe, picklable, safe to fork.

    A record is a dict with one read-only array of the files' dtype, `{"tokens": array}`, which is a view of the mapped `.bin`;
    it may be empty. Nothing is converted or built: the `.idx` tells where documents lie, and how long they are. A file must
    not be changed while a source uses it.

    Args:
        prefix: of the files, as Megatron's `--data-path` has it, such as `data/web_text_document`; or the path of the `.bin`
            or the `.idx`, a glob of them, a directory (its `.bin` files), or a list of these. A glob and a directory are
            sorted by name; a list keeps its order. The documents of the files follow each other.
        sequences: records are the sequences of which documents consist, such as sentences. Default False: documents. Most
            datasets have one sequence for each document.
        name: of the array in the record, default "tokens". None: the record is the array itself.
        storage_options: how files in a store are reached and kept (docs/how-to/remote-files.md). Their documents are read
            when they are asked for; their `.idx` is copied into the cache.
        growing: more files may come; see `TokenSource`.
        generation: read the files of this generation, from 0, and look for no others.

    Raises:
        SourceNotFoundError: nothing is found under a path.
        SourceError: a file is empty, cut off or something else; the `.idx` does not fit the `.bin`; sequences belong to no
            document, or those of one do not follow each other; files have different dtypes; there are no documents.
        ValueError: `prefix` is an empty list.
        TypeError: a path is no path, or `name` no string.

    Example (needs files):
        `MegatronSource("data/web_text_document")[0]` is `{"tokens": array([…], dtype=uint16)}`.
    """

    _beside = (".idx", ".unfinished")
    _settles = False

    def __init__(
        self,
        prefix: Paths,
        *,
        sequences: bool = False,
        name: str | None = "tokens",
        storage_options: StorageOptionsLike = None,
        growing: bool | PathLike = False,
        generation: int | None = None,
    ) -> None:
        self._unit = "sequences" if sequences else "documents"
        paths = [_tokens_path(text_of(each), storage_options) for each in path_list(prefix)]
        split = IndexBeside(bool(sequences))
        self._read_from(paths, ("*.bin",), split, name, storage_options, growing, generation, [self._unit])


def _tokens_path(path: str, storage_options: StorageOptionsLike) -> str:
    """The path of the tokens; of a folder or a glob, what it is."""
    if path.endswith(".idx"):
        return _beside(path, ".bin")
    if path.endswith(".bin") or glob.has_magic(path):
        return path
    folder = file_system_of(path, storage_options_of(storage_options)).is_directory(path)
    return path if folder else f"{path}.bin"


def _beside(path: str, suffix: str) -> str:
    return os.path.splitext(path)[0] + suffix


class IndexBeside(NamedTuple):
    """Each `.bin` has its `.idx` beside it."""

    sequences: bool

    def beside(self, path: str) -> str:
        return _beside(path, ".idx")

    def open(self, file: TokenFile) -> tuple[Tokens, Bounds]:
        path = self.beside(file.path)
        try:
            with file.copy_of(path) as copy:
                index = _read_index(copy, path)
        except SourceNotFoundError as error:
            raise SourceError(  # the file itself was found
                f"{shorten(file.path)}: there is no index {shorten(path)}, which Megatron writes beside it; bare tokens are "
                "read by TokenSource(path, dtype=…, end_of_text=…)."
            ) from error
        tokens = file.tokens(index.dtype, may_be_empty=True)
        return tokens, SequenceBounds(index) if self.sequences else DocumentBounds(index)


class MegatronIndex(NamedTuple):
    """The arrays of an `.idx`, mapped."""

    path: str
    dtype: DType
    lengths: Array
    """In tokens, of each sequence."""
    pointers: Array
    """In bytes."""
    documents: Array
    """The first sequence of each, and the end of the last."""

    def sequences(self, places: Int64s) -> tuple[Array, Array]:
        """The first token of each sequence, and the one after its last."""
        starts = self.pointers[places] // self.dtype.itemsize
        return starts, starts + self.lengths[places]

    def check(self, tokens: int) -> None:
        """Raise SourceError unless each sequence lies in a file of so many tokens."""
        for first in range(0, len(self.lengths), _AT_ONCE):
            places = np.arange(first, min(first + _AT_ONCE, len(self.lengths)))
            starts, stops = self.sequences(places)
            wrong = (starts < 0) | (stops < starts) | (stops > tokens)
            wrong |= self.pointers[places] % self.dtype.itemsize != 0
            if wrong.any():
                place = int(places[wrong.argmax()])
                raise SourceError(
                    f"{shorten(self.path)}: sequence {place} lies at byte {self.pointers[place]} and has "
                    f"{self.lengths[place]} tokens of {self.dtype}, but the .bin beside it has {tokens}; the .bin is "
                    "cut off, or of another run."
                )


class SequenceBounds:
    """Each sequence for itself."""

    def __init__(self, index: MegatronIndex) -> None:
        self.of, self.check, self._index = index.sequences, index.check, index

    def __len__(self) -> int:
        return len(self._index.lengths)

    def looked_at(self) -> bytes:
        return _bytes(self)


class DocumentBounds:
    """Documents, whose sequences follow each other."""

    def __init__(self, index: MegatronIndex) -> None:
        self._index = index

    def __len__(self) -> int:
        return len(self._index.documents) - 1

    def of(self, places: Int64s) -> tuple[Array, Array]:
        index = self._index
        first, end = index.documents[places], index.documents[places + 1]
        starts, stops = np.zeros((2, len(places)), np.int64)  # a document without a sequence has no place
        filled = first < end
        starts[filled] = index.sequences(first[filled])[0]
        stops[filled] = index.sequences(end[filled] - 1)[1]
        return starts, stops

    def check(self, tokens: int) -> None:
        index, name = self._index, shorten(self._index.path)
        index.check(tokens)
        documents, count = index.documents, len(index.lengths)
        fall = first_fall(documents)
        if fall is not None:
            raise SourceError(
                f"{name}: document {fall} begins at sequence {documents[fall]}, before the one before it."
            )
        if documents[0] != 0 or documents[-1] != count:
            raise SourceError(
                f"{name}: documents are the sequences {documents[0]} to {documents[-1]} of {count}; its writer did not end the "
                "last one. Pass sequences=True to read all sequences."
            )
        for first in range(0, count - 1, _AT_ONCE):
            places = np.arange(first, min(first + _AT_ONCE + 1, count))
            starts, stops = index.sequences(places)
            apart = places[1:][starts[1:] != stops[:-1]]
            inside = apart[documents[np.searchsorted(documents, apart)] != apart]
            if len(inside):
                raise SourceError(
                    f"{name}: sequence {inside[0]} does not follow the one before it in the .bin, but is of the same document. "
                    "Pass sequences=True to read sequences."
                )

    def looked_at(self) -> bytes:
        return _bytes(self)


def _bytes(bounds: Bounds) -> bytes:
    return np.stack(bounds.of(spread(len(bounds), _LOOKED_AT))).astype("<i8").tobytes()


def _read_index(place: str, path: str) -> MegatronIndex:
    """Read the file at `place`; `path` is for messages."""
    with closing(open_file(place)) as file:
        head = bytes(file.read(0, min(file.size, _HEADER.size)))
    if len(head) < _HEADER.size and (head + MAGIC[len(head) :]).startswith(MAGIC):
        raise SourceError(
            f"{shorten(path)} has {len(head)} bytes, and the header of an index of Megatron's takes {_HEADER.size}; it is cut "
            "off, or still being written."
        )
    head = head.ljust(_HEADER.size, b"\0")
    magic, version, code, sequences, documents = _HEADER.unpack(head)
    if magic != MAGIC:
        raise SourceError(f"{shorten(path)} is no index of Megatron's: it begins with {magic!r}, not with {MAGIC!r}.")
    if version != _VERSION or code not in _DTYPES:
        raise SourceError(
            f"{shorten(path)} has version {version} and the dtype code {code}; version 1 with codes 1 to {max(_DTYPES)} "
            "is read."
        )
    memory = map_readable(place)
    layout: list[tuple[Any, int]] = [("<i4", sequences), ("<i8", sequences), ("<i8", documents)]
    whole = _HEADER.size + sequences * 12 + documents * 8
    if len(memory) not in (whole, whole + sequences) or not documents:  # with modes, or without
        raise SourceError(
            f"{shorten(path)} has {len(memory)} bytes, and {sequences} sequences in {documents - 1} documents take {whole}, or "
            f"{whole + sequences} with modes; it is cut off, or still being written."
        )
    arrays, start = [], _HEADER.size
    for dtype, count in layout:
        arrays.append(np.ndarray(count, dtype, memory, start))
        start += arrays[-1].nbytes
    return MegatronIndex(path, _DTYPES[code], *arrays)
