"""In: documents, one after the other. Out: a file of tokens and its offsets, for `TokenSource`: whole, or not there at all.

Both are written under names of their own, with no more memory than a buffer each. When all is on the disk they get their names:
the offsets first, which say nothing by themselves, and then the tokens.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ...common.messages import short_repr, shorten
from ...errors import ClosedError
from ...files.paths import PathLike, text_of
from ...files.whole_files import WholeFile
from .files import MAGIC, Array, integer_dtype, offsets_path

_HEADER_BYTES = 128
"""A multiple of 64, as the format asks for, with room for any number of values."""

_OFFSET = struct.Struct("<q")
_OFFSET_DTYPE = np.dtype("<i8")


class TokenWriter:
    """Writes documents of tokens into one file, for `TokenSource`: whole, or not at all.

    `<path>` is a `.npy` file with the tokens of all documents, and `<path>.offsets` one with n + 1 numbers for n documents:
    document k is `tokens[offsets[k]:offsets[k + 1]]`. They appear when the writer is closed, the one at `path` last. A
    writer that was killed leaves at most files whose names end in `.unfinished`. Where the block of a `with` ends in an
    exception, nothing is left. It takes a few MB of memory, however much is written.

    Args:
        path: ends in `.npy`; nothing is there yet. Folders above it are made.
        dtype: of the tokens, an integer type, default `np.uint32`. `np.uint16` takes half the space, and is enough for
            65,536 different tokens.
        may_be_empty: whether it may be closed without any document, for a source on several files. Default: that is an error.

    Raises:
        ValueError: the path does not end in `.npy`.
        TypeError: the path is none, or `dtype` is no integer type.
        FileExistsError: there is a file at `path`.
        OSError: as the file system says, here and when writing.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with TokenWriter(pathlib.Path(folder, "train.npy"), dtype=np.uint16) as writer:
    ...         writer.append([1, 2, 3])
    ...         writer.extend([[], np.array([4, 5])])
    ...     np.load(pathlib.Path(folder, "train.npy")), np.load(pathlib.Path(folder, "train.npy.offsets"))
    (array([1, 2, 3, 4, 5], dtype=uint16), array([0, 3, 3, 5]))
    """

    _path: str
    _dtype: np.dtype[Any]
    _parts: tuple[_NpyFile, _NpyFile] | None = None
    """Tokens and offsets; None after the end."""

    def __init__(self, path: PathLike, dtype: npt.DTypeLike = np.uint32, *, may_be_empty: bool = False) -> None:
        self._path, self._dtype, self._may_be_empty = text_of(path), integer_dtype(dtype), may_be_empty
        if not self._path.endswith(".npy"):
            raise ValueError(f"path={short_repr(self._path)} must end in .npy, which is the format that is written.")
        self._check_free()
        os.makedirs(os.path.dirname(self._path) or ".", exist_ok=True)
        tokens = _NpyFile(self._path, self._dtype)
        try:
            offsets = _NpyFile(offsets_path(self._path), _OFFSET_DTYPE)
        except BaseException:
            tokens.discard()
            raise
        self._parts = tokens, offsets
        offsets.write(_OFFSET.pack(0), 1)

    def append(self, tokens: npt.ArrayLike) -> None:
        """Write one document: integers with one axis, as an array or a list. It may be empty.

        Raises:
            TypeError: they are no integers, or have not one axis.
            ValueError: a token does not fit the dtype. Nothing was written, and the writer goes on.
            ClosedError: the writer was closed.
        """
        if self._parts is None:
            raise ClosedError(f"the writer of {shorten(self._path)} was closed; make a new one, with another path.")
        values = _fitting(tokens, self._dtype)
        written, offsets = self._parts
        try:
            written.write(values.data, len(values))
            offsets.write(_OFFSET.pack(written.count), 1)
        except BaseException:  # a half of this document may be there
            self.discard()
            raise

    def extend(self, documents: Iterable[npt.ArrayLike]) -> None:
        """Write many documents; raises as `append` does."""
        for document in documents:
            self.append(document)

    def close(self) -> None:
        """Have the files appear, whole and on the disk. May be called twice.

        Raises:
            ValueError: no document was written.
            FileExistsError: there is a file at `path` meanwhile.
        """
        if self._parts is None:
            return
        tokens, offsets = self._parts
        try:
            if offsets.count == 1 and not self._may_be_empty:
                raise ValueError(
                    f"{shorten(self._path)}: no document was written; a source needs at least one, in any of its files "
                    "(may_be_empty=True)."
                )
            self._check_free()
            tokens.finish()
            offsets.finish()
            offsets.appear()
            tokens.appear()
        except BaseException:
            self.discard()
            raise
        self._parts = None

    def discard(self) -> None:
        """Remove what was written; no file appears. After `close` it does nothing."""
        parts, self._parts = self._parts, None
        for part in parts or ():
            part.discard()

    def _check_free(self) -> None:
        if os.path.lexists(self._path):
            raise FileExistsError(f"{shorten(self._path)} is there already; remove it, or write to another path.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        self.discard()


class _NpyFile(WholeFile):
    """A `.npy` file with one axis, in the making."""

    def __init__(self, path: str, dtype: np.dtype[Any]) -> None:
        super().__init__(path)
        self._dtype, self.count = dtype, 0
        self.file.write(self._header())

    def write(self, values: bytes | memoryview, count: int) -> None:
        self.file.write(values)
        self.count += count

    def finish(self) -> None:
        self.file.seek(0)
        self.file.write(self._header())
        super().finish()

    def _header(self) -> bytes:
        fields = f"{{'descr': {self._dtype.str!r}, 'fortran_order': False, 'shape': ({self.count},), }}"
        start = MAGIC + b"\x01\x00" + (_HEADER_BYTES - 10).to_bytes(2, "little")
        return start + fields.encode().ljust(_HEADER_BYTES - 11) + b"\n"


def _fitting(tokens: npt.ArrayLike, dtype: np.dtype[Any]) -> Array:
    array = _one_axis(tokens)
    if array.dtype != dtype and not np.can_cast(array.dtype, dtype):
        limits, least, largest = np.iinfo(dtype), int(array.min(initial=0)), int(array.max(initial=0))
        if not limits.min <= least <= largest <= limits.max:
            wrong = least if least < limits.min else largest
            raise ValueError(
                f"the token {wrong} does not fit {dtype}, {limits.min} to {limits.max}; pass a wider dtype= to TokenWriter."
            )
    return np.ascontiguousarray(array, dtype)


def _one_axis(tokens: Any) -> Array:
    try:
        array = np.asarray(tokens)
    except ValueError:  # lists in lists, of unequal length
        array = np.empty((), object)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(
            f"a document must be integers with one axis, not {type(tokens).__name__} ({short_repr(tokens)}); make tokens of "
            "text first (np.frombuffer(text.encode(), np.uint8) for bytes), and write several documents with extend."
        )
    return array if array.size else np.empty(0, np.uint8)
