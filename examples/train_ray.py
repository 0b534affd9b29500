"""Train here, and decode JPEGs in a Ray cluster where a node dies and another joins.

The losses are the same, to the last bit.

    pip install "headrace[jax,array-record,ray]" scikit-learn pillow psutil
    python examples/train_ray.py [--out DIR]

1. Tiles of the two photographs that ship inside scikit-learn are written to an ArrayRecord file of
   JPEGs.
2. A small network learns to tell from which photograph a tile is. The loader works in this thread:
   worker_count=0.
3. It learns the same again. Now the batches come from a cluster of a head and two nodes, on this
   machine (Ray's own test cluster). After 20 steps a node is killed, after 40 another one joins.
   Device feeders bring batches to the accelerator.
4. Both runs must agree in each bit of each loss.

Each claim that is printed as "verified" was checked; one that fails ends the program with exit code
1.
"""

import argparse
import io
import logging
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

# an accelerator may add up in another order each time
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = (
    "0"  # under `uv run`, Ray would install all packages anew for the nodes
)
os.environ.pop("PYTHONWARNINGS", None)  # Ray's own processes are not held to it
import jax
import jax.numpy as jnp
import numpy as np
import psutil
from array_record.python.array_record_module import ArrayRecordWriter
from PIL import Image
from sklearn.datasets import load_sample_images

from headrace import (
    ArrayRecordDataSource,
    Batch,
    DataLoader,
    IndexSampler,
    MapTransform,
    RandomMapTransform,
)

TILE, CROP, BATCH, STEPS = 256, 224, 32, 60
NODE_DIES, NODE_JOINS = 20, 40


def write_tiles(path):
    """JPEGs of overlapping tiles, each after a byte that tells the photograph."""
    writer = ArrayRecordWriter(str(path), "group_size:1")
    for label, photograph in enumerate(load_sample_images().images):
        for top in range(0, photograph.shape[0] - TILE + 1, 24):
            for left in range(0, photograph.shape[1] - TILE + 1, 24):
                jpeg = io.BytesIO()
                Image.fromarray(photograph[top : top + TILE, left : left + TILE]).save(
                    jpeg, "JPEG", quality=90
                )
                writer.write(bytes([label]) + jpeg.getvalue())
    writer.close()


class Decode(MapTransform):
    """Bytes to `image` uint8[256, 256, 3] and `label`."""

    def map(self, element):
        return {
            "image": np.asarray(Image.open(io.BytesIO(element[1:]))),
            "label": np.int32(element[0]),
        }


class Crop(RandomMapTransform):
    """A random window."""

    def random_map(self, element, rng):
        top, left = rng.integers(0, TILE - CROP + 1, size=2)
        return {**element, "image": element["image"][top : top + CROP, left : left + CROP]}


def make_loader(path, **workers):
    source = ArrayRecordDataSource(str(path))
    sampler = IndexSampler(len(source), shuffle=True, seed=0)
    return DataLoader(
        data_source=source, sampler=sampler, operations=[Decode(), Crop(), Batch(BATCH)], **workers
    )


@jax.jit
def update(weights, batch):
    """One step of gradient descent on a linear network over 7×7 mean colours."""
    images = batch["image"].reshape(-1, 7, 32, 7, 32, 3).mean(axis=(2, 4)).reshape(-1, 147) / 255

    def loss_of(weights):
        logits = images @ weights
        return -jnp.take_along_axis(
            jax.nn.log_softmax(logits), batch["label"][:, None], axis=1
        ).mean()

    loss, gradient = jax.value_and_grad(loss_of)(weights)
    return weights - 0.5 * gradient, loss


def train(loader, at_step):
    """The losses of all steps; `at_step` is called before each."""
    weights, losses = jnp.zeros((147, 2)), []
    with iter(loader.to_device(jax.devices()[0])) as feeder:
        for step in range(STEPS):
            at_step(step)
            weights, loss = update(weights, next(feeder))
            losses.append(np.float32(loss))
    return np.array(losses)


def kill_a_node():
    """End Ray's process on a node that has an actor, as if its machine had lost power."""
    mine = psutil.Process().children(recursive=True)
    next(one for one in mine if "".join(one.cmdline()).startswith("ray::RayWorker")).parent().kill()


def train_on_cluster(path):
    """The same training, fed by a cluster that loses a node and gets another one.

    And what was logged.
    """
    import ray
    from ray.cluster_utils import Cluster

    told = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())
    logging.getLogger("headrace").addHandler(handler)
    # Ray's test cluster starts a node; JAX may be at work
    warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
    cluster = Cluster(True, head_node_args={"num_cpus": 0, "object_store_memory": 200 << 20})
    for _ in range(2):
        cluster.add_node(num_cpus=1, object_store_memory=200 << 20)
    ray.init(cluster.address, logging_level="ERROR", log_to_driver=False)

    def at_step(step):
        if step == NODE_DIES:
            kill_a_node()
        if step == NODE_JOINS:
            cluster.add_node(num_cpus=1, object_store_memory=200 << 20)

    try:
        return train(make_loader(path, worker_kind="ray", worker_count="cluster"), at_step), told
    finally:
        ray.shutdown()
        cluster.shutdown()


def verify(holds, claim):
    """Says that a claim was verified, or ends the program."""
    if not holds:
        sys.exit(f"FAILED: {claim}")
    print(f"verified: {claim}", flush=True)


def main(out):
    """Everything, in the order of the list at the top."""
    began = time.perf_counter()
    path = out / "labelled_tiles.array_record"
    if not path.exists():
        write_tiles(path)
    alone = train(make_loader(path), lambda step: None)
    together, told = train_on_cluster(path)
    verify(
        alone[-1] < alone[0] / 2,
        f"the loss falls from {alone[0]:.3f} to {alone[-1]:.3f} in {STEPS} steps",
    )
    verify(len(told) == 1 and "node" in told[0], f"one node died, and one warning says so: {told}")
    differing = np.count_nonzero(alone.view(np.uint32) != together.view(np.uint32))
    verify(
        differing == 0,
        f"{differing} of {STEPS} losses differ in any bit from those without workers",
    )
    verify(not psutil.Process().children(recursive=True), "no process is left")
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "output", help="folder for all files"
    )
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder:
        # a short path: Ray's sockets are there
        os.environ |= {"RAY_TMPDIR": folder, "RAY_AUTH_MODE": "disabled"}
        main(arguments.out)
