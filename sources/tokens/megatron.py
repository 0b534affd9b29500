"""Source of Megatron-LM's indexed datasets: documents, or sequences, in `.bin` and `.idx` files.

    .idx   9 bytes MAGIC | uint64 version, 1 | uint8 code of the tokens' dtype | uint64 sequences |
    uint64 documents + 1
           int32[sequences] lengths in tokens | int64[sequences] places in the .bin, in bytes
           int64[documents + 1] first sequence of each document, and the end | int8[sequences]
           modes, only in some files
    .bin   the tokens, without anything between them

All numbers are little-endian. Format: https://github.com/NVIDIA/Megatron-LM,
megatron/core/datasets/indexed_dataset.py.
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
from .bounds import Bounds, Int64s, TokenFile, first_descent, spread
from .documents import TokenDocuments
from .files import Array, DType, Tokens

MAGIC = b"MMIDIDX\x00\x00"
"""First bytes of an `.idx` file."""

_HEADER = struct.Struct("<9sQBQQ")
_VERSION = 1
_DTYPES = {
    code: np.dtype(name)
    for code, name in enumerate(
        ("u1", "i1", "<i2", "<i4", "<i8", "<f8", "<f4", "<u2", "<u4", "<u8"), start=1
    )
}
"""Dtype of tokens for each code in an `.idx` file.

The last two codes are DeepSpeed's and fairseq's.
"""

_SAMPLED = 4096
_AT_ONCE = 1 << 20


class MegatronSource(TokenDocuments):
    """Documents of Megatron-LM's `.bin` and `.idx` files, read without conversion.

    Thread-safe, picklable, safe to fork.

    A record is a dict with one read-only array of the files' dtype, `{"tokens": array}`. It may be
    empty. The array is a view of the mapped `.bin`; or a copy, if a file is in a store or there are
    more than 4,096 files. The `.idx` has the place and length of each document. Do not change a
    file while a source uses it.

    Args:
        prefix: prefix of the files, as in Megatron's `--data-path`, such as
            `data/web_text_document`; or the path of the `.bin` or `.idx`, a glob of them, a
            directory (its `.bin` files, at any depth), or a list of these. Files of a glob or
            directory are sorted by path; a list keeps its order. Names in a directory that begin
            with `.` or `_` are left out. Documents are numbered from the first file to the last.
        sequences: True: records are the sequences of which documents consist, such as sentences.
            Default False: records are documents. In most datasets, each document has one sequence.
        name: name of the array in the record, default "tokens". None: the record is the array
            itself.
        storage_options: how files in a store are reached and cached; see
            `docs/how-to/remote-files.md`. Documents are read from the store when they are
            requested; the `.idx` is copied into the cache.
        growing: False (default), True, or a folder. If not False, more files may be added later.
            Each list of files is a numbered generation, which is recorded in
            `.headrace-generations` beside the data, or in this folder if one is passed; see
            `docs/how-to/data-that-changes.md`.
        generation: number of the generation (recorded list of files) to read, from 0. The source
            then does not look for newer files.

    Raises:
        SourceNotFoundError: a path matches no file.
        SourceError: a file is empty, cut off or of another kind; the `.idx` does not fit the
            `.bin`; a sequence belongs to no document; the sequences of a document are not
            consecutive; files have different dtypes; there are no documents.
        ValueError: `prefix` is an empty list.
        TypeError: a path is neither a string nor a `pathlib.Path`, or `name` is not a string.

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
        self._read_from(
            paths, ("*.bin",), split, name, storage_options, growing, generation, [self._unit]
        )


def _tokens_path(path: str, storage_options: StorageOptionsLike) -> str:
    """Return the path of the `.bin` file for a prefix, or for the path of an `.idx`.

    Folders and globs are unchanged.

    Args:
        path: what the user passed.
        storage_options: how files in a store are reached.
    """
    if path.endswith(".idx"):
        return _beside(path, ".bin")
    if path.endswith(".bin") or glob.has_magic(path):
        return path
    folder = file_system_of(path, storage_options_of(storage_options)).is_directory(path)
    return path if folder else f"{path}.bin"


