"""Parts that adapters share; and the parts of an adapter, i.e. of the one file about a library.

`libraries.py` names adapters, which are modules of this folder, or classes in them. They use public
names of the library only, with the settings that its docs advise. A library that takes part in one
comparison has only its parts. All have `PACKAGES`, distributions whose versions are told.

1. `resume.py`:
   `unclaimed(pipeline, event)` says why the library does not claim a cell, in the words of its
   docs; empty if it does.
   `write(records, folder)` writes lists of numbers, by source and file, in a format that suits it.
   `stream(run)` makes the pipeline and restores the state: `Numbers`, or what has its methods.
2. `speed.py loaders`, each library in its own environment:
   `LACKS` has a sentence for each workload that the library has no means for.
   `write_workload(workload, records, folder)` writes the records of a workload.
   `batches(workload, folder, workers, epochs)` makes the stream of arrays, or dicts of arrays.
3. `speed.py compare`, all in one process on the same data: functions that `libraries.SETTINGS`
   names, each of a `compare.work.Work`, a number of workers, and options. They return something
   whose `iter()` is a fresh endless stream of batches. What they import must be installed in the
   environments of the other parts, too, or is imported inside them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from loaders.records import made, to_crop
from loaders.workloads import Workload
from resuming.cases import DRAW, MAPPED, Event, Pipeline, passes


def first_of(said: dict[str, str], pipeline: Pipeline, event: Event) -> str:
    """The first sentence about the event, or a stage that the pipeline has; or nothing."""
    return next((said[one] for one in said if one == event.name or pipeline.has(one)), "")


def numbers_of(batch: Any) -> Any:
    """The numbers of a batch, or the tokens of packed rows without their padding."""
    return batch["tokens"][batch["tokens"] > 0] if isinstance(batch, dict) else batch


class Numbers:
    """A stream for `resume.py`: batches as flat lists of numbers.

    Args:
        batches: the library's.
        numbers: returns the numbers of a batch.
        add: is added to each number, where nothing of the library can do it.
        state: returns an object that can be pickled, and resumes after the last batch.
    """

    def __init__(
        self, batches: Any, numbers: Any = numbers_of, add: int = 0, state: Any = lambda: None
    ) -> None:
        self._batches, self._numbers, self._add, self.state = iter(batches), numbers, add, state
        self.close = getattr(self._batches, "close", lambda: None)

    def __next__(self) -> list[int]:
        return [int(number) + self._add for number in self._numbers(next(self._batches))]


# What headrace and Grain write alike, as their chains have the same methods


def staged(dataset: Any, pipeline: Pipeline) -> Any:
    """The stages of `resume.py` that work on each record alone."""
    for stage in pipeline.stages:
        if stage == "map":
            dataset = dataset.map(lambda number: number + MAPPED)
        elif stage == "random_map":
            dataset = dataset.random_map(_with_draw, seed=2)
        elif stage == "filter":
            dataset = dataset.filter(passes)
        elif stage == "document":
            dataset = dataset.map(_document)
    return dataset


def _with_draw(number: int, rng: np.random.Generator) -> int:
    return number + DRAW * int(rng.integers(1000))


def _document(number: int) -> dict[str, Any]:
    return {"tokens": np.full(1 + number % 7, number + 1, np.int32)}


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
    size, operation = work.workload.batch_size, work.workload.operation
    if work.workload.after_batch:
        return dataset.batch(size).map(operation)
    if work.workload.random:
        return dataset.random_map(operation, seed=work.seed).batch(size)
    return dataset.map(operation).batch(size)


def documents(kind: Any, work: Any) -> Any:
    """Two lists of documents of `packing`, mixed; `kind` is a library's `MapDataset`."""
    records, most = work.data.records, len(work.data.records) * 7 // 10
    lists = (records[:most], records[most:])
    return kind.mix([kind.source(one).shuffle(work.seed).repeat() for one in lists], [0.7, 0.3])
