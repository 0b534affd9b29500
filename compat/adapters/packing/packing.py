"""The base of packings: they read their parent in order in the user's process; workers run the operations before them.

In: a packing, and options for workers. Out: the same packing of elements that come from workers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ..chains.iter_dataset import IterDataset


class Packing(IterDataset[Any]):
    """A dataset that puts elements of its parent together."""

    def fed_by(self, options: Any, worker_init_fn: Callable[[int, int], None] | None) -> Packing | None:
        """The same, of elements that workers make.

        None where that does not pay: nothing is done to them but reading, or they are run through in order, too.
        """
        parent = self._parent
        if not parent._stream.operations or any(leaf.in_order for leaf in parent._pipeline.leaves):
            return None
        fed = copy.copy(self)
        fed._parents = (parent.mp_prefetch(options, worker_init_fn),)
        return fed
