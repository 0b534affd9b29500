"""Random 64-bit words computed from keys, for many positions at once.

In: a seed, the number of a random stream, and numbers. Out: a word for each number; and conversions
of words to columns, fractions and exponential variates.
"""
# Logarithms are computed by additions, multiplications and divisions alone. Those of libraries
# differ in the last bit between processors, and two hosts would sort records differently.

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..permutation import mix
from ..protocol import Int64s, Words

Floats = NDArray[np.float64]

_WORD = np.uint64
_LOW, _HALF = _WORD(0xFFFFFFFF), _WORD(32)
_LN2 = 0.6931471805599453
_SQRT_HALF = 0x3FE6A09E667F3BCD
"""The bits of sqrt(1/2) as a float."""


def key_of(seed: int, stream: int) -> np.uint64:
    """Return the key of the random stream number `stream` of a seed; streams are independent."""
    return np.uint64(mix(mix(np.array([seed], dtype=_WORD)) ^ _WORD(stream))[0])


def words(key: np.uint64 | Words, numbers: Int64s) -> Words:
    """Return a random word `uint64[n]` for each number `int64[n]`.

    Args:
        key: one key for all numbers, or one for each. Equal keys and numbers give equal words.
        numbers: the numbers.
    """
    return mix(mix(numbers.view(_WORD) ^ key))


def columns(drawn: Words, count: int) -> tuple[Int64s, Words]:
    """Split each random word into a column (uniform int in `[0, count)`) and a fraction within it.

    Args:
        drawn: `uint64[n]`, uniform random words.
        count: number of columns, below 2^32.

    Returns:
        the columns `int64[n]`; and the fractions `uint64[n]` in units of 2^-64.
    """
    whole = _WORD(count)
    column = ((drawn >> _HALF) * whole + (((drawn & _LOW) * whole) >> _HALF)) >> _HALF
    with np.errstate(over="ignore"):
        return column.view(np.int64), drawn * whole


def exponentials(drawn: Words) -> Floats:
    """Convert uniform words `uint64[n]` to exponential variates `float64[n]` of mean 1.

    The results are the same on every processor.
    """
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
