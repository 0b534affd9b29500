"""The training of the demo, in its own process.

It reads digits and a checkpoint, and prints one JSON line per event.

It kills its own workers, and later itself, at given steps. If it is started a second time, it
resumes from the checkpoint.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...chains.iter_dataset import IterDataset
from ...chains.map_dataset import MapDataset
from ...loader.device.options import jax_for

STEPS = 300
BATCH_SIZE = 64
SAVE_EVERY = 25
WORKERS_DIE_AT = 110
TRAINER_DIES_AT = 217

_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


def is_for_test(numbers: np.ndarray) -> np.ndarray:
    """Return a boolean mask that is True for every fifth record.

    These records are used for tests and not for training.

    Args:
        numbers: indices of the records.
    """
    mask: np.ndarray = numbers % 5 == 0
    return mask


def batches_of(digits: dict[str, np.ndarray], worker_count: int, folder: Path) -> IterDataset[Any]:
    """Return the endless stream of training batches.

    Each epoch has its own shuffle, and each digit is shifted at random.

    Args:
        digits: columns of the digits.
        worker_count: number of workers; 0 for none.
        folder: folder in which each worker creates a file.
    """
    trained = ~is_for_test(digits["number"])
    training = MapDataset.source({name: column[trained] for name, column in digits.items()})
    batches = (
        training.shuffle(seed=0)
        .repeat()
        .random_map(_moved, seed=0)
        .batch(BATCH_SIZE)
        .to_iter_dataset()
    )
    return (
        batches.mp_prefetch(worker_count, functools.partial(_note_worker, folder))
        if worker_count
        else batches
    )


def _moved(record: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {**record, "image": np.roll(record["image"], rng.integers(-1, 2, size=2), axis=(0, 1))}


def _note_worker(folder: Path, index: int, count: int) -> None:
    """Create a file in `folder` named after this process's id: the demo can kill the worker.

    Called in each new worker, with its index and the number of workers, which are not used.
    """
    (folder / f"worker-{os.getpid()}").touch()


def train(
    folder: Path, worker_count: int, workers_die_at: int, trainer_dies_at: int
) -> Iterator[dict[str, Any]]:
    """Train, and yield the events until the end; resume from the checkpoint if there is one.

    Args:
        folder: folder with the digits, and for the checkpoint.
        worker_count: number of workers.
        workers_die_at: step after which all workers are killed; 0 for never.
        trainer_dies_at: step after which this process kills itself; 0 for never.

    Raises:
        MissingExtraError: jax is not installed.
    """
    jax = jax_for("headrace demo")
    digits = dict(np.load(folder / "digits.npz"))
    update, logits = _model(jax)
    weights, loader_state = _restored(folder)
    with iter(batches_of(digits, worker_count, folder).to_device(jax.devices()[0])) as batches:
        if loader_state:
            batches.set_state(loader_state)
        yield {"event": "start", "step": batches.step, "workers": worker_count}
        while batches.step < STEPS:
            batch = next(batches)
            weights, loss = update(weights, batch)
            numbers = np.asarray(batch["number"]).tolist()
            yield {
                "event": "step",
                "step": batches.step,
                "loss": float(loss).hex(),
                "records": numbers,
            }
            if batches.step % SAVE_EVERY == 0:
                _save(folder, jax.device_get(weights), batches.get_state())
            if batches.step == workers_die_at:
                yield {"event": "killed", "step": batches.step, "workers": _kill_workers(folder)}
            if batches.step == trainer_dies_at:
                os.kill(os.getpid(), _KILL)
    test = is_for_test(digits["number"])
    right = np.asarray(logits(weights, digits["image"][test])).argmax(1) == digits["label"][test]
    digest = hashlib.sha256(
        b"".join(np.asarray(weights[name]).tobytes() for name in sorted(weights))
    ).hexdigest()
    yield {"event": "end", "weights": digest, "right": int(right.sum()), "tested": len(right)}


def _kill_workers(folder: Path) -> int:
    """Kill all workers that have created a file in `folder`, and remove the files.

    Return the number of workers.
    """
    notes = list(folder.glob("worker-*"))
    for note in notes:
        note.unlink()
        os.kill(int(note.name.partition("-")[2]), _KILL)
    return len(notes)


def _save(folder: Path, weights: dict[str, Any], loader_state: bytes) -> None:
    """Save the weights and the loader's state in one file in `folder`, atomically."""
    with (folder / "unfinished").open("wb") as file:
        np.savez(file, loader_state=np.frombuffer(loader_state, np.uint8), **weights)
    (folder / "unfinished").replace(folder / "checkpoint.npz")


def _restored(folder: Path) -> tuple[dict[str, np.ndarray], bytes]:
    """Return weights and the loader's state from the checkpoint in `folder`.

    Return new weights and b"" if there is no checkpoint.
    """
    if (folder / "checkpoint.npz").exists():
        weights = dict(np.load(folder / "checkpoint.npz"))
        return weights, weights.pop("loader_state").tobytes()
    rng = np.random.default_rng(0)
    first, second = (
        rng.normal(0, (2 / shape[0]) ** 0.5, shape).astype(np.float32)
        for shape in ((64, 128), (128, 10))
    )
    zeros = {"momentum_first": np.zeros_like(first), "momentum_second": np.zeros_like(second)}
    return {"first": first, "second": second, **zeros}, b""


def _model(jax: Any) -> tuple[Any, Any]:
    """Return two functions: a training step, and a network of two layers.

    The step is gradient descent with momentum.
    """

    def logits(weights: Any, images: Any) -> Any:
        return jax.nn.relu(images.reshape(len(images), -1) @ weights["first"]) @ weights["second"]

    def loss_of(weights: Any, batch: Any) -> Any:
        scores = jax.nn.log_softmax(logits(weights, batch["image"]))
        return -(scores * jax.nn.one_hot(batch["label"], 10)).sum(1).mean()

    def update(weights: Any, batch: Any) -> Any:
        loss, gradient = jax.value_and_grad(loss_of)(weights, batch)
        new = {}
        for name in ("first", "second"):
            new[f"momentum_{name}"] = 0.9 * weights[f"momentum_{name}"] + gradient[name]
            new[name] = weights[name] - 0.1 * new[f"momentum_{name}"]
        return new, loss

    return jax.jit(update), logits


def main() -> None:
    """Train, and print the events as JSON lines."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    for name in ("workers", "workers-die-at", "trainer-dies-at"):
        parser.add_argument(f"--{name}", type=int, default=0)
    given = parser.parse_args()
    # that a worker was killed is told by an event
    logging.getLogger("headrace").setLevel(logging.ERROR)
    for event in train(given.folder, given.workers, given.workers_die_at, given.trainer_dies_at):
        print(json.dumps(event), flush=True)


if __name__ == "__main__":
    main()
