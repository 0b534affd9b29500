"""webdataset in the resume league: tar files, WebDataset and WebLoader, which have no state."""

from __future__ import annotations

import importlib.metadata
import io
import os
import random
import tarfile
from pathlib import Path
from typing import Any

import torch
import webdataset
from cases import MAPPED

torch.set_num_threads(1)
STATE = (
    "there is nothing to save: neither WebDataset nor WebLoader has `state_dict`, `load_state_dict` or another state"
)
STAGES = {
    "random_map": "a function that draws keeps no state, as there is none",
    "pack": "not part of the library",
    "drop": "each worker has batches and a last batch of its own",
}


def versions() -> dict[str, str]:
    """What is measured."""
    return {name: importlib.metadata.version(name) for name in ("webdataset", "torch")}


def unclaimed(pipeline: Any, event: Any) -> str:
    """All that goes on from a state."""
    if len(event.legs) > 1 or any(leg.reopen for leg in event.legs):
        return STATE
    if event.alike:
        return "WebDataset splits data across nodes at the shard level; equal numbers of batches need resampled=True"
    if len(pipeline.shards) > 1:
        return "RandomMix draws a source for each record; equal parts are not claimed"
    return next((STAGES[stage] for stage in STAGES if pipeline.has(stage)), "")


def write(records: list[list[list[int]]], folder: Path) -> None:
    """A tar file for each shard."""
    for number, file in enumerate(records[0]):
        with tarfile.open(folder / f"{number:03}.tar", "w") as tar:
            for record in file:
                data = str(record).encode()
                entry = tarfile.TarInfo(f"{record:06}.id")
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))


def stream(run: Any) -> Stream:
    """The pipeline, one stage after the other."""
    pipeline = run.pipeline
    os.environ |= {"RANK": str(run.host), "WORLD_SIZE": str(run.leg.hosts)}
    dataset = webdataset.WebDataset(
        sorted(map(str, run.folder.glob("*.tar"))),
        shardshuffle=100 if pipeline.has("shuffle") else False,
        nodesplitter=webdataset.split_by_node,
        workersplitter=webdataset.split_by_worker,
        empty_check=False,
        seed=1,
    )
    dataset = dataset.map(lambda sample: run.touch(int(sample["id"])))
    if pipeline.has("shuffle") or pipeline.has("window"):
        dataset = dataset.shuffle(pipeline.number("window", 1000), rng=random.Random(1))
    for stage, *_ in pipeline.stages:
        if stage == "map":
            dataset = dataset.map(lambda number: number + MAPPED)
        elif stage == "filter":
            dataset = dataset.select(lambda number: number % 3 > 0)
        elif stage == "flat_map":
            dataset = dataset.compose(fan)
        elif stage == "repeat":
            dataset = dataset.repeat(nepochs=pipeline.number("repeat"))
    dataset = dataset.batched(run.leg.batch, collation_fn=list, partial=not run.event.alike)
    loader = webdataset.WebLoader(dataset, batch_size=None, num_workers=run.leg.workers)
    return Stream(loader, MAPPED * pipeline.has("map_batch"))


def fan(numbers: Any) -> Any:
    """The stage `flat_map`."""
    for number in numbers:
        for copy in range(number % 3):
            yield number * 10 + copy


class Stream:
    """Batches as lists of numbers."""

    def __init__(self, loader: Any, add: int) -> None:
        self._batches, self._add = iter(loader), add

    def __next__(self) -> list[int]:
        return [int(number) + self._add for number in next(self._batches)]

    def state(self) -> None:
        """There is none."""
