"""Methods that people look for on the wrong kind of dataset, or on one of those that they join: what to write instead.

In: a name that a dataset does not have. Out: an AttributeError with the remedy, where there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

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


class _Join(staticmethod):  # type: ignore[type-arg]  # it takes none at run time
    """A static method that joins datasets: called of one of them, it would leave that one out."""

    def __get__(self, dataset: Any, kind: Any = None) -> Any:
        if dataset is None:
            return super().__get__(dataset, kind)
        join = self.__func__
        raise AttributeError(
            f"{join.__name__} joins the datasets in its list, and not the one that it is called of; write "
            f"{join.__qualname__}([dataset, …])."
        )


def joins(method: F) -> F:
    """A static method that is only called of the class."""
    return _Join(method)  # type: ignore[return-value]


class Remarks:
    """Base of datasets: says where a method is that they do not have."""

    if not TYPE_CHECKING:  # which is to find such names itself

        def __getattr__(self, name: str) -> Any:
            kind = "MapDataset" if hasattr(type(self), "to_iter_dataset") else "IterDataset"
            if remedy := _ELSEWHERE[kind].get(name):
                raise AttributeError(f"{kind} has no {name}(); {remedy}.")
            return object.__getattribute__(self, name)  # raises what it raised before
