"""The recipes of the docs run, are short, and go on where they are killed as if they
had not been.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parent.parent / "docs" / "recipes"
PAGES = sorted(page for page in FOLDER.glob("*.md") if page.stem != "index")
KERAS = FOLDER.parent / "how-to" / "keras.md"

KILLED = """
import os, runpy, signal
from headrace.{module} import {kind}
taken, following = 0, {kind}.__next__
def counted(self):
    global taken
    taken += 1
    if taken > {most}:
        os.kill(os.getpid(), signal.SIGKILL)
    return following(self)
{kind}.__next__ = counted
runpy.run_path("program.py", run_name="__main__")
"""
"""Runs a program up to a batch, where its process ends."""


def _program(page: Path) -> str:
    (block,) = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return block


def _run(program: str, folder: Path, most: int | None = None) -> str:
    """What it prints, to its end or to its death at a batch."""
    folder.mkdir(exist_ok=True)
    (folder / "program.py").write_text(program)
    kind = "DeviceFeeder" if "to_device" in program else "DataLoaderIterator"
    module = "loader.device.device_feeder" if "to_device" in program else "loader.iterator"
    command = [sys.executable, "program.py"]
    if most is not None:
        command[1:] = ["-c", KILLED.format(module=module, kind=kind, most=most)]
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "TMPDIR": str(folder),
        "KERAS_BACKEND": "jax",
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == (0 if most is None else -signal.SIGKILL), done.stderr
    return done.stdout


def _saved(folder: Path) -> list[bytes]:
    """All arrays of the model in the last checkpoint."""
    if (folder / "checkpoint.pt").exists():
        import torch

        saved = torch.load(folder / "checkpoint.pt")
        tensors = [
            *saved["model"].values(),
            *(it for one in saved["optimizer"]["state"].values() for it in one.values()),
        ]
        return [tensor.numpy().tobytes() for tensor in tensors]
    import jax
    import orbax.checkpoint as ocp

    with ocp.CheckpointManager((folder / "checkpoints").absolute()) as manager:
        restored = manager.restore(200, args=ocp.args.Composite(model=ocp.args.StandardRestore()))
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(restored.model)]


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.filterwarnings("ignore:Sharding info not provided")
def test_a_recipe_that_is_killed_ends_with_the_bits_of_one_that_was_not(page, tmp_path):
    """SIGKILL at the 131st batch, then once more at the 41st after that; the last losses and
    checkpoints are compared.
    """
    program = _program(page)
    if "torch" in program and importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed; the tests do not install it")
    undisturbed = _run(program, tmp_path / "undisturbed")
    killed = [_run(program, tmp_path / "killed", most) for most in (130, 60)] + [
        _run(program, tmp_path / "killed")
    ]
    assert "step 50" not in killed[1]  # it went on from a checkpoint
    assert killed[2].splitlines() == undisturbed.splitlines()[-len(killed[2].splitlines()) :]
    assert 0 < len(killed[2].splitlines()) < len(undisturbed.splitlines())
    bits = _saved(tmp_path / "undisturbed")
    assert len(bits) >= 3
    assert _saved(tmp_path / "killed") == bits


@pytest.mark.long
def test_the_keras_program_that_is_killed_has_the_history_of_one_that_was_not(tmp_path):
    """The weights after `fit`, and the loss of the last epoch, bit for bit."""
    program = _program(KERAS)
    program += (
        "\nimport hashlib\n"
        + "print(hashlib.sha256(b''.join(w.tobytes() for w in model.get_weights())).hexdigest())\n"
    )
    program += "print(history.history['loss'][-1].hex(), history.history['val_loss'][-1].hex())\n"
    _, *undisturbed = _run(program, tmp_path / "undisturbed").splitlines()
    _run(program, tmp_path / "killed", most=17)
    assert _run(program, tmp_path / "killed").splitlines()[1:] == undisturbed


def test_recipes_are_short():
    """At most 80 lines each, the shorter ones of other pages too."""
    assert len(PAGES) >= 5
    for page in PAGES:
        assert _program(page).count("\n") <= 80, page.name
