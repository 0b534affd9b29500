"""headrace: chains with ArrayRecord, tokens, tar and Parquet files; its `DataLoader` in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from adapters.parts import Numbers, documents, in_batches, loaded, numbers_of, staged
from loaders import files
from loaders.records import ROW
from loaders.workloads import Workload
from resuming.cases import MAPPED, fan

import headrace

PACKAGES = ("headrace", "array-record")
LACKS: dict[str, str] = {}


def unclaimed(pipeline: Any, event: Any) -> str:
    """Nothing: all is claimed."""
    return ""


write = files.write_array_record_shards


def stream(run: Any) -> Numbers:
    """The pipeline, one stage after the other."""
    pipeline = run.pipeline
    dataset = staged(_records(run), pipeline)
    if pipeline.has("flat_map"):
        dataset = dataset.flat_map(fan, max_fan_out=2)
    if pipeline.has("pack"):
        dataset = dataset.pack(pipeline.number("pack"), window=32)
    dataset = dataset.batch(run.leg.batch, drop_remainder=pipeline.has("drop"))
    if pipeline.has("map_batch"):
        dataset = dataset.map(lambda batch: batch + MAPPED)
    dataset = dataset.mp_prefetch(run.leg.workers)
    if run.event.alike:
        dataset = dataset.across_hosts("pad", folder=run.folder.parent / "hosts")
    iterator = iter(dataset)
    if run.states:
        iterator.set_states(run.states)
    masked = run.event.alike and not pipeline.has("pack")
    numbers = (lambda batch: batch[iterator.mask]) if masked else numbers_of
    return Numbers(iterator, numbers, state=iterator.get_state)


def _records(run: Any) -> headrace.IterDataset[int]:
    """The records in their order; where data grow, with those that were added."""
    pipeline, grows = run.pipeline, run.event.name == "data_grow"
    parts = []
    for number in range(len(pipeline.shards)):
        path = str(run.folder / f"{number}-*")
        part = headrace.MapDataset.source(headrace.ArrayRecordDataSource(path, growing=grows))
        parts.append(part.shuffle(seed=1 + number) if pipeline.has("shuffle") else part)
    options: dict[str, Any] = {"shard_options": headrace.ShardOptions(run.host, run.leg.hosts)}
    if grows:  # a window keeps the records with which it was made
        options["growth"] = "hand" if pipeline.has("window") else "now"
        if len(parts) > 1:  # of data that grow, streams can be mixed
            parts = [part.map(int).map(run.touch).to_iter_dataset(**options) for part in parts]
            return headrace.IterDataset.mix(parts, when_exhausted="all")
    several = len(parts) > 1
    dataset = headrace.MapDataset.mix(parts, when_exhausted="all") if several else parts[0]
    if pipeline.has("window"):
        dataset = dataset.window_shuffle(pipeline.number("window"), seed=1)
    if pipeline.has("repeat"):
        dataset = dataset.repeat(pipeline.number("repeat"))
    return dataset.map(int).map(run.touch).to_iter_dataset(**options)


def write_workload(workload: Workload, records: Iterator[Any], folder: Path) -> None:
    """Arrays, records of bytes, tokens, tar or Parquet."""
    if workload.name == "mnist":
        files.write_array(workload, records, folder)
    elif workload.name in ("bytes_1k", "jpeg"):
        headrace.convert(list(records), folder, to="bytes", workers=0, progress=False)
    elif workload.name == "packing":
        with headrace.TokenWriter(folder / "tokens.npy", dtype=np.uint16) as writer:
            writer.extend(records)
    elif workload.name == "tar":
        files.write_tars(records, folder)
    else:
        files.write_parquet(records, folder)


def batches(workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
    """A chain of what the files hold."""
    if workload.name == "mnist":
        columns = {"image": np.load(folder / "rows.npy")}
        return _batches_of(columns, workload, workers, epochs, "image")
    if workload.name == "tar":
        return _batches_of(headrace.TarDataSource(folder), workload, workers, epochs, "bin")
    kinds = {"parquet": headrace.ParquetDataSource, "packing": headrace.TokenSource}
    source = kinds.get(workload.name, headrace.BytesSource)(folder)
    return _batches_of(source, workload, workers, epochs)


def _batches_of(
    source: Any, workload: Workload, workers: int, epochs: int, field: str = ""
) -> Iterator[Any]:
    """The chain, one method after the other."""
    dataset = headrace.MapDataset.source(source)
    if workload.name == "packing":
        rows = dataset.repeat(epochs).to_iter_dataset().pack(ROW, window=1000)
    else:
        rows = loaded(dataset, workload, epochs, field).to_iter_dataset()
    return iter(rows.batch(workload.batch).mp_prefetch(workers))


class ArrayRecord:
    """headrace with records of bytes in ArrayRecord files, which Grain reads, too."""

    PACKAGES = PACKAGES
    SAME = "the same pipeline as in the column “headrace”"
    LACKS = dict.fromkeys(("mnist", "packing", "tar", "parquet"), SAME)

    @staticmethod
    def write_workload(workload: Workload, records: Iterator[Any], folder: Path) -> None:
        """ArrayRecord."""
        files.write_array_record(records, folder)

    @staticmethod
    def batches(workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
        """The same chain as with other files."""
        return _batches_of(headrace.ArrayRecordDataSource(folder), workload, workers, epochs)


PARTS, COROUTINES = 35, 512
"""Of a mix; and reads of an asynchronous source that are under way."""


def data_loader(work: Any, workers: int, source: Any = None, **options: Any) -> Any:
    """A `DataLoader` at its defaults."""
    workload, operation = work.workload, work.workload.operation
    if workload.random:
        operation = headrace.RandomMapTransform(operation)
    batch = headrace.Batch(workload.batch_size)
    order = {"seed": work.seed, "algorithm": "grain" if work.shared_order else "headrace"}
    return headrace.DataLoader(
        data_source=work.data.headrace if source is None else source,
        sampler=headrace.IndexSampler(len(work.data.records), shuffle=True, **order),
        operations=[batch, operation] if workload.after_batch else [operation, batch],
        worker_count=workers,
        **options,
    )


def asynchronous(work: Any, workers: int) -> Any:
    """The same with an asynchronous source, of which many reads are under way."""
    options = headrace.ReadOptions(prefetch_buffer_size=COROUTINES)
    return data_loader(work, workers, work.data.asynchronous, read_options=options)


def chain(work: Any, workers: int) -> Any:
    """A `MapDataset`, with the methods that say the same."""
    return _mixed([work.data.headrace], work, workers)


def mix(work: Any, workers: int) -> Any:
    """The same records as 35 datasets, each shuffled, in a mix of equal weights."""
    return _mixed([work.data.records[part::PARTS] for part in range(PARTS)], work, workers)


def packing(work: Any, workers: int) -> Any:
    """Two lists of documents, mixed and packed by best fit."""
    rows = documents(headrace.MapDataset, work).to_iter_dataset().pack(ROW, window=1000)
    return rows.batch(work.workload.batch_size).mp_prefetch(workers)


def _mixed(sources: list[Any], work: Any, workers: int) -> Any:
    parts = [headrace.MapDataset.source(source) for source in sources]
    if work.shared_order:
        # record i is number i // parts of part i % parts
        keys = next(work.epochs()).tolist()
        order = [(key % len(parts), key // len(parts)) for key in keys]
        dataset = headrace.MapDataset.select_from_datasets(parts, order).repeat()
    else:
        shuffled = [part.shuffle(work.seed).repeat() for part in parts]
        dataset = headrace.MapDataset.mix(shuffled) if len(parts) > 1 else shuffled[0]
    return in_batches(dataset, work).to_iter_dataset().mp_prefetch(workers)
