"""Fine-tune on chats of unequal length, with few shapes, and restart on fewer devices.

All hosts finish together.

    chats ─► tokens, loss mask ─► batches of at most 4,096 tokens, in 4 shapes ─► 2 hosts of 4
    devices, then 1 host of 4

1. Two processes ("hosts", of four devices each) train a small transformer on 8 devices. They stop
   in the middle of an epoch, each with its state, a line of JSON.
2. One process of four devices goes on from both states, to the end of the last epoch.

Only the bytes of answers count in the loss. Each process writes down what it trained on. In the end
each chat must have come once in each epoch, both hosts must have had the same shape at each step,
and no process may have compiled more often than there are shapes.

    python examples/finetune_chat.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

os.environ["JAX_PLATFORMS"] = (
    "cpu"  # the devices are the CPU's; leave it out where there are others
)

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from headrace import MapDataset, ShardOptions

CHATS, EPOCHS, STOP_AFTER = 800, 3, 25
SHAPES, BUDGET, DEVICES = 4, 4096, 4
LONGEST = BUDGET // DEVICES  # what is over is cut: a batch has a row for each device
WIDTH, RATE = 64, 3e-3


# ---- The chats


def chats():
    """Questions and answers: the answer is the question in capitals.

    Most are short, a few are long.
    """
    random = np.random.default_rng(0)
    words = [
        "the",
        "mill",
        "wheel",
        "turns",
        "when",
        "water",
        "runs",
        "through",
        "a",
        "narrow",
        "race",
        "of",
        "wood",
        "and",
        "stone",
    ]
    lengths = np.clip(random.lognormal(2.2, 1, CHATS), 1, 45).astype(int)
    for number, length in enumerate(lengths.tolist()):
        question = " ".join(random.choice(words, length))
        yield {"id": number, "turns": [("user", question), ("assistant", question.upper())]}


def encoded(chat):
    """The bytes of a chat, and of which of them the model is to learn to write."""
    parts = [
        (role, np.frombuffer(f"{role[0]}:{text}\n".encode(), np.uint8))
        for role, text in chat["turns"]
    ]
    tokens = np.concatenate([part for _, part in parts])
    learned = np.concatenate([np.full(len(part), role == "assistant") for role, part in parts])
    return {"tokens": tokens, "loss_mask": learned, "id": chat["id"]}


def batches():
    """Batches of chats of like length: equally many on all hosts, of one shape at each step."""
    records = list(chats())
    lengths = [len(encoded(chat)["tokens"]) for chat in records]
    dataset = MapDataset.source(records).map(encoded)
    return dataset.budget_batch(
        BUDGET, pad_to=SHAPES, multiple_of=DEVICES, lengths=lengths, too_long="truncate", seed=0
    )


# ---- The model and Adam, in plain JAX


def initial_state():
    """Weights, Adam's moments, and the step."""
    rng = np.random.default_rng(0)
    shapes = {
        "embed": (256, WIDTH),
        "place": (LONGEST, WIDTH),
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


def loss_of(weights, batch):
    """Mean cross-entropy of the bytes of answers. A row without a chat has none of them."""
    tokens, there = batch["tokens"][:, :-1], batch["mask"][:, :-1]
    x = weights["embed"][tokens] + weights["place"][: tokens.shape[1]]
    query, key, value = jnp.split(x @ weights["attend"], 3, axis=-1)
    likeness = jnp.einsum("rqd,rkd->rqk", query, key) * WIDTH**-0.5
    sees = jnp.tri(tokens.shape[1], dtype=bool) & there[:, None, :]
    x = x + jax.nn.softmax(jnp.where(sees, likeness, -1e9)) @ value @ weights["mix"]
    x = x + jax.nn.gelu(x @ weights["widen"]) @ weights["narrow"]
    likely = jax.nn.log_softmax(x @ weights["out"])
    losses = -jnp.take_along_axis(likely, batch["tokens"][:, 1:, None].astype(jnp.int32), axis=-1)[
        ..., 0
    ]
    counted = batch["loss_mask"][:, 1:] & batch["mask"][:, 1:]
    return jnp.where(counted, losses, 0).sum() / jnp.maximum(counted.sum(), 1)


compiled = []
"""The shapes for which `update` was traced, and so compiled."""


@jax.jit
def update(state, batch):
    """One step of Adam (Kingma & Ba 2015)."""
    compiled.append(batch["tokens"].shape)
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


def local(batch):
    """The rows of a global batch that are on this process's devices."""
    return {
        name: np.concatenate([shard.data for shard in leaf.addressable_shards])
        for name, leaf in batch.items()
    }


def host(index, count, port, folder):
    """Train from the saved states, if there are any; a line of the ledger for each step."""
    os.environ["XLA_FLAGS"] = (
        f"--xla_force_host_platform_device_count={DEVICES}"  # read when jax needs a device
    )
    if count > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"localhost:{port}", count, index)
    mesh = Mesh(np.array(jax.devices()), ("data",))
    everywhere = NamedSharding(mesh, PartitionSpec())
    stream = batches().repeat(EPOCHS).to_iter_dataset(shard_options=ShardOptions(index, count))
    states = sorted(folder.glob("state-*.json"))
    state = initial_state()
    if states:
        leaves = np.load(folder / "weights.npz")
        state = jax.tree.unflatten(jax.tree.structure(state), [leaves[name] for name in leaves])
    state = jax.device_put(state, everywhere)
    with (
        iter(stream.to_device((mesh, "data"))) as feeder,
        (folder / f"{index}-of-{count}.jsonl").open("w") as lines,
    ):
        if states:
            feeder.set_states([path.read_bytes() for path in states])
        for batch in feeder:
            state, loss = update(state, batch)
            mine = local(batch)
            there = mine["lengths"] > 0
            line = {
                "step": feeder.step,
                "loss": float(loss),
                "shape": mine["tokens"].shape,
                "ids": mine["id"][there].tolist(),
            }
            print(json.dumps(line), file=lines, flush=True)
            if not states and feeder.step == STOP_AFTER:
                break
        if not states:
            (folder / f"state-{index}.json").write_bytes(feeder.get_state())
    if index == 0 and not states:
        np.savez(folder / "weights.npz", *map(np.asarray, jax.tree.leaves(state)))
    print(json.dumps(compiled))


