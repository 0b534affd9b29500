"""The commands of `bench/` that the docs name are there, and each has a file."""

import ast
import json
import re
from pathlib import Path

import libraries
import pytest
import speed

import headrace

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "bench"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *BENCH.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def _functions(path):
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


def test_the_docs_name_commands_that_exist():
    """A measurement that was renamed is renamed there, too."""
    text = "\n".join(page.read_text() for page in PAGES if "_site" not in page.parts)
    named = set(re.findall(r"bench/speed\.py\s+([a-z_]+)", text))
    assert {"compare", "loaders", "released", "balance"} <= named
    assert named - {*speed.COMMANDS} == set()
    assert {name for name in re.findall(r"bench/(\w+\.\w+)", text) if not (BENCH / name).exists()} == set()


@pytest.mark.parametrize("command", speed.COMMANDS)
def test_a_command_is_a_module_with_arguments_and_main(command):
    """Libraries that a measurement needs may be missing here, so it is not imported."""
    path = BENCH / f"{speed.COMMANDS[command].replace('.', '/')}.py"
    assert {"arguments", "main"} <= _functions(path)
    assert "bench/speed.py" in path.read_text() or command == "cell"


def test_a_command_that_is_unknown_lists_the_known_ones(capsys):
    """The exit status says that nothing was measured."""
    assert speed.main(["nonsense"]) == 2
    assert "many_sources" in capsys.readouterr().out


def test_the_roster_names_files_and_functions_that_exist():
    """Each library has an adapter and requirements, each setting a function of an adapter."""
    for library in libraries.LIBRARIES.values():
        module, _, inner = library.adapter.partition(":")
        path = BENCH / "adapters" / f"{module}.py"
        assert f"class {inner}:" in path.read_text() if inner else "batches" in _functions(path)
        assert (BENCH / "requirements" / f"{library.requirements}.txt").exists()
    for setting in libraries.SETTINGS.values():
        module, _, function = setting.loader.partition(":")
        assert function in _functions(BENCH / "adapters" / f"{module}.py")


def test_checkpoints_are_measured_with_states_of_far_steps():
    """A state that was moved to another step has the checksum of what it is now, so that a loader takes it."""
    from measurements.pipelines import checkpoints

    iterator = iter(headrace.load(headrace.RangeDataSource(0, 10**12, 1), shuffle=True, seed=1, batch_size=128))
    iterator.set_state(checkpoints.state_at(10**9))
    next(iterator)
    assert json.loads(iterator.get_state())["step"] == 10**9 + 1
