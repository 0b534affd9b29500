"""webdataset in the speed league: tar files, a shuffle buffer, and batches made in the workers of WebLoader."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import webdataset
from records import to_array, to_crop, to_float, write_tar
from torch_batches import loops, stacked
from with_webdataset import versions
from workloads import Workload

__all__ = ["batches", "unclaimed", "versions", "write"]

MISSING = {"packing": "not part of the library", "parquet": "it reads only tar files"}


def unclaimed(workload: Workload) -> str:
    """Formats and stages that it lacks."""
    return MISSING.get(workload.name, "")


def write(workload: Workload, records: Iterator[Any], folder: Path) -> None:
    """Four tar files."""
    images = workload.name == "mnist"
    write_tar((record.tobytes() if images else record for record in records), folder)


def done(workload: Workload, sample: Any) -> Any:
    """What the workload does with a sample."""
    record = sample["bin"]
    if workload.name == "mnist":
        return {"image": to_float(np.frombuffer(record, np.uint8).reshape(28, 28))}
    return to_crop(record, random) if workload.name == "jpeg" else to_array(record)


def batches(workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
    """The pipeline; a worker has files of its own, so that their records come in turns."""
    dataset = webdataset.WebDataset(
        sorted(map(str, folder.glob("*.tar"))),
        shardshuffle=100 if workload.shuffled else False,
        workersplitter=webdataset.split_by_worker,
        seed=1,
    )
    if workload.shuffled:
        dataset = dataset.shuffle(1000)
    dataset = dataset.map(lambda sample: done(workload, sample)).batched(workload.batch, collation_fn=made)
    loader = webdataset.WebLoader(
        dataset, batch_size=None, num_workers=workers, persistent_workers=workers > 0, prefetch_factor=4
    )
    return loops(loader, epochs)


def made(samples: list[Any]) -> Any:
    """A batch without the keys of samples, which `map` adds to a dict."""
    if isinstance(samples[0], dict):
        samples = [{name: value for name, value in one.items() if name != "__key__"} for one in samples]
    return stacked(samples)
