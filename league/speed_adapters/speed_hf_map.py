"""Hugging Face's datasets on disk in the speed league: Arrow files, a transform of a batch of rows, PyTorch's loader."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from records import to_array, to_crop, to_float, write_parquet
from torch.utils.data import DataLoader
from torch_batches import loops, stacked
from with_hf_map import versions
from workloads import Workload

__all__ = ["batches", "done", "unclaimed", "versions", "write"]

torch.set_num_threads(1)
datasets.disable_progress_bars()
MISSING = {
    "packing": "it has no packing; another library, trl, packs",
    "tar": "it reads tar files only as a stream: see the column “Hugging Face, streaming”",
}


def unclaimed(workload: Workload) -> str:
    """Stages that it lacks, and what is read as a stream."""
    return MISSING.get(workload.name, "")


def write(workload: Workload, records: Iterator[Any], folder: Path) -> None:
    """Parquet, which `from_parquet` brings into Arrow files once."""
    if workload.name == "parquet":
        return write_parquet(records, folder)
    column = [record.tobytes() if workload.name == "mnist" else record for record in records]
    for file, places in enumerate(np.array_split(np.arange(len(column)), 4)):
        part = pa.table({"record": pa.array([column[place] for place in places], pa.binary())})
        pq.write_table(part, folder / f"{file:03}.parquet", row_group_size=1000)
    return None


def done(workload: Workload, record: bytes) -> Any:
    """What the workload does with a record."""
    if workload.name == "mnist":
        return {"image": to_float(np.frombuffer(record, np.uint8).reshape(28, 28))}
    return to_array(record) if workload.name in ("bytes_1k", "tar") else to_crop(record, random)


def batches(workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
    """The dataset, and a loader whose workers stay between epochs."""
    files = sorted(map(str, folder.glob("*.parquet")))
    dataset = datasets.Dataset.from_parquet(files, cache_dir=str(folder / "cache"))
    collate: Any = stacked
    if workload.name == "parquet":
        dataset = dataset.with_format("numpy")
    else:
        dataset = dataset.with_transform(lambda rows: {"made": [done(workload, row) for row in rows["record"]]})
        collate = made
    options = {"num_workers": workers, "persistent_workers": workers > 0, "prefetch_factor": 4 if workers else None}
    loader = DataLoader(dataset, batch_size=workload.batch, shuffle=workload.shuffled, collate_fn=collate, **options)
    return loops(loader, epochs)


def made(rows: list[Any]) -> Any:
    """A batch of what the transform made."""
    return stacked([row["made"] for row in rows])
