"""Write documents to a file of tokens and a file of offsets, for `TokenSource`.

Both are written under temporary names. When all bytes are on disk, the files are renamed: first the
offsets, which no source reads without tokens, and then the tokens.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ...common.messages import a_kind_of, short_repr, shorten
from ...common.validation import array_of
from ...errors import ClosedError
from ...files.paths import PathLike, text_of
from ...files.whole_files import WholeFile
from .files import MAGIC, Array, integer_dtype, offsets_path

_HEADER_BYTES = 128
"""Size of the header in bytes.

The format asks for a multiple of 64; 128 suffice for any number of values.
"""

_OFFSET = struct.Struct("<q")
_OFFSET_DTYPE = np.dtype("<i8")


class TokenWriter:
    """Write documents of tokens to one file, for `TokenSource`.

    The file appears when it is complete.

    `<path>` is a `.npy` file with the tokens of all documents, and `<path>.offsets` has n + 1
    integers for n documents: document k is `tokens[offsets[k]:offsets[k + 1]]`. Both files appear
    when the writer is closed, `<path>` last. If the block of a `with` statement ends with an
    exception, no file is left. If the process is killed, files whose names end in `.unfinished` may
    be left. The writer needs a few MB of memory, however much is written.

    Args:
        path: path of the file. It must end in `.npy`, and must not exist. Missing folders are
            created.
        dtype: integer type of the tokens, default `np.uint32`. `np.uint16` takes half the space,
            and is enough for 65,536 different tokens.
        may_be_empty: True: allow a file without documents, for a source on several files. Default
            False: `close` raises ValueError if no document was written.

    Raises:
        ValueError: the path does not end in `.npy`.
        TypeError: `path` is not a path, or `dtype` is not an integer type.
        FileExistsError: the path exists.
        OSError: the file system reports an error, in the constructor or while writing.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with TokenWriter(pathlib.Path(folder, "train.npy"), dtype=np.uint16) as writer:
    ...         writer.append([1, 2, 3])
    ...         writer.extend([[], np.array([4, 5])])
    ...     tokens = np.load(pathlib.Path(folder, "train.npy"))
    ...     offsets = np.load(pathlib.Path(folder, "train.npy.offsets"))
    >>> tokens, offsets
    (array([1, 2, 3, 4, 5], dtype=uint16), array([0, 3, 3, 5]))
    """

    _path: str
    _dtype: np.dtype[Any]
    _parts: tuple[_NpyFile, _NpyFile] | None = None
    """Files of tokens and offsets; None after `close` or `discard`."""

    def __init__(
        self, path: PathLike, dtype: npt.DTypeLike = np.uint32, *, may_be_empty: bool = False
    ) -> None:
        self._path, self._dtype, self._may_be_empty = (
            text_of(path),
            integer_dtype(dtype),
            may_be_empty,
        )
        if not self._path.endswith(".npy"):
            raise ValueError(
                f"path={short_repr(self._path)} does not end in .npy, the format that is written. "
                "Pass a path that does."
            )
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
            TypeError: the tokens are not integers, or do not have one axis.
            ValueError: a token does not fit the dtype. Nothing is written, and the writer stays
                usable.
            ClosedError: the writer was closed.
            OSError: the file system reports an error. The unfinished files are removed.
        """
        if self._parts is None:
            raise ClosedError(
                f"the writer of {shorten(self._path)} was closed, or ended by an error. Make a new "
                "TokenWriter, with another path if this file exists."
            )
        values = _fitting(tokens, self._dtype)
        written, offsets = self._parts
        try:
            written.write(values.data, len(values))
            offsets.write(_OFFSET.pack(written.count), 1)
        except BaseException:  # a half of this document may be there
            self.discard()
            raise

    def extend(self, documents: Iterable[npt.ArrayLike]) -> None:
        """Write many documents, each as `append` does.

        Raises:
            TypeError: the tokens of a document are not integers, or do not have one axis. Documents
                before it are written.
            ValueError: a token does not fit the dtype. Documents before it are written.
            ClosedError: the writer was closed.
            OSError: the file system reports an error; nothing is kept.
        """
        for document in documents:
            self.append(document)

    def close(self) -> None:
        """Complete the files, and rename them to their final names. May be called twice.

        After an error, the unfinished files are removed.

        Raises:
            ValueError: no document was written, and `may_be_empty` is False.
            FileExistsError: another process has created `path` meanwhile.
            OSError: the file system reports an error.
        """
        if self._parts is None:
            return
        tokens, offsets = self._parts
        try:
            if offsets.count == 1 and not self._may_be_empty:
                raise ValueError(
                    f"{shorten(self._path)}: no document was written, but a source needs at least "
                    "one. Write a document, or pass may_be_empty=True if another file of the "
                    "source has some."
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
        """Remove the unfinished files. Does nothing after `close`."""
        parts, self._parts = self._parts, None
        for part in parts or ():
            part.discard()

    def _check_free(self) -> None:
        if os.path.lexists(self._path):
            raise FileExistsError(
                f"{shorten(self._path)} exists already. Remove it, or write to another path."
            )

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
    """`.npy` file of an array with one axis, while it is written.

    Args:
        path: path under which the file appears.
        dtype: dtype of the array.
    """

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
        fields = (
            f"{{'descr': {self._dtype.str!r}, 'fortran_order': False, 'shape': ({self.count},), }}"
        )
        start = MAGIC + b"\x01\x00" + (_HEADER_BYTES - 10).to_bytes(2, "little")
        return start + fields.encode().ljust(_HEADER_BYTES - 11) + b"\n"


def _fitting(tokens: npt.ArrayLike, dtype: np.dtype[Any]) -> Array:
    array = _one_axis(tokens)
    if array.dtype != dtype and not np.can_cast(array.dtype, dtype):
        limits, least, largest = (
            np.iinfo(dtype),
            int(array.min(initial=0)),
            int(array.max(initial=0)),
        )
        if not limits.min <= least <= largest <= limits.max:
            wrong = least if least < limits.min else largest
            raise ValueError(
                f"token {wrong} does not fit {dtype}, which holds {limits.min} to {limits.max}. "
                "Pass a dtype= that holds it to TokenWriter."
            )
    return np.ascontiguousarray(array, dtype)


def _one_axis(tokens: Any) -> Array:
    array = array_of(tokens)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(
            "a document must be integers with one axis, of at most 64 bits, not "
            f"{a_kind_of(tokens)} ({short_repr(tokens)}). Turn text into tokens first "
            "(np.frombuffer(text.encode(), np.uint8) for bytes), and write several documents with "
            "extend."
        )
    return array if array.size else np.empty(0, np.uint8)
