"""headrace: chains with ArrayRecord, tokens, tar and Parquet files; and its `DataLoader` on data in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from adapters.files import write_array_record, write_array_record_shards, write_parquet, write_tars
from loaders.records import ROW, made, to_crop
from loaders.workloads import Workload
from resuming.cases import DRAW, MAPPED

import headrace

PACKAGES = ("headrace", "array-record")
LACKS: dict[str, str] = {}

# Resuming


def unclaimed(pipeline: Any, event: Any) -> str:
    """Nothing: all is claimed."""
    return ""


write = write_array_record_shards


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


# Speed, in its own environment


def write_workload(workload: Workload, records: Iterator[Any], folder: Path) -> None:
    """Arrays, records of bytes, tokens, tar or Parquet."""
    if workload.name == "mnist":
        np.save(folder / "images.npy", np.stack(list(records)))
    elif workload.name in ("bytes_1k", "jpeg"):
        headrace.convert(list(records), folder, to="bytes", workers=0, progress=False)
    elif workload.name == "packing":
        with headrace.TokenWriter(folder / "tokens.npy", dtype=np.uint16) as writer:
            writer.extend(records)
    elif workload.name == "tar":
        write_tars(records, folder)
    else:
        write_parquet(records, folder)


def batches(workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
    """A chain of what the files hold."""
    return _batches_of(_source(workload, folder), workload, workers, epochs)


def _batches_of(source: Any, workload: Workload, workers: int, epochs: int) -> Iterator[Any]:
    """The chain, one method after the other."""
    dataset = headrace.MapDataset.source(source)
    if workload.name == "packing":
        rows = dataset.repeat(epochs).to_iter_dataset().pack(ROW, window=1000)
        return iter(rows.batch(workload.batch).mp_prefetch(workers))
    if workload.shuffled:
        dataset = dataset.shuffle(seed=1)
    dataset = dataset.repeat(epochs)
    if workload.name == "jpeg":
        dataset = dataset.random_map(to_crop, seed=1)
    elif workload.name != "parquet":
        field = {"mnist": "image", "tar": "bin"}.get(workload.name)
        dataset = dataset.map(lambda record: made(workload, record[field] if field else record))
    return iter(dataset.to_iter_dataset().batch(workload.batch).mp_prefetch(workers))


def _source(workload: Workload, folder: Path) -> Any:
    if workload.name == "mnist":
        return {"image": np.load(folder / "images.npy")}
    if workload.name == "tar":
        return headrace.TarDataSource(folder)
    if workload.name == "parquet":
        return headrace.ParquetDataSource(folder)
    return headrace.TokenSource(folder) if workload.name == "packing" else headrace.BytesSource(folder)


class ArrayRecord:
    """headrace with records of bytes in ArrayRecord files, which Grain reads, too."""

    PACKAGES = PACKAGES
    LACKS = dict.fromkeys(("mnist", "packing", "tar", "parquet"), "the same pipeline as in the column “headrace”")

    @staticmethod
    def write_workload(workload: Workload, records: Iterator[Any], folder: Path) -> None:
        """ArrayRecord."""
        write_array_record(records, folder)

    @staticmethod
    def batches(workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
        """The same chain as with other files."""
        return _batches_of(headrace.ArrayRecordDataSource(folder), workload, workers, epochs)


# Speed, beside others on the same data

PARTS, COROUTINES = 35, 512
"""Of a mix; and reads of an asynchronous source that are under way."""


def data_loader(work: Any, workers: int, source: Any = None, **options: Any) -> Any:
    """A `DataLoader` at its defaults."""
    workload = work.workload
    operation = headrace.RandomMapTransform(workload.operation) if workload.random else workload.operation
    batch = headrace.Batch(workload.batch_size)
    algorithm = "grain" if work.shared_order else "headrace"
    return headrace.DataLoader(
        data_source=work.data.headrace if source is None else source,
        sampler=headrace.IndexSampler(len(work.data.records), shuffle=True, seed=work.seed, algorithm=algorithm),
        operations=[batch, operation] if workload.after_batch else [operation, batch],
        worker_count=workers,
        **options,
    )


def asynchronous(work: Any, workers: int) -> Any:
    """The same with an asynchronous source, of which many reads are under way."""
    reading = headrace.ReadOptions(prefetch_buffer_size=COROUTINES)
    return data_loader(work, workers, work.data.asynchronous, read_options=reading)


def chain(work: Any, workers: int) -> Any:
    """A `MapDataset`, with the methods that say the same."""
    source = headrace.MapDataset.source(work.data.headrace)
    if work.shared_order:
        return _to_batches(_in_shared_order([source], work), work, workers)
    return _to_batches(source.shuffle(work.seed).repeat(), work, workers)


def mix(work: Any, workers: int) -> Any:
    """The same records as 35 datasets, each shuffled, in a mix of equal weights."""
    parts = [headrace.MapDataset.source(work.data.records[part::PARTS]) for part in range(PARTS)]
    if work.shared_order:
        return _to_batches(_in_shared_order(parts, work), work, workers)
    return _to_batches(headrace.MapDataset.mix([part.shuffle(work.seed).repeat() for part in parts]), work, workers)


def packing(work: Any, workers: int) -> Any:
    """Two lists of documents, mixed and packed by best fit."""
    parts = [headrace.MapDataset.source(some).shuffle(work.seed).repeat() for some in work.data.two_lists()]
    rows = headrace.MapDataset.mix(parts, [0.7, 0.3]).to_iter_dataset().pack(ROW, window=1000)
    return rows.batch(work.workload.batch_size).mp_prefetch(workers)


class SharedOrder:
    """Selection for `select_from_datasets` that gives Grain's order: record i is record `i // parts` of part `i % parts`."""

    def __init__(self, records: int, parts: int, seed: int) -> None:
        self._sampler = headrace.IndexSampler(records, shuffle=True, seed=seed, algorithm="grain")
        self._records, self._parts = records, parts

    def __len__(self) -> int:
        return self._records

    def __getitem__(self, index: int) -> tuple[int, int]:
        record, part = divmod(self._sampler[index].record_key or 0, self._parts)
        return part, record


def _in_shared_order(parts: list[Any], work: Any) -> Any:
    order = SharedOrder(len(work.data.records), len(parts), work.seed)
    return headrace.MapDataset.select_from_datasets(parts, order).repeat()


def _to_batches(dataset: Any, work: Any, workers: int) -> Any:
    """The workload's operation and batches."""
    workload = work.workload
    if workload.after_batch:
        dataset = dataset.batch(workload.batch_size)
    operation = workload.operation
    dataset = dataset.random_map(operation, seed=work.seed) if workload.random else dataset.map(operation)
    if not workload.after_batch:
        dataset = dataset.batch(workload.batch_size)
    return dataset.to_iter_dataset().mp_prefetch(workers)
