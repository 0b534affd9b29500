"""Grain: chains, ElasticIterator where hosts change, at its default threads; its `DataLoader`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grain
import numpy as np
from absl import flags
from adapters.parts import Numbers, documents, in_batches, loaded, staged
from grain import experimental
from loaders import files
from loaders.records import ROW
from loaders.workloads import Workload
from resuming.cases import MAPPED, fan

# workers read flags, which a program that is no `absl.app` has not parsed
flags.FLAGS.mark_as_parsed()

PACKAGES = ("grain", "array-record")
LACKS = {"tar": "it has no source for tar files"}

ELASTIC = (
    "ElasticIterator: “This iterator explicitly disallows many-to-one transformations without a "
    "fixed ratio, like `filter` and generic `IterDataset` transformations.”"
)
WORKERS = (
    "mp_prefetch: “If the dataset contains many-to-one transformations (such as ``filter``) or "
    "stateful transformations (such as packing), output of ``mp_prefetch`` may change if "
    "``num_workers`` is changed.”"
)


def unclaimed(pipeline: Any, event: Any) -> str:
    """Elastic resumption is claimed for pipelines without filters and packing, and full batches."""
    if event.name == "data_grow":
        return "its docs do not speak of data that change"
    if not elastic(event):
        return ""
    if not pipeline.has("drop") and sum(map(sum, pipeline.shards)) % event.legs[0].batch:
        return "ElasticIterator makes full batches only, and leaves the last records out"
    many_to_one = any(map(pipeline.has, ("filter", "flat_map", "pack")))
    return (WORKERS if event.name == "workers" else ELASTIC) if many_to_one else ""


def elastic(event: Any) -> bool:
    """Whether hosts, batch size or workers change; Grain's `ElasticIterator` resumes then."""
    return event.name in ("workers", "hosts", "batch_size")


write = files.write_array_record_shards


class Fan(grain.experimental.FlatMapTransform):
    """The stage `flat_map`."""

    max_fan_out = 2

    def flat_map(self, element: int) -> list[int]:
        """None, one or two elements."""
        return fan(element)


def stream(run: Any) -> Numbers:
    """The pipeline, one stage after the other."""
    pipeline, leg = run.pipeline, run.leg
    dataset = _mapped(run)
    processes = grain.MultiprocessingOptions(num_workers=leg.workers) if leg.workers else None
    add = MAPPED * pipeline.has("map_batch")
    if elastic(run.event):
        shard = grain.sharding.ShardOptions(run.host, leg.hosts)
        batches = experimental.ElasticIterator(
            dataset, leg.batch * leg.hosts, shard, multiprocessing_options=processes
        )
        return _numbers(batches, run.states, add)  # nothing can follow the iterator
    spare = len(dataset) % leg.hosts if run.event.alike else 0
    dataset = dataset[: len(dataset) - spare][run.host :: leg.hosts] if leg.hosts > 1 else dataset
    batches = dataset.to_iter_dataset()
    if pipeline.has("flat_map"):
        batches = experimental.FlatMapIterDataset(batches, Fan())
    if pipeline.has("pack"):
        row = {"tokens": pipeline.number("pack")}
        pack = experimental.FirstFitPackIterDataset
        batches = pack(batches, length_struct=row, num_packing_bins=8)
    batches = batches.batch(leg.batch, drop_remainder=pipeline.has("drop") or run.event.alike)
    if add:
        batches = batches.map(lambda batch: batch + MAPPED)
    return _numbers(batches.mp_prefetch(processes) if processes else batches, run.states, 0)


def _mapped(run: Any) -> Any:
    """The stages that work on each record, with random access."""
    pipeline = run.pipeline
    parts = []
    for number in range(len(pipeline.shards)):
        paths = sorted(map(str, run.folder.glob(f"{number}-*")))
        part = grain.MapDataset.source(grain.sources.ArrayRecordDataSource(paths))
        parts.append(part.shuffle(seed=1 + number) if pipeline.has("shuffle") else part)
    dataset = grain.MapDataset.mix(parts) if len(parts) > 1 else parts[0]
    if pipeline.has("window"):
        size = pipeline.number("window")
        dataset = experimental.WindowShuffleMapDataset(dataset, window_size=size, seed=1)
    return staged(dataset.repeat(pipeline.number("repeat", 1)).map(int).map(run.touch), pipeline)


