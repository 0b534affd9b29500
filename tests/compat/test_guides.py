"""Programs as guides and users write them run with real Grain and with ours, unchanged: the same
elements in the same order.
"""

import contextlib
import io
from pathlib import Path

import grain  # noqa: F401 - the real one is there first
import numpy as np
import pytest
from support import both, device_programs

from headrace.compat.replaced import grain_replaced

FOLDER = Path(__file__).parent.parent / "guides"
TRAINING, MANY_DEVICES = FOLDER / "training.py", FOLDER / "many_devices.py"
GUIDES = sorted({*FOLDER.glob("*.py")} - {TRAINING, MANY_DEVICES})


def elements_of(path, workers, **more):
    """What a program has in `elements` in the end, and the lines that it prints."""
    names = {"__name__": path.stem, "WORKERS": workers, **more}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(path.read_text(), str(path), "exec"), names)
    return [*both.told(names["elements"]), *printed.getvalue().splitlines()]


@pytest.mark.one_in(9)
@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_programs_of_grain_run_unchanged(path):
    """With Grain and without workers, and with ours and two: the same."""
    with both.quiet():
        expected = elements_of(path, 0)
    assert len(expected) > 3
    with grain_replaced():
        found = elements_of(path, 2 if "WORKERS" in path.read_text() else 0)
    np.testing.assert_equal(found, expected)


EIGHT = """
import sys
sys.path[:0] = [{tests!r}, {tests!r} + "/compat"]
import test_guides

if __name__ == "__main__":
    import jax
    assert len(jax.devices()) == 8
    for path in (test_guides.MANY_DEVICES, test_guides.FOLDER / "on_devices.py"):
        test_guides.test_programs_of_grain_run_unchanged(path)
"""


@pytest.mark.long
def test_programs_for_devices_run_unchanged_on_eight():
    """The template for many devices of one host, and what puts batches on devices: the same pieces
    on each.
    """
    device_programs.run(
        EIGHT.format(tests=str(FOLDER.parent)), **device_programs.EIGHT, PYTHONWARNINGS="default"
    )


@pytest.mark.parametrize("kind", ["loader", "chain"])
@pytest.mark.one_in(2)
def test_a_training_that_grain_began_is_ended_by_ours(kind, tmp_path):
    """The program as it is, from the checkpoint that it wrote in the middle: the batches and losses
    that were to come.
    """

    def run(folder, workers, stop):
        (tmp_path / folder).mkdir(exist_ok=True)
        return elements_of(TRAINING, workers, FOLDER=tmp_path / folder, KIND=kind, STOP=stop)

    with both.quiet():
        _, *batches, losses = run("whole", 0, stop=None)
        _, *first, _ = run("stopped", 0, stop=7)
    with grain_replaced():
        _, *rest, last_losses = run("stopped", 2, stop=None)
    assert len(rest) > 7
    np.testing.assert_equal(first + rest, batches)
    assert last_losses[1:] == losses[1 + 7 :]
