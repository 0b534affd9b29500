"""Random 64-bit words computed from keys, for many positions at once.

In: a seed, the number of a random stream, and numbers. Out: a word for each number; from words,
columns, fractions and exponential variates.
"""
# Logarithms are computed by additions, multiplications and divisions alone. Those of libraries
# differ in the last bit between processors, and two hosts would sort records differently.

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..permutation import mix

Int64s = NDArray[np.int64]
Words = NDArray[np.uint64]
Floats = NDArray[np.float64]

_WORD = np.uint64
_LOW, _HALF = _WORD(0xFFFFFFFF), _WORD(32)
_LN2 = 0.6931471805599453
_SQRT_HALF = 0x3FE6A09E667F3BCD
"""The bits of sqrt(1/2) as a float."""


def key_of(seed: int, stream: int) -> np.uint64:
    """Return the key of one of a seed's independent random streams."""
    return np.uint64(mix(mix(np.array([seed], dtype=_WORD)) ^ _WORD(stream))[0])


def words(key: np.uint64 | Words, numbers: Int64s) -> Words:
    """Return a random word for each number, by one key for all or by one key for each."""
    return mix(mix(numbers.view(_WORD) ^ key))


def columns(drawn: Words, count: int) -> tuple[Int64s, Words]:
    """Split each random word into a column, uniform in `[0, count)`, and a fraction of it.

    The fraction is in units of 2^-64.

    Args:
        drawn: uniform random words.
        count: number of columns, below 2^32.
    """
    whole = _WORD(count)
    column = ((drawn >> _HALF) * whole + (((drawn & _LOW) * whole) >> _HALF)) >> _HALF
    with np.errstate(over="ignore"):
        return column.view(np.int64), drawn * whole


def exponentials(drawn: Words) -> Floats:
    """Convert uniform words to exponential variates of mean 1, alike on every processor."""
    uniform = (drawn >> _WORD(11)).astype(np.float64)
    uniform += 0.5
    uniform *= 2.0**-53
    bits = uniform.view(np.int64)
    exponent = (bits - _SQRT_HALF) >> 52
    mantissa = (bits - (exponent << 52)).view(np.float64)  # in [sqrt(1/2), sqrt(2))
    ratio = (mantissa - 1) / (mantissa + 1)
    square = ratio * ratio
    series = np.full_like(square, 1 / 21)
    for odd in range(19, 0, -2):
        series *= square
        series += 1 / odd
    series *= ratio
    series *= -2
    series -= exponent * _LN2
    return series