def _numbers(dataset: Any, states: list[Any] | None, add: int) -> Numbers:
    iterator = iter(dataset)
    if states:
        iterator.set_state(states[0])
    return Numbers(iterator, add=add, state=iterator.get_state)


def write_workload(workload: Workload, records: Iterator[Any], folder: Path) -> None:
    """Arrays, ArrayRecord, or Parquet."""
    if workload.name in ("mnist", "packing"):
        files.write_array(workload, records, folder)
    elif workload.name in ("bytes_1k", "jpeg"):
        files.write_array_record(records, folder)
    else:
        files.write_parquet(records, folder)


class Documents(files.Rows):
    """The documents as elements that can be packed."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"tokens": super().__getitem__(index)}


def batches(workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
    """The chain, one method after the other."""
    if workload.name == "parquet":
        paths = sorted(map(str, folder.glob("*.parquet")))
        streams = [experimental.ParquetIterDataset(path) for path in paths]
        rows = experimental.InterleaveIterDataset(streams, cycle_length=1)
        rows = experimental.RepeatIterDataset(rows, num_epochs=epochs)
    elif workload.name == "packing":
        documents = grain.MapDataset.source(Documents(folder)).repeat(epochs)
        rows = best_fit(documents.to_iter_dataset())
    else:
        mnist, path = workload.name == "mnist", str(folder / "0.array_record")
        source = files.Rows(folder) if mnist else grain.sources.ArrayRecordDataSource([path])
        rows = loaded(grain.MapDataset.source(source), workload, epochs).to_iter_dataset()
    return iter(_on_workers(rows.batch(workload.batch), workers))


def best_fit(dataset: Any) -> Any:
    """Grain's best fit, which holds 64 rows open."""
    row = {"tokens": ROW}
    return experimental.BestFitPackIterDataset(dataset, length_struct=row, num_packing_bins=64)


class FunctionMap(grain.transforms.Map):
    """A function as Grain wants it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def map(self, element: Any) -> Any:
        """Return what the function returns."""
        return self.function(element)


class RandomFunctionMap(grain.transforms.RandomMap):
    """A function of an element and a generator as Grain wants it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """Return what the function returns."""
        return self.function(element, rng)


def data_loader(work: Any, workers: int, num_threads: int | None = None) -> Any:
    """A `grain.DataLoader`, whose order is always its own."""
    workload = work.workload
    operation = (RandomFunctionMap if workload.random else FunctionMap)(workload.operation)
    batch = grain.transforms.Batch(workload.batch_size)
    return grain.DataLoader(
        data_source=work.data.records,
        sampler=grain.samplers.IndexSampler(len(work.data.records), shuffle=True, seed=work.seed),
        operations=[batch, operation] if workload.after_batch else [operation, batch],
        worker_count=workers,
        read_options=_reading(num_threads),
    )


def chain(work: Any, workers: int, num_threads: int | None = None) -> Any:
    """A `MapDataset`, whose order is always its own."""
    shuffled = grain.MapDataset.source(work.data.records).shuffle(work.seed).repeat()
    batches = in_batches(shuffled, work).to_iter_dataset(_reading(num_threads))
    return _on_workers(batches, workers)


def packing(work: Any, workers: int, num_threads: int | None = None) -> Any:
    """Two lists of documents, mixed and packed."""
    mixed = documents(grain.MapDataset, work).to_iter_dataset(_reading(num_threads))
    return _on_workers(best_fit(mixed).batch(work.workload.batch_size), workers)


def _reading(num_threads: int | None) -> grain.ReadOptions | None:
    """None are Grain's defaults."""
    return None if num_threads is None else grain.ReadOptions(num_threads=num_threads)


def _on_workers(dataset: Any, workers: int) -> Any:
    return dataset.mp_prefetch(grain.MultiprocessingOptions(workers)) if workers else dataset
