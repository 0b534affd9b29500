"""PyTorch with torchdata's StatefulDataLoader in the resume league: map-style datasets, with their own samplers."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cases import DRAW, MAPPED
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

torch.set_num_threads(1)
RANKS = "StatefulDataLoader handles state “across multiprocess workers (but not across ranks)”"
STAGES = {
    "filter": "a map-style dataset has none; an IterableDataset keeps the state that its author writes",
    "flat_map": "a map-style dataset has none; an IterableDataset keeps the state that its author writes",
    "window": "a map-style dataset is shuffled by its sampler, as a whole",
    "pack": "not part of PyTorch or torchdata's StatefulDataLoader",
}
EVENTS = {
    "hosts": RANKS,
    "batch_size": "its docs do not speak of another batch size",
    "data_grow": "its docs do not speak of data that change",
}


def versions() -> dict[str, str]:
    """What is measured."""
    return {name: importlib.metadata.version(name) for name in ("torch", "torchdata")}


def unclaimed(pipeline: Any, event: Any) -> str:
    """What has no stage, and a state for other ranks."""
    if len(pipeline.shards) > 1:
        return "not part of StatefulDataLoader: a mix is a sampler, or the program's own"
    return next((STAGES[stage] for stage in STAGES if pipeline.has(stage)), "") or EVENTS.get(event.name, "")


def write(records: list[list[list[int]]], folder: Path) -> None:
    """An array for each shard."""
    for number, file in enumerate(records[0]):
        np.save(folder / f"{number:03}.npy", np.array(file))


class Records(torch.utils.data.Dataset):
    """The records, each through the functions of the pipeline."""

    def __init__(self, run: Any) -> None:
        self.records = np.concatenate([np.load(path, mmap_mode="r") for path in sorted(run.folder.glob("*.npy"))])
        self.run = run
        self.draws: torch.Generator | None = None

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> int:
        number = self.run.touch(int(self.records[index])) + MAPPED * self.run.pipeline.has("map")
        draws = self.run.pipeline.has("random_map")
        return number + (DRAW * int(torch.randint(1000, (), generator=self.generator())) if draws else 0)

    def generator(self) -> torch.Generator:
        """Of this worker; its state is part of the loader's, as the docs of StatefulDataLoader say."""
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


def stream(run: Any) -> Stream:
    """The loader."""
    return Stream(run, Records(run))


class Stream:
    """Batches of one epoch after the other, as lists of numbers."""

    def __init__(self, run: Any, records: Any) -> None:
        self._run = run
        torch.manual_seed(1)
        alike, drop = run.event.alike, run.event.alike or run.pipeline.has("drop")
        self._sampler = StatefulDistributedSampler(  # a function of seed and epoch, on one host too
            records, run.leg.hosts, run.host, shuffle=run.pipeline.has("shuffle"), seed=1, drop_last=alike
        )
        self._loader = StatefulDataLoader(
            records, run.leg.batch, sampler=self._sampler, num_workers=run.leg.workers, drop_last=drop
        )
        self._epoch = run.states[0]["epoch"] if run.states else 0
        self._sampler.set_epoch(self._epoch)
        if run.states:
            self._loader.load_state_dict(run.states[run.host]["loader"])
        self._batches = iter(self._loader)

    def __next__(self) -> list[int]:
        while True:
            batch = next(self._batches, None)
            if batch is not None:
                return [int(number) + MAPPED * self._run.pipeline.has("map_batch") for number in self.numbers(batch)]
            self._epoch += 1
            if self._epoch >= self._run.pipeline.number("repeat", 1):
                raise StopIteration
            self._sampler.set_epoch(self._epoch)
            self._batches = iter(self._loader)

    numbers = staticmethod(list)  # those of a batch

    def state(self) -> dict[str, Any]:
        """Of the loader, and the epoch, which is the program's."""
        return {"loader": self._loader.state_dict(), "epoch": self._epoch}
