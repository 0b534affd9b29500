"""The commands of `bench/` that the docs name are there, and each has a file."""

import argparse
import ast
import re
import types
from pathlib import Path

import libraries
import measurement
import pytest
import speed

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "bench"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *BENCH.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
]


def _functions(path):
    return {
        node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)
    }


def test_the_docs_name_commands_that_exist():
    """A measurement that was renamed is renamed there, too."""
    text = "\n".join(page.read_text() for page in PAGES if "_site" not in page.parts)
    named = set(re.findall(r"bench/speed\.py\s+([a-z_]+)", text))
    assert {"compare", "loaders", "orders"} <= named
    assert named - {*speed.PROGRAMS, *speed.MEASUREMENTS} == set()
    assert {
        name for name in re.findall(r"bench/(\w+\.\w+)", text) if not (BENCH / name).exists()
    } == set()


@pytest.mark.parametrize("command", speed.PROGRAMS)
def test_a_program_is_a_module_with_arguments_and_main(command):
    """Libraries that it needs may be missing here, so it is not imported."""
    path = BENCH / f"{speed.PROGRAMS[command].replace('.', '/')}.py"
    assert {"arguments", "main"} <= _functions(path)
    assert "bench/speed.py" in path.read_text() or command == "cell"


@pytest.mark.parametrize("command", speed.MEASUREMENTS)
def test_a_measurement_is_a_module_with_tables(command):
    """And with its command."""
    text = (BENCH / "measurements" / f"{command}.py").read_text()
    assert re.search("^TABLES.* = {", text, re.MULTILINE)
    assert f"python bench/speed.py {command}" in text


def test_contenders_of_a_measurement_are_printed_in_the_order_of_the_table(capsys):
    """Each with its median, and with the median of its ratios to the first one in the
    same round.
    """
    times, rates = iter((1, 2, 4)), iter((2, 6, 8))
    contenders = {"known": [3, 3, 3], "slow": lambda: next(times), "fast": lambda: [next(rates)]}
    table = measurement.Table("a table", contenders, "more")
    samples = measurement.measured(table, 3)
    assert samples == {"known": [3, 3, 3], "slow": [1, 2, 4], "fast": [2, 6, 8]}
    measurement.show(table, samples)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[:3] for row in rows if len(row) == 6] == [
        ["known", "3", "1"],
        ["slow", "2", "0.66667"],
        ["fast", "6", "2"],
    ]


@pytest.mark.slow
def test_a_measurement_prints_the_tables_that_are_named_with_the_options_that_are_given(capsys):
    """All tables and the defaults of the module, if none is named."""
    module = types.SimpleNamespace(
        TABLES={
            name: lambda options, name=name: [measurement.Table(f"{name} {options.size}", {"": 1})]
            for name in "ab"
        },
        OPTIONS={"size": 5},
    )
    for given, printed in (["b", "--size", "7"], ["b 7"]), ([], ["a 5", "b 5"]):
        parser = argparse.ArgumentParser()
        measurement.arguments(parser, module)
        measurement.main(module, parser.parse_args(given))
        assert [
            line for line in capsys.readouterr().out.splitlines() if re.match(r"[ab] \d", line)
        ] == printed


def test_a_command_that_is_unknown_lists_the_known_ones(capsys):
    """The exit status says that nothing was measured."""
    assert speed.main(["nonsense"]) == 2
    assert "orders" in capsys.readouterr().out


def test_the_roster_names_files_and_functions_that_exist():
    """Each library has an adapter of one comparison or both, and requirements; each setting is a
    function of an adapter.
    """
    for library in libraries.LIBRARIES.values():
        module, _, inner = library.adapter.partition(":")
        path = BENCH / "adapters" / f"{module}.py"
        assert (
            f"class {inner}:" in path.read_text()
            if inner
            else {"stream", "batches"} & {*_functions(path)}
        )
        assert (BENCH / "requirements" / f"{library.requirements}.txt").exists()
    for setting in libraries.SETTINGS.values():
        module, _, function = setting.loader.partition(":")
        assert function in _functions(BENCH / "adapters" / f"{module}.py")
