"""Parts of pipelines that headrace and Grain write alike, as their chains have the same methods."""

from __future__ import annotations

from typing import Any

import numpy as np
from loaders.records import made, to_crop
from loaders.workloads import Workload
from resuming.cases import DRAW, MAPPED, Pipeline


def staged(dataset: Any, pipeline: Pipeline) -> Any:
    """The stages of `resume.py` that work on each record alone."""
    for stage, *_ in pipeline.stages:
        if stage == "map":
            dataset = dataset.map(lambda number: number + MAPPED)
        elif stage == "random_map":
            dataset = dataset.random_map(
                lambda number, rng: number + DRAW * int(rng.integers(1000)), seed=2
            )
        elif stage == "filter":
            dataset = dataset.filter(lambda number: number % 3 > 0)
        elif stage == "document":
            dataset = dataset.map(
                lambda number: {"tokens": np.full(1 + number % 7, number + 1, np.int32)}
            )
    return dataset


def loaded(dataset: Any, workload: Workload, epochs: int, field: str = "") -> Any:
    """The records of a workload of `speed.py loaders`, and the work for each."""
    if workload.shuffled:
        dataset = dataset.shuffle(seed=1)
    dataset = dataset.repeat(epochs)
    if workload.name == "jpeg":
        return dataset.random_map(to_crop, seed=1)
    if workload.name == "parquet":
        return dataset
    return dataset.map(lambda record: made(workload, record[field] if field else record))


def in_batches(dataset: Any, work: Any) -> Any:
    """The operation of a workload of `speed.py compare`, and batches."""
    workload, operation = work.workload, work.workload.operation
    if workload.after_batch:
        return dataset.batch(workload.batch_size).map(operation)
    dataset = (
        dataset.random_map(operation, seed=work.seed) if workload.random else dataset.map(operation)
    )
    return dataset.batch(workload.batch_size)


def documents(kind: Any, work: Any) -> Any:
    """Two lists of documents of the workload `packing`, mixed; `kind` is a library's
    `MapDataset`.
    """
    records, most = work.data.records, len(work.data.records) * 7 // 10
    parts = [
        kind.source(some).shuffle(work.seed).repeat() for some in (records[:most], records[most:])
    ]
    return kind.mix(parts, [0.7, 0.3])
