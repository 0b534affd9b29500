"""The order of Grain's `IndexSampler`, bit for bit, so that a run can move from Grain to headrace.

In: global positions. Out: record keys. Each shard reads a contiguous part of the records, and
shuffles it with a cycle-walking block cipher of Simon's type (Beaulieu et al., "The SIMON and SPECK
families of lightweight block ciphers", 2013) of four rounds, with the key seed + epoch. For new
runs prefer `algorithm="headrace"`: four rounds mix badly from about 10^9 records on
(docs/shuffle.md).

There is one exception. If a part has 2^16 + 1, 2^18 + 1, 2^20 + 1, … records, Grain's cipher has no
number for the last place: Grain reads the record of the first place again there, and never reads
the last record. Here, the last place has the last record.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.distinct import distinct
from ..protocol import Int64s, Words
from ..sharding import ShardOptions

BLOCK = 8192
ROUNDS = 4
# The order of such a small epoch is computed whole, and once: with few records, each would walk
# through a domain far larger than their number.
TABLE_BITS = 16
"""Number of bits of the smallest cipher, which is used for up to 65,537 records.

The last of 65,537 keeps its place.
"""

_MASK32 = 0xFFFFFFFF

_SHIFTS = ((623, 11), (68, 7), (39, 5), (7, 3))
"""Pairs for the `t` of C++'s `std::seed_seq`: a number of words, and `t` from this number on."""


