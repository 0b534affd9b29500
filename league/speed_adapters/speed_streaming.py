"""MosaicML Streaming in the speed league: MDS shards and StreamingDataLoader."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import streaming
from records import to_array, to_crop, to_float
from torch_batches import loops, stacked
from with_streaming import versions
from workloads import Workload

__all__ = ["batches", "unclaimed", "versions", "write"]

MISSING = {
    "packing": "it has no packing; another library, llm-foundry, packs",
    "tar": "it reads only its own MDS shards, into which data must be converted",
    "parquet": "it reads only its own MDS shards, into which data must be converted",
}


def unclaimed(workload: Workload) -> str:
    """Formats and stages that it lacks."""
    return MISSING.get(workload.name, "")


def write(workload: Workload, records: Iterator[Any], folder: Path) -> None:
    """Shards of 64 MB, its default."""
    kind = "ndarray:uint8:28,28" if workload.name == "mnist" else "bytes"
    with streaming.MDSWriter(out=str(folder), columns={"record": kind}) as writer:
        for record in records:
            writer.write({"record": record})


class Records(streaming.StreamingDataset):
    """A dataset with the functions of a record."""

    def __init__(self, workload: Workload, **options: Any) -> None:
        super().__init__(**options)
        self.workload = workload

    def __getitem__(self, at: Any) -> Any:
        record = super().__getitem__(at)["record"]
        if self.workload.name == "mnist":
            return {"image": to_float(record)}
        return to_array(record) if self.workload.name == "bytes_1k" else to_crop(record, random)


def batches(workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
    """The loader, whose workers stay between epochs."""
    os.environ |= {"WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(20000 + os.getpid() % 20000)}
    streaming.base.util.clean_stale_shared_memory()  # of a run that was killed, as its docs say
    dataset = Records(workload, local=str(folder), batch_size=workload.batch, shuffle=True, shuffle_seed=1)
    loader = streaming.StreamingDataLoader(
        dataset,
        batch_size=workload.batch,
        num_workers=workers,
        persistent_workers=workers > 0,
        prefetch_factor=4,
        collate_fn=stacked,
    )
    return loops(loader, epochs)
