"""SPDL: a pipeline of threads as in its docs: indices, batches, a function of a batch; no state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from loaders.files import Rows, write_array
from loaders.records import made
from loaders.workloads import Workload
from spdl.pipeline import PipelineBuilder

PACKAGES = ("spdl",)
LACKS = {
    "packing": "not part of the library",
    "tar": "it reads no files itself; the program would have to read the tar files",
    "parquet": "it reads no files itself; the program would have to read the Parquet file",
}
write_workload = write_array


def batches(workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
    """The pipeline: as many threads as others have processes, and batches in their order."""
    rows = Rows(folder)

    def batch(indices: Any) -> Any:
        elements = [made(workload, rows[index]) for index in indices]
        if isinstance(elements[0], dict):
            return {key: np.stack([one[key] for one in elements]) for key in elements[0]}
        return np.stack(elements)

    def order() -> Iterator[Any]:
        generator = np.random.default_rng(1)
        for _ in range(epochs):
            places = generator.permutation(len(rows))
            for start in range(0, len(places), workload.batch):
                yield places[start : start + workload.batch]

    builder = PipelineBuilder().add_source(order())
    builder = builder.pipe(batch, concurrency=workers, output_order="input").add_sink(4)
    pipeline = builder.build(num_threads=workers)
    with pipeline.auto_stop():
        yield from pipeline
