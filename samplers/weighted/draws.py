"""Random 64-bit words computed by hashing, for many positions at once, and their conversions.

In: a seed, the number of a random stream, and ints (such as positions). Out: a random word for each
int. A word can be converted to an index below n with a fraction, or to an exponential variate.
`permute_each` shuffles like `permutation.py`, but with a size and a key for each number.
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
_ROUNDS = 16
_MULTIPLIER_1, _MULTIPLIER_2 = _WORD(0xBF58476D1CE4E5B9), _WORD(0x94D049BB133111EB)
_GOLDEN, _MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1


def key_of(seed: int, stream: int) -> np.uint64:
    """Return the key of one random stream of a seed. Different streams are independent.

    Args:
        seed: the seed.
        stream: number of the stream.
    """
    return np.uint64(mix(mix(np.array([seed], dtype=_WORD)) ^ _WORD(stream))[0])


def words(key: np.uint64 | Words, numbers: Int64s) -> Words:
    """Return a random word `uint64[n]` for each number: a hash of the key and the number.

    Args:
        key: one key for all numbers, or one for each number.
        numbers: `int64[n]`.
    """
    return mix(mix(numbers.view(_WORD) ^ key))


def columns(drawn: Words, count: int) -> tuple[Int64s, Words]:
    """Convert each word to a column (a uniform int in `[0, count)`) and a fraction of a column.

    Args:
        drawn: `uint64[n]`, uniform random words.
        count: number of columns, below 2^32.

    Returns:
        `int64[n]`, the columns; and `uint64[n]`, the fractions in units of 2^-64.
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


def permute_each(places: Int64s, sizes: Int64s, keys: Words) -> Int64s:
    """Permute each number within its range `[0, size)`, by a permutation that its key determines.

    Args:
        places: `int64[n]`, the numbers, each in `[0, size)`.
        sizes: `int64[n]`, 1 to 2^32.
        keys: `uint64[n]`; numbers with equal keys and sizes are permuted by the same permutation.

    Returns:
        `int64[n]`, the permuted numbers.

    >>> permute_each(np.arange(5), np.full(5, 5), np.full(5, 7, np.uint64)).tolist()
    [4, 0, 2, 1, 3]
    """
    roots = np.ceil(np.sqrt(sizes)).astype(np.int64)
    rows = roots + roots % 2
    columns = -(-sizes // rows)
    numbers = _enciphered(places, rows, columns, keys)
    outside = np.flatnonzero(numbers >= sizes)
    while len(outside):
        walked = _enciphered(numbers[outside], rows[outside], columns[outside], keys[outside])
        numbers[outside] = walked
        outside = outside[walked >= sizes[outside]]
    return numbers


def _enciphered(numbers: Int64s, rows: Int64s, columns: Int64s, keys: Words) -> Int64s:
    row = numbers // columns
    column = numbers - row * columns
    for number in range(_ROUNDS):
        moving, fixed, lengths = (column, row, columns) if number % 2 else (row, column, rows)
        moving += _shifts(fixed, lengths, keys, number)
        moving -= lengths * (moving >= lengths)
    return row * columns + column


def _shifts(fixed: Int64s, lengths: Int64s, keys: Words, number: int) -> Int64s:
    """Return by how much each cell of the shuffle's table moves in a round.

    The shuffle treats a number as a cell of rows and columns. The shift is a hash of the coordinate
    that does not change in this round, scaled to `[0, length)`.

    Args:
        fixed: for each cell, its row or column, whichever does not change in this round.
        lengths: for each cell, the length of the axis along which it moves.
        keys: key of each cell.
        number: number of the round.
    """
    with np.errstate(over="ignore"):
        hashed = keys + _WORD(number * _GOLDEN & _MASK)
        hashed += fixed.view(_WORD)
        hashed *= _MULTIPLIER_1
        hashed ^= hashed >> _WORD(32)
        hashed *= _MULTIPLIER_2
        hashed >>= _WORD(32)
        hashed *= lengths.view(_WORD)
        hashed >>= _WORD(32)
    return hashed.view(np.int64)
