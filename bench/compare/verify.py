"""Check that all contenders do the same work: compare their first batches, in one common order."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from compare.work import Contender, DifferentWorkError, Work
from measuring import closing
from numpy.typing import NDArray

BATCHES = 3

Brief = dict[str, dict[str, Any]]
"""A batch: for each leaf its dtype, its shape, and a checksum of what random draws cannot change."""


def verify(work: Work, contenders: Sequence[Contender]) -> None:
    """Compare the first batches of all contenders with those of the first one.

    Raises:
        DifferentWorkError: a batch differs in structure, dtype, shape or content.
    """
    work = dataclasses.replace(work, shared_order=True)
    first, expected = contenders[0], _first_batches(work, contenders[0])
    for contender in contenders[1:]:
        if contender.setting.striped and contender.worker_count:
            continue
        for number, (batch, other) in enumerate(zip(_first_batches(work, contender), expected)):
            if difference := _difference(batch, other):
                what = f"{work.workload.name}: batch {number} of {contender.label}"
                raise DifferentWorkError(f"{what} is not that of {first.label}: {difference}")


def _first_batches(work: Work, contender: Contender) -> list[Brief]:
    with closing(iter(contender.loader(work))) as batches:
        pairs = itertools.islice(zip(batches, work.key_batches()), BATCHES)
        try:
            return [_brief(work, batch, keys.tolist()) for batch, keys in pairs]
        except DifferentWorkError as error:
            raise DifferentWorkError(f"{work.workload.name}: {contender.label}: {error}") from None


def _brief(work: Work, batch: Any, keys: list[int]) -> Brief:
    settle = work.workload.settled
    settled = _leaves(settle(batch, work.data.read(keys)) if settle else batch)
    brief = {}
    for name, array in _leaves(batch).items():
        checksum = hashlib.blake2b(settled[name], digest_size=8).hexdigest()
        brief[name] = {"dtype": array.dtype.name, "shape": array.shape, "checksum": checksum}
    return brief


def _difference(batch: Brief, expected: Brief) -> str:
    if batch.keys() != expected.keys():
        return f"leaves {[*batch]} ≠ {[*expected]}"
    for name, leaf in expected.items():
        for field, value in leaf.items():
            if batch[name][field] != value:
                return f"leaf {name!r}: {field} {batch[name][field]} ≠ {value}"
    return ""


def _leaves(batch: Any) -> dict[str, NDArray[Any]]:
    """Names and arrays, of arrays or tensors."""
    leaves = batch if isinstance(batch, dict) else {"": batch}
    return {name: np.ascontiguousarray(leaf) for name, leaf in leaves.items()}
