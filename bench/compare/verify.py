"""Check that all contenders do the same work: compare the checksums of their first batches, in one
common order.

It takes contenders and a workload, and raises an error that names a contender and the difference.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from compare.work import Contender, Work
from compare.workloads import WrongRecordError
from measuring import closing
from numpy.typing import NDArray

BATCHES = 3


class DifferentWorkError(Exception):
    """Two contenders do not do the same work."""


LeafSum = dict[str, Any]
"""One leaf of a batch, in brief: its dtype and shape, a checksum of what random draws cannot
change, and one of all of it.
"""

SHAPE, SETTLED, EXACT = ("dtype", "shape"), "checksum", "checksum of the random rows"


def verify(work: Work, contenders: Sequence[Contender]) -> str:
    """Compare the first batches of all contenders with those of the first one.

    Returns:
        The common checksum, of what random draws cannot change.

    Raises:
        DifferentWorkError: a batch differs in structure, dtype, shape or content.
    """
    work = dataclasses.replace(work, shared_order=True)
    sums = [_sums(work, contender) for contender in contenders]
    for contender, own in zip(contenders[1:], sums[1:]):
        fields = _comparable(contender, contenders[0], work.workload.random)
        for number, (batch, expected) in enumerate(zip(own, sums[0])):
            difference = _difference(batch, expected, fields)
            if difference is not None:
                what = f"{work.workload.name}: batch {number} of {contender.label}"
                raise DifferentWorkError(
                    f"{what} is not that of {contenders[0].label}: {difference}"
                )
    return _digest(",".join(leaf[SETTLED] for batch in sums[0] for leaf in batch.values()).encode())


def _comparable(contender: Contender, first: Contender, random: bool) -> tuple[str, ...]:
    """The fields in which two contenders must be alike."""
    if contender.striped:
        return SHAPE
    keyed = contender.setting.keyed_draws and first.setting.keyed_draws
    return (*SHAPE, SETTLED, EXACT) if keyed or not random else (*SHAPE, SETTLED)


def _difference(
    batch: dict[str, LeafSum], expected: dict[str, LeafSum], fields: Sequence[str]
) -> str | None:
    if batch.keys() != expected.keys():
        return f"leaves {[*batch]} ≠ {[*expected]}"
    pairs = (
        (name, field, batch[name][field], leaf[field])
        for name, leaf in expected.items()
        for field in fields
    )
    return next(
        (f"leaf {name!r}: {field} {one} ≠ {two}" for name, field, one, two in pairs if one != two),
        None,
    )


def _sums(work: Work, contender: Contender) -> list[dict[str, LeafSum]]:
    keys: Iterable[NDArray[Any]] = work.key_batches()
    if contender.striped:
        keys = _striped(keys, contender.worker_count)
    with closing(iter(contender.loader(work))) as batches:
        pairs = itertools.islice(zip(batches, keys), BATCHES)
        try:
            return [
                _sum(batch, work.workload.settled(batch, work.data.read(some.tolist())))
                for batch, some in pairs
            ]
        except WrongRecordError as error:
            raise DifferentWorkError(f"{work.workload.name}: {contender.label}: {error}") from None


def _sum(batch: Any, settled: Any) -> dict[str, LeafSum]:
    pairs = zip(_leaves(batch), _leaves(settled))
    return {
        name: {
            "dtype": array.dtype.name,
            "shape": array.shape,
            SETTLED: _digest(other),
            EXACT: _digest(array),
        }
        for (name, array), (_, other) in pairs
    }


def _leaves(batch: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """Names and arrays, whatever they are: arrays, tensors, or the bytes of equally
    long records.
    """
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
    """The keys of batches that so many workers make in turns, each of the records that
    are its own.
    """
    batches = iter(keys)
    while several := list(itertools.islice(batches, workers)):
        yield from np.concatenate(several).reshape(-1, workers).T
