"""The beginnings and ends of documents in a file of tokens. In: numbers of documents. Out: the tokens that they are."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ...common.messages import shorten
from ...errors import SourceError, SourceNotFoundError
from ...formats.index import Index, IndexKind
from .files import Array, DType, Tokens, integers_of, offsets_path

Int64s: TypeAlias = npt.NDArray[np.int64]

_LOOKED_AT = 4096
"""So many places of documents tell two files apart."""

_AT_ONCE = 1 << 20
"""Places that are checked at a time: there may be more of them than the memory holds."""


class Bounds(Protocol):
    """The bounds of all documents of one file. Thread-safe; nothing but `check` reads all of them."""

    def __len__(self) -> int:
        """The number of documents."""
        ...

    def of(self, places: Int64s) -> tuple[Array, Array]:
        """The first token of each of these documents, and the one after its last."""
        ...

    def check(self, tokens: int) -> None:
        """Raise SourceError, which names the file, unless they fit a file of so many tokens."""
        ...

    def looked_at(self) -> bytes:
        """Some of them: what tells them from those of other files."""
        ...


class TokenFile(Protocol):
    """A file of tokens that is to be opened."""

    path: str

    def tokens(self, dtype: DType | None, may_be_empty: bool = False) -> Tokens:
        """Its tokens; `dtype`: of a raw file, which may have none."""
        ...

    def copy_of(self, path: str) -> AbstractContextManager[str]:
        """A file beside it, on this machine."""
        ...

    def index(self, kind: IndexKind, folder: str | None) -> Index:
        """The index that going through it makes; it is kept."""
        ...


class Split(Protocol):
    """A way to tell where documents begin. Picklable: it holds no file."""

    def beside(self, path: str) -> str | None:
        """The file that tells it of the tokens at `path`, if there is one."""
        ...

    def open(self, file: TokenFile) -> tuple[Tokens, Bounds]:
        """The tokens of a file, and the bounds of its documents.

        Raises:
            SourceNotFoundError: a file is missing.
            SourceError: a file is empty, cut off or something else.
        """
        ...


class Offsets:
    """Documents that follow each other: document k is `tokens[offsets[k]:offsets[k + 1]]`.

    Args:
        offsets: n + 1 ascending integers.
        name: of them, for messages.
        whole: they tell of all tokens.
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
                f"{shorten(self._name)}: there are no offsets; document k is tokens[offsets[k]:offsets[k + 1]], so that n "
                "documents have n + 1."
            )
        place = first_fall(offsets)
        if place is not None:
            raise SourceError(
                f"{shorten(self._name)}: offset {place} is {offsets[place]}, less than the {offsets[place - 1]} before it; "
                "offsets must ascend."
            )
        if offsets[0] < 0 or offsets[-1] > tokens:
            raise SourceError(
                f"{shorten(self._name)}: the offsets go from {offsets[0]} to {offsets[-1]}, but there are {tokens} tokens; "
                "they count tokens, not bytes, and belong to one file."
            )
        if self._whole and offsets[-1] != tokens:
            raise SourceError(
                f"{shorten(self._name)}: the documents end at token {offsets[-1]}, but there are {tokens} tokens; the two "
                "files belong to different runs. Write both anew."
            )

    def looked_at(self) -> bytes:
        return self._offsets[spread(len(self._offsets), _LOOKED_AT)].astype("<i8").tobytes()


class OffsetsBeside(NamedTuple):
    """Each file of tokens has its offsets beside it, as `TokenWriter` writes them."""

    raw: DType | None

    def beside(self, path: str) -> str | None:
        return offsets_path(path)

    def open(self, file: TokenFile) -> tuple[Tokens, Bounds]:
        tokens, path = file.tokens(self.raw), offsets_path(file.path)
        try:
            with file.copy_of(path) as copy:
                return tokens, Offsets(integers_of(copy, path), path, whole=True)
        except SourceNotFoundError as error:
            raise SourceError(  # the file itself was found
                f"{shorten(file.path)}: where do documents begin? There is no file {shorten(path)}, which TokenWriter writes; "
                "pass offsets=, end_of_text=, or document_length= for documents of one length."
            ) from error


class OffsetsGiven(NamedTuple):
    """The offsets of one file, in an array or in a file of the user's."""

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
    """Documents of one length; what remains at the end is left out."""

    length: int
    raw: DType | None

    def beside(self, path: str) -> str | None:
        return None

    def open(self, file: TokenFile) -> tuple[Tokens, Bounds]:
        tokens = file.tokens(self.raw)
        return tokens, Offsets(np.arange(0, len(tokens) + 1, self.length), file.path)


def first_fall(values: Array) -> int | None:
    """The place of the first number that is less than the one before it.

    >>> first_fall(np.array([0, 3, 3, 2]))
    3
    """
    for first in range(0, len(values) - 1, _AT_ONCE):
        some = values[first : first + _AT_ONCE + 1]
        falls = some[1:] < some[:-1]
        if falls.any():
            return first + int(falls.argmax()) + 1
    return None


def spread(count: int, most: int) -> Int64s:
    """At most so many of the first `count` places, the first and the last among them."""
    return np.unique(np.arange(most, dtype=np.int64) * (count - 1) // (most - 1)) if count else np.empty(0, np.int64)
