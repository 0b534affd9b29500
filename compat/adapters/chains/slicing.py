"""Refusal of several workers for streams that have no parts for them, as in Grain.

In: datasets. Out: an error for one that a single worker has to run through.
"""

from __future__ import annotations

from typing import Any

from ....chains.iter_dataset import IterMethods

_OURS = __name__.partition(".adapters")[0]


def check_can_be_sliced(dataset: Any) -> None:
    """Check that a dataset, and those that it is made from, can be made by several workers.

    Raises:
        ValueError: a class of the user's has neither parents nor `set_slice`.
    """
    if not isinstance(dataset, IterMethods) or hasattr(dataset, "set_slice"):
        return
    parents = getattr(dataset, "parents", ())
    if not parents and not type(dataset).__module__.startswith(_OURS):
        raise ValueError(
            f"Cannot slice `IterDataset` source. {type(dataset)} is run through by one worker; pass num_workers=1, or define "
            "set_slice(self, sl, sequential_slice)."
        )
    for parent in parents:
        check_can_be_sliced(parent)
