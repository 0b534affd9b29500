"""Files of tokens. In: paths. Out: arrays of integers with one axis, mapped from files; checked offsets.

The tokens of all documents stand one after the other in one file: a `.npy` file, or a raw one, whose dtype the user knows.
Document k is `tokens[offsets[k]:offsets[k + 1]]`; the offsets are another `.npy` file, or the user's array.
Format of `.npy`: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import SourceError, SourceNotFoundError
from ...mapped import map_readable
from ...wording import TEXT, brief, shown

Array = npt.NDArray[Any]

MAGIC = b"\x93NUMPY"
"""What a `.npy` file begins with."""

_AT_ONCE = 1 << 20
"""Offsets that are checked at a time: there may be more of them than the memory holds."""


def offsets_path(path: str) -> str:
    """Where the offsets of a file of tokens are unless the user says something else.

    >>> offsets_path("train.npy")
    'train.npy.offsets'
    """
    return f"{path}.offsets"


def integer_dtype(dtype: Any) -> np.dtype[Any]:
    """A dtype of integers.

    Raises:
        TypeError: it is none.

    >>> integer_dtype("uint16")
    dtype('uint16')
    """
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        found = np.dtype(object)
    if found.kind not in "iu":
        raise TypeError(f"dtype={shown(dtype)} is no integer type; pass that of the tokens, such as np.uint16.")
    return found


def map_integers(path: str, dtype: np.dtype[Any] | None = None) -> Array:
    """The integers of a file, read-only: what is looked at is read from the disk, and nothing is copied.

    Args:
        path: a `.npy` file, or a raw one.
        dtype: of a raw file; that of a `.npy` file must agree with it.

    Raises:
        SourceNotFoundError: there is no such file.
        SourceError: it cannot be read, or holds something else; or it is raw, and there is no dtype.
    """
    try:
        with open(path, "rb") as file:
            is_npy = file.read(len(MAGIC)) == MAGIC
        return _map_npy(path, dtype) if is_npy else _map_raw(path, dtype)
    except FileNotFoundError:
        raise SourceNotFoundError(f"no file {shown(path, TEXT)}") from None
    except (OSError, ValueError, TypeError) as error:
        raise SourceError(f"{brief(path)} cannot be read: {brief(error)}") from error


def _map_npy(path: str, dtype: np.dtype[Any] | None) -> Array:
    found: np.memmap[Any, Any] = np.load(path, mmap_mode="r")
    if found.ndim != 1:
        raise SourceError(
            f"{brief(path)} has an array of shape {found.shape}; tokens have one axis. Save array.reshape(-1), and pass "
            "document_length= if all documents are of one length."
        )
    if found.dtype.kind not in "iu":
        raise SourceError(f"{brief(path)} has values of dtype {found.dtype}; tokens are integers.")
    if dtype is not None and dtype != found.dtype:
        raise SourceError(f"{brief(path)} has values of dtype {found.dtype}, not {dtype}; leave out dtype=.")
    return np.ndarray(found.shape, found.dtype, map_readable(path), found.offset)


def _map_raw(path: str, dtype: np.dtype[Any] | None) -> Array:
    size = os.path.getsize(path)
    if not size:
        raise SourceError(f"{brief(path)}: the file is empty (0 bytes)")
    if dtype is None:
        raise SourceError(
            f"{brief(path)} is no .npy file; if it has bare tokens, pass their dtype=, such as np.uint16."
        )
    if size % dtype.itemsize:
        raise SourceError(
            f"{brief(path)} has {size} bytes, which is no multiple of the {dtype.itemsize} of {dtype}; the file is cut off, "
            "or dtype= is another one."
        )
    return map_readable(path).view(dtype)


def check_offsets(offsets: Array, tokens: int, name: str) -> None:
    """Hold offsets against the number of tokens.

    Args:
        offsets: integers, one axis.
        tokens: how many tokens there are.
        name: of the offsets, for the message.

    Raises:
        SourceError: they do not ascend from 0 or more to at most the number of tokens, or they are fewer than two.

    >>> check_offsets(np.array([0, 3, 3, 5]), 5, "offsets")
    """
    if len(offsets) < 2:
        raise SourceError(
            f"{name}: {len(offsets)} offsets make no document; document k is tokens[offsets[k]:offsets[k + 1]], so that n "
            "documents have n + 1 offsets."
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
