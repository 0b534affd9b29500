"""Train on 1,797 handwritten digits, stop half-way, and go on in a new process.

Both are the same run, to the last bit.

    pip install "headrace[jax,array-record]" scikit-learn matplotlib
    python examples/train_digits.py [--out DIR]

1. The digits that ship inside scikit-learn are written to an ArrayRecord file, once.
2. A run trains a small convolutional network from beginning to end.
3. A second run trains to the middle of an epoch, saves model and loader with Orbax, and its process
   ends.
4. A third process restores both and trains to the end.
5. The two ends must agree in every bit: each step's loss, all weights, Adam's moments, the loader's
   place.

Each claim that is printed as "verified" was checked; one that fails ends the program with exit code
1.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

# an accelerator may add up in another order each time
os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from array_record.python.array_record_module import ArrayRecordWriter
from tqdm import tqdm

from headrace import Batch, DataLoader, IndexSampler, MapTransform, RandomMapTransform
from headrace.sources import ArrayRecordDataSource

SEED = 0  # seeds 0 to 7 get 356 to 359 of the 360 test digits right, 99.3 % on average
BATCH_SIZE = 64
STEPS = 600  # 26.7 epochs
HALF = STEPS // 2  # in the middle of the 14th epoch
LEARNING_RATE = 2e-3

# ---- The records: 64 bytes of pixels, 0 to 16, and 1 byte of label
# -------------------------------------------------


def write_digits(path):
    """Writes the 1,797 digits, one record each."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    unfinished = path.with_suffix(".unfinished")
    writer = ArrayRecordWriter(str(unfinished), "group_size:1")
    for pixels, label in zip(digits.data.astype(np.uint8), digits.target):
        writer.write(pixels.tobytes() + bytes([label]))
    writer.close()
    unfinished.rename(path)


class Part:
    """Some records of a source; a data source itself.

    Keys outside the part cannot be reached through it.
    """

    def __init__(self, source, keys):
        self.source, self.keys = source, keys

    def __len__(self):
        return len(self.keys)

    def __getitem__(self, key):
        return self.source[self.keys[key]]

    def __getitems__(self, keys):
        return self.source.__getitems__(self.keys[keys])


def split(path):
    """The training and the test part: every fifth record key is for the test.

    It is a split by record, not by writer.
    """
    records = ArrayRecordDataSource(path)
    keys = np.arange(len(records))
    return Part(records, keys[keys % 5 != 0]), Part(records, keys[keys % 5 == 0])


# ---- From record to batch
# ------------------------------------------------------------------------------------------


def decode(record):
    """65 bytes to `image` uint8[8, 8] and `label` int32."""
    values = np.frombuffer(record, np.uint8)
    return {"image": values[:64].reshape(8, 8), "label": values[64].astype(np.int32)}


def shift(element, rng):
    """Moves the digit by up to one pixel each way."""
    padded = np.zeros((10, 10), np.uint8)
    padded[1:9, 1:9] = element["image"]
    row, column = rng.integers(3, size=2)
    return {**element, "image": padded[row : row + 8, column : column + 8]}


def normalise(element):
    """`image` becomes float32[8, 8, 1] from 0 to 1."""
    return {**element, "image": element["image"][..., None].astype(np.float32) / 16}


def training_batches(path):
    """The endless training stream, shuffled anew each epoch."""
    training, _ = split(path)
    return DataLoader(
        data_source=training,
        sampler=IndexSampler(len(training), shuffle=True, seed=SEED),
        operations=[
            MapTransform(decode),
            RandomMapTransform(shift),
            MapTransform(normalise),
            Batch(BATCH_SIZE),
        ],
    )


def test_batches(path):
    """The test part, once, in order and not augmented."""
    _, test = split(path)
    return DataLoader(
        data_source=test,
        sampler=IndexSampler(len(test), num_epochs=1),
        operations=[decode, normalise, Batch(BATCH_SIZE)],  # a plain function is a map
    )


# ---- The network and Adam, in plain JAX
# ----------------------------------------------------------------------------


def initial_state():
    """All that training changes, the loss curve included.

    It is one tree of arrays, so that one checkpoint holds it.
    """
    shapes = {"conv1": (3, 3, 1, 32), "conv2": (3, 3, 32, 64), "dense": (4 * 4 * 64, 10)}
    rng = np.random.default_rng(SEED)
    params = {
        name: {
            "weight": jnp.float32(rng.normal(0, np.sqrt(2 / np.prod(shape[:-1])), shape)),
            "bias": jnp.zeros(shape[-1]),
        }
        for name, shape in shapes.items()
    }
    zeros = jax.tree.map(jnp.zeros_like, params)
    return {
        "step": jnp.int32(0),
        "params": params,
        "mean": zeros,
        "square": zeros,
        "losses": jnp.zeros(STEPS),
    }


def logits(params, images):
    """Two convolutions, a pooling, a dense layer: float32[batch, 8, 8, 1] to float32[batch, 10]."""
    hidden, layout = images, ("NHWC", "HWIO", "NHWC")
    for layer in (params["conv1"], params["conv2"]):
        hidden = jax.lax.conv_general_dilated(
            hidden, layer["weight"], (1, 1), "SAME", dimension_numbers=layout
        )
        hidden = jax.nn.relu(hidden + layer["bias"])
    hidden = hidden.reshape(-1, 4, 2, 4, 2, 64).max(axis=(2, 4))  # the largest of each 2 × 2 pixels
    return hidden.reshape(len(images), -1) @ params["dense"]["weight"] + params["dense"]["bias"]


