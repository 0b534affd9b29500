"""The command `headrace demo`.

It prints whether a killed and resumed training equals an undisturbed one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from ...common.system import has_processes
from ...errors import HeadraceError
from ...loader.device.options import jax_for
from .digits import load_digits
from .ledger import TrainingLedger, resumed_by_step_count
from .trainer import BATCH_SIZE, SAVE_EVERY, STEPS, TRAINER_DIES_AT, WORKERS_DIE_AT, is_for_test

WORKERS = (2, 3)
"""Number of workers in the run that is killed, and in the run that resumes it."""


def run_demo(options: argparse.Namespace) -> int:
    """Run the command `headrace demo`.

    Return its exit status: 1 if anything differs between the two trainings, else 0.

    Raises:
        MissingExtraError: jax is not installed.
        HeadraceError: a training ended in another way than planned.
    """
    jax_for("headrace demo")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="headrace-demo-") as name:
        digits, kind = load_digits()
        count = int((~is_for_test(digits["number"])).sum())
        print(
            f"{count:,} {kind}, {STEPS} steps of {BATCH_SIZE}: trained twice, each time in a "
            "process of its own",
            flush=True,
        )
        folders = [Path(name, part) for part in ("undisturbed", "killed")]
        for folder in folders:
            folder.mkdir()
            np.savez(folder / "digits.npz", **digits)
        undisturbed, killed = TrainingLedger(), TrainingLedger()
        follow("undisturbed", undisturbed, start(folders[0], 0))
        before, after = WORKERS if has_processes() else (0, 0)
        follow("killed", killed, start(folders[1], before, WORKERS_DIE_AT, TRAINER_DIES_AT))
        follow("resumed", killed, start(folders[1], after))
    same = compare(undisturbed, killed)
    others(count)
    print(f"({time.monotonic() - began:.0f} s; nothing is left of it on this machine)")
    return 0 if same else 1


def start(
    folder: Path, workers: int, workers_die_at: int = 0, trainer_dies_at: int = 0
) -> Iterator[dict[str, Any]]:
    """Train in a new process. Yield the events that it reports until it ends or is killed.

    Args:
        folder: folder with the digits, and for the checkpoint.
        workers: number of workers.
        workers_die_at: step after which all workers are killed; 0 for never.
        trainer_dies_at: step after which the training process kills itself; 0 for never.

    Raises:
        HeadraceError: the process ended in another way than planned.
    """
    numbers = {
        "workers": workers,
        "workers-die-at": workers_die_at,
        "trainer-dies-at": trainer_dies_at,
    }
    given = [f"--{name}={number}" for name, number in numbers.items()]
    command = [sys.executable, "-P", "-m", f"{__package__}.trainer", str(folder), *given]
    # an accelerator may add up in another order each time
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield from map(json.loads, process.stdout)
        except BaseException:
            process.kill()
            raise
    if (process.returncode == 0) == bool(trainer_dies_at):
        raise HeadraceError(
            f"the training process of the demo ended with status {process.returncode}. Read its "
            "output above."
        )


def follow(what: str, ledger: TrainingLedger, events: Iterator[dict[str, Any]]) -> None:
    """Add the events of a training to its results, and show its progress.

    Args:
        what: name of the run: "undisturbed", "killed" or "resumed".
        ledger: results so far, to which those of the events are added.
        events: events of the training.
    """
    with tqdm(total=STEPS, desc=f"{what:>11}", unit=" steps", disable=None, leave=True) as bar:
        for event in events:
            step = event.get("step", STEPS)
            if event["event"] == "start":
                ledger.forget_after(step)
                bar.update(step - bar.n)
                if step:
                    bar.write(
                        f"step {step}: a new process resumes from the last checkpoint, with "
                        f"{event['workers']} workers"
                    )
            elif event["event"] == "step":
                ledger.losses[step], ledger.records[step] = event["loss"], event["records"]
                bar.update(step - bar.n)
            elif event["event"] == "killed":
                bar.write(
                    f"step {step}: all {event['workers']} workers killed (SIGKILL); the training "
                    "goes on"
                )
            else:
                ledger.weights, ledger.right, ledger.tested = (
                    event["weights"],
                    event["right"],
                    event["tested"],
                )
    if what == "killed":
        print(f"step {max(ledger.losses)}: the training itself killed (SIGKILL)", flush=True)


def compare(undisturbed: TrainingLedger, killed: TrainingLedger) -> bool:
    """Print how the results of two trainings differ.

    Return True if their losses, records and weights are equal.
    """
    losses, records = undisturbed.differences(killed)
    same_weights = undisturbed.weights == killed.weights != ""
    print("Compared with the run that nothing happened to:")
    print(f"  losses    {len(losses)} of {STEPS} differ in any bit{_first(losses)}")
    print(
        f"  records   {len(records)} of {STEPS} batches differ, by the numbers of their "
        f"{BATCH_SIZE} records{_first(records)}"
    )
    print(f"  weights   {'the same to the last bit' if same_weights else 'DIFFER'}")
    print(
        f"  accuracy  {killed.right / max(killed.tested, 1):.1%} of {killed.tested} digits that it "
        "never saw"
    )
    return same_weights and not losses and not records


def _first(steps: list[int]) -> str:
    return f"; THE FIRST: step {steps[0]}" if steps else ""


def others(count: int) -> None:
    """Print how many of `count` records would be lost or repeated with an order in each worker."""
    lost = resumed_by_step_count(
        count, BATCH_SIZE, TRAINER_DIES_AT // SAVE_EVERY * SAVE_EVERY, WORKERS
    )
    before, after = WORKERS
    print(
        f"A loader whose workers ({before}, then {after}) each batch a part, and which resumes by "
        "skipping, in this epoch"
    )
    print(
        f"  gives {lost.twice} records twice, {lost.never} never, and reads {lost.read_again} "
        "again to find its place"
    )