@dataclass(frozen=True)
class GrainOrder:
    """The order in which one shard reads its records, equal to the order of Grain's `IndexSampler`.

    Attributes:
        num_records: number of records of the source.
        shard: the shard.
        seed: seed of the shuffle; None: the records are not shuffled.
    """

    num_records: int
    shard: ShardOptions
    seed: int | None

    def part(self) -> tuple[int, int]:
        """Return the first record of this shard, and the shard's number of records.

        A shard reads consecutive records.
        """
        whole, rest = divmod(self.num_records, self.shard.shard_count)
        index, rest = self.shard.shard_index, 0 if self.shard.drop_remainder else rest
        return index * whole + min(index, rest), whole + (index < rest)

    def refuse_empty_part(self) -> None:
        """Raise ValueError if this shard has no records."""
        if not self.part()[1]:
            raise ValueError(
                f"shard {self.shard.shard_index} of {self.shard.shard_count} would have none of "
                f'the {self.num_records} records. Use fewer shards, or algorithm="headrace".'
            )

    def position_of(self, key: int, epoch: int) -> int | None:
        """Return the global position of a record in an epoch.

        Return None if this shard does not read the record.

        Args:
            key: the record.
            epoch: number of the epoch, from 0.
        """
        first_record, length = self.part()
        place = key - first_record
        if not 0 <= place < length:
            return None
        if self.seed is not None:
            place = int(places_of(np.array([place]), length - 1, (self.seed + epoch) & _MASK32)[0])
        return (epoch * length + place) * self.shard.shard_count + self.shard.shard_index

    def places_of(self, keys: Int64s, epoch: int) -> Int64s:
        """Return the index within an epoch, from 0, at which each record is read.

        This is right only if there is a single shard.

        Args:
            keys: `int64[n]`, the records.
            epoch: number of the epoch, from 0.

        Returns:
            `int64[n]`.
        """
        return (
            keys
            if self.seed is None
            else places_of(keys, self.num_records - 1, (self.seed + epoch) & _MASK32)
        )

    def record_keys(self, positions: Int64s) -> Int64s:
        """Return the record keys `int64[n]` at global positions `int64[n]` of this shard."""
        first_record, length = self.part()
        epochs, places = np.divmod(positions // self.shard.shard_count, length)
        if self.seed is None:
            return first_record + places
        keys = np.empty(len(places), dtype=np.int64)
        for epoch in distinct(epochs):
            chosen = epochs == epoch
            keys[chosen] = shuffled(places[chosen], length - 1, (self.seed + epoch) & _MASK32)
        return first_record + keys


def shuffled(places: Int64s, max_index: int, seed: int) -> Int64s:
    """Shuffle places (numbers in `[0, max_index]`) by the permutation that Grain uses for a seed.

    Args:
        places: `int64[n]`, each in `[0, max_index]`.
        max_index: the largest place.
        seed: in `[0, 2^32)`.

    Returns:
        `int64[n]`, the permuted places.

    >>> shuffled(np.arange(10), max_index=9, seed=42).tolist()
    [8, 6, 7, 9, 0, 5, 1, 2, 4, 3]
    """
    return _permuted(places, max_index, seed, back=False)


def places_of(keys: Int64s, max_index: int, seed: int) -> Int64s:
    """Return the places that `shuffled` maps to `keys`.

    This is the inverse of `shuffled`. Pass the same `max_index` and `seed`.

    Args:
        keys: `int64[n]`, each in `[0, max_index]`.
        max_index: the largest place.
        seed: in `[0, 2^32)`.

    Returns:
        `int64[n]`.
    """
    return _permuted(keys, max_index, seed, back=True)


def _permuted(numbers: Int64s, max_index: int, seed: int, back: bool) -> Int64s:
    if max_index == 0:
        return np.zeros(len(numbers), dtype=np.int64)
    if _last_stays(max_index):
        below = _permuted(np.minimum(numbers, max_index - 1), max_index - 1, seed, back)
        return np.where(numbers == max_index, max_index, below)
    bits = _bits(max_index)
    keys = round_keys(seed, bits // 2)
    if bits == TABLE_BITS:
        table = small_epoch(max_index, keys)
        return (np.argsort(table) if back else table).take(numbers).astype(np.int64)
    out = np.empty(len(numbers), dtype=np.int64)
    for start in range(0, len(numbers), BLOCK):
        block = slice(start, start + BLOCK)
        out[block] = _walk(numbers[block].astype(np.uint64), max_index, keys, bits // 2, back)
    return out


def shuffled_one(place: int, max_index: int, seed: int, rounds: int = ROUNDS) -> int:
    """Shuffle one place (a number in `[0, max_index]`) by Grain's permutation, like `shuffled`.

    Args:
        place: in `[0, max_index]`.
        max_index: the largest place.
        seed: in `[0, 2^32)`.
        rounds: number of rounds of the cipher, even. Datasets and samplers use the default, 4.

    >>> singly = [shuffled_one(place, max_index=10**6, seed=42) for place in (0, 1)]
    >>> singly == shuffled(np.arange(2), 10**6, 42).tolist()
    True
    """
    if max_index == 0:
        return 0
    if _last_stays(max_index):
        return max_index if place == max_index else shuffled_one(place, max_index - 1, seed, rounds)
    bits = _bits(max_index)
    width = bits // 2
    keys = round_keys(seed, width, rounds)
    if bits == TABLE_BITS:
        return int(small_epoch(max_index, keys)[place])
    mask: Any = (1 << width) - 1
    while True:
        left, right = _rounds(place >> width, place & mask, keys, width, mask)
        place = left << width | right
        if place <= max_index:
            return place


def _bits(max_index: int) -> int:
    bits = max(TABLE_BITS, (max_index - 1).bit_length())
    return bits + bits % 2


def _last_stays(max_index: int) -> bool:
    """Return True if Grain's permutation of `[0, max_index]` does not move `max_index`.

    Grain's cipher then has no number for `max_index`.
    """
    return max_index == 1 << _bits(max_index)


@lru_cache(maxsize=16)
def small_epoch(max_index: int, keys: tuple[int, ...]) -> NDArray[np.uint16]:
    """Return Grain's permutation of `[0, max_index]` as a table with one entry for each number.

    The permutation uses a cipher of 16 bits.

    Args:
        max_index: the largest number, less than 2^16.
        keys: keys of the cipher's rounds.

    Returns:
        `uint16[max_index + 1]`.
    """
    # All numbers walk at once, twice as far each time: `walk` is one step of the cipher, then two,
    # then four, until all are inside.
    walk = _cipher_table(keys)
    numbers = walk[: max_index + 1].copy()
    walk[: max_index + 1] = np.arange(len(numbers))
    while (numbers > max_index).any():
        numbers, walk = walk.take(numbers), walk.take(walk)
    return numbers


def _cipher_table(keys: tuple[int, ...]) -> NDArray[np.uint16]:
    """Return a cipher of 16 bits as a table, with one entry for each number below 2^16.

    Args:
        keys: keys of the cipher's rounds.

    Returns:
        `uint16[65536]`.
    """
    byte = np.arange(256, dtype=np.uint8)
    left, right = _rounds(byte[:, None], byte, keys, TABLE_BITS // 2, np.uint8(0xFF))
    table: NDArray[np.uint16] = ((left.astype(np.uint16) << np.uint16(8)) | right).ravel()
    return table


def _walk(numbers: Words, max_index: int, keys: tuple[int, ...], width: int, back: bool) -> Words:
    numbers = _encipher(numbers, keys, width, back)
    while (outside := np.flatnonzero(numbers > np.uint64(max_index))).size:
        numbers[outside] = _encipher(numbers[outside], keys, width, back)
    return numbers


def _encipher(numbers: Words, keys: tuple[int, ...], width: int, back: bool) -> Words:
    """Apply four rounds of Grain's cipher to numbers, or undo the rounds.

    The rounds treat a number as two words of `width` bits.

    Args:
        numbers: `uint64[n]`; the upper bits are the left word.
        keys: keys of the rounds.
        width: number of bits of a word.
        back: False to apply the rounds, True to undo them.

    Returns:
        `uint64[n]`.
    """
    mask = np.uint64((1 << width) - 1)
    left, right = (numbers >> np.uint64(width)) & mask, numbers & mask
    if back:
        right, left = _rounds(right, left, keys[::-1], width, mask)
    else:
        left, right = _rounds(left, right, keys, width, mask)
    made: Words = (left << np.uint64(width)) | right
    return made


def _rounds(left: Any, right: Any, keys: tuple[int, ...], width: int, mask: Any) -> tuple[Any, Any]:
    """Apply the rounds of Grain's cipher to pairs of words; return the new left and right words.

    Args:
        left: the left words, an array or a number of the same type as `mask`.
        right: the right words, of the same type.
        keys: keys of the rounds, an even number.
        width: number of bits of a word.
        mask: `2^width - 1`.
    """
    number = type(mask)
    for index in range(0, len(keys), 2):
        left = left ^ _mixed(right, width, mask) ^ number(keys[index])
        right = right ^ _mixed(left, width, mask) ^ number(keys[index + 1])
    return left, right


def _mixed(word: Any, width: int, mask: Any) -> Any:
    number = type(mask)

    def rotated(bits: int) -> Any:
        return ((word << number(bits)) | (word >> number(width - bits))) & mask

    return (rotated(1) & rotated(8 % width)) ^ rotated(2)


@lru_cache(maxsize=1024)
def round_keys(seed: int, width: int, rounds: int = ROUNDS) -> tuple[int, ...]:
    """Return the keys of Grain's cipher for a seed: one int of `width` bits for each round.

    Args:
        seed: in `[0, 2^32)`.
        width: number of bits of a key.
        rounds: number of rounds.
    """
    return tuple(word & ((1 << width) - 1) for word in seed_sequence(seed, rounds))


def seed_sequence(seed: int, count: int) -> list[int]:
    """Return the first `count` words of C++'s `std::seed_seq{seed}.generate`.

    Defined in ISO C++, [rand.util.seedseq].

    >>> seed_sequence(0, 4)
    [2963817213, 69796629, 1973464570, 532167439]
    """
    words = [0x8B8B8B8B] * count
    shift = next((shift for least, shift in _SHIFTS if count >= least), (count - 1) // 2)
    middle = (count - shift) // 2
    far = middle + shift
    steps = max(2, count)  # one seed and its number: two inputs
    for step in range(steps):
        here, near, there = step % count, (step + middle) % count, (step + far) % count
        mixed = words[here] ^ words[near] ^ words[(step - 1) % count]
        first = (mixed ^ (mixed >> 27)) * 1664525 & _MASK32
        added = 1 if step == 0 else here + (seed if step == 1 else 0)
        second = (first + added) & _MASK32
        words[near] = (words[near] + first) & _MASK32
        words[there] = (words[there] + second) & _MASK32
        words[here] = second
    for step in range(steps, steps + count):
        total = (
            words[step % count] + words[(step + middle) % count] + words[(step - 1) % count]
            & _MASK32
        )
        first = (total ^ (total >> 27)) * 1566083941 & _MASK32
        second = (first - step % count) & _MASK32
        words[(step + middle) % count] ^= first
        words[(step + far) % count] ^= second
        words[step % count] = second
    return words
