"""Hugging Face's datasets, with PyTorch's loaders: Arrow files on disk, and streams of files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from adapters.parts import Numbers, first_of
from adapters.torch import RANKS, stateful
from adapters.torch_loops import kept_workers, loops, stacked
from datasets.distributed import split_dataset_by_node
from loaders.files import write_parquet, write_tars
from loaders.records import made
from loaders.workloads import Workload
from resuming.cases import MAPPED, fan, passes
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

datasets.disable_progress_bars()

PACKAGES = ("datasets", "torchdata", "torch")
NO_PACKING = "it has no packing; another library, trl, packs"
BUFFER = (
    "IterableDataset.state_dict: “examples from shuffle buffers are lost when resuming and the "
    "buffers are refilled with new data”"
)


DRAWS = "a function that draws keeps no state: its docs do not speak of one"
CHANGED = "its docs do not speak of another batch size, nor of data that change"
EVENTS = {"hosts": RANKS, "batch_size": CHANGED, "data_grow": CHANGED}


def write_shards(records: list[list[list[int]]], folder: Path) -> None:
    """A file for each shard, named by source and shard."""
    for source, files in enumerate(records):
        for number, file in enumerate(files):
            pq.write_table(pa.table({"id": file}), folder / f"{source}-{number:03}.parquet")


def mixed(sources: list[Any]) -> Any:
    """Sources in equal parts."""
    if len(sources) == 1:
        return sources[0]
    until = "all_exhausted_without_replacement"
    return datasets.interleave_datasets(sources, stopping_strategy=until)


def files_of(run: Any) -> list[list[str]]:
    """The files of each source."""
    patterns = [f"{number}-*.parquet" for number in range(len(run.pipeline.shards))]
    return [sorted(map(str, run.folder.glob(pattern))) for pattern in patterns]


def fan_rows(rows: dict[str, list[int]]) -> dict[str, list[int]]:
    """The stage `flat_map`."""
    return {"id": [copy for number in rows["id"] for copy in fan(number)]}


def write_rows(workload: Workload, records: Iterator[Any], folder: Path) -> None:
    """Parquet files."""
    if workload.name == "parquet":
        write_parquet(records, folder)
        return
    column = [record.tobytes() if workload.name == "mnist" else record for record in records]
    for file, places in enumerate(np.array_split(np.arange(len(column)), 4)):
        part = pa.table({"record": pa.array([column[place] for place in places], pa.binary())})
        pq.write_table(part, folder / f"{file:03}.parquet", row_group_size=1000)


class OnDisk:
    """Datasets on disk. Filters run before the loop; functions run when a row is read."""

    PACKAGES = PACKAGES
    TAR = "it reads tar files only as a stream: see the column “Hugging Face, streaming”"
    LACKS: ClassVar = {"packing": NO_PACKING, "tar": TAR}
    WINDOW = "a dataset on disk is shuffled as a whole"
    UNCLAIMED: ClassVar = {"random_map": DRAWS, "window": WINDOW, "pack": NO_PACKING, **EVENTS}
    write = staticmethod(write_shards)
    write_workload = staticmethod(write_rows)  # `from_parquet` brings them into Arrow files once

    unclaimed = staticmethod(partial(first_of, UNCLAIMED))

    @staticmethod
    def stream(run: Any) -> Numbers:
        """The dataset, and the same loader as of PyTorch."""
        datasets.disable_caching()
        cache = str(run.folder.parent / f"cache-{run.host}")
        sources = [datasets.Dataset.from_parquet(files, cache_dir=cache) for files in files_of(run)]
        if len(sources) > 1:
            sources = [source.shuffle(seed=1) for source in sources]
        dataset = mixed(sources)
        add = MAPPED * run.pipeline.has("map")
        if run.pipeline.has("filter"):
            dataset = dataset.filter(lambda row: (row["id"] + add) % 3 > 0)
        if run.pipeline.has("flat_map"):
            dataset = dataset.map(fan_rows, batched=True)

        def transform(rows: dict[str, list[int]]) -> dict[str, list[int]]:
            return {"id": [run.touch(number) + add for number in rows["id"]]}

        return stateful(run, dataset.with_transform(transform), lambda batch: batch["id"])

    @staticmethod
    def batches(workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
        """The dataset, with a transform of rows; the loader's workers stay between epochs."""
        files = sorted(map(str, folder.glob("*.parquet")))
        dataset = datasets.Dataset.from_parquet(files, cache_dir=str(folder / "cache"))
        options: Any = {"shuffle": workload.shuffled, **kept_workers(workers)}
        if workload.name == "parquet":
            dataset = dataset.with_format("numpy")
            options["collate_fn"] = stacked
        else:
            dataset = dataset.with_transform(
                lambda rows: {"made": [made(workload, row) for row in rows["record"]]}
            )
            options["collate_fn"] = lambda rows: stacked([row["made"] for row in rows])
        return loops(DataLoader(dataset, workload.batch, **options), epochs)


