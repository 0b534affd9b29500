"""Find documents in files of bare tokens by a marker token that ends or begins each document.

Each file is searched once. The result is stored beside it (`formats/index.py`), and is made again
if the file was modified.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...common.messages import shorten
from ...common.validation import warn
from ...files.opened import OpenFile
from ...formats.index import SUFFIX, FoundRecords, IndexKind, ascends
from .bounds import Bounds, Int64s, Offsets, TokenFile
from .files import DType, Tokens, layout_of

_BYTES_AT_ONCE = 16 << 20


class MarkedByToken(NamedTuple):
    """Rule that finds documents by a marker token, which ends or begins each document.

    Attributes:
        token: the ID of the token.
        begins: True if the token is the first of its document; False if it is the last.
        raw: dtype of raw files of tokens; None: all are `.npy` files.
        index_dir: folder in which the places of documents are stored; None: beside each file.
    """

    token: int
    begins: bool
    raw: DType | None
    index_dir: str | None

    @property
    def argument(self) -> str:
        """The user's argument that chose this split, such as "end_of_text=50256"; for messages."""
        return f"{'begin' if self.begins else 'end'}_of_text={self.token}"

    def beside(self, path: str) -> str | None:
        return None

    def open(self, file: TokenFile) -> tuple[Tokens, Bounds]:
        tokens = file.tokens(self.raw)
        dtype, count = tokens.dtype, len(tokens)
        limits = np.iinfo(dtype)
        if not limits.min <= self.token <= limits.max:
            raise ValueError(
                f"{self.argument} is not a token of {shorten(file.path)}: its tokens have dtype "
                f"{dtype}, so they are from {limits.min} to {limits.max}. Pass the ID of a token."
            )

        def fits(found: FoundRecords, size: int) -> bool:
            return ascends(found.arrays["offsets"], found.count + 1, count, 1)

        said = f"{self.argument}, {dtype.str}"
        suffix = f".{'from' if self.begins else 'to'}-{self.token}{SUFFIX}"
        kind = IndexKind(f"documents by {said}", self._find, {"offsets": ("<i8", ())}, fits, suffix)
        return tokens, Offsets(
            file.index(kind, self.index_dir).arrays["offsets"], file.path, whole=True
        )

    def _find(self, file: OpenFile) -> FoundRecords:
        layout = layout_of(file, file.path, self.raw)
        size, at_once = layout.dtype.itemsize, _BYTES_AT_ONCE // layout.dtype.itemsize
        marks: list[Int64s] = []
        for first in range(0, layout.length, at_once):
            data = file.read(
                layout.start + first * size, min(at_once, layout.length - first) * size
            )
            marks.append(np.flatnonzero(np.frombuffer(data, layout.dtype) == self.token) + first)
        found = np.concatenate([np.empty(0, np.int64), *marks])
        if not len(found) and layout.length:
            warn(
                f"{shorten(file.path)}: {self.argument} is nowhere among its {layout.length} "
                "tokens, so the file is one document. Pass the ID that your tokenizer has for this "
                "token."
            )
        offsets = np.unique(
            np.concatenate([[0], found if self.begins else found + 1, [layout.length]])
        )
        return FoundRecords(len(offsets) - 1, {"offsets": offsets})
