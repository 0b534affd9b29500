"""Source of documents in files of tokens, which `TokenWriter` or other programs write."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from ...common.messages import first_few, short_repr
from ...common.validation import array_of, whole_number
from ...files.paths import PathLike, Paths, text_of
from ...files.storage_options import StorageOptionsLike
from ...formats.index import SUFFIX
from .bounds import OffsetsBeside, OffsetsGiven, OneLength, Split
from .documents import TokenDocuments
from .ended import MarkedByToken
from .files import Array, DType, integer_dtype

_PATTERNS = ("*.npy",)
"""Patterns of the files that are read from a directory."""


class TokenSource(TokenDocuments):
    """Documents of tokens, as slices of files that are mapped into memory.

    Thread-safe, picklable, safe to fork.

    A record is a dict with one read-only array of the files' dtype, `{"tokens":
    tokens[start:stop]}`. It may be empty. Nothing is copied, unless a file is in a store or there
    are more than 4,096 files. Memory does not grow with the files. `TokenWriter` and
    `headrace.convert` write such files; files of other programs can be read, too. Do not change a
    file while a source uses it: write new versions under new names.

    Args:
        paths: `.npy` files with an integer array of one axis, or raw files of integers: a path, a
            glob, a directory (its `*.npy` files, at any depth) or a list of these. Files of a glob
            or directory are sorted by path; a list keeps its order. Names in a directory that begin
            with `.` or `_` are left out. Documents are numbered from the first file to the last.
        offsets: where documents begin: n + 1 ascending integers for n documents; document k is
            `tokens[offsets[k]:offsets[k + 1]]`. An array, or the path of a `.npy` file, for one
            file of tokens. Default: each file of tokens has its offsets in the file
            `<path>.offsets`.
        dtype: dtype of a raw file, such as `np.uint16`. Not needed for a `.npy` file.
        document_length: length of all documents, in tokens; instead of `offsets`. Tokens that
            remain at the end of a file are dropped.
        end_of_text: ID of the token that ends each document, such as GPT-2's 50256; instead of
            `offsets`. This token is the last one of its document. Tokens after the last
            `end_of_text` are a document, too. Each file is searched once. The result is stored in
            `<path>.to-<ID>.headrace-index`, until the file is modified.
        begin_of_text: ID of the token that begins each document; instead of `offsets`. Tokens
            before the first `begin_of_text` are a document, too. The result is stored in
            `<path>.from-<ID>.headrace-index`.
        index_dir: folder in which these results are stored. Default: beside the file, or in the
            user's cache folder if the file is in a store or its folder is read-only.
        name: name of the array in the record, default "tokens". None: the record is the array
            itself.
        storage_options: how files in a store are reached and cached; see
            `docs/how-to/remote-files.md`. Documents are read from the store when they are
            requested; offsets are copied into the cache.
        growing: False (default), True, or a folder. If not False, more files may be added later.
            Each list of files is a numbered generation, which is recorded in
            `.headrace-generations` beside the data, or in this folder if one is passed; see
            `docs/how-to/data-that-changes.md`.
        generation: number of the generation to read, from 0. The source then does not look for
            newer files.

    Raises:
        SourceNotFoundError: a path matches no file.
        SourceError: a file is empty, cut off or of another kind; the offsets do not ascend, or
            exceed the last token; files have different dtypes; there are no documents.
        ValueError: two of `offsets`, `document_length`, `end_of_text` and `begin_of_text` are
            given; `offsets` is given for several files or with `growing`; `document_length` is less
            than 1; a token does not fit the dtype; or `paths` is an empty list.
        TypeError: a path is neither a string nor a `pathlib.Path`, `dtype` is not an integer type,
            `name` is not a string, or `offsets`, `document_length` or a token is not an integer.

    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from headrace import TokenWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, documents in {"a.npy": [[1, 2, 3], [4, 5]], "b.npy": [[6]]}.items():
    ...         with TokenWriter(pathlib.Path(folder, name), dtype=np.uint16) as writer:
    ...             writer.extend(documents)
    ...     with TokenSource(folder) as source:
    ...         print(source[1], source.lengths)
    {'tokens': array([4, 5], dtype=uint16)} {'tokens': array([3, 2, 1])}
    """

    _beside = (".offsets", ".unfinished", SUFFIX)

    def __init__(
        self,
        paths: Paths,
        offsets: PathLike | npt.ArrayLike | None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        document_length: int | None = None,
        end_of_text: int | None = None,
        begin_of_text: int | None = None,
        index_dir: PathLike | None = None,
        name: str | None = "tokens",
        storage_options: StorageOptionsLike = None,
        growing: bool | PathLike = False,
        generation: int | None = None,
    ) -> None:
        raw = None if dtype is None else integer_dtype(dtype)
        given = {
            "offsets": offsets,
            "document_length": document_length,
            "end_of_text": end_of_text,
            "begin_of_text": begin_of_text,
        }
        split = _split(
            {name: value for name, value in given.items() if value is not None}, raw, index_dir
        )
        self._settles = raw is not None
        how = document_length or (split.argument if isinstance(split, MarkedByToken) else None)
        kind = [how, str(raw)] if how else None
        if offsets is not None and (growing is not False or generation is not None):
            raise ValueError(
                "offsets= belongs to a single file, but growing= and generation= are for several "
                "files. Write the offsets of each file to <path>.offsets, and leave offsets= out."
            )
        self._read_from(paths, _PATTERNS, split, name, storage_options, growing, generation, kind)

    def _check_paths(self, paths: Sequence[str]) -> None:
        if isinstance(self._split, OffsetsGiven) and len(paths) > 1:
            raise ValueError(
                f"offsets= belongs to a single file, but there are {len(paths)} files: "
                f"{first_few(paths)}. Write the offsets of each file to <path>.offsets, and leave "
                "offsets= out."
            )

    def _why_none(self) -> str:
        if not isinstance(self._split, OneLength):
            return super()._why_none()
        tokens, length = self._token_counts.sum(), self._split.length
        return (
            f"Each has fewer tokens than document_length={length} ({tokens} in all). Pass a "
            "smaller document_length=, or other files"
        )


def _split(given: dict[str, Any], raw: DType | None, index_dir: PathLike | None) -> Split:
    """Return the rule that finds documents, as the user's arguments choose it.

    Args:
        given: by name, the arguments that say where documents begin and are not None.
        raw: dtype of raw files, or None.
        index_dir: folder for indices, or None.

    Raises:
        ValueError: more than one argument is given, or a value is out of range.
    """
    if not given:
        return OffsetsBeside(raw)
    (name, value), *more = given.items()
    if more:
        raise ValueError(
            f"{name}= and {more[0][0]}= both say where documents begin. Pass only one of them."
        )
    if name == "offsets":
        return OffsetsGiven(_offsets(value), raw)
    if name == "document_length":
        return OneLength(
            whole_number(name, value, 1, None, "a number of tokens, such as 1024"), raw
        )
    token = whole_number(name, value, -(2**63), 2**64 - 1, "the ID of a token, such as 50256")
    return MarkedByToken(
        token, name == "begin_of_text", raw, None if index_dir is None else text_of(index_dir)
    )


def _offsets(offsets: Any) -> str | Array:
    if isinstance(offsets, (str, bytes, os.PathLike)):
        return text_of(offsets)
    array = array_of(offsets).view()
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise TypeError(
            f"offsets={short_repr(offsets)} must be integers with one axis. Pass an array with n + "
            "1 offsets for n documents."
        )
    array.flags.writeable = False
    return array
