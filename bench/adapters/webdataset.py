"""webdataset: tar files, a shuffle buffer, and batches made in WebLoader's workers; no state."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import webdataset
from adapters.parts import Numbers, first_of
from adapters.torch_loops import kept_workers, loops, stacked
from loaders.files import write_tar, write_tars
from loaders.records import made
from loaders.workloads import Workload
from resuming.cases import MAPPED, fan, passes

PACKAGES = ("webdataset", "torch")
LACKS = {"packing": "not part of the library", "parquet": "it reads only tar files"}

STATE = "there is nothing to save: neither WebDataset nor WebLoader has `state_dict`, "
STATE += "`load_state_dict` or another state"
UNCLAIMED = {
    "random_map": "a function that draws keeps no state, as there is none",
    "pack": "not part of the library",
    "drop": "each worker has batches and a last batch of its own",
}


def unclaimed(pipeline: Any, event: Any) -> str:
    """All that goes on from a state."""
    if len(event.legs) > 1 or any(leg.reopen for leg in event.legs):
        return STATE
    if event.alike:
        splits = "WebDataset splits data across nodes at the shard level"
        return f"{splits}; equal numbers of batches need resampled=True"
    if len(pipeline.shards) > 1:
        return "RandomMix draws a source for each record; equal parts are not claimed"
    return first_of(UNCLAIMED, pipeline, event)


def write(records: list[list[list[int]]], folder: Path) -> None:
    """A tar file for each shard."""
    for number, file in enumerate(records[0]):
        rows = ((f"{record:06}.id", str(record).encode()) for record in file)
        write_tar(rows, folder / f"{number:03}.tar")


def opened(folder: Path, shuffled: bool, **options: Any) -> Any:
    """The tar files of a folder, which workers share."""
    options |= {"shardshuffle": 100 if shuffled else False, "seed": 1}
    options |= {"workersplitter": webdataset.split_by_worker}
    return webdataset.WebDataset(sorted(map(str, folder.glob("*.tar"))), **options)


def stream(run: Any) -> Numbers:
    """The pipeline, one stage after the other."""
    pipeline = run.pipeline
    os.environ |= {"RANK": str(run.host), "WORLD_SIZE": str(run.leg.hosts)}
    options = {"nodesplitter": webdataset.split_by_node, "empty_check": False}
    dataset = opened(run.folder, pipeline.has("shuffle"), **options)
    dataset = dataset.map(lambda sample: run.touch(int(sample["id"])))
    if pipeline.has("shuffle") or pipeline.has("window"):
        dataset = dataset.shuffle(pipeline.number("window", 1000), rng=random.Random(1))
    for stage in pipeline.stages:
        if stage == "map":
            dataset = dataset.map(lambda number: number + MAPPED)
        elif stage == "filter":
            dataset = dataset.select(passes)
        elif stage == "flat_map":
            dataset = dataset.compose(lambda numbers: chain.from_iterable(map(fan, numbers)))
        elif stage == "repeat":
            dataset = dataset.repeat(nepochs=pipeline.number("repeat"))
    dataset = dataset.batched(run.leg.batch, collation_fn=list, partial=not run.event.alike)
    loader = webdataset.WebLoader(dataset, batch_size=None, num_workers=run.leg.workers)
    return Numbers(loader, add=MAPPED * pipeline.has("map_batch"))


def write_workload(workload: Workload, records: Iterator[Any], folder: Path) -> None:
    """Four tar files."""
    images = workload.name == "mnist"
    write_tars((record.tobytes() if images else record for record in records), folder)


def batches(workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
    """The pipeline; a worker has files of its own, so that their records come in turns."""
    dataset = opened(folder, workload.shuffled)
    if workload.shuffled:
        dataset = dataset.shuffle(1000)
    dataset = dataset.map(lambda sample: made(workload, sample["bin"]))
    dataset = dataset.batched(workload.batch, collation_fn=collated)
    return loops(webdataset.WebLoader(dataset, batch_size=None, **kept_workers(workers)), epochs)


def collated(samples: list[Any]) -> Any:
    """A batch without the keys of samples, which `map` adds to a dict."""
    if isinstance(samples[0], dict):
        names = samples[0].keys() - {"__key__"}
        samples = [{name: sample[name] for name in names} for sample in samples]
    return stacked(samples)
