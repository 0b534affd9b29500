"""Parts that adapters with PyTorch's DataLoader share."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from adapters.parts import Numbers
from resuming.cases import MAPPED

# Tensors share the memory of records, which are read-only. The loops do not write to these tensors.
warnings.filterwarnings("ignore", message="The given NumPy array is not writable")


def stacked(records: list[Any]) -> Any:
    """`np.stack`, and tensors on the same memory: faster than the default for small arrays."""
    if isinstance(records[0], dict):
        return {key: stacked([record[key] for record in records]) for key in records[0]}
    return torch.from_numpy(np.stack(records))


def kept_workers(workers: int) -> dict[str, Any]:
    """Options of a DataLoader whose workers stay between epochs."""
    ahead = {"persistent_workers": workers > 0, "prefetch_factor": 4 if workers else None}
    return {"num_workers": workers, **ahead}


def loops(loader: Any, epochs: int) -> Iterator[Any]:
    """One epoch after the other, as arrays on the tensors' memory."""
    torch.set_num_threads(1)
    for _ in range(epochs):
        for batch in loader:
            if isinstance(batch, dict):
                yield {key: leaf.numpy() for key, leaf in batch.items()}
            else:
                yield batch.numpy()


def epoch_stream(
    run: Any, loader: Any, shard: int = 0, numbers: Any = list, set_epoch: Any = lambda epoch: None
) -> Numbers:
    """A stream for `resume.py` of one epoch of a loader after the other.

    Its state is that of the loader, and the epoch, which is the program's.
    """
    torch.set_num_threads(1)
    at = run.states[0]["epoch"] if run.states else 0
    set_epoch(at)
    if run.states:
        loader.load_state_dict(run.states[shard]["loader"])

    def batches() -> Iterator[Any]:
        nonlocal at
        yield from loader
        while at + 1 < run.pipeline.number("repeat", 1):
            at += 1
            set_epoch(at)
            yield from loader

    add = MAPPED * run.pipeline.has("map_batch")
    return Numbers(batches(), numbers, add, lambda: {"loader": loader.state_dict(), "epoch": at})
