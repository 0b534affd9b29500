"""Methods that people look for on the wrong kind of dataset: what to write instead.

In: a name that a dataset does not have. Out: an AttributeError with the remedy, where there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

_OF_STREAMS = ("cache", "mp_prefetch", "prefetch", "rebatch", "shard", "to_device", "with_options")

_ELSEWHERE = {
    "MapDataset": {
        **{name: f"use dataset.to_iter_dataset().{name}(…)" for name in _OF_STREAMS},
        "limit": "use dataset[:count]",
        "take": "use dataset[:count]",
        "skip": "use dataset[count:]",
    },
    "IterDataset": {
        "shuffle": "shuffle the MapDataset, before to_iter_dataset(), or use window_shuffle(window_size)",
        "block_shuffle": "use it on the MapDataset, before to_iter_dataset()",
        "slice": "slice the MapDataset, before to_iter_dataset(), or use limit(count)",
        "take": "use limit(count)",
    },
}


class Remarks:
    """Base of datasets: says where a method is that they do not have."""

    if not TYPE_CHECKING:  # which is to find such names itself

        def __getattr__(self, name: str) -> Any:
            kind = "MapDataset" if hasattr(type(self), "to_iter_dataset") else "IterDataset"
            if remedy := _ELSEWHERE[kind].get(name):
                raise AttributeError(f"{kind} has no {name}(); {remedy}.")
            return object.__getattribute__(self, name)  # raises what it raised before
