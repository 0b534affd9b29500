"""Hugging Face's streaming datasets in the resume league: Parquet files; StatefulDataLoader makes batches, as documented."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from cases import MAPPED
from datasets.distributed import split_dataset_by_node
from torchdata.stateful_dataloader import StatefulDataLoader

torch.set_num_threads(1)
datasets.disable_progress_bars()
BUFFER = (
    "IterableDataset.state_dict: “examples from shuffle buffers are lost when resuming and the buffers are refilled "
    "with new data”"
)
RANKS = "StatefulDataLoader handles state “across multiprocess workers (but not across ranks)”"
STAGES = {
    "random_map": "a function that draws keeps no state: its docs do not speak of one",
    "pack": "it has no packing; another library, trl, packs",
}


def versions() -> dict[str, str]:
    """What is measured."""
    return {name: importlib.metadata.version(name) for name in ("datasets", "torchdata", "torch")}


def unclaimed(pipeline: Any, event: Any) -> str:
    """Buffers of a shuffle when resumed, and states for other ranks."""
    missing = next((STAGES[stage] for stage in STAGES if pipeline.has(stage)), "")
    resumed = len(event.legs) > 1 or event.legs[0].reopen
    if (pipeline.has("shuffle") or pipeline.has("window")) and resumed:
        missing = missing or BUFFER
    if event.name == "hosts":
        missing = missing or RANKS
    if event.name in ("batch_size", "data_grow"):
        missing = missing or "its docs do not speak of another batch size, nor of data that change"
    return missing


def write(records: list[list[list[int]]], folder: Path) -> None:
    """A file for each shard, named by source and shard."""
    for source, files in enumerate(records):
        for number, file in enumerate(files):
            pq.write_table(pa.table({"id": file}), folder / f"{source}-{number:03}.parquet")


def stream(run: Any) -> Stream:
    """The pipeline, one stage after the other."""
    pipeline, leg = run.pipeline, run.leg
    sources = []
    for number in range(len(pipeline.shards)):
        files = sorted(map(str, run.folder.glob(f"{number}-*.parquet")))
        sources.append(datasets.load_dataset("parquet", data_files=files, split="train", streaming=True))
    dataset = sources[0]
    if len(sources) > 1:
        dataset = datasets.interleave_datasets(sources, stopping_strategy="all_exhausted_without_replacement")
    if pipeline.has("shuffle") or pipeline.has("window"):
        dataset = dataset.shuffle(seed=1, buffer_size=pipeline.number("window", 1000))
    if pipeline.has("repeat"):
        dataset = dataset.repeat(pipeline.number("repeat"))
    dataset = dataset.map(lambda row: {"id": run.touch(row["id"])})
    for stage, *_ in pipeline.stages:
        if stage == "map":
            dataset = dataset.map(lambda row: {"id": row["id"] + MAPPED})
        elif stage == "filter":
            dataset = dataset.filter(lambda row: row["id"] % 3 > 0)
        elif stage == "flat_map":
            dataset = dataset.map(fan, batched=True, batch_size=1)
    if leg.hosts > 1:
        dataset = split_dataset_by_node(dataset, run.host, leg.hosts)
    loader = StatefulDataLoader(
        dataset,
        batch_size=leg.batch,
        num_workers=leg.workers,
        drop_last=pipeline.has("drop") or run.event.alike,
    )
    if run.states:
        loader.load_state_dict(run.states[run.host])
    return Stream(loader, MAPPED * pipeline.has("map_batch"))


def fan(rows: dict[str, list[int]]) -> dict[str, list[int]]:
    """The stage `flat_map`."""
    return {"id": [number * 10 + copy for number in rows["id"] for copy in range(number % 3)]}


class Stream:
    """Batches as lists of numbers."""

    def __init__(self, loader: Any, add: int) -> None:
        self._batches, self._add = iter(loader), add
        self.state = loader.state_dict

    def __next__(self) -> list[int]:
        return [int(number) + self._add for number in next(self._batches)["id"]]
