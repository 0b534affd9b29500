"""Documents in files of tokens: `TokenWriter`'s, and those of others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...common.messages import first_few, short_repr
from ...common.validation import whole_number
from ...files.paths import PathLike, Paths, text_of
from ...files.storage_options import StorageOptionsLike
from .bounds import OffsetsBeside, OffsetsGiven, OneLength, Split
from .documents import DocumentSource
from .files import Array, DType, integer_dtype

_PATTERNS = ("*.npy",)
"""The files of a directory that count."""


class TokenSource(DocumentSource):
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

    _beside = (".offsets", ".unfinished")

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
        raw = None if dtype is None else integer_dtype(dtype)
        split = _split(offsets, document_length, raw)
        self._settles = raw is not None
        kind = [document_length, str(raw)] if document_length else None
        if offsets is not None and (growing is not False or generation is not None):
            raise ValueError("offsets= are those of one file, and growing= is for several; give each <path>.offsets.")
        self._read_from(paths, _PATTERNS, split, name, storage_options, growing, generation, kind)

    def _check_paths(self, paths: Sequence[str]) -> None:
        if isinstance(self._split, OffsetsGiven) and len(paths) > 1:
            raise ValueError(
                f"offsets= are those of one file, and there are {len(paths)}: {first_few(paths)}; give each its own, "
                "in <path>.offsets."
            )

    def _why_none(self) -> str:
        if not isinstance(self._split, OneLength):
            return ""
        tokens = sum(file.token_count for file in self._files)
        return f": {tokens} tokens are less than one document of document_length={self._split.length} in each file."


def _split(offsets: Any, document_length: int | None, raw: DType | None) -> Split:
    if document_length is None:
        return OffsetsBeside(raw) if offsets is None else OffsetsGiven(_offsets(offsets), raw)
    if offsets is not None:
        raise ValueError("offsets= and document_length= both say where documents begin; pass one of them.")
    return OneLength(whole_number("document_length", document_length, 1, None, "a number of tokens, such as 1024"), raw)


def _offsets(offsets: Any) -> str | Array:
    if isinstance(offsets, (str, bytes, os.PathLike)):
        return text_of(offsets)
    array = np.asarray(offsets).view()
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise TypeError(f"offsets={short_repr(offsets)} must be integers with one axis: n + 1 of them for n documents.")
    array.flags.writeable = False
    return array
