"""Protocols of samplers, and the adapter that lets the loader use a user's own sampler.

In: positions in the global order. Out: record keys.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..common.generators.keyed_random import fresh_generator
from ..common.identity.values import digest, plain_attributes
from ..common.messages import a_kind_of, short_repr
from ..errors import RecordKeyError, StopIterationError
from .sharding import NoSharding, ShardOptions, as_shard_options

if TYPE_CHECKING:
    from numpy.random import Generator

ENDLESS = sys.maxsize
"""`len()` of a sampler that never ends."""


@dataclass
class RecordMetadata:
    """Index, record key and random generator of the record at one position.

    Attributes:
        index: the global position.
        record_key: row number in the source.
        rng: generator of this position; None if the sampler has no seed.
    """

    index: int
    record_key: int | None = None
    rng: Generator | None = None

    def __repr__(self) -> str:
        """Return a text without the memory address that a generator's own repr contains."""
        return f"RecordMetadata(index={self.index}, record_key={self.record_key}, rng={self.rng})"


@runtime_checkable
class Sampler(Protocol):
    """Protocol of a user's own sampler: it returns the record at a position.

    After its last position it raises IndexError.

    `__len__` is optional and returns the number of positions (`sys.maxsize`: endless). The sampler
    is called in the user's process and in workers, from any thread; it must return the same result
    every time.
    """

    def __getitem__(self, index: int) -> RecordMetadata:
        """Return the record at the global position `index`; IndexError after the last position."""
        ...


class SamplerLike(Protocol):
    """A sampler for type checkers, which may also return another library's `RecordMetadata`."""

    def __getitem__(self, index: Any, /) -> Any: ...


class VectorSampler(Protocol):
    """Protocol of the samplers that the loader uses, which return the keys of many positions.

    All samplers of headrace have it; `as_vector_sampler` converts any `Sampler`.
    """

    @property
    def shard_options(self) -> ShardOptions:
        """The shard of this process."""
        ...

    @property
    def seed(self) -> int | None:
        """Seed of random operations; None: they cannot run."""
        ...

    @property
    def epoch_length(self) -> int:
        """Number of positions in an epoch."""
        ...

    @property
    def block_size(self) -> int:
        """Number of positions to ask `record_keys` for at a time: many for arithmetic, 1 for a user's code."""

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The values that determine the order, as JSON values, without the shard."""
        ...

    def __len__(self) -> int:
        """Return the number of positions of all shards together; `sys.maxsize`: endless."""
        ...

    def record_keys(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the record keys `int64[n]` at global positions `int64[n]`, which are in `[0, len(self))`."""
        ...

    def seeds(self, positions: NDArray[np.int64]) -> NDArray[np.uint64] | None:
        """Return a seed `uint64[n]` for each position `int64[n]`; None: `seed` is used for all."""
        ...

    def with_shard_options(self, shard_options: ShardOptions) -> VectorSampler:
        """Return this sampler for the shard `shard_options`."""
        ...


def metadata_at(sampler: Any, index: int) -> RecordMetadata:
    """Return the record at one global position of a headrace sampler.

    Raises:
        IndexError: if `index` is outside `[0, len(sampler))`.
    """
    index = operator.index(index)
    if not 0 <= index < len(sampler):
        raise IndexError(
            f"position {short_repr(index)} is outside of [0, {len(sampler)}), the positions of {sampler}. "
            "Pass one of these."
        )
    key = int(sampler.record_keys(np.array([index], dtype=np.int64))[0])
    return RecordMetadata(index, key, None if sampler.seed is None else fresh_generator(sampler.seed, index))


