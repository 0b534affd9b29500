"""Train a byte-level language model, data-parallel over eight devices, fed by a device feeder.

The text is the source of Python's own standard library. The eight devices are the CPU's, so that
the program runs anywhere; on a machine with accelerators, leave out the line with XLA_FLAGS. Three
runs train on the same stream:

1. fed by `loader.to_device(sharding)`;
2. fed by hand, with `jax.device_put` in the loop: the losses must be the same in every bit;
3. stopped half-way, and gone on with from an Orbax checkpoint, in a new feeder: the same again.

    python examples/train_sharded.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections import deque
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"  # before jax is imported

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import headrace
from headrace.checkpoint import CheckpointRestore, CheckpointSave

CONTEXT, WIDTH, HIDDEN = 128, 8, 96
BATCH, STEPS, RATE = 1024, 120, 3e-3
HALF = STEPS // 2

mesh = Mesh(jax.devices(), ("data",))
# the batch: each device has an eighth of its rows
rows = NamedSharding(mesh, PartitionSpec("data"))
everywhere = NamedSharding(mesh, PartitionSpec())  # the model: each device has all of it


# ---- The stream: windows of text, shuffled


def text():
    """Some megabytes of Python, `uint8[bytes]`."""
    files = sorted(Path(os.__file__).parent.glob("*.py"))
    return np.frombuffer(b"".join(file.read_bytes() for file in files)[: 8 << 20], np.uint8)


def windows():
    """Windows of 128 bytes and the one that follows, batched: `uint8[1024, 129]`."""
    cut = np.lib.stride_tricks.sliding_window_view(text(), CONTEXT + 1)[::16]
    return headrace.load(
        {"window": np.ascontiguousarray(cut)}, shuffle=True, seed=0, batch_size=BATCH
    )


# ---- The model and Adam, in plain JAX


def initial_state():
    """Weights, Adam's moments and the step, on all devices."""
    rng = np.random.default_rng(0)
    shapes = {"embed": (256, WIDTH), "hidden": (CONTEXT * WIDTH, HIDDEN), "out": (HIDDEN, 256)}
    params = {
        name: np.float32(rng.normal(0, shape[0] ** -0.5, shape)) for name, shape in shapes.items()
    }
    zeros = jax.tree.map(np.zeros_like, params)
    return jax.device_put(
        {"step": jnp.int32(0), "params": params, "mean": zeros, "square": zeros}, everywhere
    )


def loss_of(params, window):
    """Mean cross-entropy of the last byte, given those before."""
    hidden = params["embed"][window[:, :-1]].reshape(len(window), -1)
    logits = jnp.tanh(hidden @ params["hidden"]) @ params["out"]
    likely = jnp.take_along_axis(
        jax.nn.log_softmax(logits), window[:, -1:].astype(jnp.int32), axis=1
    )
    return -likely.mean()


@jax.jit
def update(state, batch):
    """One step of Adam (Kingma & Ba 2015).

    The gradient is summed over the devices by jit, as the sharding says.
    """
    loss, gradient = jax.value_and_grad(loss_of)(state["params"], batch["window"])
    step = state["step"] + 1
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], gradient)
    square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, state["square"], gradient)
    rate = RATE * jnp.sqrt(1 - 0.99**step) / (1 - 0.9**step)
    params = jax.tree.map(
        lambda p, m, s: p - rate * m / (jnp.sqrt(s) + 1e-8), state["params"], mean, square
    )
    return {"step": step, "params": params, "mean": mean, "square": square}, loss


def train(state, batches, steps):
    """The state after some steps, and the loss of each.

    It waits for each step: XLA's eight devices on one CPU share its threads, and may get stuck with
    many steps under way.
    """
    losses = np.zeros(steps, np.float32)
    for step in range(steps):
        state, loss = update(state, next(batches))
        losses[step] = loss
    return state, losses


# ---- The three runs, and what is claimed of them


def verify(holds, claim):
    """Says that a claim was verified, or ends the program."""
    if not holds:
        sys.exit(f"FAILED: {claim}")
    print(f"verified: {claim}", flush=True)


def fed_by_a_feeder():
    """Losses, seconds of waiting, and the number of batches that were not copied.

    The devices hold these in the memory that the loader filled.
    """
    filled, in_place = deque(), 0

    def note(batch):
        filled.append((batch["window"].ctypes.data, batch["window"].nbytes))
        return batch

    def watched(feeder):
        nonlocal in_place
        for batch in feeder:
            start, size = filled.popleft()
            pieces = [
                shard.data.unsafe_buffer_pointer() for shard in batch["window"].addressable_shards
            ]
            in_place += all(start <= piece < start + size for piece in pieces)
            yield batch

    with iter(windows().to_device({"window": rows}, transform=note)) as feeder:
        losses = train(initial_state(), watched(feeder), STEPS)[1]
        return losses, feeder.stats(), in_place


def fed_by_hand():
    """Losses of a loop that transfers its batches itself."""
    batches = (jax.device_put(batch, rows) for batch in windows())
    return train(initial_state(), batches, STEPS)[1]


def stopped_and_resumed(folder):
    """Losses of a run that ends half-way, and of one that goes on from its checkpoint."""
    with ocp.CheckpointManager(folder) as manager:
        with iter(windows().to_device((mesh, "data"))) as feeder:
            state, first = train(initial_state(), feeder, HALF)
            saved = ocp.args.Composite(
                model=ocp.args.StandardSave(state), loader=CheckpointSave(feeder)
            )
            manager.save(HALF, args=saved)
            manager.wait_until_finished()
        with iter(windows().to_device((mesh, "data"))) as feeder:
            wanted = ocp.args.Composite(
                model=ocp.args.StandardRestore(initial_state()), loader=CheckpointRestore(feeder)
            )
            state = manager.restore(HALF, args=wanted).model
            return np.append(first, train(state, feeder, STEPS - HALF)[1])


def main(out):
    """Everything, in the order of the list at the top."""
    began = time.perf_counter()
    shutil.rmtree(out / "sharded", ignore_errors=True)
    losses, stats, in_place = fed_by_a_feeder()
    verify(len(jax.devices()) == 8, "the batches are divided over 8 devices")
    verify(
        in_place == STEPS, "no batch was copied: the devices read the memory that the loader filled"
    )
    verify(
        losses[-10:].mean() < 3,
        f"the loss fell from {losses[0]:.2f} to {losses[-10:].mean():.2f}, below 3",
    )
    differing = np.count_nonzero(losses.view(np.uint32) != fed_by_hand().view(np.uint32))
    verify(
        differing == 0,
        f"{differing} of {STEPS} losses differ in any bit from those of a loop that is fed by hand",
    )
    resumed = stopped_and_resumed((out / "sharded").absolute())
    differing = np.count_nonzero(losses.view(np.uint32) != resumed.view(np.uint32))
    verify(
        differing == 0,
        f"{differing} of {STEPS} losses differ in any bit after a stop and a resume half-way",
    )
    shutil.rmtree(out / "sharded")
    waited = stats.total.waited / stats.steps
    print(f"{time.perf_counter() - began:.0f} s; a step waited {1e3 * waited:.2f} ms for its batch")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "output", help="folder for all files"
    )
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    main(arguments.out)
