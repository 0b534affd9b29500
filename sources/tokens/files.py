"""Read and map files of integers with one axis: `.npy` files, and raw files without a header.

Format of `.npy`: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ...common.messages import remedy_for, short_repr, shorten
from ...errors import SourceError
from ...files.mmap_files import map_readable
from ...files.opened import OpenFile, open_file
from ...formats.npy import read_header

Array: TypeAlias = npt.NDArray[Any]
DType: TypeAlias = np.dtype[Any]

MAGIC = b"\x93NUMPY"
"""First bytes of a `.npy` file."""

_HEADER_BYTES = 1 << 14
"""Maximum size of the header of an array with one axis, in bytes."""


# Matching takes 3 µs, parsing the header as Python 80 µs.
_PLAIN_HEADER = re.compile(
    MAGIC
    + rb"\x01\x00..{'descr': '([<>|][iu][1248])', "
    + rb"'fortran_order': False, 'shape': \((\d+),\), } *\n",
    re.DOTALL,
)
"""Pattern of the header that NumPy writes for an integer array with one axis."""

_FEW_BYTES = 1 << 16


def offsets_path(path: str) -> str:
    """Return the default path of the offsets of the file of tokens at `path`.

    >>> offsets_path("train.npy")
    'train.npy.offsets'
    """
    return f"{path}.offsets"


def integer_dtype(dtype: Any) -> DType:
    """Return `dtype` as a NumPy dtype, after a check that it is an integer type.

    Raises:
        TypeError: `dtype` is not an integer type.

    >>> integer_dtype("uint16")
    dtype('uint16')
    """
    try:
        found: DType = np.dtype(dtype)
    except TypeError:
        found = np.dtype(object)
    if found.kind not in "iu":
        raise TypeError(
            f"dtype={short_repr(dtype)} is not an integer type. Pass the type of the tokens, such "
            "as np.uint16."
        )
    return found


def map_npy(path: str, name: str, remedy: str) -> np.memmap[Any, Any]:
    """Map the array in a `.npy` file, read-only.

    Args:
        path: local path of the file.
        name: name of the file in messages.
        remedy: what to save in place of a damaged file, as an imperative sentence without the
            period, for messages.

    Raises:
        FileNotFoundError: the file does not exist.
        SourceError: it is not a `.npy` file, is cut off, or contains Python objects.
    """
    with _npy_errors(name, remedy):
        found = np.load(path, mmap_mode="r")
    if isinstance(found, np.memmap):
        return found
    found.close()
    raise SourceError(
        f"{shorten(name)} is an archive of arrays (.npz). Save each array with np.save, and pass "
        "these .npy files."
    )


@contextmanager
def _npy_errors(name: str, remedy: str) -> Iterator[None]:
    """Turn errors about the content of a `.npy` file into a SourceError with the file's `name`.

    A context manager.

    FileNotFoundError, MemoryError and SourceError pass unchanged.
    """
    try:
        with _HEADERS:
            yield
    except (FileNotFoundError, SourceError):
        raise
    except OSError as error:
        raise SourceError(
            f"{shorten(name)} cannot be read: {shorten(error)}. "
            f"{remedy_for(error, 'Check the file and its permissions')}."
        ) from error
    except MemoryError:
        raise
    # besides ValueError, errors of Python's parser, which reads the header, and overflows
    except Exception as error:
        raise SourceError(
            f"{shorten(name)} cannot be read as .npy: {shorten(error)}. {remedy}."
        ) from error


# NumPy uses Python's parser, which sometimes fails on two threads at once (3.11).
_HEADERS = threading.Lock()
"""Lock for NumPy's parsing of headers."""


class ArrayLayout(NamedTuple):
    """Dtype, number and place of the integers in a file.

    Attributes:
        dtype: their dtype.
        length: number of integers.
        start: offset of the first integer, in bytes.
    """

    dtype: DType
    length: int
    start: int

    @property
    def nbytes(self) -> int:
        return self.length * self.dtype.itemsize


def layout_of(
    file: OpenFile,
    name: str,
    dtype: DType | None,
    may_be_empty: bool = False,
    head: bytes | None = None,
) -> ArrayLayout:
    """Find the integers in a `.npy` file or a raw file.

    Args:
        file: open file.
        name: name of the file, for messages.
        dtype: dtype of a raw file. The dtype of a `.npy` file must be equal to it.
        may_be_empty: True: a raw file may be empty. Default False: an empty file is an error.
        head: the beginning of the file, if the caller has read it. Default: it is read by this
            call.

    Raises:
        SourceError: the file cannot be read, is cut off or of another kind; or it is raw, and
            `dtype` is None.
    """
    head = file.read(0, min(_HEADER_BYTES, file.size)) if head is None else head
    if not head.startswith(MAGIC):
        if may_be_empty and dtype is not None and not file.size:
            return ArrayLayout(dtype, 0, 0)
        return _raw(file.size, name, dtype)
    plain = _plain_layout(head)
    if (
        plain is not None
        and dtype in (None, plain.dtype)
        and plain.start + plain.nbytes <= file.size
    ):
        return plain
    with _npy_errors(name, "Save an array of integers with one axis by np.save"):
        shape, found, start = _header(head)
        if found.hasobject or start + (shape[0] if shape else 1) * found.itemsize > file.size:
            raise ValueError(
                "it has Python objects"
                if found.hasobject
                else f"it is cut off after {file.size} bytes"
            )
    if len(shape) != 1:
        raise SourceError(
            f"{shorten(name)} contains an array of shape {shape}, but must have one axis. Save "
            "array.reshape(-1). If its rows are documents of tokens, also pass their length to "
            "TokenSource as document_length=."
        )
    if found.kind not in "iu":
        raise SourceError(
            f"{shorten(name)} has values of dtype {found}, but must have integers. Save an array "
            "of integers."
        )
    if dtype is not None and dtype != found:
        raise SourceError(
            f"{shorten(name)} has values of dtype {found}, but dtype={dtype} was passed. Leave "
            "dtype= out for .npy files."
        )
    return ArrayLayout(found, shape[0], start)


