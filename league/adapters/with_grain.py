"""Grain in the resume league: a chain, with ArrayRecord files; ElasticIterator if the number of hosts or the batch changes."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

import grain
import numpy as np
from absl import flags
from array_record.python.array_record_module import ArrayRecordWriter
from cases import DRAW, MAPPED
from grain import experimental

flags.FLAGS.mark_as_parsed()  # workers read flags
ELASTIC = (
    "ElasticIterator: “This iterator explicitly disallows many-to-one transformations without a fixed ratio, "
    "like `filter` and generic `IterDataset` transformations.”"
)
WORKERS = (
    "mp_prefetch: “If the dataset contains many-to-one transformations (such as ``filter``) or stateful "
    "transformations (such as packing), output of ``mp_prefetch`` may change if ``num_workers`` is changed.”"
)


def versions() -> dict[str, str]:
    """What is measured."""
    return {name: importlib.metadata.version(name) for name in ("grain", "array-record")}


def unclaimed(pipeline: Any, event: Any) -> str:
    """Elastic resumption is claimed for pipelines without filters and packing."""
    if event.name == "data_grow":
        return "its docs do not speak of data that change"
    many_to_one = any(map(pipeline.has, ("filter", "flat_map", "pack")))
    return (WORKERS if event.name == "workers" else ELASTIC) if elastic(event) and many_to_one else ""


def elastic(event: Any) -> bool:
    """Whether hosts, batches or workers change: there it is the ElasticIterator that goes on."""
    return event.name in ("workers", "hosts", "batch_size")


def write(records: list[list[list[int]]], folder: Path) -> None:
    """A file for each shard, named by source and shard."""
    for source, files in enumerate(records):
        for number, file in enumerate(files):
            writer = ArrayRecordWriter(str(folder / f"{source}-{number:03}.array_record"), "group_size:1")
            for record in file:
                writer.write(str(record).encode())
            writer.close()


class Fan(grain.experimental.FlatMapTransform):
    """The stage `flat_map`."""

    max_fan_out = 2

    def flat_map(self, element: int) -> list[int]:
        """None, one or two elements."""
        return [element * 10 + copy for copy in range(element % 3)]


def stream(run: Any) -> Stream:
    """The pipeline, one stage after the other."""
    pipeline, leg = run.pipeline, run.leg
    paths = [sorted(map(str, run.folder.glob(f"{number}-*"))) for number in range(len(pipeline.shards))]
    sources = [grain.MapDataset.source(grain.sources.ArrayRecordDataSource(files)) for files in paths]
    if pipeline.has("shuffle"):
        sources = [source.shuffle(seed=1 + number) for number, source in enumerate(sources)]
    dataset = grain.MapDataset.mix(sources) if len(sources) > 1 else sources[0]
    if pipeline.has("window"):
        dataset = experimental.WindowShuffleMapDataset(dataset, window_size=pipeline.number("window"), seed=1)
    dataset = dataset.repeat(pipeline.number("repeat", 1)).map(int).map(run.touch)
    for stage, *_ in pipeline.stages:
        if stage == "map":
            dataset = dataset.map(lambda number: number + MAPPED)
        elif stage == "random_map":
            dataset = dataset.random_map(lambda number, rng: number + DRAW * int(rng.integers(1000)), seed=2)
        elif stage == "filter":
            dataset = dataset.filter(lambda number: number % 3 > 0)
        elif stage == "document":
            dataset = dataset.map(lambda number: {"tokens": np.full(1 + number % 7, number + 1, np.int32)})
    processes = grain.MultiprocessingOptions(num_workers=leg.workers) if leg.workers else None
    if elastic(run.event):
        shard = grain.sharding.ShardOptions(run.host, leg.hosts)
        batches = experimental.ElasticIterator(dataset, leg.batch * leg.hosts, shard, multiprocessing_options=processes)
    else:
        spare = len(dataset) % leg.hosts if run.event.alike else 0
        dataset = dataset[: len(dataset) - spare][run.host :: leg.hosts] if leg.hosts > 1 else dataset
        batches = dataset.to_iter_dataset()
        if pipeline.has("flat_map"):
            batches = experimental.FlatMapIterDataset(batches, Fan())
        if pipeline.has("pack"):
            row = {"tokens": pipeline.number("pack")}
            batches = experimental.FirstFitPackIterDataset(batches, length_struct=row, num_packing_bins=8)
        batches = batches.batch(leg.batch, drop_remainder=pipeline.has("drop") or run.event.alike)
    if pipeline.has("map_batch") and not elastic(run.event):
        batches = batches.map(lambda batch: batch + MAPPED)
    if processes and not elastic(run.event):
        batches = batches.mp_prefetch(processes)
    return Stream(iter(batches), run.states, MAPPED if elastic(run.event) and pipeline.has("map_batch") else 0)


class Stream:
    """Batches as lists of numbers; `add` is added to each, where nothing can follow the iterator."""

    def __init__(self, iterator: Any, states: list[Any] | None, add: int) -> None:
        self._iterator, self._add = iterator, add
        self.state = iterator.get_state
        self.close = iterator.close
        if states:
            iterator.set_state(states[0])

    def __next__(self) -> list[int]:
        batch = next(self._iterator)
        if isinstance(batch, dict):
            return [int(token) for token in batch["tokens"].ravel() if token]
        return [int(number) + self._add for number in batch]
