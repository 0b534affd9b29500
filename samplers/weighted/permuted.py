"""Permute numbers of many ranges `[0, size)` at once: each within its own range, by its own key.

In: numbers (called places), sizes and keys. Out: permuted numbers. The network is the same as in
`permutation.py`, but with a size and a key for each number.
"""

from __future__ import annotations

import numpy as np

from ..protocol import Int64s, Words

_ROUNDS = 16
_WORD = np.uint64
_MULTIPLIER_1, _MULTIPLIER_2 = _WORD(0xBF58476D1CE4E5B9), _WORD(0x94D049BB133111EB)
_GOLDEN, _MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1


def permute_each(places: Int64s, sizes: Int64s, keys: Words) -> Int64s:
    """Permute each place (a number) within its range `[0, size)`, by the permutation of its key.

    Args:
        places: `int64[n]`, each in `[0, size)`.
        sizes: `int64[n]`, 1 to 2^32.
        keys: `uint64[n]`; places with equal keys and sizes are permuted by the same permutation.

    Returns:
        `int64[n]`, the permuted places.

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
    """Return how far each cell of a table moves in a round.

    It is a hash of the fixed coordinate, scaled to `[0, length)`.

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
