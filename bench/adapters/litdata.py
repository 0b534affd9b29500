"""LitData: chunks written by its Cache, StreamingDataset with a transform, and
StreamingDataLoader.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("LITDATA_DISABLE_VERSION_CHECK", "1")  # it would ask PyPI
import litdata
from adapters.protocol import missing_stage
from adapters.torch_loops import EpochStream, kept_workers, loops, stacked
from litdata.streaming import Cache
from loaders.records import made
from loaders.workloads import Workload
from resuming.cases import MAPPED

PACKAGES = ("litdata", "torch")
LACKS = {
    "packing": "not part of the library",
    "tar": "it reads only its own chunks, into which `optimize` converts data",
    "parquet": "it needs an index of its own, `index_parquet_dataset`, which we did not measure",
}

# Resuming

STAGES = {
    "random_map": "a transform that draws keeps no state: its docs do not speak of one",
    "filter": "not part of StreamingDataset: data are filtered by `optimize`",
    "flat_map": "not part of StreamingDataset: `optimize` makes several elements of one",
    "window": "chunks and the items in them are shuffled as a whole",
    "pack": "not part of the library",
}
COMBINED = (
    "“`CombinedStreamingDataset` and `ParallelStreamingDataset` resume only with the same "
    "`world_size`, `num_workers`, and `batch_size`.”"
)


def unclaimed(pipeline: Any, event: Any) -> str:
    """Other stages, and a combination on other workers and hosts."""
    missing = missing_stage(pipeline, STAGES)
    if len(pipeline.shards) > 1 and event.name in ("workers", "hosts", "batch_size"):
        missing = missing or COMBINED
    return missing or (
        "its docs do not speak of data that change" if event.name == "data_grow" else ""
    )


def write(records: list[list[list[int]]], folder: Path) -> None:
    """A folder of chunks of 12 for each source."""
    for source, files in enumerate(records):
        _write_chunks(
            (record for file in files for record in file), folder / str(source), chunk_size=12
        )


def _write_chunks(records: Iterator[Any], folder: Path, **size: Any) -> None:
    cache = Cache(str(folder), **size)
    for number, record in enumerate(records):
        cache[number] = record
    cache.done()
    cache.merge()


def stream(run: Any) -> EpochStream:
    """The dataset, or the combination, and the loader."""
    os.environ |= {
        "WORLD_SIZE": str(run.leg.hosts),
        "GLOBAL_RANK": str(run.host),
        "NNODES": str(run.leg.hosts),
    }
    alike = run.event.alike or run.pipeline.has("drop")
    sources = [
        litdata.StreamingDataset(
            str(run.folder / str(number)),
            shuffle=run.pipeline.has("shuffle"),
            drop_last=alike,
            seed=1,
            transform=lambda number: run.touch(number) + MAPPED * run.pipeline.has("map"),
        )
        for number in range(len(run.pipeline.shards))
    ]
    dataset = sources[0] if len(sources) == 1 else litdata.CombinedStreamingDataset(sources, seed=1)
    loader = litdata.StreamingDataLoader(
        dataset, batch_size=run.leg.batch, num_workers=run.leg.workers
    )
    return EpochStream(run, loader, min(run.host, len(run.states or [0]) - 1))


# Speed, in its own environment


def write_workload(workload: Workload, records: Iterator[Any], folder: Path) -> None:
    """Chunks of at most 64 MB, as its docs advise."""
    _write_chunks(records, folder, chunk_bytes="64MB")


def batches(workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
    """The loader, whose workers stay between epochs."""
    dataset = litdata.StreamingDataset(
        str(folder), shuffle=True, seed=1, transform=lambda record: made(workload, record)
    )
    options = {"batch_size": workload.batch, "collate_fn": stacked, **kept_workers(workers)}
    return loops(litdata.StreamingDataLoader(dataset, **options), epochs)
