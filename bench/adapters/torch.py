"""PyTorch: map-style datasets with its DataLoader, and torchdata's StatefulDataLoader."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from adapters.parts import Numbers, first_of
from adapters.torch_loops import epoch_stream, kept_workers, loops, stacked
from loaders.files import Rows, write_array
from loaders.records import made
from loaders.workloads import Workload
from resuming.cases import DRAW, MAPPED
from torch.utils.data import DataLoader, Dataset, Sampler, default_collate

PACKAGES = ("torch", "torchdata")
LACKS = {
    "packing": "not part of PyTorch",
    "tar": "not part of PyTorch; webdataset reads them for it",
    "parquet": "not part of PyTorch; Hugging Face's datasets read them for it",
}

RANKS = "StatefulDataLoader handles state “across multiprocess workers (but not across ranks)”"
ITERABLE = "a map-style dataset has none; an IterableDataset keeps the state that its author writes"
UNCLAIMED = {
    "filter": ITERABLE,
    "flat_map": ITERABLE,
    "window": "a map-style dataset is shuffled by its sampler, as a whole",
    "pack": "not part of PyTorch or torchdata's StatefulDataLoader",
    "hosts": RANKS,
    "batch_size": "its docs do not speak of another batch size",
    "data_grow": "its docs do not speak of data that change",
}


def unclaimed(pipeline: Any, event: Any) -> str:
    """A stage that it has not, and a state for other ranks."""
    if len(pipeline.shards) > 1:
        return "not part of StatefulDataLoader: a mix is a sampler, or the program's own"
    return first_of(UNCLAIMED, pipeline, event)


def write(records: list[list[list[int]]], folder: Path) -> None:
    """An array for each shard."""
    for number, file in enumerate(records[0]):
        np.save(folder / f"{number:03}.npy", np.array(file))


class Records(Dataset[int]):
    """The records, each through the functions of the pipeline."""

    def __init__(self, run: Any) -> None:
        paths = sorted(run.folder.glob("*.npy"))
        self.records = np.concatenate([np.load(path, mmap_mode="r") for path in paths])
        self.run = run
        self.draws: torch.Generator | None = None

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> int:
        number = self.run.touch(int(self.records[index])) + MAPPED * self.run.pipeline.has("map")
        if self.run.pipeline.has("random_map"):
            number += DRAW * int(torch.randint(1000, (), generator=self.generator()))
        return number

    def generator(self) -> torch.Generator:
        """Of this worker; its state is part of the loader's, as StatefulDataLoader's docs say."""
        if self.draws is None:
            info = torch.utils.data.get_worker_info()
            self.draws = torch.Generator().manual_seed(1 + (info.id if info else 0))
        return self.draws

    def state_dict(self) -> dict[str, Any]:
        """Called in each worker."""
        return {"draws": self.generator().get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Called in each worker."""
        self.generator().set_state(state["draws"])


def stream(run: Any) -> Numbers:
    """The loader."""
    return stateful(run, Records(run))


def stateful(run: Any, records: Any, numbers: Callable[[Any], Any] = list) -> Numbers:
    """Return a stream of a StatefulDataLoader over the dataset `records`.

    `numbers` is a function that returns the records' numbers of a batch.
    """
    from torchdata.stateful_dataloader import StatefulDataLoader
    from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

    torch.manual_seed(1)
    alike, drop = run.event.alike, run.event.alike or run.pipeline.has("drop")
    order = {"shuffle": run.pipeline.has("shuffle"), "seed": 1, "drop_last": alike}
    # a function of seed and epoch, on one host too
    sampler = StatefulDistributedSampler(records, run.leg.hosts, run.host, **order)
    loader = StatefulDataLoader(
        records, run.leg.batch, sampler=sampler, num_workers=run.leg.workers, drop_last=drop
    )
    return epoch_stream(run, loader, run.host, numbers, sampler.set_epoch)


write_workload = write_array


class Files(Rows, Dataset[Any]):
    """Dataset of the records in files."""

    def __init__(self, workload: Workload, folder: Path) -> None:
        super().__init__(folder)
        self._workload = workload

    def __getitem__(self, index: int) -> Any:
        return made(self._workload, super().__getitem__(index))


def batches(workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
    """A loader whose workers stay between epochs."""
    options = {"shuffle": True, "collate_fn": stacked, **kept_workers(workers)}
    return loops(DataLoader(Files(workload, folder), workload.batch, **options), epochs)


class Mapped(Dataset[Any]):
    """The workload's operation over its records; many at once where the records can be read so."""

    def __init__(self, work: Any) -> None:
        self._records, workload = work.data.records, work.workload
        self._operation = (lambda record: record) if workload.after_batch else workload.operation
        generators = itertools.repeat(np.random.default_rng(work.seed))
        self._arguments = (generators,) if workload.random else ()

    def __len__(self) -> int:
        return len(self._records)

    def __getitems__(self, keys: list[int]) -> list[Any]:
        """The elements of a batch; PyTorch's DataLoader calls this."""
        many = getattr(self._records, "__getitems__", None)
        records = many(keys) if many else map(self._records.__getitem__, keys)
        return list(map(self._operation, records, *self._arguments))


class Endless(Sampler[int]):
    """One shuffled epoch after the other."""

    def __init__(self, work: Any) -> None:
        self._work = work

    def __iter__(self) -> Iterator[int]:
        for keys in self._work.epochs():
            yield from keys.tolist()


def data_loader(work: Any, workers: int, stack: bool = False) -> Any:
    """A DataLoader; with `stack`, batches are made by `np.stack` and not as by default."""
    collate = stacked if stack else default_collate

    def operated(elements: list[Any]) -> Any:
        batch = {name: leaf.numpy() for name, leaf in collate(elements).items()}
        found = work.workload.operation(batch)
        return {name: torch.from_numpy(leaf) for name, leaf in found.items()}

    options = {"collate_fn": operated if work.workload.after_batch else collate}
    options |= {"sampler": Endless(work), "num_workers": workers}
    return DataLoader(Mapped(work), work.workload.batch_size, **options)