def _plain_layout(head: bytes) -> ArrayLayout | None:
    plain = _PLAIN_HEADER.match(head)
    if plain is None or plain.end() != 10 + int.from_bytes(head[8:10], "little"):
        return None
    return ArrayLayout(_dtype_named(plain[1]), int(plain[2]), plain.end())


@cache
def _dtype_named(name: bytes) -> DType:
    return np.dtype(name.decode())


def _header(head: bytes) -> tuple[tuple[int, ...], DType, int]:
    file = io.BytesIO(head)
    shape, _, found = read_header(file)
    return shape, found, file.tell()


def _raw(size: int, name: str, dtype: DType | None) -> ArrayLayout:
    if not size:
        raise SourceError(
            f"{shorten(name)}: the file is empty (0 bytes). Remove the file, or write it again."
        )
    if dtype is None:
        raise SourceError(
            f"{shorten(name)} is not a .npy file. Save an array of integers with np.save; or, for "
            "a file of bare tokens, pass dtype=, such as np.uint16, to TokenSource."
        )
    if size % dtype.itemsize:
        raise SourceError(
            f"{shorten(name)} has {size} bytes, which is not a multiple of {dtype.itemsize}, the "
            f"size of {dtype}. The file is cut off, or has another type. Write it again, or pass "
            "its type as dtype= of TokenSource."
        )
    return ArrayLayout(dtype, size // dtype.itemsize, 0)


class MappedTokens:
    """Tokens of a local file, which is mapped into memory on first use. Pieces of it are views.

    Args:
        path: path of the file.
        dtype: dtype of a raw file; None for a `.npy` file.
        may_be_empty: True: a raw file may be empty.

    Raises:
        SourceError: the file cannot be read, is cut off or of another kind.
    """

    def __init__(self, path: str, dtype: DType | None, may_be_empty: bool = False) -> None:
        self._path = path
        with closing(open_file(path)) as file:
            self._layout = layout_of(file, path, dtype, may_be_empty)
        self.dtype = self._layout.dtype
        self._array: Array | None = None

    def __len__(self) -> int:
        return self._layout.length

    def pieces(self, starts: Array, stops: Array) -> list[Array]:
        array = self._array
        if array is None:
            self._array = array = _mapped(self._path, self._layout, self._path)
        return [array[start:stop] for start, stop in zip(starts.tolist(), stops.tolist())]

    def prefetch(self, starts: Array, stops: Array) -> None:
        """Do nothing: the operating system reads mapped files ahead."""

    def close(self) -> None:
        """Do nothing: the mapping ends with the last piece that refers to it."""


class ReadTokens:
    """Tokens of an open file, which are read on request. Pieces of it are copies.

    Args:
        file: the open file; `close` closes it.
        dtype: dtype of a raw file; None for a `.npy` file.
        may_be_empty: True: a raw file may be empty.

    Raises:
        SourceError: the file cannot be read, is cut off or of another kind.
    """

    def __init__(self, file: OpenFile, dtype: DType | None, may_be_empty: bool = False) -> None:
        self._file = file
        self.dtype, self._length, self._start = layout_of(file, file.path, dtype, may_be_empty)

    def __len__(self) -> int:
        return self._length

    def pieces(self, starts: Array, stops: Array) -> list[Array]:
        return [
            np.frombuffer(data, self.dtype)
            for data in self._file.read_many(*self._ranges(starts, stops))
        ]

    def prefetch(self, starts: Array, stops: Array) -> None:
        """Start to fetch pieces of a file in a store.

        Args:
            starts: `int64[n]`, index of the first token of each piece.
            stops: `int64[n]`, index of the token after its last one.
        """
        self._file.prefetch(*self._ranges(starts, stops))

    def _ranges(self, starts: Array, stops: Array) -> tuple[Array, Array]:
        return self._start + starts * self.dtype.itemsize, (stops - starts) * self.dtype.itemsize

    def close(self) -> None:
        self._file.close()


Tokens: TypeAlias = MappedTokens | ReadTokens


def integers_of(path: str, name: str) -> Array:
    """Return the integers in a local `.npy` file, read-only.

    A small file is read, a large one mapped.

    Args:
        path: path of the file.
        name: name of the file, for messages.

    Raises:
        SourceNotFoundError: the file does not exist.
        SourceError: the file cannot be read, is cut off or of another kind.
    """
    with closing(open_file(path)) as file:
        whole = file.read(0, file.size) if file.size <= _FEW_BYTES else None
        layout = layout_of(file, name, None, head=whole)
        if whole is not None:
            return np.frombuffer(whole, layout.dtype, layout.length, layout.start)
    return _mapped(path, layout, name)


def _mapped(path: str, layout: ArrayLayout, name: str) -> Array:
    if not layout.length:
        return np.empty(0, layout.dtype)
    try:
        return np.ndarray(layout.length, layout.dtype, map_readable(path), layout.start)
    except (OSError, ValueError, TypeError) as error:
        otherwise = "Check the file and its permissions"
        raise SourceError(
            f"{shorten(name)} cannot be mapped into memory: {shorten(error)}. "
            f"{remedy_for(error, otherwise) if isinstance(error, OSError) else otherwise}."
        ) from error
