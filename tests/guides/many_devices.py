"""One host with several devices: a mesh of data and model axes, batches over the data axis, a step
of training, evaluation.
"""

import functools

import grain
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

DEVICES = jax.devices()
MODEL = 2 if len(DEVICES) % 2 == 0 else 1
MESH = Mesh(np.array(DEVICES).reshape(-1, MODEL), ("data", "model"))
BATCHES, WEIGHTS = (
    NamedSharding(MESH, PartitionSpec("data")),
    NamedSharding(MESH, PartitionSpec(None, "model")),
)
BATCH_SIZE = 16

rng = np.random.default_rng(0)
rows = [
    {"x": rng.normal(size=6).astype(np.float32), "y": np.int32(rng.integers(4))} for _ in range(100)
]


class Normalize(grain.transforms.Map):
    def map(self, element):
        return {**element, "x": element["x"] - element["x"].mean()}


def make_dataset(training):
    """Batches of this host; padded for the evaluation."""
    dataset = grain.MapDataset.source(rows[:80] if training else rows[80:])
    if training:
        dataset = dataset.seed(0).shuffle().repeat(2)
    shard = grain.sharding.ShardByJaxProcess(drop_remainder=True)
    dataset = dataset[shard.shard_index :: shard.shard_count].map(Normalize())
    pad = functools.partial(
        grain.experimental.batch_and_pad, batch_size=BATCH_SIZE // shard.shard_count
    )
    if training:
        return dataset.to_iter_dataset().batch(BATCH_SIZE // shard.shard_count, drop_remainder=True)
    return dataset.to_iter_dataset().batch(BATCH_SIZE // shard.shard_count, batch_fn=pad)


def to_global(batch):
    """Arrays over all devices."""
    return jax.tree.map(lambda array: jax.make_array_from_process_local_data(BATCHES, array), batch)


@functools.partial(jax.jit, donate_argnums=0)
def step(weights, batch):
    """One step of logistic regression."""

    def loss(weights):
        chances = jax.nn.log_softmax(batch["x"] @ weights)
        return -jnp.take_along_axis(chances, batch["y"][:, None], 1).mean()

    return weights - 0.1 * jax.grad(loss)(weights)


weights = jax.device_put(jnp.zeros((6, 4)), WEIGHTS)
elements = []
workers = grain.MultiprocessingOptions(num_workers=WORKERS)  # noqa: F821
for batch in make_dataset(training=True).mp_prefetch(workers):
    batch = to_global(batch)
    weights = step(weights, batch)
    pieces = {
        str(shard.index[0]): np.asarray(shard.data) for shard in batch["x"].addressable_shards
    }
    elements.append(
        [str(batch["y"].sharding.spec), np.asarray(batch["y"]), *sorted(pieces.items())]
    )

ahead = grain.experimental.device_put(
    make_dataset(training=False), BATCHES, cpu_buffer_size=2, device_buffer_size=1
)
for batch in ahead:
    correct = (batch["x"] @ weights).argmax(axis=1) == batch["y"]
    elements.append(
        [len(batch["x"].sharding.device_set), np.asarray(batch["x"]), np.asarray(correct)]
    )
elements.append(np.asarray(weights))
