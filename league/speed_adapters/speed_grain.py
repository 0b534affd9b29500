"""Grain in the speed league: chains, with the requested number of processes, and default threads and buffers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grain
import numpy as np
from records import ROW, to_array, to_crop, to_float, write_array_record, write_parquet
from with_grain import versions
from workloads import Workload

__all__ = ["batches", "unclaimed", "versions", "write"]


def unclaimed(workload: Workload) -> str:
    """Tar files."""
    return "it has no source for tar files" if workload.name == "tar" else ""


def write(workload: Workload, records: Iterator[Any], folder: Path) -> None:
    """Arrays, ArrayRecord, or Parquet."""
    if workload.name == "mnist":
        np.save(folder / "images.npy", np.stack(list(records)))
    elif workload.name in ("bytes_1k", "jpeg"):
        write_array_record(records, folder)
    elif workload.name == "packing":
        documents = list(records)
        np.save(folder / "tokens.npy", np.concatenate(documents))
        np.save(folder / "ends.npy", np.cumsum([len(one) for one in documents]))
    else:
        write_parquet(records, folder)


class Rows:
    """Rows of an array, or the documents of one, as a source."""

    def __init__(self, name: str, array: Any, ends: Any = None) -> None:
        self._name, self._array, self._ends = name, array, ends

    def __len__(self) -> int:
        return len(self._array if self._ends is None else self._ends)

    def __getitem__(self, index: int) -> dict[str, Any]:
        if self._ends is None:
            return {self._name: self._array[index]}
        return {self._name: self._array[self._ends[index - 1] if index else 0 : self._ends[index]]}


def batches(workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
    """The chain, one method after the other."""
    processes = grain.MultiprocessingOptions(num_workers=workers)
    if workload.name == "parquet":
        files = sorted(map(str, folder.glob("*.parquet")))
        streams = [grain.experimental.ParquetIterDataset(file) for file in files]
        rows = grain.experimental.InterleaveIterDataset(streams, cycle_length=1)
        rows = grain.experimental.RepeatIterDataset(rows, num_epochs=epochs)
        return iter(rows.batch(workload.batch).mp_prefetch(processes))
    if workload.name == "packing":
        tokens, ends = (np.load(folder / f"{name}.npy") for name in ("tokens", "ends"))
        documents = grain.MapDataset.source(Rows("tokens", tokens, ends)).repeat(epochs).to_iter_dataset()
        rows = grain.experimental.BestFitPackIterDataset(documents, length_struct={"tokens": ROW}, num_packing_bins=64)
        return iter(rows.batch(workload.batch).mp_prefetch(processes))
    if workload.name == "mnist":
        dataset = grain.MapDataset.source(Rows("image", np.load(folder / "images.npy")))
    else:
        dataset = grain.MapDataset.source(grain.sources.ArrayRecordDataSource([str(folder / "0.array_record")]))
    dataset = dataset.shuffle(seed=1).repeat(epochs)
    if workload.name == "mnist":
        dataset = dataset.map(lambda record: {"image": to_float(record["image"])})
    elif workload.name == "bytes_1k":
        dataset = dataset.map(to_array)
    else:
        dataset = dataset.random_map(to_crop, seed=1)
    return iter(dataset.to_iter_dataset().batch(workload.batch).mp_prefetch(processes))
