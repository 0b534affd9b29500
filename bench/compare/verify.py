"""Check that all contenders do the same work: compare the checksums of their first batches, in one common order.

It takes contenders and a workload, and raises an error that names a contender and the difference.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from compare.work import Contender, Work
from compare.workloads import WrongRecordError
from measuring import closing
from numpy.typing import NDArray

BATCHES = 3


class DifferentWorkError(Exception):
    """Two contenders do not do the same work."""


@dataclass(frozen=True)
class LeafSum:
    """One leaf of a batch, in brief.

    Attributes:
        name: its place in the batch.
        dtype: of its elements.
        shape: with the batch's axis.
        settled: checksum of what random draws cannot change.
        exact: checksum of all of it.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    settled: str
    exact: str

    def shape_only(self) -> LeafSum:
        """The same without any content."""
        return dataclasses.replace(self, settled="", exact="")

    def difference(self, other: LeafSum, exactly: bool) -> str | None:
        """In what it is unlike `other`."""
        for field in ("name", "dtype", "shape", "settled", *(["exact"] if exactly else [])):
            mine, theirs = getattr(self, field), getattr(other, field)
            if mine != theirs:
                what = {"settled": "checksum", "exact": "checksum of the random rows"}.get(field, field)
                return f"{what} {mine} ≠ {theirs}"
        return None


BatchSum = tuple[LeafSum, ...]


def verify(work: Work, contenders: Sequence[Contender]) -> str:
    """Compare the first batches of all contenders with those of the first one.

    Returns:
        The common checksum, of what random draws cannot change.

    Raises:
        DifferentWorkError: a batch differs in structure, dtype, shape or content.
    """
    work, workload = dataclasses.replace(work, shared_order=True), work.workload
    sums = [_sums(work, contender) for contender in contenders]
    for contender, own in zip(contenders[1:], sums[1:]):
        if _is_striped(contender):  # dtypes and shapes can be compared
            own = [tuple(leaf.shape_only() for leaf in batch) for batch in own]
            others = [tuple(leaf.shape_only() for leaf in batch) for batch in sums[0]]
        else:
            others = sums[0]
        exactly = contender.setting.keyed_draws and contenders[0].setting.keyed_draws
        for number, (batch, expected) in enumerate(zip(own, others)):
            difference = _difference(batch, expected, exactly or not workload.random)
            if difference is not None:
                raise DifferentWorkError(
                    f"{workload.name}: batch {number} of {contender.label} is not that of "
                    f"{contenders[0].label}: {difference}"
                )
    return _digest(",".join(leaf.settled for batch in sums[0] for leaf in batch).encode())


def _difference(batch: BatchSum, expected: BatchSum, exactly: bool) -> str | None:
    if len(batch) != len(expected):
        return f"{len(batch)} leaves ≠ {len(expected)} leaves"
    for leaf, other in zip(batch, expected):
        difference = leaf.difference(other, exactly)
        if difference is not None:
            return f"leaf {leaf.name!r}: {difference}"
    return None


def _is_striped(contender: Contender) -> bool:
    return contender.setting.striped and contender.worker_count > 0


def _sums(work: Work, contender: Contender) -> list[BatchSum]:
    keys: Iterable[NDArray[Any]] = work.key_batches()
    if _is_striped(contender):
        keys = _striped(keys, contender.worker_count)
    with closing(iter(contender.loader(work))) as batches:
        pairs = itertools.islice(zip(batches, keys), BATCHES)
        try:
            return [_sum(batch, work.workload.settled(batch, work.data.read(some.tolist()))) for batch, some in pairs]
        except WrongRecordError as error:
            raise DifferentWorkError(f"{work.workload.name}: {contender.label}: {error}") from None


def _sum(batch: Any, settled: Any) -> BatchSum:
    pairs = zip(_leaves(batch), _leaves(settled))
    return tuple(
        LeafSum(name, array.dtype.name, array.shape, _digest(other), _digest(array))
        for (name, array), (_, other) in pairs
    )


def _leaves(batch: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """Names and arrays, whatever they are: arrays, tensors, or the bytes of equally long records."""
    if isinstance(batch, dict):
        for name in sorted(batch):
            yield name, np.ascontiguousarray(batch[name])
    elif isinstance(batch, list):
        yield "", np.frombuffer(b"".join(batch), np.uint8).reshape(len(batch), -1)
    else:
        yield "", np.ascontiguousarray(batch)


def _digest(content: bytes | NDArray[Any]) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def _striped(keys: Iterable[NDArray[Any]], workers: int) -> Iterator[NDArray[Any]]:
    """The keys of batches that so many workers make in turns, each of the records that are its own."""
    batches = iter(keys)
    while several := list(itertools.islice(batches, workers)):
        yield from np.concatenate(several).reshape(-1, workers).T
