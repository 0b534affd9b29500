"""headrace in the resume league: a chain, with ArrayRecord files."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

import numpy as np
from array_record.python.array_record_module import ArrayRecordWriter
from cases import DRAW, MAPPED

import headrace


def versions() -> dict[str, str]:
    """What is measured."""
    return {name: importlib.metadata.version(name) for name in ("headrace", "array-record")}


def unclaimed(pipeline: Any, event: Any) -> str:
    """Nothing: all is claimed."""
    return ""


def write(records: list[list[list[int]]], folder: Path) -> None:
    """A file for each shard, named by source and shard."""
    for source, files in enumerate(records):
        for number, file in enumerate(files):
            writer = ArrayRecordWriter(str(folder / f"{source}-{number:03}.array_record"), "group_size:1")
            for record in file:
                writer.write(str(record).encode())
            writer.close()


def stream(run: Any) -> Stream:
    """The pipeline, one stage after the other."""
    pipeline = run.pipeline
    sources = [
        headrace.MapDataset.source(
            headrace.ArrayRecordDataSource(sorted(map(str, run.folder.glob(f"{number}-*.array_record"))))
        )
        for number in range(len(pipeline.shards))
    ]
    if pipeline.has("shuffle"):
        sources = [source.shuffle(seed=1 + number) for number, source in enumerate(sources)]
    dataset = sources[0] if len(sources) == 1 else headrace.MapDataset.mix(sources, when_exhausted="all")
    if pipeline.has("window"):
        dataset = dataset.window_shuffle(pipeline.number("window"), seed=1)
    if pipeline.has("repeat"):
        dataset = dataset.repeat(pipeline.number("repeat"))
    dataset = dataset.map(int).map(run.touch)
    shard = headrace.ShardOptions(run.host, run.leg.hosts)
    dataset = _staged(dataset.to_iter_dataset(shard_options=shard), pipeline)
    dataset = dataset.batch(run.leg.batch, drop_remainder=pipeline.has("drop"))
    if pipeline.has("map_batch"):
        dataset = dataset.map(lambda batch: batch + MAPPED)
    dataset = dataset.mp_prefetch(run.leg.workers)
    if run.event.alike:
        dataset = dataset.across_hosts("pad", folder=run.folder.parent / "hosts")
    return Stream(iter(dataset), run.states, run.event.alike)


def _staged(dataset: Any, pipeline: Any) -> Any:
    for stage, *numbers in pipeline.stages:
        if stage == "map":
            dataset = dataset.map(lambda number: number + MAPPED)
        elif stage == "random_map":
            dataset = dataset.random_map(lambda number, rng: number + DRAW * int(rng.integers(1000)), seed=2)
        elif stage == "filter":
            dataset = dataset.filter(lambda number: number % 3)
        elif stage == "flat_map":
            dataset = dataset.flat_map(lambda number: [number * 10 + copy for copy in range(number % 3)], max_fan_out=2)
        elif stage == "document":
            dataset = dataset.map(lambda number: {"tokens": np.full(1 + number % 7, number + 1, np.int32)})
        elif stage == "pack":
            dataset = dataset.pack(numbers[0], window=32)
    return dataset


class Stream:
    """Batches as lists of numbers."""

    def __init__(self, iterator: Any, states: list[bytes] | None, masked: bool) -> None:
        self._iterator, self._masked = iterator, masked
        self.state = iterator.get_state
        self.close = iterator.close
        if states:
            iterator.set_states(states)

    def __next__(self) -> list[int]:
        batch = next(self._iterator)
        if isinstance(batch, dict):
            return [int(token) for token in batch["tokens"].ravel() if token]
        return [int(number) for number in (batch[self._iterator.mask] if self._masked else batch)]
