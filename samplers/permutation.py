"""The shuffle: for each seed and epoch a permutation of `[0, size)`, which is computed, not stored.

In: places (indices within an epoch), the epoch of each, a seed. Out: the permuted places, `int64`.

A number x of `[0, rows * columns)` is a cell (x // columns, x % columns) of a table with about as
many rows as columns. A round shifts every cell along one axis by a hash of its other coordinate;
this is a bijection whatever the hash is. Six or more rounds, with alternating axes, make a balanced
Feistel network over a mixed radix. The table has fewer than `rows` cells more than `size`, so only
few places leave `[0, size)`; these are permuted again until they are back inside (cycle walking:
Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002). The number of rows is even,
because shifts along axes of odd length alone could only make even permutations.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from math import isqrt
from typing import TypeAlias

import numpy as np

from .protocol import Int64s, Words

# So few cells need more rounds to reach all permutations evenly.
ROUNDS, ROUNDS_SMALL, SMALL = 6, 12, 1 << 14
"""Number of rounds; number of rounds for fewer than `SMALL` records; and `SMALL` itself."""

# Any number serves; with this one the seeds of the quality test (tests/test_shuffle) stay inside
# bounds that a truly random order, too, leaves for one seed in ten.
FIRST_ROUND = 16
"""Number of the first round, used in the rounds' keys."""

# Enough to pay for NumPy's calls, few enough for the caches.
BLOCK = 16384
"""Number of places permuted at a time."""

# With one set of keys, a block takes half the time.
MIN_RUN = 512
"""Least number of places of one epoch for which the epoch gets a block of its own."""

# To look up a hash takes a third of the time.
MAX_SIDE = 1024
"""Largest side of a table for which the hashes of all coordinates are kept in memory."""

# A hash of 36 bits times a side of at most 28 bits fits 64 bits.
MAX_SIZE = 1 << 55
"""Maximal number of records."""

_WORD = np.uint64
_GOLDEN = _WORD(0x9E3779B97F4A7C15)
_MULTIPLIER_1, _MULTIPLIER_2 = _WORD(0xBF58476D1CE4E5B9), _WORD(0x94D049BB133111EB)
_INT_1, _INT_2, _MASK = int(_MULTIPLIER_1), int(_MULTIPLIER_2), (1 << 64) - 1


def mix(words: Words) -> Words:
    """Scramble words `uint64[n]` one to one by SplitMix64's finaliser (Steele et al., 2014)."""
    with np.errstate(over="ignore"):
        words = words + _GOLDEN
        words = (words ^ (words >> _WORD(30))) * _MULTIPLIER_1
        words = (words ^ (words >> _WORD(27))) * _MULTIPLIER_2
        return words ^ (words >> _WORD(31))


@lru_cache(maxsize=64)
def _round_keys_of(seed: int, epoch: int, rounds: int) -> Words:
    return round_keys(np.array([seed], dtype=_WORD), np.array([epoch]), rounds)


def round_keys(seeds: Words, epochs: Int64s, rounds: int) -> Words:
    """Compute the keys of the shuffle's rounds from seeds and epochs.

    Args:
        seeds: `uint64`, one seed for each epoch, or one for all.
        epochs: `int64[n]`, numbers of epochs; each has `rounds` keys of its own.
        rounds: number of rounds of the shuffle.

    Returns:
        `uint64[rounds, n]`, the keys.
    """
    of_seeds = mix(seeds)
    of_epochs = mix(of_seeds ^ epochs.astype(_WORD))
    of_rounds = mix(np.arange(FIRST_ROUND, FIRST_ROUND + rounds, dtype=_WORD)[:, None] ^ ~of_seeds)
    return mix(of_epochs ^ of_rounds)


