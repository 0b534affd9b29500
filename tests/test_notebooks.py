"""The notebooks of the docs run, print what they show, and go on when they are killed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError

FOLDER = Path(__file__).parent.parent / "docs"
NOTEBOOKS = sorted(path for path in FOLDER.rglob("*.ipynb") if "_site" not in path.parts)
KILL_IT = FOLDER / "how-to" / "kill-it.ipynb"

pytestmark = pytest.mark.long


def _execute(notebook, folder):
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}})
    asyncio.run(client.async_execute())  # `execute` would leave its loop open
    return notebook


def _printed(notebook):
    """Of each cell; the loss of the last step may have other digits on another processor."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    texts = [
        "".join(one["text"] for one in cell.outputs if one.get("name") == "stdout")
        for cell in cells
    ]
    return [text for text in texts if not text.startswith("loss")]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_prints_what_it_shows(path, tmp_path):
    """From the first cell to the last; no error is kept in it."""
    shown = nbformat.read(path, as_version=4)
    assert _printed(_execute(nbformat.read(path, as_version=4), tmp_path)) == _printed(shown)


def test_a_notebook_that_is_killed_in_the_middle_goes_on_when_it_is_run_again(tmp_path):
    """The kernel is killed by SIGKILL while it trains with workers; then all cells are run anew."""
    killed = nbformat.read(KILL_IT, as_version=4)
    (training,) = (
        cell for cell in killed.cells if "157" in cell.source and cell.cell_type == "code"
    )
    killing = (
        "import threading\nthreading.Timer(0.0, lambda: os.kill(os.getpid(), "
        "signal.SIGKILL)).start()\n"
    )
    training.source = (
        training.source.replace("157", "134") + f"\n{killing}train(stream.mp_prefetch(2), 10**9)"
    )
    with pytest.raises(DeadKernelError):
        _execute(killed, tmp_path)
    assert (tmp_path / "run.npz").exists()
    again = _printed(_execute(nbformat.read(KILL_IT, as_version=4), tmp_path))
    assert "resumed at step 130\n" in again
    assert "0 of 300 losses differ in any bit; 0 of 300 batches have other records\n" in again
