"""PyTorch in the speed league: map-style datasets that return a batch at once, and a function that stacks arrays."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from records import to_array, to_crop, to_float
from torch.utils.data import DataLoader, Dataset
from torch_batches import loops, stacked
from with_torch import versions
from workloads import Workload

__all__ = ["batches", "unclaimed", "versions", "write"]

MISSING = {
    "packing": "not part of PyTorch",
    "tar": "not part of PyTorch; webdataset reads them for it",
    "parquet": "not part of PyTorch; Hugging Face's datasets read them for it",
}


def unclaimed(workload: Workload) -> str:
    """Formats and stages that it lacks."""
    return MISSING.get(workload.name, "")


def write(workload: Workload, records: Iterator[Any], folder: Path) -> None:
    """One array, or, of records of unequal size, an array and where each ends."""
    rows = list(records)
    if workload.name == "mnist":
        np.save(folder / "rows.npy", np.stack(rows))
    else:
        np.save(folder / "rows.npy", np.frombuffer(b"".join(rows), np.uint8))
        np.save(folder / "ends.npy", np.cumsum([len(row) for row in rows]))


class Records(Dataset[Any]):
    """Records by index; the loader asks for those of a batch at once."""

    def __init__(self, workload: Workload, folder: Path) -> None:
        self._name = workload.name
        images = workload.name == "mnist"
        self._rows = np.load(folder / "rows.npy", mmap_mode=None if images else "r")
        self._ends = None if images else np.load(folder / "ends.npy")

    def __len__(self) -> int:
        return len(self._rows if self._ends is None else self._ends)

    def __getitem__(self, index: int) -> Any:
        if self._ends is None:
            return {"image": to_float(self._rows[index])}
        record = self._rows[self._ends[index - 1] if index else 0 : self._ends[index]].tobytes()
        return to_array(record) if self._name == "bytes_1k" else to_crop(record, random)

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """The records of a batch."""
        return [self[index] for index in indices]


def batches(workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
    """A loader whose workers stay between epochs."""
    loader = DataLoader(
        Records(workload, folder),
        batch_size=workload.batch,
        shuffle=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        prefetch_factor=4 if workers else None,
        collate_fn=stacked,
    )
    return loops(loader, epochs)