# ---- The runs


def run(folder, count):
    """Run `count` hosts to their end: lines that each wrote, and shapes that each compiled for."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [sys.executable, __file__, "--out", str(folder), "--host"]
    hosts = [
        subprocess.Popen(
            [*command, str(index), str(count), str(port)], stdout=subprocess.PIPE, text=True
        )
        for index in range(count)
    ]
    try:
        printed = [process.communicate(timeout=240)[0] for process in hosts]
    finally:
        for process in hosts:
            process.kill()
    verify(
        all(process.returncode == 0 for process in hosts),
        f"{count} of {count} hosts trained, {DEVICES} devices each",
    )
    paths = [folder / f"{index}-of-{count}.jsonl" for index in range(count)]
    return [list(map(json.loads, path.read_text().splitlines())) for path in paths], [
        json.loads(text.splitlines()[-1]) for text in printed
    ]


def verify(holds, claim):
    """Says that a claim was verified, or ends the program."""
    if not holds:
        sys.exit(f"FAILED: {claim}")
    print(f"verified: {claim}", flush=True)


def in_random_order(lengths, rows):
    """The padding of batches of `rows` chats, each padded to its longest.

    The slower host of a step beside the mean of both.
    """
    chosen = (
        np.random.default_rng(0)
        .permutation(lengths)[: len(lengths) // (2 * rows) * 2 * rows]
        .reshape(-1, 2, rows)
    )
    padded = chosen.max(axis=2)
    return 1 - chosen.sum() / (padded.sum() * rows), (
        padded.max(axis=1) / padded.mean(axis=1)
    ).mean()


def main(out):
    """Everything, in the order of the list at the top."""
    began = time.perf_counter()
    folder = (out / "chat").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)

    first, first_compiled = run(folder, 2)
    last, last_compiled = run(folder, 1)
    lines = [line for each in (*first, *last) for line in each]

    shapes = {tuple(line["shape"]) for line in lines}
    verify(
        len(shapes) <= SHAPES, f"{len(lines)} batches have {len(shapes)} shapes: {sorted(shapes)}"
    )
    most = max(map(len, (*first_compiled, *last_compiled)))
    verify(most <= SHAPES, f"no host compiled its step more than {most} times")
    same = all(one["shape"] == two["shape"] for one, two in zip(*first, strict=True))
    verify(same, f"both hosts had the same shape at each of {len(first[0])} steps")
    came = Counter(number for line in lines for number in line["ids"])
    verify(
        came == Counter([*range(CHATS)] * EPOCHS),
        f"each of {CHATS} chats came once in each of {EPOCHS} epochs",
    )
    losses = [line["loss"] for line in (*first[0], *last[0])]
    verify(
        np.mean(losses[-5:]) < 0.7 * losses[0],
        f"the loss fell from {losses[0]:.2f} to {np.mean(losses[-5:]):.2f}",
    )

    lengths = np.minimum([len(encoded(chat)["tokens"]) for chat in chats()], LONGEST)
    padding = 1 - lengths.sum() * EPOCHS / sum(np.prod(line["shape"]) for line in lines)
    others, behind = in_random_order(lengths, round(np.mean([line["shape"][0] for line in lines])))
    print(f"{padding:.0%} of the tokens are padding, and both hosts of a step have as many")
    print(
        f"in random order {others:.0%} would be, and the slower host of a step would have "
        f"{behind:.2f} times the mean"
    )
    shutil.rmtree(folder)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "output", help="folder for all files"
    )
    parser.add_argument("--host", type=int, nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.host:
        host(*arguments.host, arguments.out)
    else:
        main(arguments.out)
