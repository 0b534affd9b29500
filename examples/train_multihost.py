"""Train on two hosts, kill both, go on with one, then with four; each record comes exactly once.

The hosts are processes of this machine, joined by `jax.distributed`; each loads its shard of
scikit-learn's digits, and the global batches are made by a device feeder. The last batch of all
does not divide: `on_uneven="pad"` fills it with zeros, and the mask leaves these out of the loss.
Every process writes down which records it trained on, at each step:

1. two processes train, with a checkpoint (Orbax: model and loader) every 10 steps, and are killed
   by SIGKILL;
2. one process goes on from the last whole checkpoint, and stops after some steps;
3. four go on from there to the end.

Beside it, one process trains without a stop, to compare with.

    python examples/train_multihost.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

os.environ["JAX_PLATFORMS"] = (
    "cpu"  # the hosts are processes of one machine; leave it out where they are not
)

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from sklearn.datasets import load_digits

import headrace
from headrace.checkpoint import CheckpointRestore, CheckpointSave

RECORDS, EPOCHS, GLOBAL_BATCH, EVERY = 1797, 2, 64, 10
STEPS = -(-RECORDS * EPOCHS // GLOBAL_BATCH)
KILL_BEHIND, STOP_AT = 25, 40
PACE = 0.05
"""Seconds by which steps are longer before a kill, so that it comes in the middle."""


# ---- One process of a run


def initial_weights():
    """A network with one hidden layer."""
    rng = np.random.default_rng(0)
    return {
        "hidden": np.float32(rng.normal(0, 0.1, (64, 32))),
        "out": np.float32(rng.normal(0, 0.1, (32, 10))),
    }


def loss_of(weights, batch, mask):
    """Mean cross-entropy of the rows that are no filling."""
    logits = jnp.tanh(batch["image"] @ weights["hidden"]) @ weights["out"]
    losses = -jnp.take_along_axis(jax.nn.log_softmax(logits), batch["label"][:, None], axis=1)[:, 0]
    return jnp.where(mask, losses, 0).sum() / mask.sum()


@jax.jit
def update(weights, batch, mask):
    """One step of gradient descent."""
    loss, gradient = jax.value_and_grad(loss_of)(weights, batch, mask)
    return jax.tree.map(lambda weight, slope: weight - 0.2 * slope, weights, gradient), loss


def batches(sharding, count):
    """This host's part of the stream, on its devices."""
    digits = load_digits()
    records = {"image": np.float32(digits.data / 16), "label": np.int32(digits.target)}
    loader = headrace.load(
        records,
        shuffle=True,
        seed=0,
        num_epochs=EPOCHS,
        batch_size=GLOBAL_BATCH // count,
        shard_options=headrace.ShardByJaxProcess(),
    )
    return iter(loader.to_device(sharding, on_uneven="pad"))


def restored(manager, feeder, weights):
    """The weights of the last checkpoint, if there is one; the feeder is brought to its place."""
    step = manager.latest_step()
    if step is None:
        return weights, 0
    wanted = ocp.args.Composite(
        model=ocp.args.StandardRestore(weights), loader=CheckpointRestore(feeder)
    )
    return manager.restore(step, args=wanted).model, step


def host(index, count, port, folder, ledger, until, pace):
    """Train from the last checkpoint to step `until`; a line of the ledger for each step."""
    if count > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"localhost:{port}", count, index)
    mesh = Mesh(np.array(jax.devices()), ("data",))
    everywhere = NamedSharding(mesh, PartitionSpec())
    weights = jax.tree.map(
        lambda leaf: jax.make_array_from_process_local_data(everywhere, leaf), initial_weights()
    )
    feeder = batches(NamedSharding(mesh, PartitionSpec("data")), count)
    with ocp.CheckpointManager(folder) as manager, feeder, ledger.open("a") as lines:
        weights, step = restored(manager, feeder, weights)
        for batch in feeder:
            weights, loss = update(weights, batch, feeder.mask)
            step += 1
            line = {
                "step": step,
                "count": count,
                "records": feeder.last_records().tolist(),
                "loss": float(loss),
            }
            print(json.dumps(line), file=lines, flush=True)
            if step % EVERY == 0 or step == until:
                saved = ocp.args.Composite(
                    model=ocp.args.StandardSave(weights), loader=CheckpointSave(feeder)
                )
                manager.save(step, args=saved)
            if step == until:
                break
            time.sleep(pace)


# ---- The runs


