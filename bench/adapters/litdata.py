"""LitData: chunks written by its Cache, StreamingDataset with a transform, StreamingDataLoader."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

os.environ.setdefault("LITDATA_DISABLE_VERSION_CHECK", "1")  # it would ask PyPI
import litdata
from adapters.parts import Numbers, first_of
from adapters.torch_loops import epoch_stream, kept_workers, loops, stacked
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

UNCLAIMED = {
    "random_map": "a transform that draws keeps no state: its docs do not speak of one",
    "filter": "not part of StreamingDataset: data are filtered by `optimize`",
    "flat_map": "not part of StreamingDataset: `optimize` makes several elements of one",
    "window": "chunks and the items in them are shuffled as a whole",
    "pack": "not part of the library",
    "data_grow": "its docs do not speak of data that change",
}
COMBINED = (
    "“`CombinedStreamingDataset` and `ParallelStreamingDataset` resume only with the same "
    "`world_size`, `num_workers`, and `batch_size`.”"
)


def unclaimed(pipeline: Any, event: Any) -> str:
    """Other stages, and a combination on other workers and hosts."""
    combined = len(pipeline.shards) > 1 and event.name in ("workers", "hosts", "batch_size")
    return first_of(UNCLAIMED, pipeline, event) or (COMBINED if combined else "")


def write(records: list[list[list[int]]], folder: Path) -> None:
    """A folder of chunks of 12 for each source."""
    for source, files in enumerate(records):
        _write_chunks(chain.from_iterable(files), folder / str(source), chunk_size=12)


def _write_chunks(records: Iterable[Any], folder: Path, **size: Any) -> None:
    cache = Cache(str(folder), **size)
    for number, record in enumerate(records):
        cache[number] = record
    cache.done()
    cache.merge()


def stream(run: Any) -> Numbers:
    """The dataset, or the combination, and the loader."""
    hosts = str(run.leg.hosts)
    os.environ |= {"WORLD_SIZE": hosts, "GLOBAL_RANK": str(run.host), "NNODES": hosts}
    add = MAPPED * run.pipeline.has("map")
    options = {"shuffle": run.pipeline.has("shuffle"), "seed": 1}
    options |= {"drop_last": run.event.alike or run.pipeline.has("drop")}
    options |= {"transform": lambda number: run.touch(number) + add}
    folders = [str(run.folder / str(number)) for number in range(len(run.pipeline.shards))]
    sources = [litdata.StreamingDataset(folder, **options) for folder in folders]
    dataset = sources[0] if len(sources) == 1 else litdata.CombinedStreamingDataset(sources, seed=1)
    workers = {"num_workers": run.leg.workers}
    loader = litdata.StreamingDataLoader(dataset, batch_size=run.leg.batch, **workers)
    return epoch_stream(run, loader, min(run.host, len(run.states or [0]) - 1))


def write_workload(workload: Workload, records: Iterator[Any], folder: Path) -> None:
    """Chunks of at most 64 MB, as its docs advise."""
    _write_chunks(records, folder, chunk_bytes="64MB")


def batches(workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
    """The loader, whose workers stay between epochs."""
    order = {"shuffle": True, "seed": 1}
    work = {"transform": lambda record: made(workload, record)}
    dataset = litdata.StreamingDataset(str(folder), **order, **work)
    options = {"batch_size": workload.batch, "collate_fn": stacked, **kept_workers(workers)}
    return loops(litdata.StreamingDataLoader(dataset, **options), epochs)
