"""Train a language model on packed documents of two kinds; kill it.

Go on with other hosts and workers.

The text is on every machine that has Python: the functions of its standard library, and the
paragraphs of its manual.

    documents ─► mix of code and prose, by a schedule ─► packed to rows of 256 bytes ─► batches ─► 8
    devices

1. The documents are written into two files of tokens, once.
2. Two processes ("hosts", of four devices and one worker each) train a small transformer on bytes,
   with a checkpoint (Orbax: model and loader) every 10 steps. Both are killed by SIGKILL.
3. One process, of eight devices and two workers, goes on from the last whole checkpoint to the end
   of the mix.

Every process writes down which bytes it trained on. In the end each document must have come exactly
once, and each batch must be the one of a loader on one host, without workers, that was never
killed.

    python examples/train_lm.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import zlib
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

os.environ["JAX_PLATFORMS"] = (
    "cpu"  # the devices are the CPU's; leave it out where there are others
)

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from headrace import MapDataset, ShardOptions, TokenSource, TokenWriter
from headrace.checkpoint import CheckpointRestore, CheckpointSave

DOCUMENTS = {"code": 600, "prose": 400}
DEVICES, LENGTH, BATCH, WINDOW = 8, 256, 32, 250
WIDTH, HEADS, RATE = 64, 4, 3e-3
EVERY, KILL_AFTER = 10, 22  # the second save waits for the first, which is whole then


# ---- The documents


def code():
    """Functions and methods of the standard library."""
    for file in sorted(Path(os.__file__).parent.glob("*.py")):
        yield from re.split(rb"\n\s*\n(?=\s*(?:def|class|@))", file.read_bytes())


def prose():
    """Paragraphs of Python's manual."""
    from pydoc_data.topics import topics

    for name in sorted(topics):
        yield from re.split(rb"\n\s*\n", topics[name].encode())


def write_documents(folder):
    """Two files of tokens, which are bytes here.

    Of each kind as many documents as are wanted, from everywhere.
    """
    for name, kind in (("code", code), ("prose", prose)):
        found = [np.frombuffer(document, np.uint8) for document in kind()]
        chosen = np.linspace(0, len(found) - 1, DOCUMENTS[name]).astype(int)
        with TokenWriter(folder / f"{name}.npy", dtype=np.uint8) as writer:
            writer.extend(found[index] for index in chosen)


# ---- The stream


def documents(folder):
    """A mix of both kinds: first mostly prose, from the 300th on mostly code.

    It ends with the kind that ends first.
    """
    kinds = {
        name: MapDataset.source(TokenSource(folder / f"{name}.npy")).shuffle(seed=number)
        for number, name in enumerate(DOCUMENTS)
    }
    return MapDataset.mix(
        kinds, [(0, {"code": 0.4, "prose": 0.6}), (300, {"code": 0.7, "prose": 0.3})]
    )


def batches(folder, shard=None, workers=0):
    """Batches of rows of 256 bytes, in each of which stand pieces of several documents."""
    rows = documents(folder).pack(LENGTH, window=WINDOW).window_shuffle(WINDOW, seed=0)
    size = BATCH if shard is None else BATCH // shard.shard_count
    return rows.to_iter_dataset(shard_options=shard).batch(size).mp_prefetch(workers)


def pieces_to_come(folder):
    """How often each piece of a document is to come."""
    tokens = (document["tokens"] for document in documents(folder))
    return Counter(
        zlib.crc32(some[at : at + LENGTH]) for some in tokens for at in range(0, len(some), LENGTH)
    )


# ---- The model and Adam, in plain JAX


def initial_state():
    """Weights, Adam's moments, and the step."""
    rng = np.random.default_rng(0)
    shapes = {
        "embed": (256, WIDTH),
        "place": (LENGTH, WIDTH),
        "attend": (WIDTH, 3 * WIDTH),
        "mix": (WIDTH, WIDTH),
        "widen": (WIDTH, 4 * WIDTH),
        "narrow": (4 * WIDTH, WIDTH),
        "out": (WIDTH, 256),
    }
    weights = {
        name: np.float32(rng.normal(0, shape[0] ** -0.5, shape)) for name, shape in shapes.items()
    }
    zeros = jax.tree.map(np.zeros_like, weights)
    return {"step": np.int32(0), "weights": weights, "mean": zeros, "square": zeros}


def scaled(x):
    """Each vector to the length that has a mean square of 1 (Zhang & Sennrich 2019)."""
    return x * jax.lax.rsqrt((x**2).mean(axis=-1, keepdims=True) + 1e-6)