def permute(places: Int64s, epochs: Int64s, size: int, seed: int) -> Int64s:
    """Shuffle places (indices within an epoch); each epoch has another order.

    Args:
        places: `int64[n]` in `[0, size)`.
        epochs: `int64[n]`, the epoch of each place.
        size: number of records, 1 to 2^55.
        seed: in `[0, 2^64)`.

    Returns:
        `int64[n]` in `[0, size)`; over all places of one epoch, a permutation.

    >>> import numpy as np
    >>> permute(np.arange(8), np.zeros(8, np.int64), size=8, seed=1).tolist()
    [7, 0, 4, 1, 2, 6, 3, 5]
    """
    return _permuted(places, epochs, size, seed, False)


def unpermute(keys: Int64s, epochs: Int64s, size: int, seed: int) -> Int64s:
    """Return the places (indices within an epoch) that `permute` maps to `keys`.

    This is the inverse of `permute`, whose other arguments must be the same.

    >>> import numpy as np
    >>> unpermute(np.array([7, 0, 4]), np.zeros(3, np.int64), size=8, seed=1).tolist()
    [0, 1, 2]
    """
    return _permuted(keys, epochs, size, seed, True)


def _permuted(numbers: Int64s, epochs: Int64s, size: int, seed: int, back: bool) -> Int64s:
    if size == 1:
        return np.zeros(len(numbers), dtype=np.int64)
    rounds = ROUNDS_SMALL if size < SMALL else ROUNDS
    out = np.empty(len(numbers), dtype=np.int64)
    for block in _blocks(epochs):
        shifts, column = _shifts_of_block(seed, epochs[block], rounds, size)
        out[block] = _permute_block(numbers[block].astype(_WORD), shifts, column, size, back)
    return out


def permute_one(place: int, epoch: int, size: int, seed: int) -> int:
    """Shuffle a single place (an index within an epoch) as `permute` does.

    It is faster than `permute` for one place. `size` and `seed` are as for `permute`.

    >>> [permute_one(place, epoch=0, size=8, seed=1) for place in range(8)]
    [7, 0, 4, 1, 2, 6, 3, 5]
    """
    # 30 times as fast, in Python's ints.
    if size == 1:
        return 0
    keys = _ints_of_keys(seed, epoch, ROUNDS_SMALL if size < SMALL else ROUNDS)
    rows, columns = table_shape(size)
    while True:
        moving, fixed = divmod(place, columns)
        length, other = rows, columns
        for key in keys:
            word = (fixed + key) * _INT_1 & _MASK
            word = (word ^ (word >> 32)) * _INT_2 & _MASK
            moving = (moving + ((word >> 28) * length >> 36)) % length
            moving, fixed, length, other = fixed, moving, other, length
        # An even number of rounds has put rows and columns back in their places.
        place = moving * columns + fixed
        if place < size:
            return place


@lru_cache(maxsize=1024)
def _ints_of_keys(seed: int, epoch: int, rounds: int) -> list[int]:
    return [int(key) for key in _round_keys_of(seed, epoch, rounds)[:, 0]]


def place_of(key: int, epoch: int, size: int, seed: int) -> int:
    """Return the place (index within an epoch) that `permute` maps to `key`.

    Pass the same epoch, size and seed as to `permute`.

    >>> import numpy as np
    >>> keys = permute(np.arange(8), np.zeros(8, np.int64), 8, 1).tolist()
    >>> [place_of(key, 0, size=8, seed=1) for key in keys]
    [0, 1, 2, 3, 4, 5, 6, 7]
    """
    return int(unpermute(np.array([key]), np.array([epoch]), size, seed)[0])


def _blocks(epochs: Int64s) -> Iterator[slice]:
    """Divide `epochs` into slices of at most 16,384 entries, and yield the slices.

    Args:
        epochs: `int64[n]`. If an epoch has 512 entries or more on average, a new slice also begins
            where the epoch changes.
    """
    ends = np.flatnonzero(epochs[1:] != epochs[:-1]) + 1
    cuts = [0, *(ends.tolist() if len(ends) * MIN_RUN <= len(epochs) else ()), len(epochs)]
    for first, last in pairwise(cuts):
        for start in range(first, last, BLOCK):
            yield slice(start, min(start + BLOCK, last))


Lengths: TypeAlias = "tuple[np.uint64 | Words, np.uint64 | Words]"
"""Numbers of rows and columns of the table; arrays if each place has a table of its own."""


