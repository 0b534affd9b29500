"""Omit records from an order: records that the user names, and those deleted from the source.

In: an order, a source, the user's `omit`. Out: an order without these records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...common.messages import a_kind_of, first_few, short_repr
from ...samplers.changing.growth import GrowthOptions
from ...samplers.changing.orders import living
from ...samplers.protocol import Int64s, VectorSampler
from ...sources.facts import facts_of
from ...sources.omission.keys import OmitOfParts, keys_to_omit


def living_order(
    order: VectorSampler, source: Any, omit: OmitOfParts | None, growth: GrowthOptions | None
) -> Any:
    """Return the order without omitted records; the same order if no records are omitted.

    Args:
        order: order of all records of the source.
        source: source of the records. It may state the keys of records that were deleted
            (`omitted_keys`).
        omit: records that the user omits: their keys, a file of keys, or a function; for a mix, a
            dict of these by part. None for no record other than deleted ones.
        growth: when records that are appended during a run are added to the order; None if they are
            not.

    Raises:
        TypeError: `omit` has a wrong type.
        RecordKeyError: it names a record that the source does not have.
        SourceError: a file of keys cannot be read; or `omit` is a function, and the source does not
            know the files of its records.
        ValueError: records cannot be omitted from this order; `omit` names a part that the mix does
            not have; or `omit` is a function and records are appended during a run.
        EmptyStreamError: no record is left.
    """
    refuse_to_ask_later(callable(omit), growth)
    if omit is None and not (order.facts.can_change or order.facts.parts):
        return order  # which may have weights of 0 for what is gone
    keys = {
        name: of_part for name, of_part in keys_by_part(order, source, omit).items() if len(of_part)
    }
    return living(order).without(keys) if keys else order


def refuse_to_ask_later(asked: bool, growth: GrowthOptions | None) -> None:
    """Check that `omit=` is no function if records are appended during a run.

    It would not be called for these records.

    Args:
        asked: True if `omit=` is a function.
        growth: when appended records are added to the order; None if they are not.

    Raises:
        ValueError: `omit=` is a function, and records are appended.
    """
    if asked and growth is not None:
        raise ValueError(
            "omit= is a function, which is called once for the records that exist when the loader "
            f"is made. Records that growth={growth.at!r} finds later would not be checked. Pass "
            'growth="hand", which reads only the records that exist now, or pass a list of record '
            "keys as omit=."
        )


def keys_by_part(
    order: VectorSampler, source: Any, omit: OmitOfParts | None, argument: str = "omit"
) -> dict[str, Int64s]:
    """Return the keys of omitted records, for each part of a mix by name: sorted arrays `int64[n]`.

    For an order without parts, the name is "". Omitted are the records that the user names,
    and records that were deleted from the source. `argument` is the user's name of `omit`, for
    messages.

    Raises:
        TypeError: `omit` has a wrong type.
        ValueError: it names a part that the mix does not have.
        RecordKeyError: it names a record that the source does not have.
        SourceError: a file of keys cannot be read; or `omit` is a function, and the source does not
            know the files of its records.
    """
    names = order.facts.parts
    if not names:
        return {"": _keys(source, omit, argument)}
    by_part = _by_part(names, omit, argument)
    return {name: _keys(source.parts[name], by_part.get(name), argument) for name in names}


def _by_part(names: Sequence[str], omit: Any, argument: str) -> Mapping[str, Any]:
    """Check the argument `omit` for a mix; return it as a mapping by part name, empty for None.

    Raises:
        TypeError: `omit` is not a mapping.
        ValueError: it names a part that the mix does not have.
    """
    if omit is None:
        return {}
    if not isinstance(omit, Mapping):
        raise TypeError(
            f"{argument}={short_repr(omit)} is {a_kind_of(omit)}. For a mix, pass a dict with the "
            f"keys of each part, {{{short_repr(names[0])}: […]}}."
        )
    unknown = [name for name in omit if name not in names]
    if unknown:
        raise ValueError(
            f"{argument}= names part {short_repr(unknown[0])}, but the parts of the mix are "
            f"{first_few(names, 8)}. Use these names."
        )
    return omit


def _keys(source: Any, omit: Any, argument: str) -> Int64s:
    named = np.empty(0, np.int64) if omit is None else keys_to_omit(source, omit, argument=argument)
    lacking = facts_of(source).omitted_keys
    return named if lacking is None else np.union1d(named, lacking)
