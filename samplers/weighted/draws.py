"""Random 64-bit words by key, for many positions at once.

In: a seed, a stream, and numbers. Out: a word for each, and from words columns, fractions and exponential variates.

Logarithms are computed by additions, multiplications and divisions alone: those of libraries differ in the last bit between
processors, and two hosts would sort records differently.
"""

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
    """The key of one stream of a seed."""
    return np.uint64(mix(mix(np.array([seed], dtype=_WORD)) ^ _WORD(stream))[0])


def words(key: np.uint64 | Words, numbers: Int64s) -> Words:
    """A word for each number, by one key for all or by one for each."""
    return mix(mix(numbers.view(_WORD) ^ key))


def columns(drawn: Words, count: int) -> tuple[Int64s, Words]:
    """Each word as a column of `count`, all equally likely, and a fraction of it in units of 2^-64.

    Args:
        drawn: uniform words.
        count: below 2^32.
    """
    whole = _WORD(count)
    column = ((drawn >> _HALF) * whole + (((drawn & _LOW) * whole) >> _HALF)) >> _HALF
    with np.errstate(over="ignore"):
        return column.view(np.int64), drawn * whole


def exponentials(drawn: Words) -> Floats:
    """Exponential variates of mean 1, by the same bits on every processor."""
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