class Hashed:
    """Shifts of cells in each round of the shuffle, computed from keys when they are needed.

    The shuffle treats a number as a cell of a table. In each round, every cell moves along its
    column (in even rounds) or along its row (in odd rounds). The number of cells by which it moves
    is its shift.

    Args:
        keys: `uint64[rounds, epochs]`, the key of each round for each epoch.
        lengths: numbers of rows and columns of the table.
    """

    def __init__(self, keys: Words, lengths: Lengths) -> None:
        self.rounds = len(keys)
        self._keys, self._lengths = keys, lengths

    def of(
        self, number: int, fixed: Words, column: Int64s | None, shift: Words, scratch: Words
    ) -> None:
        """Write the shifts of one round (rows or columns by which cells move) into `shift`.

        Args:
            number: number of the round.
            fixed: for each cell, its row or column, whichever does not change in this round.
            column: for each cell, the index of its epoch among the epochs of the keys; None if all
                cells have the same epoch.
            shift: array that receives the result.
            scratch: array for intermediate results.
        """
        key = self._keys[number] if column is None else self._keys[number][column]
        _hash(fixed, key, self._lengths[number % 2], shift, scratch)


class _Kept:
    """Shifts of cells in the shuffle's rounds, looked up in tables; the same as those of `Hashed`.

    The shuffle treats a number as a cell of rows and columns; a shift is the number of cells by
    which a cell moves in a round. For each round and epoch, a table has the shifts of all rows (or
    columns).

    Args:
        keys: `uint64[rounds, epochs]`, the key of each round for each epoch.
        size: number of records, which determines the numbers of rows and columns.
    """

    def __init__(self, keys: Words, size: int) -> None:
        self.rounds = len(keys)
        rows, columns = table_shape(size)
        self._sides = columns, rows  # of the coordinate that stays, in even rounds and in odd ones
        self._tables = [
            self._table(keys[number], number, (rows, columns)[number % 2])
            for number in range(self.rounds)
        ]

    def _table(self, keys: Words, number: int, length: int) -> Words:
        fixed = np.tile(np.arange(self._sides[number % 2], dtype=_WORD), (len(keys), 1))
        shift = np.empty_like(fixed)
        _hash(fixed, keys[:, None], _WORD(length), shift, np.empty_like(fixed))
        return shift.ravel()

    def of(
        self, number: int, fixed: Words, column: Int64s | None, shift: Words, scratch: Words
    ) -> None:
        places = fixed.view(np.int64)
        if column is not None:
            places = np.multiply(column, self._sides[number % 2], out=scratch.view(np.int64))
            np.add(places, fixed.view(np.int64), out=places)
        self._tables[number].take(places, out=shift, mode="clip")


def _shifts_of_block(
    seed: int, epochs: Int64s, rounds: int, size: int
) -> tuple[Hashed | _Kept, Int64s | None]:
    """Prepare to shuffle places (indices within an epoch), given only the epoch of each place.

    Args:
        seed: as for `permute`.
        epochs: `int64[n]`, the epoch of each place.
        rounds: number of rounds of the shuffle.
        size: as for `permute`.

    Returns:
        the object that computes by how much a place moves in each round and in each of its epochs;
        and `int64[n]`, for each place the index of its epoch among the epochs of this object. The
        second result is None if all places are of one epoch.
    """
    first, last = int(epochs.min()), int(epochs.max())
    side = max(table_shape(size))
    if first == last:
        return (
            _kept(seed, first, rounds, size)
            if side <= MAX_SIDE
            else Hashed(_round_keys_of(seed, first, rounds), _lengths_of(size))
        ), None
    if last - first < len(epochs):
        distinct, column = np.arange(first, last + 1), epochs - first
    else:
        distinct, column = np.unique(epochs, return_inverse=True)
    worth = side <= MAX_SIDE and side * len(distinct) <= len(epochs)
    keys = round_keys(np.array([seed], dtype=_WORD), distinct, rounds)
    return _Kept(keys, size) if worth else Hashed(keys, _lengths_of(size)), column


