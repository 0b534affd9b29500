"""`headrace demo`: what it says is what happened."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.damage import sealed

from headrace.tools.command_line import main
from headrace.tools.demo import demo, trainer
from headrace.tools.demo.digits import load_digits
from headrace.tools.demo.ledger import TrainingLedger, resumed_by_step_count


@pytest.mark.long
def test_a_demo_prints_in_a_dozen_lines_that_no_bit_differs_and_leaves_nothing(tmp_path):
    """Run as a program: workers and training are killed, losses, records and weights
    are the same.
    """
    command = [sys.executable, "-m", "headrace", "demo"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) <= 12
    for text in (
        "step 110: all 2 workers killed",
        "step 217: the training itself killed",
        "step 200: a new process resumes from the last checkpoint, with 3 workers",
        "losses    0 of 300 differ in any bit\n",
        "records   0 of 300 batches differ",
        "weights   the same to the last bit",
    ):
        assert text in done.stdout
    assert float(re.search(r"accuracy +([\d.]+)%", done.stdout)[1]) > 85
    assert [*tmp_path.iterdir()] == []


def _by_one(path: Path) -> None:
    """A checkpoint whose loader is a batch further on."""
    saved = dict(np.load(path))
    state = json.loads(saved["loader_state"].tobytes())
    state["cursor"][0][0] += 64
    _write(path, {**saved, "loader_state": np.frombuffer(sealed(state), np.uint8)})


def _one_bit(path: Path) -> None:
    """A checkpoint with one bit of one weight changed."""
    saved = dict(np.load(path))
    saved["second"].view(np.uint32)[0, 0] ^= 1
    _write(path, saved)


def _write(path: Path, arrays: dict) -> None:
    with path.open("wb") as file:
        np.savez(file, **arrays)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_by_one, r"records   100 of 300 batches differ.*FIRST: step 201"),
        (_one_bit, r"losses    \d+ of .*FIRST: step 2"),
    ],
)
@pytest.mark.long
def test_a_fault_in_a_resume_is_told_with_its_first_step(monkeypatch, capsys, change, said):
    """The status is 1. One fault is in the records, one in a single bit of a weight."""
    start = demo.start

    def faulty(folder, *numbers):
        if (folder / "checkpoint.npz").exists():
            change(folder / "checkpoint.npz")
        return start(folder, *numbers)

    monkeypatch.setattr(demo, "start", faulty)
    assert main(["demo"]) == 1
    out = capsys.readouterr().out
    assert re.search(said, out), out
    assert "weights   DIFFER" in out


def test_steps_that_were_never_done_are_differences():
    """As are those that were done twice with other records."""
    one, two = TrainingLedger(), TrainingLedger()
    for ledger in (one, two):
        ledger.losses, ledger.records = {1: "a", 2: "b", 3: "c"}, {1: [1], 2: [2], 3: [3]}
    assert one.differences(two) == ([], [])
    two.forget_after(2)
    assert one.differences(two) == ([3], [3])
    two.losses[3], two.records[3] = "c", [4]
    assert one.differences(two) == ([], [3])


def test_without_jax_a_demo_says_what_to_install(monkeypatch, capsys):
    """In one line."""
    monkeypatch.setitem(sys.modules, "jax", None)
    assert main(["demo"]) == 2
    assert (
        capsys.readouterr().err
        == 'headrace: headrace demo needs jax: pip install "headrace[jax]"\n'
    )


@pytest.mark.long
def test_a_training_that_fails_ends_the_demo_with_its_error(monkeypatch, capfd):
    """Not with a comparison of what is not there."""
    monkeypatch.setattr(demo, "load_digits", lambda: ({"number": np.arange(9)}, "broken digits"))
    assert main(["demo"]) == 2
    shown = capfd.readouterr()
    assert "KeyError" in shown.err
    assert "headrace: the training process of the demo ended with status 1" in shown.err
    assert "Compared with" not in shown.out


@pytest.mark.slow
def test_digits_are_drawn_where_scikit_learn_is_not_installed(monkeypatch):
    """As many, in the same form, the same each time; and they can be told apart."""
    real, kind = load_digits()
    assert kind == "handwritten digits"
    for name in ("sklearn", "sklearn.datasets"):
        monkeypatch.setitem(sys.modules, name, None)
    drawn, kind = load_digits()
    assert kind == "drawn digits"
    assert {name: (it.shape, it.dtype) for name, it in drawn.items()} == {
        name: (it.shape, it.dtype) for name, it in real.items()
    }
    assert all((drawn[name] == load_digits()[0][name]).all() for name in drawn)
    means = np.stack(
        [drawn["image"][drawn["label"] == digit].mean(0).ravel() for digit in range(10)]
    )
    assert np.linalg.norm(means[:, None] - means, axis=-1)[~np.eye(10, dtype=bool)].min() > 0.3


@pytest.mark.slow
def test_records_of_the_test_are_never_trained_on(tmp_path):
    """By their numbers, over more than an epoch."""
    digits, _ = load_digits()
    batches = iter(trainer.batches_of(digits, 0, tmp_path))
    came = Counter(np.concatenate([next(batches)["number"] for _ in range(30)]).tolist())
    assert not any(trainer.is_for_test(np.array([*came])))
    assert {*came} == {*np.flatnonzero(~trainer.is_for_test(digits["number"])).tolist()}


@pytest.mark.parametrize(("step", "again"), [(0, 0), (8, 512), (23, 1423), (24, 0), (200, 512)])
def test_the_other_loader_loses_nothing_on_as_many_workers(step, again):
    """But it reads all before the place again. On another number, records are lost and doubled but
    at an epoch's begin.
    """
    same = resumed_by_step_count(1437, 64, step, (2, 2))
    assert (same.twice, same.never, same.read_again) == (0, 0, again)
    other = resumed_by_step_count(1437, 64, step, (2, 3))
    assert (other.twice > 0, other.never > 0) == (again > 0, again > 0)