def attention(weights, x, segments):
    """Each byte looks at those before it, in its own document."""
    rows, length, _ = x.shape
    query, key, value = jnp.split(
        (x @ weights["attend"]).reshape(rows, length, HEADS, -1), 3, axis=-1
    )
    likeness = jnp.einsum("rqhd,rkhd->rhqk", query, key) * query.shape[-1] ** -0.5
    sees = (segments[:, :, None] == segments[:, None, :]) & jnp.tri(length, dtype=bool)
    shares = jax.nn.softmax(jnp.where(sees[:, None], likeness, -1e9))
    return jnp.einsum("rhqk,rkhd->rqhd", shares, value).reshape(x.shape) @ weights["mix"]


def loss_of(weights, batch):
    """Mean cross-entropy of each byte, given those before it in its document."""
    tokens, segments, places = (
        batch[name] for name in ("tokens", "tokens_segment_ids", "tokens_positions")
    )
    x = weights["embed"][tokens[:, :-1]] + weights["place"][places[:, :-1]]
    x = x + attention(weights, scaled(x), segments[:, :-1])
    x = x + jax.nn.gelu(scaled(x) @ weights["widen"]) @ weights["narrow"]
    likely = jax.nn.log_softmax(scaled(x) @ weights["out"])
    losses = -jnp.take_along_axis(likely, tokens[:, 1:, None].astype(jnp.int32), axis=-1)[..., 0]
    follows = (segments[:, 1:] == segments[:, :-1]) & (segments[:, 1:] > 0)
    return jnp.where(follows, losses, 0).sum() / follows.sum()


@jax.jit
def update(state, batch):
    """One step of Adam (Kingma & Ba 2015)."""
    loss, gradient = jax.value_and_grad(loss_of)(state["weights"], batch)
    step = state["step"] + 1
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], gradient)
    square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, state["square"], gradient)
    rate = RATE * jnp.sqrt(1 - 0.99**step) / (1 - 0.9**step)
    weights = jax.tree.map(
        lambda w, m, s: w - rate * m / (jnp.sqrt(s) + 1e-8), state["weights"], mean, square
    )
    return {"step": step, "weights": weights, "mean": mean, "square": square}, loss


# ---- One process of a run


def pieces_of(batch):
    """A checksum of each piece of a document, and how many rows and bytes are no filling.

    They are those of the rows of this process.
    """
    pieces, rows, filled = [], 0, 0
    for tokens, segments in zip(batch["tokens"], batch["tokens_segment_ids"]):
        pieces += [
            zlib.crc32(tokens[segments == number]) for number in range(1, segments.max() + 1)
        ]
        rows += bool(segments.any())
        filled += int(np.count_nonzero(segments))
    return {"pieces": pieces, "rows": rows, "filled": filled}


def local(batch):
    """The rows of a global batch that are on this process's devices."""
    return {
        name: np.concatenate([shard.data for shard in leaf.addressable_shards])
        for name, leaf in batch.items()
    }


def restored(manager, feeder, state):
    """The state of the last checkpoint, if there is one; the feeder is brought to its place."""
    step = manager.latest_step()
    if step is None:
        return state
    wanted = ocp.args.Composite(
        model=ocp.args.StandardRestore(state), loader=CheckpointRestore(feeder)
    )
    return manager.restore(step, args=wanted).model


def host(index, count, workers, port, folder):
    """Train from the last checkpoint to the end; a line of the ledger for each step."""
    # Of the CPU; it is read when jax first needs a device.
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES // count}"
    if count > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"localhost:{port}", count, index)
    mesh = Mesh(np.array(jax.devices()), ("data",))
    state = jax.device_put(initial_state(), NamedSharding(mesh, PartitionSpec()))
    stream = batches(folder, ShardOptions(index, count), workers)
    with (
        ocp.CheckpointManager(folder / "checkpoints") as manager,
        iter(stream.to_device((mesh, "data"), on_uneven="pad")) as feeder,
        ledger(folder, index, count).open("w") as lines,
    ):
        state = restored(manager, feeder, state)
        for batch in feeder:
            state, loss = update(state, batch)
            line = {"step": feeder.step, "loss": float(loss), **pieces_of(local(batch))}
            print(json.dumps(line), file=lines, flush=True)
            if feeder.step % EVERY == 0:
                saved = ocp.args.Composite(
                    model=ocp.args.StandardSave(state), loader=CheckpointSave(feeder)
                )
                manager.save(feeder.step, args=saved)
        stats = feeder.stats()
        print(json.dumps([stats.elapsed, stats.total.waited]))


# ---- The runs


def ledger(folder, index, count):
    """Where a process writes down what it trained on."""
    return folder / f"{index}-of-{count}.jsonl"


