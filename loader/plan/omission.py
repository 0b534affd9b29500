"""Leaves records out of an order: those that a user names, and those that are no longer in the files.

In: an order, a source, what the user named. Out: an order in which the records never come.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.messages import a_kind_of, first_few, short_repr
from ...samplers.changing.growth import GrowthOptions
from ...samplers.changing.sampler import ChangingSampler
from ...samplers.mix.sampler import MixSampler
from ...sources.omission.keys import OmitOfParts, keys_to_omit


def living_order(order: Any, source: Any, omit: OmitOfParts | None, growth: GrowthOptions | None) -> Any:
    """The order without some records; the order as it is, if there are none.

    Args:
        order: of all records of the source.
        source: that is read; it may tell keys that it has no longer, `omitted_keys`.
        omit: as for `DataLoader`.
        growth: when records that are appended come in; None: never while it is read.

    Raises:
        TypeError, RecordKeyError, SourceError: as of `keys_to_omit`.
        ValueError: the order is none from which records can be left out.
        EmptyStreamError: no record is left.
    """
    refuse_to_ask_later(callable(omit), growth)
    if omit is None and not hasattr(order, "without") and not hasattr(order, "resized"):
        return order  # which may have weights of 0 for what is gone
    keys = {name: of_part for name, of_part in keys_by_part(order, source, omit).items() if len(of_part)}
    if isinstance(order, MixSampler):
        return order.without(keys)
    return ChangingSampler.of(order).without(keys[""]) if keys else order


def refuse_to_ask_later(asked: bool, growth: GrowthOptions | None) -> None:
    """Refuse a function that says which records are left out, where more come in. Raises ValueError."""
    if asked and growth is not None:
        raise ValueError(
            "omit= is a function of file and row, which is asked of the records that there are when the loader is made; those "
            f'that come in later by growth={growth.at!r} would not be asked of. Pass growth="hand", or record keys.'
        )


def keys_by_part(order: Any, source: Any, omit: OmitOfParts | None) -> dict[str, NDArray[np.int64]]:
    """The keys, ascending, that a user names of each part of a mix, and that it has no longer; else all, by the name "".

    Raises:
        TypeError, ValueError, RecordKeyError, SourceError: as above.
    """
    if not isinstance(order, MixSampler):
        return {"": _keys(source, omit)}
    by_part = _by_part(order, omit)
    return {name: _keys(source.parts[name], by_part.get(name)) for name in order.names}


def _by_part(mix: MixSampler, omit: Any) -> Mapping[str, Any]:
    """The records that are left out of each part of a mix, as the user names them."""
    if omit is None:
        return {}
    if not isinstance(omit, Mapping):
        raise TypeError(
            f"omit={short_repr(omit)} is {a_kind_of(omit)}; of a mix, pass a dict by part, {{{short_repr(mix.names[0])}: …}}."
        )
    unknown = [name for name in omit if name not in mix.names]
    if unknown:
        raise ValueError(
            f"omit= names part {short_repr(unknown[0])}, and the mix has {first_few(mix.names, 8)}; name parts of the mix."
        )
    return omit


def _keys(source: Any, omit: Any) -> NDArray[np.int64]:
    named = np.empty(0, np.int64) if omit is None else keys_to_omit(source, omit)
    lacking = getattr(source, "omitted_keys", None)
    return named if lacking is None else np.union1d(named, lacking)
