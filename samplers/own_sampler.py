"""Adapt a user's own sampler to the loader, and check the object that a user passes as a sampler.

In: the user's sampler. Out: an order with all members of `VectorSampler`.
"""

from __future__ import annotations

import copy
import operator
from bisect import bisect_left
from collections.abc import Callable, Sized
from typing import Any, Self

import numpy as np

from ..common.identity.values import digest, plain_attributes
from ..common.messages import a_kind_of, short_repr
from ..errors import RecordKeyError, StopIterationError
from .facts import OrderFacts
from .protocol import ENDLESS, Int64s, RecordMetadata, Sampler, VectorSampler, Words
from .sharding import NoSharding, ShardOptions, as_shard_options


class ScalarSampler(VectorSampler):
    """A user's `Sampler` as a `VectorSampler`: `record_keys` and `seeds` call it once per position.

    If the user's sampler returns a random generator (`rng`) for position 0, random operations get a
    seed at each position: one number that is drawn from the generator of this position (0 if a
    position has no generator).

    Args:
        sampler: the user's sampler. It is called for position 0, and up to 63 times to find its
            length if it has no `__len__`. Its `shard_options` and `fingerprint` are used if it has
            them.

    Raises:
        TypeError: if the call for position 0 does not return a `RecordMetadata` with a record key.
        RecordKeyError: if the first record key is not an int, and the sampler has no `fingerprint`.
        StopIterationError: if one of these calls raises StopIteration.
    """

    shard_options: ShardOptions
    seed: int | None
    epoch_length: int
    fingerprint: dict[str, Any]

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self.shard_options = as_shard_options(
            getattr(sampler, "shard_options", None) or NoSharding()
        )
        self._length = self.epoch_length = _length_of(sampler)
        self._first = _metadata_from(self._metadata, 0) if self._length else None
        rng = None if self._first is None else self._first.rng
        # None says that random operations cannot run.
        self.seed = None if rng is None else _seed_of(rng)
        self.fingerprint = self._fingerprint()

    def _fingerprint(self) -> dict[str, Any]:
        """Return the `fingerprint` of the user's sampler, or make one if it has none.

        Returns:
            the sampler's own `fingerprint`; else a dict with its class, its length, and a digest of
            its plain attributes, its first record key and its seed.

        Raises:
            RecordKeyError: if the first record key is not an int, and the sampler has no
                `fingerprint`.
        """
        explicit: dict[str, Any] | None = getattr(self._sampler, "fingerprint", None)
        if explicit:
            return explicit
        first = None if self._first is None else int(self._checked([self._first.record_key])[0])
        parameters = digest([plain_attributes(self._sampler), first, self.seed], 8)
        return {
            "kind": type(self._sampler).__qualname__,
            "length": len(self),
            "parameters": parameters,
        }

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return short_repr(self._sampler)

    @property
    def facts(self) -> OrderFacts:
        return OrderFacts(block_size=1)

    def for_source(self, records: int, part: str | None = None) -> Self:
        """Return this order for a source of `records` records.

        If the user's sampler is endless, an epoch of the returned order has `records` positions.
        `part` is not used.
        """
        other = copy.copy(self)
        other.epoch_length = min(self._length, records) if self._length >= ENDLESS else self._length
        return other

    def _metadata(self, position: int) -> RecordMetadata:
        metadata = self._sampler[position]
        if getattr(metadata, "record_key", None) is None:
            raise TypeError(
                f"{type(self._sampler).__name__}[{position}] returned {short_repr(metadata)}. A "
                "sampler must return headrace.RecordMetadata(index, record_key), with the key of a "
                "record, an int in [0, len(source))."
            )
        return metadata

    def record_keys(self, positions: Int64s) -> Int64s:
        return self._checked(
            [self._metadata(position).record_key for position in positions.tolist()]
        )

    def _checked(self, keys: list[Any]) -> Int64s:
        try:
            return np.array(list(map(_whole, keys)), dtype=np.int64)
        except (OverflowError, TypeError):
            wrong = next((key for key in keys if not _is_key(key)), keys)
            raise RecordKeyError(
                f"{type(self._sampler).__name__} returned record_key={short_repr(wrong)}, which is "
                "not a key of a source. A sampler must return RecordMetadata(index, record_key) "
                "with an int in [0, len(source))."
            ) from None

    def seeds(self, positions: Int64s) -> Words | None:
        if self.seed is None:
            return None
        generators = [self._metadata(position).rng for position in positions.tolist()]
        return np.array(
            [0 if rng is None else _seed_of(rng) for rng in generators], dtype=np.uint64
        )


