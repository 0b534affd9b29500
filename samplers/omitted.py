"""Records that are left out of an order.

In: record keys, in any order, as often as anybody likes. Out: a set of them, whose digest identifies it.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..common.fingerprint_values import digest_of

Keys = NDArray[np.int64]


class OmittedKeys:
    """A set of record keys; 8 bytes for each.

    Args:
        keys: `int64[n]`, not negative; not checked.

    Attributes:
        keys: ascending, each once, read-only.

    >>> omitted = OmittedKeys(np.array([7, 3, 7]))
    >>> len(omitted), omitted.has(np.array([2, 3])).tolist()
    (2, [False, True])
    """

    keys: Keys

    def __init__(self, keys: Keys) -> None:
        keys = np.asarray(keys, dtype=np.int64)
        if not (len(keys) < 2 or bool((keys[1:] > keys[:-1]).all())):
            keys = np.unique(keys)
        self.keys = keys.view()
        self.keys.flags.writeable = False

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def digest(self) -> str:
        """The identity of the set, 16 digits."""
        return digest_of(self.keys)

    def has(self, keys: Keys) -> NDArray[np.bool_]:
        """Whether each of some keys is left out."""
        if not len(self.keys):
            return np.zeros(len(keys), bool)
        places = np.searchsorted(self.keys, keys)
        found: NDArray[np.bool_] = self.keys[np.minimum(places, len(self.keys) - 1)] == keys
        return found

    def before(self, keys: Keys) -> Keys:
        """The number of keys left out below each of some keys."""
        return np.searchsorted(self.keys, keys).astype(np.int64, copy=False)

    def without(self, keys: Keys) -> OmittedKeys:
        """The set without some keys."""
        return OmittedKeys(self.keys[~OmittedKeys(keys).has(self.keys)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OmittedKeys) and np.array_equal(self.keys, other.keys)

    __hash__ = None  # type: ignore[assignment]  # of arrays

    def __repr__(self) -> str:
        return f"OmittedKeys({len(self)} keys)"