def loss_of(params, batch):
    """Mean cross-entropy."""
    log_probabilities = jax.nn.log_softmax(logits(params, batch["image"]))
    return -jnp.take_along_axis(log_probabilities, batch["label"][:, None], axis=1).mean()


@jax.jit
def update(state, batch):
    """One step of Adam (Kingma & Ba 2015), the learning rate falling to 0 along a half cosine."""
    loss, gradient = jax.value_and_grad(loss_of)(state["params"], batch)
    step = state["step"] + 1
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], gradient)
    square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, state["square"], gradient)
    rate = LEARNING_RATE * (1 + jnp.cos(jnp.pi * step / STEPS)) / 2
    rate = rate * jnp.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    params = jax.tree.map(
        lambda p, m, s: p - rate * m / (jnp.sqrt(s) + 1e-8), state["params"], mean, square
    )
    losses = state["losses"].at[state["step"]].set(loss)
    return {"step": step, "params": params, "mean": mean, "square": square, "losses": losses}


# ---- Training: from the last checkpoint, if there is one, to step `until`, where the next one is
# saved -------------


def train(path, checkpoints, until):
    """The state of the model and of the loader at step `until`."""
    state = initial_state()
    with (
        ocp.CheckpointManager(checkpoints.absolute()) as manager,
        iter(training_batches(path)) as batches,
    ):
        start = manager.latest_step() or 0
        if start:
            wanted = ocp.args.Composite(
                model=ocp.args.StandardRestore(state), loader=ocp.args.JsonRestore()
            )
            saved = manager.restore(start, args=wanted)
            state = saved.model
            batches.load_state_dict(saved.loader)
        steps = tqdm(
            range(start, until), f"process {os.getpid()}", initial=start, total=STEPS, unit=" steps"
        )
        for step in steps:
            state = update(state, next(batches))
            if step % 50 == 49:
                steps.set_postfix(loss=f"{state['losses'][step]:.4f}", refresh=False)
        model, loader = ocp.args.StandardSave(state), ocp.args.JsonSave(batches.state_dict())
        manager.save(until, args=ocp.args.Composite(model=model, loader=loader))
        return jax.device_get(state), batches.state_dict()


# ---- What is claimed, and the picture
# ------------------------------------------------------------------------------


def verify(holds, claim):
    """Says that a claim was verified, or ends the program."""
    if not holds:
        sys.exit(f"FAILED: {claim}")
    print(f"verified: {claim}", flush=True)


def plot(losses, resumed, accuracy, path):
    """Both loss curves, one over the other."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.semilogy(losses, color="0.75", linewidth=4, label="uninterrupted run")
    axes.semilogy(
        range(HALF), resumed[:HALF], color="tab:blue", linewidth=1, label="stopped half-way …"
    )
    axes.semilogy(
        range(HALF, STEPS),
        resumed[HALF:],
        color="tab:red",
        linewidth=1,
        label="… restored in a new process",
    )
    axes.axvline(HALF, color="black", linewidth=1, linestyle=":")
    axes.set(xlabel="step", ylabel="training loss (cross-entropy)", xlim=(0, STEPS))
    axes.set_title(
        f"Handwritten digits: {accuracy:.1%} of the test part right; both curves equal in every bit"
    )
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main(out):
    """Everything, in the order of the list at the top."""
    began = time.perf_counter()
    path = out / "digits.array_record"
    if not path.exists():
        write_digits(path)
    for run in ("uninterrupted", "interrupted"):
        shutil.rmtree(out / run, ignore_errors=True)

    training, test = ({part[key] for key in range(len(part))} for part in split(path))
    verify(
        len(training) + len(test) == 1797 and not training & test,
        f"{len(training):,} digits to train on, {len(test)} to test; none is in both parts",
    )

    model, loader = train(path, out / "uninterrupted", STEPS)
    for until in (HALF, STEPS):
        command = [sys.executable, __file__, "--out", str(out), "--continue-until", str(until)]
        subprocess.run(command, check=True)
    with ocp.CheckpointManager((out / "interrupted").absolute()) as manager:
        wanted = ocp.args.Composite(
            model=ocp.args.StandardRestore(model), loader=ocp.args.JsonRestore()
        )
        resumed = manager.restore(STEPS, args=wanted)

    losses, resumed_losses = model["losses"], np.asarray(resumed.model["losses"])
    differing = np.count_nonzero(losses.view(np.uint32) != resumed_losses.view(np.uint32))
    verify(differing == 0, f"{differing} of {STEPS} losses differ in any bit between the two runs")
    same_bits = jax.tree.map(
        lambda one, other: one.tobytes() == np.asarray(other).tobytes(), model, resumed.model
    )
    verify(
        all(jax.tree.leaves(same_bits)), "weights and Adam's moments are the same to the last bit"
    )
    verify(loader == resumed.loader, "both loaders stand at the same place")

    right = sum(
        int((logits(model["params"], batch["image"]).argmax(axis=1) == batch["label"]).sum())
        for batch in test_batches(path)
    )
    accuracy = right / len(test)
    verify(
        accuracy >= 0.97, f"test accuracy is {accuracy:.2%} ({right} of {len(test)}), at least 97 %"
    )
    plot(losses, resumed_losses, accuracy, out / "loss.png")
    print(f"{time.perf_counter() - began:.0f} s; the loss curve is in {out / 'loss.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "output", help="folder for all files"
    )
    parser.add_argument("--continue-until", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.continue_until:
        train(
            arguments.out / "digits.array_record",
            arguments.out / "interrupted",
            arguments.continue_until,
        )
    else:
        main(arguments.out)
