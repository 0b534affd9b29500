"""headrace in the speed league: chains with default options."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from records import ROW, to_array, to_crop, to_float, write_parquet, write_tar
from with_headrace import versions
from workloads import Workload

import headrace

__all__ = ["batches", "unclaimed", "versions", "write"]


def unclaimed(workload: Workload) -> str:
    """Nothing: all is claimed."""
    return ""


def write(workload: Workload, records: Iterator[Any], folder: Path) -> None:
    """Arrays, records of bytes, tokens, tar or Parquet."""
    if workload.name == "mnist":
        np.save(folder / "images.npy", np.stack(list(records)))
    elif workload.name in ("bytes_1k", "jpeg"):
        headrace.convert(list(records), folder, to="bytes", workers=0, progress=False)
    elif workload.name == "packing":
        with headrace.TokenWriter(folder / "tokens.npy", dtype=np.uint16) as writer:
            writer.extend(records)
    elif workload.name == "tar":
        write_tar(records, folder)
    else:
        write_parquet(records, folder)


def batches(workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
    """A chain of what the files hold."""
    return batches_of(_source(workload, folder), workload, workers, epochs)


def batches_of(source: Any, workload: Workload, workers: int, epochs: int) -> Iterator[Any]:
    """The chain, one method after the other."""
    if workload.name == "packing":
        documents = headrace.MapDataset.source(source).repeat(epochs)
        rows = documents.to_iter_dataset().pack(ROW, window=1000)
        return iter(rows.batch(workload.batch).mp_prefetch(workers))
    dataset = headrace.MapDataset.source(source)
    if workload.shuffled:
        dataset = dataset.shuffle(seed=1)
    dataset = dataset.repeat(epochs)
    if workload.name == "mnist":
        dataset = dataset.map(lambda record: {"image": to_float(record["image"])})
    elif workload.name == "bytes_1k":
        dataset = dataset.map(to_array)
    elif workload.name == "tar":
        dataset = dataset.map(lambda sample: to_array(sample["bin"]))
    elif workload.name == "jpeg":
        dataset = dataset.random_map(to_crop, seed=1)
    return iter(dataset.to_iter_dataset().batch(workload.batch).mp_prefetch(workers))


def _source(workload: Workload, folder: Path) -> Any:
    if workload.name == "mnist":
        return {"image": np.load(folder / "images.npy")}
    if workload.name == "tar":
        return headrace.TarDataSource(folder)
    if workload.name == "parquet":
        return headrace.ParquetDataSource(folder)
    return headrace.TokenSource(folder) if workload.name == "packing" else headrace.BytesSource(folder)