def _beside(path: str, suffix: str) -> str:
    return os.path.splitext(path)[0] + suffix


class IndexBeside(NamedTuple):
    """Rule that finds documents by the `.idx` file beside each `.bin` file.

    Attributes:
        sequences: True: each sequence is a record. False: each document, of one or more sequences,
            is a record.
    """

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
                f"{shorten(file.path)}: its index {shorten(path)}, which Megatron writes beside "
                "it, is missing. Copy it there. To read bare tokens, use TokenSource(path, "
                "dtype=…, end_of_text=…)."
            ) from error
        tokens = file.tokens(index.dtype, may_be_empty=True)
        return tokens, SequenceBounds(index) if self.sequences else DocumentBounds(index)


class MegatronIndex(NamedTuple):
    """Content of an `.idx` file, as mapped arrays.

    Attributes:
        path: path of the file, for messages.
        dtype: dtype of the tokens.
        lengths: length of each sequence, in tokens.
        pointers: place of each sequence in the `.bin` file, in bytes.
        documents: index of the first sequence of each document; the last item is the number of
            sequences.
    """

    path: str
    dtype: DType
    lengths: Array
    pointers: Array
    documents: Array

    def sequences(self, places: Int64s) -> tuple[Array, Array]:
        """Return two arrays: for each of these sequences, its first token and the end.

        They have the index of its first token, and that after its last token.

        Args:
            places: `int64[n]`, indices of the sequences.
        """
        starts = self.pointers[places] // self.dtype.itemsize
        return starts, starts + self.lengths[places]

    def check(self, tokens: int) -> None:
        """Raise SourceError if a sequence exceeds a `.bin` file of `tokens` tokens."""
        for first in range(0, len(self.lengths), _AT_ONCE):
            places = np.arange(first, min(first + _AT_ONCE, len(self.lengths)))
            starts, stops = self.sequences(places)
            wrong = (starts < 0) | (stops < starts) | (stops > tokens)
            wrong |= self.pointers[places] % self.dtype.itemsize != 0
            if wrong.any():
                place = int(places[wrong.argmax()])
                raise SourceError(
                    f"{shorten(self.path)}: sequence {place} should be at byte "
                    f"{self.pointers[place]} with {self.lengths[place]} tokens of {self.dtype}, "
                    f"but the .bin file has {tokens}. The .bin file is cut off, or was not written "
                    "with this index. Write both files again."
                )


class SequenceBounds:
    """Bounds (beginning and end) of sequences.

    Args:
        index: content of the `.idx` file.
    """

    def __init__(self, index: MegatronIndex) -> None:
        self.of, self.check, self._index = index.sequences, index.check, index

    def __len__(self) -> int:
        return len(self._index.lengths)

    def sample(self) -> bytes:
        return _bytes(self)