@lru_cache(maxsize=128)
def _kept(seed: int, epoch: int, rounds: int, size: int) -> _Kept:
    return _Kept(_round_keys_of(seed, epoch, rounds), size)


def _lengths_of(size: int) -> Lengths:
    rows, columns = map(_WORD, table_shape(size))
    return rows, columns


def _permute_block(
    numbers: Words, shifts: Hashed | _Kept, column: Int64s | None, size: int, back: bool
) -> Words:
    lengths = _lengths_of(size)
    numbers = encipher(numbers, shifts, column, lengths, back)
    outside = np.flatnonzero(numbers >= _WORD(size))
    while outside.size:
        own = None if column is None else column[outside]
        walked = encipher(numbers[outside], shifts, own, lengths, back)
        numbers[outside] = walked
        outside = outside[walked >= _WORD(size)]
    return numbers


def table_shape(size: int) -> tuple[int, int]:
    """Return rows (even) and columns of a nearly square table with at least `size` cells."""
    root = isqrt(size - 1) + 1
    rows = root + root % 2
    return rows, -(-size // rows)


def encipher(
    numbers: Words,
    shifts: Hashed | _Kept,
    column: Int64s | None,
    lengths: Lengths,
    back: bool = False,
) -> Words:
    """Move cells of a table by all rounds of the shuffle, or undo the rounds.

    Args:
        numbers: `uint64[n]`; the cell (row, column) has the number `row * columns + column`.
        shifts: object that computes by how much cells move in each round.
        column: for each cell, the index of its epoch among the epochs of `shifts`; None if there is
            one epoch only.
        lengths: numbers of rows and columns.
        back: True undoes the rounds.

    Returns:
        `uint64[n]`, the new numbers.
    """
    cell_row = numbers // lengths[1]
    cells = cell_row, numbers - cell_row * lengths[1]
    shift, scratch = np.empty_like(numbers), np.empty_like(numbers)
    for number in range(shifts.rounds - 1, -1, -1) if back else range(shifts.rounds):
        axis = number % 2
        shifts.of(number, cells[1 - axis], column, shift, scratch)
        _move(cells[axis], lengths[axis], shift, scratch, back)
    np.multiply(cell_row, lengths[1], out=cell_row)
    np.add(cell_row, cells[1], out=cell_row)
    return cell_row


def _hash(
    fixed: Words, key: Words, length: np.uint64 | Words, shift: Words, scratch: Words
) -> None:
    """Write `hash(fixed, key)`, scaled to `[0, length)`, into the array `shift`.

    Args:
        fixed: for each cell of the shuffle's table, its row or column, whichever does not change in
            this round.
        key: key of the round, for each cell or for all.
        length: number of rows or columns, along which cells move in this round.
        shift: array that receives the result: by how much each cell moves.
        scratch: array for intermediate results.
    """
    np.add(fixed, key, out=shift)
    np.multiply(shift, _MULTIPLIER_1, out=shift)
    np.right_shift(shift, _WORD(32), out=scratch)
    np.bitwise_xor(shift, scratch, out=shift)
    np.multiply(shift, _MULTIPLIER_2, out=shift)
    np.right_shift(shift, _WORD(28), out=shift)
    np.multiply(shift, length, out=shift)
    np.right_shift(shift, _WORD(36), out=shift)


def _move(
    moving: Words, length: np.uint64 | Words, shift: Words, scratch: Words, back: bool
) -> None:
    """Add `shift` to `moving` modulo `length`, in place; with `back`, subtract it.

    Args:
        moving: rows or columns of cells, in `[0, length)`; changed in place.
        length: number of rows or columns.
        shift: in `[0, length)`; overwritten if `back` is True.
        scratch: array for intermediate results.
        back: True subtracts the shift.
    """
    if back:
        np.subtract(length, shift, out=shift)
    np.add(moving, shift, out=moving)
    np.subtract(moving, length, out=scratch)  # wraps to a huge number where moving < length …
    np.minimum(moving, scratch, out=moving)  # … so that the smaller of the two is the remainder
