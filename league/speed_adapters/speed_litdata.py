"""LitData in the speed league: chunks written by its Cache, StreamingDataset with a transform, and StreamingDataLoader."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import litdata
from litdata.streaming import Cache
from records import to_array, to_crop, to_float
from torch_batches import loops, stacked
from with_litdata import versions
from workloads import Workload

__all__ = ["batches", "unclaimed", "versions", "write"]

MISSING = {
    "packing": "not part of the library",
    "tar": "it reads only its own chunks, into which `optimize` converts data",
    "parquet": "it needs an index of its own, `index_parquet_dataset`, which we did not measure",
}


def unclaimed(workload: Workload) -> str:
    """Formats and stages that it lacks."""
    return MISSING.get(workload.name, "")


def write(workload: Workload, records: Iterator[Any], folder: Path) -> None:
    """Chunks of at most 64 MB, as its docs advise."""
    cache = Cache(str(folder), chunk_bytes="64MB")
    for number, record in enumerate(records):
        cache[number] = record
    cache.done()
    cache.merge()


def done(workload: Workload, record: Any) -> Any:
    """What the workload does with a record."""
    if workload.name == "mnist":
        return {"image": to_float(record)}
    return to_array(record) if workload.name == "bytes_1k" else to_crop(record, random)


def batches(workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
    """The loader, whose workers stay between epochs."""
    dataset = litdata.StreamingDataset(
        str(folder), shuffle=True, seed=1, transform=lambda record: done(workload, record)
    )
    loader = litdata.StreamingDataLoader(
        dataset,
        batch_size=workload.batch,
        num_workers=workers,
        persistent_workers=workers > 0,
        prefetch_factor=4,
        collate_fn=stacked,
    )
    return loops(loader, epochs)