def _whole(key: Any) -> int:
    """Convert a record key to an int. A float must be a whole number.

    Raises:
        TypeError: if the key is another value.
    """
    return int(key) if isinstance(key, float) and key.is_integer() else operator.index(key)


def _is_key(value: Any) -> bool:
    try:
        return -(1 << 63) <= _whole(value) < 1 << 63
    except TypeError:
        return False


def _metadata_from(ask: Callable[[int], RecordMetadata], position: int) -> RecordMetadata:
    try:
        return ask(position)
    except StopIteration as error:
        raise StopIterationError(
            f"the sampler raised StopIteration at position {position}. After its last position it "
            "must raise IndexError."
        ) from error


def _length_of(sampler: Sampler) -> int:
    """Return `len(sampler)`, or find the number of positions if the sampler has no `__len__`.

    Then a binary search of 63 calls finds the first position that raises IndexError.

    Raises:
        StopIterationError: if such a call raises StopIteration.
    """
    if isinstance(sampler, Sized):
        return len(sampler)

    def is_after_end(position: int) -> bool:
        try:
            _metadata_from(lambda index: sampler[index], position)
        except IndexError:
            return True
        return False

    return bisect_left(range(ENDLESS), True, key=is_after_end)


def _seed_of(rng: np.random.Generator) -> int:
    return int(rng.integers(1 << 63))


def as_vector_sampler(sampler: Any) -> VectorSampler:
    """Convert any sampler to a sampler that returns the keys of many positions at once.

    A `VectorSampler`, such as the samplers of headrace, is returned as it is.

    Raises:
        TypeError: if `sampler` is a class, a list, tuple, dict, text or array, or has no
            `__getitem__`; or if its first call does not return a `RecordMetadata` with a record
            key.
        RecordKeyError: if its first record key is not an int, and it has no `fingerprint`.
        StopIterationError: if one of its first calls raises StopIteration.
    """
    if isinstance(sampler, type):
        raise TypeError(
            f"sampler is the class {sampler.__name__}. Pass an instance, {sampler.__name__}(…)."
        )
    if isinstance(sampler, VectorSampler):
        return sampler
    if isinstance(sampler, Sampler) and not isinstance(
        sampler, (list, tuple, dict, str, bytes, np.ndarray)
    ):
        return ScalarSampler(sampler)
    _refuse_iterable(sampler)
    raise TypeError(
        f"sampler={short_repr(sampler)} is not a sampler. Pass "
        "headrace.IndexSampler(num_records=…), or an object with __getitem__(index) -> "
        "RecordMetadata."
    )


_INSTEAD = {
    "RandomSampler": "headrace.IndexSampler(len(source), shuffle=True, seed=0)",
    "SequentialSampler": "headrace.SequentialSampler(len(source))",
    "DistributedSampler": (
        "headrace.IndexSampler(len(source), headrace.ShardOptions(rank, world_size), "
        "shuffle=True, seed=0)"
    ),
    "WeightedRandomSampler": "headrace.WeightedSampler(weights, num_samples, seed=0)",
    "SubsetRandomSampler": "an IndexSampler, and the records of the subset as data_source=",
    "BatchSampler": (
        "headrace.IndexSampler(len(source), shuffle=True, seed=0), "
        "and operations=[…, headrace.Batch(batch_size)]"
    ),
}
"""For the class names of PyTorch's samplers: what to write in headrace."""


def _refuse_iterable(sampler: Any) -> None:
    """Raise TypeError if the sampler can only be iterated, like PyTorch's samplers."""
    if not hasattr(sampler, "__iter__") or hasattr(sampler, "__getitem__"):
        return
    known = [_INSTEAD[kind.__name__] for kind in type(sampler).__mro__ if kind.__name__ in _INSTEAD]
    remedy = known[0] if known else _INSTEAD["RandomSampler"]
    raise TypeError(
        f"sampler={short_repr(sampler)} is {a_kind_of(sampler)}, which can only be iterated, but "
        f"headrace asks for the record at any position. Pass {remedy}."
    )