def streamed(kind: str, files: list[str]) -> Any:
    """Files as a stream."""
    return datasets.load_dataset(kind, data_files=files, split="train", streaming=True)


class Streaming:
    """Streaming datasets, with a shuffle buffer, and StatefulDataLoader, as documented."""

    PACKAGES = PACKAGES
    LACKS: ClassVar = {"packing": NO_PACKING}
    STAGES: ClassVar = {"random_map": DRAWS, "pack": NO_PACKING}
    write = staticmethod(write_shards)

    @classmethod
    def unclaimed(cls, pipeline: Any, event: Any) -> str:
        """Buffers of a shuffle when resumed, and states for other ranks."""
        resumed = len(event.legs) > 1 or event.legs[0].reopen
        shuffled = pipeline.has("shuffle") or pipeline.has("window")
        buffer = BUFFER if shuffled and resumed else ""
        return first_of(cls.STAGES, pipeline, event) or buffer or EVENTS.get(event.name, "")

    @staticmethod
    def stream(run: Any) -> Numbers:
        """The pipeline, one stage after the other."""
        pipeline, leg = run.pipeline, run.leg
        dataset = mixed([streamed("parquet", files) for files in files_of(run)])
        if pipeline.has("shuffle") or pipeline.has("window"):
            dataset = dataset.shuffle(seed=1, buffer_size=pipeline.number("window", 1000))
        if pipeline.has("repeat"):
            dataset = dataset.repeat(pipeline.number("repeat"))
        dataset = dataset.map(lambda row: {"id": run.touch(row["id"])})
        for stage in pipeline.stages:
            if stage == "map":
                dataset = dataset.map(lambda row: {"id": row["id"] + MAPPED})
            elif stage == "filter":
                dataset = dataset.filter(lambda row: passes(row["id"]))
            elif stage == "flat_map":
                dataset = dataset.map(fan_rows, batched=True, batch_size=1)
        if leg.hosts > 1:
            dataset = split_dataset_by_node(dataset, run.host, leg.hosts)
        drop = pipeline.has("drop") or run.event.alike
        loader = StatefulDataLoader(dataset, leg.batch, num_workers=leg.workers, drop_last=drop)
        if run.states:
            loader.load_state_dict(run.states[run.host])
        torch.set_num_threads(1)
        add = MAPPED * pipeline.has("map_batch")
        return Numbers(loader, lambda batch: batch["id"], add, loader.state_dict)

    @staticmethod
    def write_workload(workload: Workload, records: Iterator[Any], folder: Path) -> None:
        """Parquet or tar files, one for a worker or more."""
        if workload.name == "tar":
            write_tars(records, folder)
        else:
            write_rows(workload, records, folder)

    @staticmethod
    def batches(workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
        """The stream; a worker has files of its own, so that their records come in turns."""
        tar = workload.name == "tar"
        files = sorted(map(str, folder.glob("*.tar" if tar else "*.parquet")))
        stream = streamed("webdataset" if tar else "parquet", files)
        if workload.shuffled:
            stream = stream.shuffle(seed=1, buffer_size=1000)
        collate: Any = stacked
        if workload.name == "parquet":
            stream = stream.with_format("numpy")
        else:
            column = "bin" if tar else "record"

            def collate(rows: list[Any]) -> Any:
                return stacked([made(workload, row[column]) for row in rows])

        options = {"collate_fn": collate, **kept_workers(workers)}
        return loops(DataLoader(stream, workload.batch, **options), epochs)
