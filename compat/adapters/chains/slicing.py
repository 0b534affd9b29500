"""Refuse several workers for streams that cannot be divided among workers, as Grain does.

In: datasets. Out: an error if only a single worker can run a dataset.
"""

from __future__ import annotations

from typing import Any

from ....chains.iter_dataset import IterMethods

_OURS = __name__.partition(".adapters")[0]


class MadeOfParents:
    """Base of streams that name the datasets from which they are made."""

    _parents: tuple[Any, ...] = ()

    @property
    def parents(self) -> tuple[Any, ...]:
        """The datasets from which this dataset was made."""
        return self._parents


def check_can_be_sliced(dataset: Any) -> None:
    """Check that several workers can divide a dataset, and all datasets from which it is made.

    Raises:
        ValueError: if a user's dataset class has neither parents nor a method `set_slice`.
    """
    if not isinstance(dataset, IterMethods) or hasattr(dataset, "set_slice"):
        return
    parents = dataset.parents if isinstance(dataset, MadeOfParents) else ()
    if not parents and not type(dataset).__module__.startswith(_OURS):
        raise ValueError(
            f"Cannot slice `IterDataset` source. {type(dataset)} can be read by one worker only. "
            "Pass num_workers=1 (num_threads=1 of multithread_prefetch), or define set_slice(self, "
            "sl, sequential_slice)."
        )
    for parent in parents:
        check_can_be_sliced(parent)
