"""The parts of a mix: make the order of each part from the user's arguments.

In: sources, numbers of records, or samplers. Out: samplers by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sized
from typing import Any

from ...common.messages import a_kind_of, short_repr
from ...common.validation import whole_number
from ..grain.own_orders import has_own_orders
from ..index import IndexSampler
from ..permutation import MAX_SIZE
from ..protocol import VectorSampler


def parts_by_name(parts: Any) -> dict[str, Any]:
    """Return the parts as a dict by name.

    Args:
        parts: a dict by name, a list, or a `MixedSource`. Parts of a list are named "0", "1", …

    Raises:
        TypeError: if `parts` is none of these, or a name is not a string.
        ValueError: if there are no parts.
    """
    parts = getattr(parts, "parts", parts)  # of a MixedSource
    if isinstance(parts, (list, tuple)):
        parts = {str(number): part for number, part in enumerate(parts)}
    for name in parts if isinstance(parts, Mapping) else ():
        if not isinstance(name, str):
            raise TypeError(
                f"a part of the mix has the name {short_repr(name)}, which is {a_kind_of(name)}. "
                "Pass a dict whose names are strings, or a list."
            )
    if not isinstance(parts, Mapping):
        raise TypeError(
            f"parts={short_repr(parts)} is {a_kind_of(parts)}. Pass a dict or a list of sources, "
            "of numbers of records, or of IndexSamplers."
        )
    if not parts:
        raise ValueError(
            "a mix needs at least one part, but there are none. Pass a dict or a list of sources."
        )
    return dict(parts)


def as_order(
    name: str, part: Any, shuffle: bool, seed: int | None, epochs: int | None
) -> VectorSampler:
    """Return the sampler that gives the order in which a part of a mix is read.

    Args:
        name: name of the part.
        part: a `VectorSampler`, which is returned; or a source, or its number of records. Any other
            sampler counts as a source.
        shuffle: True shuffles each epoch; not used for a sampler.
        seed: seed of the mix, from which the seed of the part is made.
        epochs: number of epochs; None for no end. Not used for a sampler.

    Raises:
        TypeError: if the part is neither a source nor a number nor a sampler, or has no records.
        ValueError: if a sampler has a `balance`, `shard_options` or `algorithm="grain"`, or
            `shuffle` has no `seed`.
    """
    if isinstance(part, VectorSampler):
        return _checked(name, part)
    try:
        records = whole_number("the number of records", _records_of(part), 1, MAX_SIZE, "…")
    except (TypeError, ValueError):
        if type(records := _records_of(part)) is int and not records:
            raise TypeError(
                f"part {short_repr(name)} of the mix has no records. Leave it out, or pass a "
                "source with records."
            ) from None
        raise TypeError(
            f"part {short_repr(name)} of the mix is {short_repr(part)}. Pass its source, the "
            f"number of its records (1 to {MAX_SIZE:,}), or an IndexSampler."
        ) from None
    own_seed = None if seed is None else _seed_of_part(seed, name)
    return IndexSampler(records, shuffle=shuffle, num_epochs=epochs, seed=own_seed)


def _records_of(part: Any) -> Any:
    """Return the number of records of a source, or the length of the first column of a dict.

    Any other value, such as an int, is returned as it is.
    """
    while isinstance(part, Mapping) and part:
        part = next(iter(part.values()))
    return len(part) if isinstance(part, Sized) and not isinstance(part, (str, bytes)) else part


def _checked(name: str, part: VectorSampler) -> VectorSampler:
    if part.facts.balance is not None:
        raise ValueError(
            f"part {short_repr(name)} of the mix has its own balance=. Pass it to the MixSampler "
            "instead, balance=headrace.Balance({part: lengths, …}, cost)."
        )
    if has_own_orders(part):
        raise ValueError(
            f'part {short_repr(name)} of the mix has algorithm="grain", with which each shard '
            "has an order of its own. Leave algorithm= out."
        )
    if part.shard_options.shard_count > 1:
        raise ValueError(
            f"part {short_repr(name)} of the mix has shard_options=. Pass shard_options= to the "
            "MixSampler or the DataLoader instead."
        )
    return part


def _seed_of_part(seed: int, name: str) -> int:
    """Return the seed of a part, made from the seed of the mix and the part's name.

    Parts of equal length are shuffled differently, because their seeds differ.
    """
    return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:4], "little")
