"""MosaicML Streaming in the resume league: MDS shards and StreamingDataLoader; hosts are ranks of one node."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path
from typing import Any

import streaming
import torch
from cases import MAPPED

torch.set_num_threads(1)
STAGES = {
    "random_map": "a transform that draws keeps no state: its docs do not speak of one",
    "filter": "not part of StreamingDataset",
    "flat_map": "not part of StreamingDataset",
    "window": "py1e and its other algorithms shuffle blocks of their own",
    "pack": "it has no packing; another library, llm-foundry, packs",
}


def versions() -> dict[str, str]:
    """What is measured."""
    return {name: importlib.metadata.version(name) for name in ("mosaicml-streaming", "torch")}


def unclaimed(pipeline: Any, event: Any) -> str:
    """Other stages, batch sizes and data."""
    missing = next((STAGES[stage] for stage in STAGES if pipeline.has(stage)), "")
    if event.name in ("batch_size", "data_grow"):
        missing = missing or "its docs do not speak of another global batch size, nor of data that change"
    return missing


def write(records: list[list[list[int]]], folder: Path) -> None:
    """A folder of shards for each source."""
    for source, files in enumerate(records):
        with streaming.MDSWriter(out=str(folder / str(source)), columns={"id": "int"}, size_limit=1 << 10) as writer:
            for file in files:
                for record in file:
                    writer.write({"id": record})


class Records(streaming.StreamingDataset):
    """A dataset with the functions of a record."""

    def __init__(self, run: Any, **options: Any) -> None:
        super().__init__(**options)
        self.run = run

    def __getitem__(self, at: Any) -> int:
        return self.run.touch(super().__getitem__(at)["id"]) + MAPPED * self.run.pipeline.has("map")


def stream(run: Any) -> Stream:
    """The dataset, and the loader."""
    hosts, port = run.leg.hosts, 20000 + int(run.folder.parent.name.encode().hex(), 16) % 20000
    os.environ |= {
        "WORLD_SIZE": str(hosts),
        "LOCAL_WORLD_SIZE": str(hosts),
        "RANK": str(run.host),
        "LOCAL_RANK": str(run.host),
    }
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    if hosts == 1:
        streaming.base.util.clean_stale_shared_memory()  # of a leg that was killed, as its docs say
    sources = [streaming.Stream(local=str(run.folder / str(number))) for number in range(len(run.pipeline.shards))]
    shuffle = run.pipeline.has("shuffle")
    dataset = Records(
        run, streams=sources, batch_size=run.leg.batch, shuffle=shuffle, shuffle_seed=1, num_canonical_nodes=2
    )
    drop = run.pipeline.has("drop") or run.event.alike
    return Stream(
        run,
        streaming.StreamingDataLoader(dataset, batch_size=run.leg.batch, num_workers=run.leg.workers, drop_last=drop),
    )


class Stream:
    """Batches of one epoch after the other, as lists of numbers."""

    def __init__(self, run: Any, loader: Any) -> None:
        self._run, self._loader, self._epoch = run, loader, 0
        if run.states:
            self._epoch = run.states[0]["epoch"]
            loader.load_state_dict(run.states[0]["loader"])  # that of rank 0, as its docs say
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
