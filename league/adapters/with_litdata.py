"""LitData in the resume league: chunks written by its Cache, StreamingDataset with a transform, and StreamingDataLoader."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("LITDATA_DISABLE_VERSION_CHECK", "1")  # it would ask PyPI
import litdata
import torch
from cases import MAPPED
from litdata.streaming import Cache

torch.set_num_threads(1)
STAGES = {
    "random_map": "a transform that draws keeps no state: its docs do not speak of one",
    "filter": "not part of StreamingDataset: data are filtered by `optimize`",
    "flat_map": "not part of StreamingDataset: `optimize` makes several elements of one",
    "window": "chunks and the items in them are shuffled as a whole",
    "pack": "not part of the library",
}
COMBINED = (
    "“`CombinedStreamingDataset` and `ParallelStreamingDataset` resume only with the same `world_size`, `num_workers`, and "
    "`batch_size`.”"
)


def versions() -> dict[str, str]:
    """What is measured."""
    return {name: importlib.metadata.version(name) for name in ("litdata", "torch")}


def unclaimed(pipeline: Any, event: Any) -> str:
    """Other stages, and a combination on other workers and hosts."""
    missing = next((STAGES[stage] for stage in STAGES if pipeline.has(stage)), "")
    if len(pipeline.shards) > 1 and event.name in ("workers", "hosts", "batch_size"):
        missing = missing or COMBINED
    return missing or ("its docs do not speak of data that change" if event.name == "data_grow" else "")


def write(records: list[list[list[int]]], folder: Path) -> None:
    """A folder of chunks of 12 for each source."""
    for source, files in enumerate(records):
        cache = Cache(str(folder / str(source)), chunk_size=12)
        for number, record in enumerate(record for file in files for record in file):
            cache[number] = record
        cache.done()
        cache.merge()


def stream(run: Any) -> Stream:
    """The dataset, or the combination, and the loader."""
    os.environ |= {"WORLD_SIZE": str(run.leg.hosts), "GLOBAL_RANK": str(run.host), "NNODES": str(run.leg.hosts)}
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
    return Stream(run, litdata.StreamingDataLoader(dataset, batch_size=run.leg.batch, num_workers=run.leg.workers))


class Stream:
    """Batches of one epoch after the other, as lists of numbers."""

    def __init__(self, run: Any, loader: Any) -> None:
        self._run, self._loader, self._epoch = run, loader, 0
        if run.states:
            self._epoch = run.states[0]["epoch"]
            loader.load_state_dict(run.states[min(run.host, len(run.states) - 1)]["loader"])
        self._batches = iter(loader)

    def __next__(self) -> list[int]:
        while True:
            batch = next(self._batches, None)
            if batch is not None:
                return [int(number) + MAPPED * self._run.pipeline.has("map_batch") for number in batch]
            self._epoch += 1
            if self._epoch >= self._run.pipeline.number("repeat", 1):
                raise StopIteration
            self._batches = iter(self._loader)

    def state(self) -> dict[str, Any]:
        """Of the loader, and the epoch, which is the program's."""
        return {"loader": self._loader.state_dict(), "epoch": self._epoch}
