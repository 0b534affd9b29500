"""LanceDB: a table, its StreamingDataset, which is elastic, and its StreamingDataLoader."""

from __future__ import annotations

import multiprocessing
from functools import partial
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
from adapters.parts import first_of
from lancedb.streaming import StreamingDataLoader, StreamingDataset
from resuming.cases import MAPPED

multiprocessing.set_forkserver_preload(["adapters.lance"])  # else each worker imports it

PACKAGES = ("lancedb", "torch")

SPLITS = 4
"""Its docs ask for a number that hosts times workers divides, and that divides a global batch."""

UNCLAIMED = {
    "random_map": "a transform that draws keeps no state: its docs do not speak of one",
    "flat_map": "a transform must “return an iterable with exactly one sample for each input row”",
    "window": "rows are shuffled as a whole, or in clumps of neighbours",
    "pack": "“transform cannot be combined with pack_sequences”, and the pipeline has a function "
    "of each record",
    "drop": "“StreamingDataLoader does not support drop_last=True”",
    "workers": "“num_splits must be divisible by world_size * num_workers”, and a batch by "
    "num_splits: not 8 by 3 workers",
    "data_grow": "“For an exact resume, also use the same table snapshot”",
    "batch_size": "to resume, the batch size across all ranks is “the same value used when the "
    "checkpoint was saved”",
}


def unclaimed(pipeline: Any, event: Any) -> str:
    """Other stages, and rows, workers and batches that its splits do not divide."""
    if len(pipeline.shards) > 1:
        return "a StreamingDataset has one table: its docs do not speak of a mix"
    if sum(pipeline.shards[0]) % SPLITS:
        surplus = "“up to num_splits - 1 surplus rows are dropped”"
        return f"rows that num_splits does not divide: {surplus}"
    return first_of(UNCLAIMED, pipeline, event)


def write(records: list[list[list[int]]], folder: Path) -> None:
    """A table, with a fragment for each file."""
    schema = pa.schema([("id", pa.int64())])
    table = lancedb.connect(str(folder)).create_table("records", schema=schema)
    for file in records[0]:
        table.add(pa.table({"id": file}))


def transformed(run: Any, rows: Any) -> list[int]:
    """The function of each record, of a batch of rows."""
    add = MAPPED * run.pipeline.has("map")
    return [run.touch(number) + add for number in rows.column("id").to_pylist()]


class Epochs:
    """One epoch after the other; a batch is one smaller batch of each worker."""

    def __init__(self, run: Any) -> None:
        self._run, self._epoch = run, 0
        self._table = lancedb.connect(str(run.folder)).open_table("records")
        merged = StreamingDataset.merge_state_dicts(run.states) if run.states else None
        self._begin(merged["epoch"] if merged else 0, merged)

    def _begin(self, epoch: int, state: Any = None) -> None:
        run, pipeline, leg = self._run, self._run.pipeline, self._run.leg
        order = {"shuffle": pipeline.has("shuffle"), "shuffle_seed": 1, "epoch": epoch}
        place = {"rank": run.host, "world_size": leg.hosts, "num_splits": SPLITS}
        remainder = f"(id + {MAPPED * pipeline.has('map')}) % 3 > 0"
        work = {"filter": remainder if pipeline.has("filter") else None}
        work["transform"] = partial(transformed, run)
        self._dataset = StreamingDataset(self._table, **order, **place, **work)
        if state:
            self._dataset.load_state_dict(state)
        workers: Any = {"num_workers": leg.workers, "multiprocessing_context": "forkserver"}
        workers = workers if leg.workers else {}
        size = leg.batch // max(leg.workers, 1)
        self._batches = iter(StreamingDataLoader(self._dataset, size, collate_fn=list, **workers))
        self._epoch = epoch

    def __next__(self) -> list[int]:
        while True:
            parts = [next(self._batches, []) for _ in range(max(self._run.leg.workers, 1))]
            if any(parts):
                add = MAPPED * self._run.pipeline.has("map_batch")
                return [number + add for part in parts for number in part]
            if self._epoch + 1 >= self._run.pipeline.number("repeat", 1):
                raise StopIteration
            self._begin(self._epoch + 1)

    def state(self) -> dict[str, Any]:
        """Return the rows of each split that were read."""
        return self._dataset.state_dict()


def stream(run: Any) -> Epochs:
    """The epochs."""
    return Epochs(run)
