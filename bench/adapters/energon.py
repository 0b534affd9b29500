"""Megatron-Energon: prepared tar files, a task encoder, and its savable loader."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import yaml
from adapters.parts import Numbers, first_of
from adapters.torch_loops import epoch_stream
from loaders.files import write_tar
from megatron import energon
from megatron.energon.flavors import BaseWebdatasetFactory
from resuming.cases import DRAW, MAPPED, fan, passes

PACKAGES = ("megatron-energon", "torch")

SCALING = (
    "Reproducible Scaling: “The product world_size * num_workers must stay the same across runs”"
)
UNCLAIMED = {
    "pack": "not played: its packing restores samples by their keys, which the plain dicts of this "
    "program do not have",
    "workers": SCALING,
    "hosts": SCALING,
    "batch_size": "Reproducible Scaling: “The global batch size must stay the same across runs”",
    "data_grow": "its docs do not speak of data that change",
    "unequal_hosts": "its docs do not speak of equal numbers of batches where an epoch ends",
}
unclaimed = partial(first_of, UNCLAIMED)


def write(records: list[list[list[int]]], folder: Path) -> None:
    """Tar files for each source, prepared as its docs say, and a list of the sources."""
    sample = {"__module__": "megatron.energon", "__class__": "TextSample"}
    kind = {"sample_type": sample, "field_map": {"text": "txt"}}
    for source, files in enumerate(records):
        home = folder / str(source)
        home.mkdir()
        for number, file in enumerate(files):
            rows = ((f"{record:07}.txt", str(record).encode()) for record in file)
            write_tar(rows, home / f"{number:03}.tar")
        tars = sorted(path.name for path in home.glob("*.tar"))
        options = {"split_parts_ratio": [("train", 1.0), ("val", 0.0), ("test", 0.0)]}
        options |= {"shuffle_seed": None, "workers": 1}
        BaseWebdatasetFactory.prepare_dataset(home, tars, **options)
        (home / ".nv-meta" / "dataset.yaml").write_text(yaml.safe_dump(kind))
    parts = [{"repetitions": 1, "path": f"./{source}"} for source in range(len(records))]
    mixed = {"__module__": "megatron.energon", "__class__": "MetadatasetV2"}
    mixed |= {"splits": {"train": {"blend_epochized": parts}}}
    (folder / "mixed.yaml").write_text(yaml.safe_dump(mixed))


class Encoder(energon.DefaultTaskEncoder):  # type: ignore[misc]
    """The stages of a pipeline."""

    def __init__(self, run: Any) -> None:
        super().__init__()
        self.run, self.pipeline = run, run.pipeline

    @energon.stateless(restore_seeds=True)
    def preencode_sample(self, sample: Any) -> Any:
        """The element of a record."""
        number = self.run.touch(int(sample.text)) + MAPPED * self.pipeline.has("map")
        if self.pipeline.has("filter") and not passes(number):
            raise energon.SkipSample
        if self.pipeline.has("random_map"):
            number += DRAW * int(torch.randint(1000, ()))
        return {"numbers": [number]}

    @energon.stateless
    def batch(self, samples: list[Any]) -> Any:
        """The numbers of a batch."""
        return {"numbers": [number for sample in samples for number in sample["numbers"]]}


class FlatMap(Encoder):
    """The stage `flat_map`."""

    @energon.stateless
    def preencode_sample(self, sample: Any) -> Iterator[Any]:
        """None, one or two elements."""
        for copy in fan(self.run.touch(int(sample.text))):
            yield {"numbers": [copy]}


def stream(run: Any) -> Numbers:
    """The dataset of one epoch, and the loader; errors end the program, and leave nothing out."""
    pipeline, leg = run.pipeline, run.leg
    place = {"rank": run.host, "world_size": leg.hosts, "num_workers": leg.workers}
    workers = energon.WorkerConfig(**place, global_error_handler=energon.reraise_exception)
    encoder = (FlatMap if pipeline.has("flat_map") else Encoder)(run)
    options = {"worker_config": workers, "batch_size": leg.batch, "task_encoder": encoder}
    if pipeline.has("shuffle") or pipeline.has("window") or len(pipeline.shards) > 1:
        path = "mixed.yaml" if len(pipeline.shards) > 1 else "0"
        options |= {"shuffle_buffer_size": pipeline.number("window", 16)}
        options |= {"max_samples_per_sequence": 100, "repeat": False}
        options |= {"batch_drop_last": pipeline.has("drop")}
        dataset = energon.get_train_dataset(run.folder / path, **options)
    else:
        dataset = energon.get_val_dataset(run.folder / "0", split_part="train", **options)
    loader = energon.get_savable_loader(dataset)
    # the names of PyTorch's loaders
    loader.state_dict, loader.load_state_dict = loader.save_state_rank, loader.restore_state_rank
    return epoch_stream(run, loader, numbers=lambda batch: batch["numbers"])