class DocumentBounds:
    """Bounds (beginning and end) of documents. The sequences of a document are consecutive.

    Args:
        index: content of the `.idx` file.
    """

    def __init__(self, index: MegatronIndex) -> None:
        self._index = index

    def __len__(self) -> int:
        return len(self._index.documents) - 1

    def of(self, places: Int64s) -> tuple[Array, Array]:
        index = self._index
        first, end = index.documents[places], index.documents[places + 1]
        # a document without a sequence has no place
        starts, stops = np.zeros((2, len(places)), np.int64)
        filled = first < end
        starts[filled] = index.sequences(first[filled])[0]
        stops[filled] = index.sequences(end[filled] - 1)[1]
        return starts, stops

    def check(self, tokens: int) -> None:
        index, name = self._index, shorten(self._index.path)
        index.check(tokens)
        documents, count = index.documents, len(index.lengths)
        fall = first_descent(documents)
        if fall is not None:
            raise SourceError(
                f"{name}: document {fall} begins at sequence {documents[fall]}, but the document "
                f"before it begins at sequence {documents[fall - 1]}, so the index is damaged. "
                "Write the .bin and .idx files again with Megatron's preprocess_data.py."
            )
        if documents[0] != 0 or documents[-1] != count:
            raise SourceError(
                f"{name}: the documents go from sequence {documents[0]} to {documents[-1]}, not "
                f"from 0 to {count}, the number of sequences. The program that wrote the index did "
                "not finish its last document, or the index is damaged. Pass sequences=True to "
                "read single sequences."
            )
        for first in range(0, count - 1, _AT_ONCE):
            places = np.arange(first, min(first + _AT_ONCE + 1, count))
            starts, stops = index.sequences(places)
            apart = places[1:][starts[1:] != stops[:-1]]
            inside = apart[documents[np.searchsorted(documents, apart)] != apart]
            if len(inside):
                raise SourceError(
                    f"{name}: sequence {inside[0]} belongs to the same document as the sequence "
                    "before it, but is not next to it in the .bin file. Pass sequences=True to "
                    "read single sequences."
                )

    def sample(self) -> bytes:
        return _bytes(self)


def _bytes(bounds: Bounds) -> bytes:
    return np.stack(bounds.of(spread(len(bounds), _SAMPLED))).astype("<i8").tobytes()


def _read_index(place: str, path: str) -> MegatronIndex:
    """Return the content of an `.idx` file.

    Args:
        place: local path of the file.
        path: name of the file, for messages.

    Raises:
        SourceError: the file is cut off, or not an index of Megatron's.
    """
    with closing(open_file(place)) as file:
        head = bytes(file.read(0, min(file.size, _HEADER.size)))
    if len(head) < _HEADER.size and (head + MAGIC[len(head) :]).startswith(MAGIC):
        raise SourceError(
            f"{shorten(path)} has {len(head)} bytes, but the header of a Megatron index has "
            f"{_HEADER.size}. It is cut off, or still being written. Wait until the file is "
            "complete, or write it again."
        )
    head = head.ljust(_HEADER.size, b"\0")
    magic, version, code, sequences, documents = _HEADER.unpack(head)
    if magic != MAGIC:
        raise SourceError(
            f"{shorten(path)} is not a Megatron index: it begins with {magic!r}, not with "
            f"{MAGIC!r}. Pass a .bin file that has a Megatron index beside it."
        )
    if version != _VERSION or code not in _DTYPES:
        raise SourceError(
            f"{shorten(path)} has version {version} and dtype code {code}, but only version "
            f"{_VERSION} with codes 1 to {max(_DTYPES)} can be read. Write it with Megatron's "
            "MMapIndexedDataset."
        )
    if not documents:
        raise SourceError(
            f"{shorten(path)} is damaged: it says that it has no document offsets, but it must "
            "have at least one. Write it with Megatron's MMapIndexedDataset."
        )
    memory = map_readable(place)
    layout: list[tuple[Any, int]] = [("<i4", sequences), ("<i8", sequences), ("<i8", documents)]
    whole = _HEADER.size + sequences * 12 + documents * 8
    if len(memory) not in (whole, whole + sequences):  # with modes, or without
        raise SourceError(
            f"{shorten(path)} has {len(memory)} bytes, but {sequences} sequences in "
            f"{documents - 1} documents need {whole} bytes, or {whole + sequences} if sequences "
            "have modes. It is cut off, damaged, or still being written. Wait until the file is "
            "complete, or write it again."
        )
    arrays, start = [], _HEADER.size
    for dtype, count in layout:
        arrays.append(np.ndarray(count, dtype, memory, start))
        start += arrays[-1].nbytes
    return MegatronIndex(path, _DTYPES[code], *arrays)
