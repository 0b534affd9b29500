"""Files that run for one batch, and moves between them, measured by profiling: what a reader who
follows a batch opens.
"""

import re
import sys
from pathlib import Path

import pytest
from support import path_of_a_batch

ROOT = Path(__file__).parents[2]

LOADER_FILES, WORKER_FILES = 14, 18
MOVES = 56


@pytest.fixture
def paths(monkeypatch):
    """The profiler of paths, without another one that is told what runs."""
    monkeypatch.delitem(sys.modules, "jax.profiler", raising=False)
    return path_of_a_batch


def _listed() -> list[list[str]]:
    """The files that docs/design.md names: those of the user's process, and those of a worker."""
    text = (
        (ROOT / "docs/design.md")
        .read_text()
        .partition("## How a batch flows")[2]
        .partition("**Reading ahead**")[0]
    )
    return [
        re.findall(r"^\d+\. `([\w/.]+)`", part, re.MULTILINE)
        for part in text.split("In the worker's process:")
    ]


def _usual(counts) -> int:
    """Without batches whose operations are timed one by one, at most half of them."""
    return sorted(counts)[len(counts) // 4]


def _check_listed(batches: list[dict[str, int]], listed: list[str]) -> None:
    always = set.intersection(*map(set, batches))
    assert always - set(listed) == set()
    assert set(listed) - set().union(*batches) == set()


@pytest.mark.slow
def test_the_users_process_goes_through_few_files_for_a_batch_of_two_workers(paths):
    """A `next` that asks for a task and takes another's batch; docs/design.md lists the files that
    run in it.
    """
    batches = paths.of_users_process(paths.mapped(paths.PlainMap("", paths.TASK_SECONDS), 2))
    assert _usual([len(files) for files in batches]) <= LOADER_FILES
    assert _usual([sum(files.values()) for files in batches]) <= MOVES
    _check_listed(batches, _listed()[0])


@pytest.mark.slow
def test_a_worker_goes_through_few_files_for_a_batch(paths):
    """From a record of one batch to the same of the next; docs/design.md lists the files that run
    meanwhile.
    """
    batches = paths.of_workers(paths.TASK_SECONDS)
    assert _usual([len(files) for files in batches]) <= WORKER_FILES
    _check_listed(batches, _listed()[1])


def test_a_batch_of_columns_is_a_slice_and_nothing_else(paths):
    """Without workers, seven of eight batches are there already: the iterator takes them from a
    list.
    """
    batches = paths.of_users_process(paths.columns())
    assert sorted(paths.median_path(batches)) == ["loader/iterator.py", "loader/stream/flow.py"]
