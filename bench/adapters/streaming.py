"""MosaicML Streaming: MDS shards and StreamingDataLoader; hosts are ranks of one node."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import streaming
from adapters.parts import Numbers, first_of
from adapters.torch_loops import epoch_stream, kept_workers, loops, stacked
from loaders.records import made
from loaders.workloads import Workload
from resuming.cases import MAPPED

PACKAGES = ("mosaicml-streaming", "torch")
LACKS = {
    "packing": "it has no packing; another library, llm-foundry, packs",
    "tar": "it reads only its own MDS shards, into which data must be converted",
    "parquet": "it reads only its own MDS shards, into which data must be converted",
}
CHANGED = "its docs do not speak of another global batch size, nor of data that change"
UNCLAIMED = {
    "random_map": "a transform that draws keeps no state: its docs do not speak of one",
    "filter": "not part of StreamingDataset",
    "flat_map": "not part of StreamingDataset",
    "window": "py1e and its other algorithms shuffle blocks of their own",
    "pack": "it has no packing; another library, llm-foundry, packs",
    "batch_size": CHANGED,
    "data_grow": CHANGED,
}
unclaimed = partial(first_of, UNCLAIMED)


class Records(streaming.StreamingDataset):
    """A dataset with a function of a record."""

    def __init__(self, function: Callable[[Any], Any], **options: Any) -> None:
        super().__init__(**options)
        self._function = function

    def __getitem__(self, at: Any) -> Any:
        return self._function(super().__getitem__(at)["record"])


def _write_shards(records: Iterable[Any], folder: Path, kind: str, **size: Any) -> None:
    with streaming.MDSWriter(out=str(folder), columns={"record": kind}, **size) as writer:
        for record in records:
            writer.write({"record": record})


def _be_rank(rank: int, ranks: int, port: int) -> None:
    """Set the variables of `torchrun`, and remove a killed run's shared memory, as its docs say."""
    names = {"WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "RANK": rank, "LOCAL_RANK": rank}
    os.environ |= {name: str(value) for name, value in names.items()}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(20000 + port % 20000)}
    if ranks == 1:
        streaming.base.util.clean_stale_shared_memory()


def write(records: list[list[list[int]]], folder: Path) -> None:
    """A folder of shards for each source."""
    for source, files in enumerate(records):
        _write_shards(chain.from_iterable(files), folder / str(source), "int", size_limit=1 << 10)


def stream(run: Any) -> Numbers:
    """The dataset, and the loader."""
    _be_rank(run.host, run.leg.hosts, int(run.folder.parent.name.encode().hex(), 16))
    folders = [str(run.folder / str(number)) for number in range(len(run.pipeline.shards))]
    add, batch = MAPPED * run.pipeline.has("map"), {"batch_size": run.leg.batch}
    options = {"shuffle": run.pipeline.has("shuffle"), "shuffle_seed": 1, "num_canonical_nodes": 2}
    options |= {"streams": [streaming.Stream(local=folder) for folder in folders], **batch}
    dataset = Records(lambda number: run.touch(number) + add, **options)
    drop = {"drop_last": run.pipeline.has("drop") or run.event.alike}
    loader = streaming.StreamingDataLoader(dataset, num_workers=run.leg.workers, **batch, **drop)
    return epoch_stream(run, loader)  # with the state of rank 0, as its docs say


def write_workload(workload: Workload, records: Iterator[Any], folder: Path) -> None:
    """Shards of 64 MB, its default."""
    _write_shards(records, folder, "ndarray:uint8:28,28" if workload.name == "mnist" else "bytes")


def batches(workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
    """The loader, whose workers stay between epochs."""
    _be_rank(0, 1, os.getpid())
    options = {"local": str(folder), "shuffle": True, "shuffle_seed": 1}
    dataset = Records(lambda record: made(workload, record), batch_size=workload.batch, **options)
    kept = {"batch_size": workload.batch, "collate_fn": stacked, **kept_workers(workers)}
    return loops(streaming.StreamingDataLoader(dataset, **kept), epochs)