class ScalarSampler:
    """A user's `Sampler` as a `VectorSampler`: it is called once for each position.

    If it returns generators (`rng`), one number is drawn from each; this number is the seed of
    random operations at its position.

    Args:
        sampler: the user's sampler; it is called once for position 0.
        shard_options: the shard of this process; None (default): the sampler's own, or no sharding.
        length: number of positions; None (default): `len(sampler)`, or found by calls.

    Raises:
        TypeError: if a call does not return a `RecordMetadata` with a record key.
        StopIterationError: if the first call raises StopIteration.
    """

    block_size = 1

    def __init__(self, sampler: Sampler, shard_options: ShardOptions | None = None, length: int | None = None) -> None:
        self._sampler = sampler
        self.shard_options = as_shard_options(shard_options or getattr(sampler, "shard_options", None) or NoSharding())
        self.epoch_length = _length_of(sampler) if length is None else length
        self._first = _metadata_from(self._metadata, 0) if self.epoch_length else None
        rng = None if self._first is None else self._first.rng
        self.seed = None if rng is None else _seed_of(rng)  # None says that random operations cannot run
        self.fingerprint = self._fingerprint()

    def _fingerprint(self) -> dict[str, Any]:
        """Return the sampler's own `fingerprint`, or one made of its class, its length and a digest.

        The digest covers its plain attributes and the record at the first position.

        Raises:
            RecordKeyError: if the first record key is not an int, and the sampler has no `fingerprint`.
        """
        explicit: dict[str, Any] | None = getattr(self._sampler, "fingerprint", None)
        if explicit:
            return explicit
        first = None if self._first is None else int(self._checked([self._first.record_key])[0])
        parameters = digest([plain_attributes(self._sampler), first, self.seed], 8)
        return {"kind": type(self._sampler).__qualname__, "length": len(self), "parameters": parameters}

    def __len__(self) -> int:
        return self.epoch_length

    def _metadata(self, position: int) -> RecordMetadata:
        metadata = self._sampler[position]
        if getattr(metadata, "record_key", None) is None:
            raise TypeError(
                f"{type(self._sampler).__name__}[{position}] returned {short_repr(metadata)}. A sampler must "
                "return RecordMetadata(index, record_key)."
            )
        return metadata

    def record_keys(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._checked([self._metadata(position).record_key for position in positions.tolist()])

    def _checked(self, keys: list[Any]) -> NDArray[np.int64]:
        try:
            return np.array(list(map(_whole, keys)), dtype=np.int64)
        except (OverflowError, TypeError):
            wrong = next((key for key in keys if not _is_key(key)), keys)
            raise RecordKeyError(
                f"{type(self._sampler).__name__} returned record_key={short_repr(wrong)}, which is not a key of a "
                "source. A sampler must return RecordMetadata(index, record_key) with an int in [0, len(source))."
            ) from None

    def seeds(self, positions: NDArray[np.int64]) -> NDArray[np.uint64] | None:
        if self.seed is None:
            return None
        generators = [self._metadata(position).rng for position in positions.tolist()]
        return np.array([0 if rng is None else _seed_of(rng) for rng in generators], dtype=np.uint64)

    def with_shard_options(self, shard_options: ShardOptions) -> ScalarSampler:
        return ScalarSampler(self._sampler, shard_options, self.epoch_length)


def _whole(key: Any) -> int:
    """Convert a record key to an int; a float is accepted only if it is a whole number.

    Raises:
        TypeError: if it is another value.
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
            f"the sampler raised StopIteration at position {position}. After its last position it must raise "
            "IndexError."
        ) from error


def _length_of(sampler: Sampler) -> int:
    """Return the number of positions of a sampler, `len(sampler)`.

    Without `__len__`, the first position that raises IndexError is found by a binary search of 63
    calls.

    Raises:
        StopIterationError: if such a call raises StopIteration.
    """
    if isinstance(sampler, Sized):
        return len(sampler)
    low, high = 0, ENDLESS
    while low < high:
        middle = (low + high) // 2
        try:
            _metadata_from(lambda position: sampler[position], middle)
        except IndexError:
            high = middle
        else:
            low = middle + 1
    return low


def _seed_of(rng: Generator) -> int:
    return int(rng.integers(1 << 63))


def as_vector_sampler(sampler: Any) -> VectorSampler:
    """Convert any sampler to one that returns the keys of many positions at once.

    A sampler that has `record_keys` and `with_shard_options` is returned as it is.

    Raises:
        TypeError: if it is a class, a list or another collection, or has no `__getitem__`; or if
            its first call does not return a `RecordMetadata` with a record key.
        StopIterationError: if one of its first calls raises StopIteration.
    """
    if isinstance(sampler, type):
        raise TypeError(f"sampler is the class {sampler.__name__}. Pass an instance, {sampler.__name__}(…).")
    if hasattr(sampler, "record_keys") and hasattr(sampler, "with_shard_options"):
        return sampler  # type: ignore[no-any-return]
    if isinstance(sampler, Sampler) and not isinstance(sampler, (list, tuple, dict, str, bytes, np.ndarray)):
        return ScalarSampler(sampler)
    _refuse_iterable(sampler)
    raise TypeError(
        f"sampler={short_repr(sampler)} is not a sampler. Pass headrace.IndexSampler(num_records=…), or "
        "an object with __getitem__(index) -> RecordMetadata."
    )


_INSTEAD = {
    "RandomSampler": "headrace.IndexSampler(len(source), shuffle=True, seed=0)",
    "SequentialSampler": "headrace.SequentialSampler(len(source))",
    "DistributedSampler": "headrace.IndexSampler(len(source), headrace.ShardOptions(rank, world_size), shuffle=True, seed=0)",
    "WeightedRandomSampler": "headrace.WeightedSampler(weights, num_samples, seed=0)",
    "SubsetRandomSampler": "an IndexSampler, and the records of the subset as data_source=",
    "BatchSampler": "headrace.IndexSampler(len(source), shuffle=True, seed=0), and operations=[…, headrace.Batch(batch_size)]",
}
"""For the class names of PyTorch's samplers: what to write in headrace."""


def _refuse_iterable(sampler: Any) -> None:
    """Raise TypeError for a sampler that can only be iterated, like PyTorch's; else do nothing."""
    if not hasattr(sampler, "__iter__") or hasattr(sampler, "__getitem__"):
        return
    known = [_INSTEAD[kind.__name__] for kind in type(sampler).__mro__ if kind.__name__ in _INSTEAD]
    remedy = known[0] if known else _INSTEAD["RandomSampler"]
    raise TypeError(
        f"{a_kind_of(sampler)} can only be iterated over, but headrace needs the record at any position. Pass {remedy}."
    )
