"""Hugging Face's datasets on disk in the resume league, with StatefulDataLoader.

Filters run before the loop; functions run when a row is read.
"""

from __future__ import annotations

import importlib.metadata
from typing import Any

import datasets
import with_hf_stream
import with_torch
from cases import MAPPED

write = with_hf_stream.write
STAGES = {
    "random_map": "a transform that draws keeps no state: its docs do not speak of one",
    "window": "a dataset on disk is shuffled as a whole",
    "pack": "it has no packing; another library, trl, packs",
}


def versions() -> dict[str, str]:
    """What is measured."""
    return {name: importlib.metadata.version(name) for name in ("datasets", "torchdata", "torch")}


def unclaimed(pipeline: Any, event: Any) -> str:
    """What is not of the loader, StatefulDataLoader, with filters and flat maps, which run ahead."""
    missing = next((STAGES[stage] for stage in STAGES if pipeline.has(stage)), "")
    if event.name == "hosts":
        missing = missing or with_torch.RANKS
    if event.name in ("batch_size", "data_grow"):
        missing = missing or "its docs do not speak of another batch size, nor of data that change"
    return missing


def stream(run: Any) -> Any:
    """The dataset, and the same loader as of `with_torch`."""
    datasets.disable_caching()
    cache = str(run.folder.parent / f"cache-{run.host}")
    sources = []
    for number in range(len(run.pipeline.shards)):
        files = sorted(map(str, run.folder.glob(f"{number}-*.parquet")))
        sources.append(datasets.Dataset.from_parquet(files, cache_dir=cache))
    if len(sources) > 1:
        sources = [source.shuffle(seed=1) for source in sources]
        dataset = datasets.interleave_datasets(sources, stopping_strategy="all_exhausted_without_replacement")
    else:
        dataset = sources[0]
    add = MAPPED * run.pipeline.has("map")
    if run.pipeline.has("filter"):
        dataset = dataset.filter(lambda row: (row["id"] + add) % 3 > 0)
    if run.pipeline.has("flat_map"):
        dataset = dataset.map(with_hf_stream.fan, batched=True)
    dataset = dataset.with_transform(lambda rows: {"id": [run.touch(number) + add for number in rows["id"]]})
    return Stream(run, dataset)


class Stream(with_torch.Stream):
    """Batches of rows, as lists of numbers."""

    def numbers(self, batch: Any) -> Any:
        """Those of the column."""
        return batch["id"]
