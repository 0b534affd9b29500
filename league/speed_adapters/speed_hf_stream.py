"""Hugging Face's streaming datasets in the speed league: Parquet and tar files, a shuffle buffer, PyTorch's loader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
from records import write_tar
from speed_hf_map import done, versions
from speed_hf_map import write as write_rows
from torch.utils.data import DataLoader
from torch_batches import loops, stacked
from workloads import Workload

__all__ = ["batches", "unclaimed", "versions", "write"]


def unclaimed(workload: Workload) -> str:
    """Stages that it lacks."""
    return "it has no packing; another library, trl, packs" if workload.name == "packing" else ""


def write(workload: Workload, records: Iterator[Any], folder: Path) -> None:
    """Parquet or tar files, one for a worker or more."""
    return write_tar(records, folder) if workload.name == "tar" else write_rows(workload, records, folder)


def batches(workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
    """The stream, and a loader; a worker has files of its own, so that their records come in turns."""
    kind, ending = ("webdataset", "tar") if workload.name == "tar" else ("parquet", "parquet")
    files = sorted(map(str, folder.glob(f"*.{ending}")))
    stream = datasets.load_dataset(kind, data_files=files, split="train", streaming=True)
    if workload.shuffled:
        stream = stream.shuffle(seed=1, buffer_size=1000)
    if workload.name == "parquet":
        stream, collate = stream.with_format("numpy"), stacked
    else:
        column = "bin" if workload.name == "tar" else "record"

        def collate(rows: list[Any]) -> Any:
            return stacked([done(workload, row[column]) for row in rows])

    options = {"num_workers": workers, "persistent_workers": workers > 0, "prefetch_factor": 4 if workers else None}
    return loops(DataLoader(stream, batch_size=workload.batch, collate_fn=collate, **options), epochs)