def start(count, out, name, until=0, pace=0.0, checkpoints="checkpoints"):
    """The processes of a run, and their ledgers."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    ledgers = [out / f"{name}-{index}.jsonl" for index in range(count)]
    processes = []
    for index, ledger in enumerate(ledgers):
        arguments = [index, count, port, (out / checkpoints).absolute(), ledger, until, pace]
        command = [sys.executable, __file__, "--host", *map(str, arguments)]
        processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
    return processes, ledgers


def finish(run):
    """What all processes of a run wrote down, once they have ended."""
    processes, ledgers = run
    try:
        codes = [process.wait(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    if any(codes):
        sys.exit(f"FAILED: the processes of {ledgers[0].stem} ended with {codes}")
    return read(ledgers)


def read(ledgers):
    """Lines of all processes; one that a kill cut off in the middle is none."""
    lines = [
        line
        for ledger in ledgers
        if ledger.exists()
        for line in ledger.read_text().splitlines(keepends=True)
    ]
    return [json.loads(line) for line in lines if line.endswith("\n")]


def kill_in_the_middle(run):
    """SIGKILL to all processes of a run, once they are past a certain step.

    What they had written down.
    """
    processes, ledgers = run
    while max((line["step"] for line in read(ledgers)), default=0) < KILL_BEHIND:
        if any(process.poll() is not None for process in processes):
            sys.exit("FAILED: a process ended before it was killed")
        time.sleep(0.02)
    for process in processes:
        process.send_signal(signal.SIGKILL)
    codes = [process.wait() for process in processes]
    return read(ledgers), codes


def by_step(lines):
    """For each step the records, sorted, and the loss."""
    steps = {}
    for line in lines:
        records, _ = steps.setdefault(line["step"], ([], line["loss"]))
        records += line["records"]
    return {step: (sorted(records), loss) for step, (records, loss) in sorted(steps.items())}


def verify(holds, claim):
    """Says that a claim was verified, or ends the program."""
    if not holds:
        sys.exit(f"FAILED: {claim}")
    print(f"verified: {claim}", flush=True)


def main(out):
    """Everything, in the order of the list at the top."""
    began = time.perf_counter()
    folder = out / "multihost"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    whole = by_step(finish(start(1, folder, "whole", checkpoints="uninterrupted")))

    killed, codes = kill_in_the_middle(start(2, folder, "two", pace=PACE))
    verify(codes == [-signal.SIGKILL] * 2, "both processes of the first run were killed by SIGKILL")
    one = by_step(finish(start(1, folder, "one", until=STOP_AT)))
    four = by_step(finish(start(4, folder, "four")))

    resumed_at = min(one) - 1
    verify(
        0 < resumed_at <= KILL_BEHIND,
        f"one process went on from the checkpoint of step {resumed_at}",
    )
    verify(
        min(four) == STOP_AT + 1, f"four processes went on from the checkpoint of step {STOP_AT}"
    )
    two = {step: seen for step, seen in by_step(killed).items() if step <= resumed_at}
    trained = {**two, **one, **four}
    verify(
        list(trained) == list(whole) == list(range(1, STEPS + 1)),
        f"together they made all of the {STEPS} steps",
    )
    times = Counter(record for records, _ in trained.values() for record in records)
    verify(
        len(times) == RECORDS and set(times.values()) == {EPOCHS},
        f"each of {RECORDS:,} records was trained on exactly once in each of {EPOCHS} epochs",
    )
    verify(
        all(trained[step][0] == whole[step][0] for step in whole),
        "at each step the global batch has the records of an uninterrupted run on one process",
    )
    apart = max(abs(trained[step][1] - whole[step][1]) for step in whole)
    verify(
        apart < 1e-4,
        f"losses differ from that run's by at most {apart:.0e}, the rounding of sums in another "
        "order",
    )
    verify(
        whole[STEPS][1] < whole[1][1] / 2,
        f"the loss fell from {whole[1][1]:.2f} to {whole[STEPS][1]:.2f}",
    )
    shutil.rmtree(folder)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--host"]:
        numbers, paths, rest = sys.argv[2:5], sys.argv[5:7], sys.argv[7:]
        host(*map(int, numbers), *map(Path, paths), int(rest[0]), float(rest[1]))
    else:
        parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
        parser.add_argument(
            "--out",
            type=Path,
            default=Path(__file__).parent / "output",
            help="folder for all files",
        )
        arguments = parser.parse_args()
        main(arguments.out)
