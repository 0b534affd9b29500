"""The base of packings: they read their parent in order in the user's process; workers run the operations before them.

In: a packing, and options for workers. Out: the same packing of elements that come from workers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ....loader.plan.compile import compiled
from ..chains.iter_dataset import IterDataset
from ..chains.seeds import stream_of_dataset


class Packing(IterDataset[Any]):
    """A dataset that puts elements of its parent together."""

    def fed_by(self, options: Any, worker_init_fn: Callable[[int, int], None] | None) -> Packing | None:
        """The same, of elements that workers make.

        None where that does not pay: nothing is done to them but reading, or they are run through in order, too.
        """
        parent, stream = self._parent, stream_of_dataset(self._parent)
        if not stream.operations or any(leaf.in_order for leaf in compiled(stream.tree).leaves):
            return None
        fed = copy.copy(self)
        fed.__dict__["_parents"] = (parent.mp_prefetch(options, worker_init_fn),)
        return fed
