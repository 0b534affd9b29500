"""The header of a `.npy` file: shape, order of axes and dtype of its array.

In: a file at the beginning of a `.npy` file. Out: the header, with the file at the first value. The
format is described in NumPy's documentation, "The NPY format"; version 3 has names of fields in
UTF-8.
"""

from __future__ import annotations

import ast
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format

MOST_BYTES = 10_000
"""Bytes of the longest header, as in NumPy: a parser of long texts may use all memory."""

Header = tuple[tuple[int, ...], bool, "np.dtype[Any]"]


def read_header(file: IO[bytes]) -> Header:
    """Read the header of a `.npy` file.

    Args:
        file: the file, at its beginning. It is moved to the first value.

    Returns:
        the shape, True if the axes are in Fortran's order, and the dtype.

    Raises:
        ValueError: the header is damaged, too long, or of an unknown version.
    """
    version = npy_format.read_magic(file)
    if version == (1, 0):
        return npy_format.read_array_header_1_0(file)
    if version == (2, 0):
        return npy_format.read_array_header_2_0(file)
    if version != (3, 0):  # which NumPy reads only by functions that are not public
        raise ValueError(
            f"version {'.'.join(map(str, version))} of the .npy format is unknown; 1.0, 2.0 and "
            "3.0 are known"
        )
    size = int.from_bytes(file.read(4), "little")
    if size > MOST_BYTES:
        raise ValueError(f"the header may have at most {MOST_BYTES:,} bytes, but it has {size:,}")
    text = file.read(size)
    try:
        said = ast.literal_eval(text.decode())
        shape, is_fortran, descr = said["shape"], said["fortran_order"], said["descr"]
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError) as error:
        raise ValueError(f"the header is damaged: {error!r}") from None
    is_shape = isinstance(shape, tuple) and all(type(side) is int and side >= 0 for side in shape)
    if len(text) < size or not is_shape or type(is_fortran) is not bool:
        raise ValueError("the header is damaged, or does not describe an array")
    return shape, is_fortran, npy_format.descr_to_dtype(descr)
