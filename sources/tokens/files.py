"""Files of tokens. In: paths. Out: arrays of integers with one axis, mapped from files; checked offsets.

The tokens of all documents stand one after the other in one file: a `.npy` file, or a raw one, whose dtype the user knows.
Document k is `tokens[offsets[k]:offsets[k + 1]]`; the offsets are another `.npy` file, or the user's array.
Format of `.npy`: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ...common.messages import TEXT, short_repr, shorten
from ...errors import SourceError, SourceNotFoundError
from ...files.mmap_files import map_readable

Array: TypeAlias = npt.NDArray[Any]
DType: TypeAlias = np.dtype[Any]

MAGIC = b"\x93NUMPY"
"""What a `.npy` file begins with."""

_AT_ONCE = 1 << 20
"""Offsets that are checked at a time: there may be more of them than the memory holds."""


class Tokens(Protocol):
    """The tokens of a file. Any thread may call."""

    dtype: DType

    def __len__(self) -> int:
        """The number of tokens."""
        ...

    def many(self, starts: Array, stops: Array) -> list[Array]:
        """The tokens `[start, stop)` of each pair, read-only.

        Raises:
            SourceError: they cannot be read.
        """
        ...

    def prefetch(self, starts: Array, stops: Array) -> None:
        """Begin to bring these closer, where that helps; does not wait."""
        ...


class MappedTokens:
    """Those of a file on this machine; `Tokens` says what it does."""

    def __init__(self, tokens: Array) -> None:
        self.dtype, self._tokens = tokens.dtype, tokens

    def __len__(self) -> int:
        return len(self._tokens)

    def many(self, starts: Array, stops: Array) -> list[Array]:
        """Views."""
        tokens = self._tokens
        return [tokens[start:stop] for start, stop in zip(starts.tolist(), stops.tolist())]

    def prefetch(self, starts: Array, stops: Array) -> None:
        """Nothing: the system reads ahead."""


def offsets_path(path: str) -> str:
    """The path of the offsets of a file of tokens, unless the user gives another.

    >>> offsets_path("train.npy")
    'train.npy.offsets'
    """
    return f"{path}.offsets"


def integer_dtype(dtype: Any) -> DType:
    """A dtype of integers.

    Raises:
        TypeError: it is none.

    >>> integer_dtype("uint16")
    dtype('uint16')
    """
    try:
        found: DType = np.dtype(dtype)
    except TypeError:
        found = np.dtype(object)
    if found.kind not in "iu":
        raise TypeError(f"dtype={short_repr(dtype)} is no integer type; pass that of the tokens, such as np.uint16.")
    return found


def map_integers(path: str, dtype: DType | None = None, name: str = "") -> Array:
    """The integers of a file, read-only: what is looked at is read from the disk, and nothing is copied.

    Args:
        path: a `.npy` file, or a raw one.
        dtype: of a raw file; that of a `.npy` file must agree with it.
        name: of the file in messages, default its path.

    Raises:
        SourceNotFoundError: there is no such file.
        SourceError: it cannot be read, or holds something else; or it is raw, and there is no dtype.
    """
    try:
        with open(path, "rb") as file:
            is_npy = file.read(len(MAGIC)) == MAGIC
        return _map_npy(path, dtype, name or path) if is_npy else _map_raw(path, dtype, name or path)
    except FileNotFoundError:
        raise SourceNotFoundError(f"no file {short_repr(name or path, TEXT)}") from None
    except (OSError, ValueError, TypeError) as error:
        raise SourceError(f"{shorten(name or path)} cannot be read: {shorten(error)}") from error


def map_npy(path: str, name: str) -> np.memmap[Any, Any]:
    """The array of a `.npy` file, read-only: what is looked at is read from the disk.

    Raises:
        FileNotFoundError: there is no such file.
        SourceError: it is no `.npy` file, is cut off, or has Python objects; the message has `name`.
    """
    with npy_errors(name), _HEADERS:
        found = np.load(path, mmap_mode="r")
    if isinstance(found, np.memmap):
        return found
    found.close()
    raise SourceError(
        f"{shorten(name)} is an archive of arrays (.npz), whatever its name says; save each of them by np.save, and pass those."
    )


@contextmanager
def npy_errors(name: str) -> Iterator[None]:
    """Turn NumPy's errors about a `.npy` file into one that names the file.

    A header is a piece of Python: besides `ValueError`, NumPy lets errors of Python's parser through, and of numbers and sizes.

    Raises:
        SourceError: the block raised.
    """
    try:
        yield
    except (FileNotFoundError, SourceError):
        raise
    except Exception as error:
        raise SourceError(f"{shorten(name)} cannot be read as .npy: {shorten(error)}") from error


_HEADERS = threading.Lock()
"""Held while NumPy parses a header: Python's parser, which it uses, fails now and then on two threads at once (3.11)."""


