"""SPDL in the speed league: a pipeline of threads as in its documentation: indices, batches, a function of a batch."""

from __future__ import annotations

import importlib.metadata
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from records import to_array, to_crop, to_float
from spdl.pipeline import PipelineBuilder
from workloads import Workload

MISSING = {
    "packing": "not part of the library",
    "tar": "it reads no files itself; the program would have to read the tar files",
    "parquet": "it reads no files itself; the program would have to read the Parquet file",
}


def versions() -> dict[str, str]:
    """What is measured."""
    return {"spdl": importlib.metadata.version("spdl")}


def unclaimed(workload: Workload) -> str:
    """Formats and stages that it lacks."""
    return MISSING.get(workload.name, "")


def write(workload: Workload, records: Iterator[Any], folder: Path) -> None:
    """One array, or, of records of unequal size, their bytes and where each ends."""
    rows = list(records)
    data = np.stack(rows) if workload.name == "mnist" else np.frombuffer(b"".join(rows), np.uint8)
    np.save(folder / "rows.npy", data)
    np.save(folder / "ends.npy", np.cumsum([1 if workload.name == "mnist" else len(row) for row in rows]))


def batches(workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
    """The pipeline: as many threads as others have processes, and batches in their order."""
    rows, ends = np.load(folder / "rows.npy", mmap_mode="r"), np.load(folder / "ends.npy")
    if workload.name == "mnist":
        rows = np.array(rows)

    def record(index: int) -> Any:
        if workload.name == "mnist":
            return {"image": to_float(rows[index])}
        data = rows[ends[index - 1] if index else 0 : ends[index]].tobytes()
        return to_array(data) if workload.name == "bytes_1k" else to_crop(data, random)

    def made(indices: Any) -> Any:
        made = [record(index) for index in indices]
        if isinstance(made[0], dict):
            return {key: np.stack([one[key] for one in made]) for key in made[0]}
        return np.stack(made)

    def order() -> Iterator[Any]:
        generator = np.random.default_rng(1)
        for _ in range(epochs):
            places = generator.permutation(len(ends))
            for start in range(0, len(places), workload.batch):
                yield places[start : start + workload.batch]

    builder = PipelineBuilder().add_source(order()).pipe(made, concurrency=workers, output_order="input").add_sink(4)
    pipeline = builder.build(num_threads=workers)
    with pipeline.auto_stop():
        yield from pipeline
