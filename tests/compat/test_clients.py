"""Programs in the manner of well-known clients: beside real Grain, element for element, with states
both ways.
"""

import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from support import both

from headrace.compat import grain_replaced

# of TFDS
pytestmark = pytest.mark.filterwarnings(
    "ignore:label:DeprecationWarning", "ignore::ResourceWarning"
)

PROGRAMS = sorted(Path(__file__).parent.glob("clients/*.py"))


@pytest.fixture(autouse=True)
def folder_of_tfds(tmp_path, monkeypatch):
    """The folder in which a program writes what it reads. TFDS leaves empty temporary
    folders, too.
    """
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def pipelines(program):
    """What the program makes with Grain, and with our names in its place."""
    theirs = runpy.run_path(str(program))["pipeline"]
    with grain_replaced():
        ours = runpy.run_path(str(program))["pipeline"]
    return theirs(), ours()


def with_workers(program, workers):
    """What the program makes with our names, and so many workers."""
    with grain_replaced():
        return runpy.run_path(str(program))["pipeline"](workers)


def going_on(pipeline, state):
    """All that comes after a state."""
    iterator = iter(pipeline)
    iterator.set_state(state)
    return [both.told(element) for element in iterator]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_clients_program_gives_the_elements_of_grain(program):
    """Each of them, in the same order."""
    theirs, ours = pipelines(program)
    assert both.told(list(ours)) == both.told(list(theirs)) != []


@pytest.mark.one_in(8)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_run_goes_on_from_grains_states_and_from_ours(program):
    """At every step."""
    theirs, ours = pipelines(program)
    expected = [both.told(element) for element in theirs]
    begun, own = iter(theirs), iter(ours)
    for step in range(len(expected)):
        assert going_on(ours, begun.get_state()) == expected[step:]
        assert going_on(ours, own.get_state()) == expected[step:]
        next(begun)
        next(own)


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_the_check_says_ok_of_all_its_names(program):
    """And runs it to its end."""
    command = [sys.executable, "-m", "headrace.compat.check", str(program)]
    result = subprocess.run(command, capture_output=True, text=True)
    named = [line for line in result.stdout.splitlines() if line.startswith("grain")]
    assert result.returncode == 0, result.stderr
    assert named
    assert all(line.endswith("  ok") for line in named)


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_run_that_was_stopped_goes_on_with_other_workers(program):
    """Two of them, then one, then none."""
    theirs, _ = pipelines(program)
    expected = [both.told(element) for element in theirs]
    found, state = [], None
    for workers in (2, 1, 0):
        iterator = iter(with_workers(program, workers))
        if state is not None:
            iterator.set_state(state)
        found += [both.told(next(iterator)) for _ in range(2)]
        state = iterator.get_state()
        iterator.close()
    assert found == expected[:6]