def _map_npy(path: str, dtype: DType | None, name: str) -> Array:
    found = map_npy(path, name)
    tokens_of_header(name, found.shape, found.dtype, dtype)
    return np.ndarray(found.shape, found.dtype, map_readable(path), found.offset)


def tokens_of_header(name: str, shape: tuple[int, ...], found: DType, dtype: DType | None) -> tuple[DType, int]:
    """The dtype and number of tokens that a `.npy` file has.

    Args:
        name: of the file, for messages.
        shape: of its array.
        found: its dtype.
        dtype: the one that was asked for, None for any.

    Raises:
        SourceError: they are no tokens, or of another dtype.
    """
    if len(shape) != 1:
        raise SourceError(
            f"{shorten(name)} has an array of shape {shape}; tokens have one axis. Save array.reshape(-1), and pass "
            "document_length= if all documents are of one length."
        )
    if found.kind not in "iu":
        raise SourceError(f"{shorten(name)} has values of dtype {found}; tokens are integers.")
    if dtype is not None and dtype != found:
        raise SourceError(f"{shorten(name)} has values of dtype {found}, not {dtype}; leave out dtype=.")
    return found, shape[0]


def token_count(name: str, size: int, dtype: DType | None) -> int:
    """Count the tokens of a raw file.

    Raises:
        SourceError: it is empty, or is no whole number of them; or nobody knows their dtype.
    """
    if not size:
        raise SourceError(f"{shorten(name)}: the file is empty (0 bytes)")
    if dtype is None:
        raise SourceError(
            f"{shorten(name)} is no .npy file; if it has bare tokens, pass their dtype=, such as np.uint16."
        )
    if size % dtype.itemsize:
        raise SourceError(
            f"{shorten(name)} has {size} bytes, which is no multiple of the {dtype.itemsize} of {dtype}; the file is cut off, "
            "or dtype= is another one."
        )
    return size // dtype.itemsize


def _map_raw(path: str, dtype: DType | None, name: str) -> Array:
    token_count(name, os.path.getsize(path), dtype)
    return map_readable(path).view(np.dtype(dtype))


def check_offsets(offsets: Array, tokens: int, name: str) -> None:
    """Hold offsets against the number of tokens.

    Args:
        offsets: integers, one axis.
        tokens: how many tokens there are.
        name: of the offsets, for the message.

    Raises:
        SourceError: they do not ascend from 0 or more to at most the number of tokens, or there are none.

    >>> check_offsets(np.array([0, 3, 3, 5]), 5, "offsets")
    """
    if not len(offsets):
        raise SourceError(
            f"{name}: there are no offsets; document k is tokens[offsets[k]:offsets[k + 1]], so that n documents have n + 1."
        )
    for first in range(0, len(offsets) - 1, _AT_ONCE):
        some = offsets[first : first + _AT_ONCE + 1]
        falls = np.flatnonzero(some[1:] < some[:-1])
        if len(falls):
            place = int(falls[0])
            raise SourceError(
                f"{name}: offset {first + place + 1} is {some[place + 1]}, less than the {some[place]} before it; "
                "offsets must ascend."
            )
    if offsets[0] < 0 or offsets[-1] > tokens:
        raise SourceError(
            f"{name}: the offsets go from {offsets[0]} to {offsets[-1]}, but there are {tokens} tokens; they count tokens, "
            "not bytes, and belong to one file."
        )
