"""Change the weights of a mix during a run, by validation losses; kill the run, and resume it.

    python examples/reweight_mix.py --out output

A softmax regression learns handwritten digits. The images are a mix of two parts: digits with a
closed loop, and digits without one. Every 20 steps the program measures the loss of each part on
images that are not trained on, and gives the part with the larger loss a larger weight. The first
run is killed at step 50. The program runs again from its last checkpoint, and must end with the
same parameters as a run that nobody killed.
"""

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import headrace

STEPS, EVERY, BATCH = 120, 20, 32
LOOPS = (0, 4, 6, 8, 9)


def parts():
    """Training and validation images of each part: dicts of float32[n, 64] and int64[n]."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    chosen = {"loops": np.isin(labels, LOOPS), "others": ~np.isin(labels, LOOPS)}
    held_out = np.arange(len(labels)) % 5 == 0
    train, valid = (
        {
            name: {"image": images[of & kept], "label": labels[of & kept]}
            for name, of in chosen.items()
        }
        for kept in (~held_out, held_out)
    )
    return train, valid


def probabilities(weights, images):
    """The probability of each digit: float32[n, 10] for images float32[n, 64]."""
    scores = images @ weights
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


def loss(weights, images, labels):
    """The mean cross-entropy."""
    return float(
        -np.log(probabilities(weights, images)[np.arange(len(labels)), labels] + 1e-9).mean()
    )


def train(folder, killed_at):
    """Train from the checkpoint in `folder`, or from the start.

    Kill this process after step `killed_at`, if given.
    """
    sources, valid = parts()
    sampler = headrace.MixSampler(sources, shuffle=True, seed=0, when_exhausted="repeat")
    batches = iter(
        headrace.DataLoader(
            data_source=sources, sampler=sampler, operations=[headrace.Batch(BATCH)]
        )
    )
    weights, checkpoint = np.zeros((64, 10), np.float32), folder / "checkpoint.npz"
    if checkpoint.exists():
        with np.load(checkpoint) as saved:
            weights = saved["weights"]
            # which tells the present weights of the mix
            batches.set_state(saved["state"].tobytes())
    while batches.step < STEPS:
        batch = next(batches)
        errors = probabilities(weights, batch["image"])
        errors[np.arange(BATCH), batch["label"]] -= 1
        weights = weights - 0.5 / BATCH * batch["image"].T @ errors
        if batches.step % EVERY == 0:
            losses = {
                name: loss(weights, part["image"], part["label"]) for name, part in valid.items()
            }
            batches.change(weights=losses)
            told = ", ".join(f"{name} {value:.3f}" for name, value in losses.items())
            print(
                f"step {batches.step}: validation losses, which are the new weights: {told}",
                flush=True,
            )
            state = np.frombuffer(batches.get_state(), np.uint8)
            np.savez(folder / "unfinished.npz", weights=weights, state=state)
            os.replace(folder / "unfinished.npz", checkpoint)
        if batches.step == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
    np.save(folder / "weights.npy", weights)


def main():
    """Run the training twice, once killed and resumed, and compare."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "--out", type=Path, default=Path("output"), help="folder for checkpoints"
    )
    arguments.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    arguments.add_argument("--killed-at", type=int, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.train:
        options.out.mkdir(parents=True, exist_ok=True)
        return train(options.out, options.killed_at)

    def run(name, *more):
        command = [sys.executable, __file__, "--out", str(options.out / name), "--train", *more]
        return subprocess.run(command, check=False).returncode

    def losses(name):
        weights, (_, valid) = np.load(options.out / name / "weights.npy"), parts()
        return [loss(weights, part["image"], part["label"]) for part in valid.values()]

    assert run("whole") == 0
    assert run("killed", "--killed-at", "50") == -signal.SIGKILL
    assert run("killed") == 0
    whole, killed = (np.load(options.out / name / "weights.npy") for name in ("whole", "killed"))
    same, largest = np.array_equal(whole, killed), max(losses("killed"))
    print(
        "verified: the run that was killed and resumed "
        f"{'ends with the same' if same else 'FAILED: has other'} parameters"
    )
    print(
        "verified: the largest validation loss is "
        f"{largest:.3f}{'' if largest < 0.7 else ', which FAILED: not below 0.7'}"
    )
    return None if same and largest < 0.7 else 1


if __name__ == "__main__":
    sys.exit(main())