def read(folder, count):
    """For each step what all processes of a run wrote down.

    A line that a kill cut off in the middle is none.
    """
    steps = {}
    for index in range(count):
        path = ledger(folder, index, count)
        for line in path.read_text().splitlines(keepends=True) if path.exists() else ():
            if line.endswith("\n"):
                one = json.loads(line)
                steps.setdefault(one["step"], []).append(one)
    return {step: together(lines) for step, lines in sorted(steps.items())}


def together(lines):
    """One line of several processes' lines for a step."""
    added = {name: sum(line[name] for line in lines) for name in ("rows", "filled")}
    pieces = sorted(piece for line in lines for piece in line["pieces"])
    return {"loss": lines[0].get("loss"), "pieces": pieces, **added}


@contextmanager
def running(folder, count, workers):
    """The processes of a run; at the end they are killed, if they still run."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [sys.executable, __file__, "--out", str(folder), "--host"]
    numbers = ([index, count, workers, port] for index in range(count))
    processes = [
        subprocess.Popen([*command, *map(str, mine)], stdout=subprocess.PIPE, text=True)
        for mine in numbers
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.communicate()


def wait_for_the_middle(folder, processes):
    """Until the processes of a run are past a certain step."""
    while max(read(folder, len(processes)), default=0) < KILL_AFTER:
        if any(process.poll() is not None for process in processes):
            sys.exit("FAILED: a process ended before it was killed")
        time.sleep(0.02)


# ---- What is claimed, and the picture


def verify(holds, claim):
    """Says that a claim was verified, or ends the program."""
    if not holds:
        sys.exit(f"FAILED: {claim}")
    print(f"verified: {claim}", flush=True)


def perplexities(steps):
    """Of each step."""
    return np.exp([line["loss"] for line in steps.values()])


def plot(first, last, path):
    """The perplexity of both runs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.semilogy(
        list(first),
        perplexities(first),
        color="tab:blue",
        label="two hosts, until they were killed …",
    )
    axes.semilogy(
        list(last),
        perplexities(last),
        color="tab:red",
        label="… and one, from their last checkpoint",
    )
    axes.axvline(min(last), color="black", linewidth=1, linestyle=":")
    axes.set(
        xlabel="step",
        ylabel="perplexity of a byte",
        title="Python's library and manual, mixed and packed",
    )
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main(out):
    """Everything, in the order of the list at the top."""
    began = time.perf_counter()
    folder = (out / "lm").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    write_documents(folder)

    with running(folder, count=2, workers=1) as killed:
        wait_for_the_middle(folder, killed)
    codes = [process.returncode for process in killed]
    verify(codes == [-signal.SIGKILL] * 2, "both hosts of the first run were killed by SIGKILL")
    with running(folder, count=1, workers=2) as (process,):
        printed, _ = process.communicate(timeout=240)
    verify(process.returncode == 0, "one host went on to the end")

    first, last = read(folder, 2), read(folder, 1)
    checkpoint = min(last) - 1
    verify(0 < checkpoint < max(first), f"it went on from the checkpoint of step {checkpoint}")
    trained = {step: line for step, line in first.items() if step <= checkpoint} | last
    expected = {step: together([pieces_of(batch)]) for step, batch in enumerate(batches(folder), 1)}
    verify(list(trained) == list(expected), f"together they made all of the {len(trained)} steps")
    verify(
        all(trained[step]["pieces"] == expected[step]["pieces"] for step in trained),
        "each batch is the one of a loader that was never killed, on one host without workers",
    )
    came = Counter(piece for line in trained.values() for piece in line["pieces"])
    verify(
        came == pieces_to_come(folder),
        f"each piece of each document came exactly once: {came.total():,}",
    )
    filled, rows = (sum(line[name] for line in trained.values()) for name in ("filled", "rows"))
    verify(
        filled >= 0.99 * rows * LENGTH,
        f"{filled / rows / LENGTH:.2%} of all rows is text, the rest is filling",
    )
    before, after = perplexities(trained)[0], perplexities(trained)[-10:].mean()
    verify(after < 30, f"the perplexity of a byte fell from {before:.0f} to {after:.1f}, below 30")

    plot(first, last, out / "lm.png")
    elapsed, waited = json.loads(printed)
    speed = sum(line["filled"] for line in last.values()) / elapsed
    print(
        f"the last run trained on {speed:,.0f} bytes/s; {waited / elapsed:.1%} of the time it "
        "waited for batches"
    )
    shutil.rmtree(folder)
    print(f"{time.perf_counter() - began:.0f} s; the curve is in {out / 'lm.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "output", help="folder for all files"
    )
    parser.add_argument("--host", type=int, nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.host:
        host(*arguments.host, arguments.out)
    else:
        main(arguments.out)
