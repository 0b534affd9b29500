"""Find where documents begin and end in a file of tokens."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ...common.messages import shorten
from ...errors import SourceError, SourceNotFoundError
from ...files.urls import name_of
from ...formats.index import Index, IndexKind
from .files import Array, DType, Tokens, integers_of, offsets_path

Int64s: TypeAlias = npt.NDArray[np.int64]

_SAMPLED = 4096
"""Maximum number of documents whose places are digested for the fingerprint."""

_AT_ONCE = 1 << 20
"""Number of places that are checked at a time. All of them may not fit into memory."""


class Bounds(Protocol):
    """Protocol of the bounds (beginning and end) of all documents in one file. Thread-safe.

    Only `check` reads all bounds.
    """

    def __len__(self) -> int:
        """Return the number of documents."""
        ...

    def of(self, places: Int64s) -> tuple[Array, Array]:
        """Return two arrays: for each of these documents, its first token and the end.

        They have the index of its first token, and that after its last token.

        Args:
            places: `int64[n]`, indices of the documents in the file.
        """
        ...

    def check(self, tokens: int) -> None:
        """Raise SourceError if the bounds do not fit a file of `tokens` tokens; else do nothing.

        The message names the file.
        """
        ...

    def sample(self) -> bytes:
        """Return some of the bounds, where documents begin and end, as bytes.

        A digest of them helps to identify the file.
        """
        ...


class TokenFile(Protocol):
    """Protocol of a file of tokens; a `Split` finds its documents."""

    path: str

    def tokens(self, dtype: DType | None, may_be_empty: bool = False) -> Tokens:
        """Return the tokens of the file.

        Args:
            dtype: dtype of a raw file, which has no header; None for a `.npy` file.
            may_be_empty: True: a raw file may be empty. Default False: an empty file is an error.

        Raises:
            SourceError: the file is empty, cut off or of another kind.
        """
        ...

    def copy_of(self, path: str) -> AbstractContextManager[str]:
        """Give the path of a local copy of another file, such as a file of offsets.

        A context manager.

        For a local file, it is the file's own path.

        Raises:
            SourceNotFoundError: the file does not exist.
        """
        ...

    def index(self, kind: IndexKind, folder: str | None) -> Index:
        """Return the stored index of the file.

        If there is none, it is made by one pass over the file, and stored.

        Args:
            kind: description of the index, with the function that makes it.
            folder: folder in which it is stored; None: beside the file.
        """
        ...


class Split(Protocol):
    """Protocol of a rule that finds where documents begin in a file of tokens.

    Picklable, without open files.
    """

    def beside(self, path: str) -> str | None:
        """Return the path of the file that states where documents of the file `path` begin.

        Return None if no file does.
        """
        ...

    def open(self, file: TokenFile) -> tuple[Tokens, Bounds]:
        """Return the tokens of a file, and the bounds of its documents.

        Raises:
            SourceNotFoundError: a file is missing.
            SourceError: a file is empty, cut off or of another kind.
        """
        ...


class Offsets:
    """Bounds of consecutive documents: document k is `tokens[offsets[k]:offsets[k + 1]]`.

    Args:
        offsets: n + 1 ascending integers for n documents.
        name: name of the offsets, for messages.
        whole: True: the last document must end with the last token.
    """

    def __init__(self, offsets: Array, name: str, whole: bool = False) -> None:
        self._offsets, self._name, self._whole = offsets, name, whole

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def of(self, places: Int64s) -> tuple[Array, Array]:
        return self._offsets[places], self._offsets[places + 1]

    def check(self, tokens: int) -> None:
        offsets = self._offsets
        if not len(offsets):
            raise SourceError(
                f"{shorten(self._name)}: there are no offsets. Document k is "
                "tokens[offsets[k]:offsets[k + 1]], so n documents have n + 1 offsets. Pass or "
                "write all of them."
            )
        place = first_descent(offsets)
        if place is not None:
            raise SourceError(
                f"{shorten(self._name)}: offset {place} is {offsets[place]}, less than "
                f"{offsets[place - 1]}, the offset before it. Pass or write offsets in ascending "
                "order."
            )
        if offsets[0] < 0 or offsets[-1] > tokens:
            raise SourceError(
                f"{shorten(self._name)}: the offsets go from {offsets[0]} to {offsets[-1]}, but "
                f"there are {tokens} tokens. Pass or write offsets from 0 to {tokens}, counted in "
                "tokens, not in bytes."
            )
        if self._whole and offsets[-1] != tokens:
            raise SourceError(
                f"{shorten(self._name)}: the documents end at token {offsets[-1]}, but there are "
                f"{tokens} tokens, so the two files were not written together. Write both files "
                "again."
            )

    def sample(self) -> bytes:
        return self._offsets[spread(len(self._offsets), _SAMPLED)].astype("<i8").tobytes()


class OffsetsBeside(NamedTuple):
    """Rule that finds documents by the offsets in a file beside each file of tokens.

    `TokenWriter` writes such files.

    Attributes:
        raw: dtype of raw files of tokens; None: all are `.npy` files.
    """

    raw: DType | None

    def beside(self, path: str) -> str | None:
        return offsets_path(path)

    def open(self, file: TokenFile) -> tuple[Tokens, Bounds]:
        tokens, path = file.tokens(self.raw), offsets_path(file.path)
        try:
            with file.copy_of(path) as copy:
                return tokens, Offsets(integers_of(copy, path), path, whole=True)
        except SourceNotFoundError as error:
            name = shorten(name_of(path), 80)
            raise SourceError(  # the file itself was found
                f"{shorten(file.path)}: it is unknown where its records begin, because {name} is "
                "missing, which TokenWriter and headrace.convert write beside it. Copy it there. "
                "For tokens, TokenSource also takes offsets=, end_of_text=, begin_of_text= or "
                "document_length=."
            ) from error


class OffsetsGiven(NamedTuple):
    """Rule that finds the documents of one file by offsets that the user passes.

    Attributes:
        offsets: the offsets, as an array or as the path of a file.
        raw: dtype of raw files of tokens; None: all are `.npy` files.
    """

    offsets: str | Array
    raw: DType | None

    def beside(self, path: str) -> str | None:
        return self.offsets if isinstance(self.offsets, str) else None

    def open(self, file: TokenFile) -> tuple[Tokens, Bounds]:
        tokens = file.tokens(self.raw)
        if not isinstance(self.offsets, str):
            return tokens, Offsets(self.offsets, f"{file.path} with offsets=")
        with file.copy_of(self.offsets) as copy:
            return tokens, Offsets(integers_of(copy, self.offsets), self.offsets)


class OneLength(NamedTuple):
    """Rule that divides a file into documents of one length.

    Tokens that remain at the end of a file are dropped.

    Attributes:
        length: number of tokens of each document.
        raw: dtype of raw files of tokens; None: all are `.npy` files.
    """

    length: int
    raw: DType | None

    def beside(self, path: str) -> str | None:
        return None

    def open(self, file: TokenFile) -> tuple[Tokens, Bounds]:
        tokens = file.tokens(self.raw)
        return tokens, Offsets(np.arange(0, len(tokens) + 1, self.length), file.path)


def first_descent(values: Array) -> int | None:
    """Return the index of the first number that is less than its predecessor; None if all ascend.

    >>> first_descent(np.array([0, 3, 3, 2]))
    3
    """
    for first in range(0, len(values) - 1, _AT_ONCE):
        some = values[first : first + _AT_ONCE + 1]
        falls = some[1:] < some[:-1]
        if falls.any():
            return first + int(falls.argmax()) + 1
    return None


def spread(count: int, most: int) -> Int64s:
    """Return at most `most` of the numbers 0 to `count - 1`, spread evenly, with first and last."""
    places = np.arange(min(count, most), dtype=np.int64)
    return places if count <= most else places * (count - 1) // (most - 1)
