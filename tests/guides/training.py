"""Training of a small classifier: ArrayRecord files, a pipeline by configuration, checkpoints of
model and data by Orbax.

It goes on from the latest checkpoint in its folder. Whoever runs it says the folder, the kind of
pipeline, the number of workers, and after how many steps it is stopped.
"""

import dataclasses
import io
import pathlib

import grain
import grain.checkpoint
import numpy as np
import orbax.checkpoint as ocp
from array_record.python.array_record_module import ArrayRecordWriter


@dataclasses.dataclass(frozen=True)
class Config:
    """What can be configured."""

    folder: pathlib.Path
    kind: str
    workers: int
    stop: int
    files: int = 3
    records: int = 40
    side: int = 4
    batch_size: int = 8
    epochs: int = 2
    seed: int = 42
    save_every: int = 10
    learning_rate: float = 0.1


def write_data(config):
    """Files of serialized arrays, if they are not there."""
    paths = [config.folder / f"train-{number}.array_record" for number in range(config.files)]
    rng = np.random.default_rng(config.seed)
    for path in paths:
        images = rng.integers(0, 256, (config.records, config.side, config.side)).astype(np.uint8)
        labels = rng.integers(0, 3, config.records)
        if path.exists():
            continue
        writer = ArrayRecordWriter(str(path), "group_size:1")
        for image, label in zip(images, labels):
            buffer = io.BytesIO()
            np.savez(buffer, image=image, label=label)
            writer.write(buffer.getvalue())
        writer.close()
    return [str(path) for path in paths]


class Decode(grain.transforms.Map):
    """Bytes to arrays."""

    def map(self, element):
        with np.load(io.BytesIO(element)) as arrays:
            return {
                "image": arrays["image"].astype(np.float32) / 255,
                "label": arrays["label"].astype(np.int32),
            }


class NotTooDark(grain.transforms.Filter):
    """Leaves out dark images."""

    def filter(self, element):
        return element["image"].mean() > 0.4


class Augment(grain.transforms.RandomMap):
    """Noise, and a flip now and then."""

    def __init__(self, scale):
        self._scale = scale

    def random_map(self, element, rng):
        image = element["image"] + rng.normal(
            scale=self._scale, size=element["image"].shape
        ).astype(np.float32)
        return {**element, "image": image[:, ::-1] if rng.random() < 0.5 else image}


def make_loader(config, source):
    """A `DataLoader`."""
    sampler = grain.samplers.IndexSampler(
        num_records=len(source),
        shard_options=grain.sharding.NoSharding(),
        shuffle=True,
        num_epochs=config.epochs,
        seed=config.seed,
    )
    return grain.DataLoader(
        data_source=source,
        sampler=sampler,
        operations=[
            Decode(),
            Augment(0.1),
            NotTooDark(),
            grain.transforms.Batch(config.batch_size, drop_remainder=True),
        ],
        worker_count=config.workers,
    )


def make_chain(config, source):
    """A chain of datasets."""
    dataset = (
        grain.MapDataset.source(source)
        .seed(config.seed)
        .shuffle()
        .repeat(config.epochs)
        .map(Decode())
    )
    stream = dataset.to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=16))
    stream = stream.filter(NotTooDark()).random_map(Augment(0.1))
    stream = grain.experimental.WindowShuffleIterDataset(stream, window_size=20, seed=config.seed)
    stream = stream.batch(config.batch_size, drop_remainder=True)
    return stream.mp_prefetch(grain.MultiprocessingOptions(num_workers=config.workers))


def train_step(weights, batch, learning_rate):
    """One step of logistic regression: the weights after it, and the loss before."""
    pixels, labels = batch["image"].reshape(len(batch["label"]), -1), np.eye(3)[batch["label"]]
    scores = np.exp(pixels @ weights)
    chances = scores / scores.sum(axis=1, keepdims=True)
    loss = -np.log(chances[labels == 1]).mean()
    return weights - learning_rate * pixels.T @ (chances - labels) / len(labels), float(loss)


def train(config):
    """The batches that it saw, and the losses."""
    source = grain.sources.ArrayRecordDataSource(write_data(config))
    iterator = iter({"loader": make_loader, "chain": make_chain}[config.kind](config, source))
    model, seen, losses = {"weights": np.zeros((config.side**2, 3))}, [], []
    with ocp.CheckpointManager(config.folder / "checkpoints") as manager:
        last = manager.latest_step() or 0
        if last:
            wanted = {
                "model": ocp.args.StandardRestore(model),
                "data": grain.checkpoint.CheckpointRestore(iterator),
            }
            model = manager.restore(last, args=ocp.args.Composite(**wanted)).model
        for step, batch in enumerate(iterator, last + 1):
            model["weights"], loss = train_step(model["weights"], batch, config.learning_rate)
            seen.append(batch)
            losses.append(loss)
            if step % config.save_every == 0 or step == config.stop:
                saved = {
                    "model": ocp.args.StandardSave(model),
                    "data": grain.checkpoint.CheckpointSave(iterator),
                }
                manager.save(step, args=ocp.args.Composite(**saved))
            if step == config.stop:
                break
        manager.wait_until_finished()
    if hasattr(iterator, "close"):
        iterator.close()
    source.__exit__(None, None, None)
    return seen, losses


batches, losses = train(Config(pathlib.Path(FOLDER), KIND, WORKERS, STOP))  # noqa: F821
elements = [*batches, losses]
