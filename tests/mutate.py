"""Count how many small faults, planted in the package one at a time, the tests find.

In: a number of mutants and a seed. Out: a line of JSON for each mutant in a file; a list of those
that no test finds; and a summary by group of modules.

    python3 -m uv run --group test --with coverage python tests/mutate.py 520 --out mutants.jsonl

It works on a copy of the repository in a temporary folder. First it runs the plain tests once, and
notes which test executes which line. A mutant is then tried with the tests that execute its line,
the fastest first, and then with some that execute another line of its module. The tests run in
forks of one process (`support/planting.py`). With an unchanged `--out`, a run that was stopped
continues after its last mutant; with `--coverage`, the first step is done once.
"""

from __future__ import annotations

import argparse
import ast
import copy
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from support.equivalents import EQUIVALENT

ROOT = Path(__file__).resolve().parent.parent

GROUPS = {
    "orders": ("samplers",),
    "plan": ("loader/plan",),
    "state": ("loader/state",),
    "flow": ("loader/stream", "loader/work/steps"),
    "pool": ("loader/executors",),
    "transport": ("loader/executors/processes", "loader/work/slabs.py"),
    "stacking": (
        "operations/batch.py",
        "operations/column.py",
        "operations/trees.py",
        "loader/work",
    ),
    "packing": ("operations/packing", "operations/budget"),
    "feeder": ("loader/device",),
    "sources": ("sources",),
    "conversion": ("conversion",),
}
"""The modules of each group, as folders and files. Each group gets equally many mutants."""

LEFT_OUT = ("loader/executors/ray/", "sources/arrow/lance")
"""Modules whose tests are all marked `long` or `library`."""

OF_LIBRARIES = (
    "sources/arrays/hdf5",
    "sources/arrays/opened_array",
    "sources/arrays/other_files",
    "sources/arrays/runs",
    "sources/arrays/stored",
    "sources/arrays/tables",
    "sources/arrays/xarray",
    "sources/arrays/zarr",
    "sources/arrow/hugging_face",
    "sources/lerobot/",
    "sources/tfds",
    "conversion/beam",
)
"""Likewise; but they were drawn before their tests got that mark, so a draw has their mutants,
which are not tried.
"""

OF_LINE, OF_MODULE = 60, 15
"""Seconds of the tests of one mutant that execute its line, and of those that execute another line
of its module.
"""

APART = {
    ("loader/executors/processes/zygote.py", "loader/executors/task_runner.py"): (
        "tests/loader/executors/test_worker",
        "tests/loader/executors/test_executors.py",
        "tests/common/test_global_generators.py",
        "tests/loader/executors/test_interrupts.py",
        "tests/loader/executors/test_hangs.py",
        "tests/loader/executors/test_process_executor.py",
    ),
    ("loader/device/remote/",): ("tests/loader/device/test_remote",),
}
"""Modules that run in other processes, whose lines no test seems to execute, and the tests of each.
They are tried in a new process.
"""

USES_DEVICE = re.compile(r"^\w+ = .*jax\.devices\(", re.MULTILINE)
"""Line of a test file that uses a device of JAX when it is imported."""

COMPARED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
COMPUTED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip


class Mutant(NamedTuple):
    """One change of one expression or statement.

    Attributes:
        group: name of the group of modules.
        file: path of the module, from the root.
        line: first line of the changed code, from 1.
        start, stop: range of bytes of the file that is replaced.
        was: code before the change.
        now: code after it.
        text: the first line of the changed code, without indentation.
    """

    group: str
    file: str
    line: int
    start: int
    stop: int
    was: str
    now: str
    text: str

    @property
    def is_equivalent(self) -> bool:
        return (self.file, self.text, self.now) in EQUIVALENT


def mutants_of(file: Path) -> Iterator[tuple[Path, Any, ast.AST]]:
    """Yield all mutants of a module, as nodes of its syntax tree before and after the change."""
    for node in _walk(ast.parse(file.read_bytes())):
        for changed in _changes(node):
            yield file, node, changed


def _mutant(group: str, file: Path, node: Any, changed: ast.AST) -> Mutant:
    data = file.read_bytes()
    begins = [0, *itertools.accumulate(map(len, data.splitlines(keepends=True)))]
    start, stop = (
        begins[node.lineno - 1] + node.col_offset,
        begins[node.end_lineno - 1] + node.end_col_offset,
    )
    now = f"({ast.unparse(changed)})" if isinstance(changed, ast.expr) else ast.unparse(changed)
    text = data.splitlines()[node.lineno - 1].decode().strip()
    name = file.relative_to(ROOT).as_posix()
    return Mutant(group, name, node.lineno, start, stop, data[start:stop].decode(), now, text)


def _walk(tree: ast.AST) -> Iterator[Any]:
    """Yield the nodes that run: no annotations, messages of errors, `__repr__`, or blocks for type
    checkers.
    """
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "bases") or isinstance(
            tree, ast.JoinedStr
        ):
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or isinstance(node, ast.Raise):
                continue
            if isinstance(node, ast.FunctionDef) and node.name in ("__repr__", "describe"):
                continue
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                continue
            yield node
            yield from _walk(node)


def _changes(node: Any) -> Iterator[ast.AST]:
    other = copy.copy(node)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED:
        other.ops = [COMPARED[type(node.ops[0])](), *node.ops[1:]]
        yield other
    elif isinstance(node, ast.BinOp) and type(node.op) in COMPUTED and not _is_type(node):
        other.op = COMPUTED[type(node.op)]()
        yield other
    elif isinstance(node, ast.BoolOp):
        other.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield other
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int):
        yield ast.Constant(not node.value if type(node.value) is bool else node.value + 1)
    elif isinstance(node, (ast.If, ast.While, ast.IfExp)) and not isinstance(
        node.test, (ast.Compare, ast.BoolOp)
    ):
        other.test = ast.UnaryOp(ast.Not(), node.test)
        if isinstance(node, ast.IfExp):
            yield other
    elif (
        isinstance(node, ast.Return)
        and node.value is not None
        and not isinstance(node.value, ast.Constant)
    ):
        yield ast.Return(ast.Constant(None))
    elif isinstance(node, ast.AugAssign) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield ast.Pass()


def _is_type(node: ast.BinOp) -> bool:
    """Return True if the operation may join two types, such as `int | None`."""
    return isinstance(node.op, ast.BitOr) and not isinstance(node.left, (ast.Call, ast.BinOp))


def drawn(count: int, seed: int) -> list[Mutant]:
    """Return `count` mutants, equally many of each group, without those of other libraries.

    The same seed gives the same mutants.
    """
    chosen: list[Mutant] = []
    for number, (group, places) in enumerate(GROUPS.items()):
        files = {
            each
            for place in places
            for each in ([ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("*.py"))
        }
        names = sorted(
            file for file in files if not file.relative_to(ROOT).as_posix().startswith(LEFT_OUT)
        )
        every = [change for file in names for change in mutants_of(file)]
        wanted = count * (number + 1) // len(GROUPS) - count * number // len(GROUPS)
        chosen += [
            _mutant(group, *change)
            for change in random.Random(seed * 100 + number).sample(every, wanted)
        ]
    random.Random(seed).shuffle(chosen)  # so that the first ones are of all groups, too
    return [mutant for mutant in chosen if not mutant.file.startswith(OF_LIBRARIES)]


class Tests:
    """The tests in a copy of the repository.

    Args:
        folder: an empty folder for the copy.
    """

    def __init__(self, folder: Path) -> None:
        self.copy = folder / "copy"
        files = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
        ).stdout.split(b"\0")
        for name in filter(None, map(os.fsdecode, files)):
            (self.copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, self.copy / name)
        (folder / "path").mkdir()
        (folder / "path" / "headrace").symlink_to(self.copy)  # the copy hides the installed package
        self._env = os.environ | {"PYTHONPATH": f"{folder / 'path'}:{Path(__file__).parent}"}

    def times(self, data: Path) -> dict[str, float]:
        """Run all plain tests with coverage, and return the seconds of each. The lines of each test
        go to `data`.
        """
        config = data.with_suffix(".rc")
        config.write_text(
            f"[run]\ndata_file = {data}\nrelative_files = True\nsource = .\nomit = tests/*\n"
        )
        command = [
            "coverage",
            "run",
            f"--rcfile={config}",
            "-m",
            "pytest",
            "-p",
            "mutate",
            "-n",
            "0",
            "-q",
        ]
        subprocess.run(
            [sys.executable, "-m", *command],
            cwd=self.copy,
            env=self._env | {"TEST_TIMES": f"{data}.json"},
        )
        return dict(json.loads(Path(f"{data}.json").read_text()))

    def find(
        self, mutants: list[Mutant], names: dict[Mutant, list[tuple[str, float]]], out: Path
    ) -> None:
        """Try mutants with tests, in forks of one process (`support.planting`), and write the
        results to a file.
        """
        if not mutants:
            return
        listed = self.copy.parent / "mutants"
        each_one = (
            each._asdict() | {"names": names[each], "apart": bool(_apart(each))} for each in mutants
        )
        listed.write_text("\n".join(map(json.dumps, each_one)))
        files = sorted({name.split("::")[0] for each in mutants for name, _ in names[each]})
        files = [file for file in files if not USES_DEVICE.search((self.copy / file).read_text())]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "0",
            "-p",
            "no:cacheprovider",
            "-p",
            "support.planting",
            *files,
        ]
        env = self._env | {"MUTANTS": str(listed), "FOUND": str(out.resolve())}
        subprocess.run(command, cwd=self.copy, env=env, check=True)


def executing(
    data: Path, mutants: list[Mutant], times: dict[str, float]
) -> dict[Mutant, list[tuple[str, float]]]:
    """Return, for each mutant, the tests to run and their seconds, the fastest first.

    They are the tests that execute its line, and some that execute another line of its module: a
    line that only processes of workers execute belongs to no test. A line without a test, such as
    that of a constant, gets more tests of its module, and tests of its folder, too.
    """
    from coverage import CoverageData

    covered = CoverageData(str(data))
    covered.read()
    chosen = {}
    for mutant in mutants:
        if apart := _apart(mutant):
            chosen[mutant] = [(name, times[name]) for name in times if name.startswith(apart)]
            continue
        by_line = covered.contexts_by_lineno(mutant.file)
        of_line = {name for line in _lines(mutant) for name in by_line.get(line, ())} & times.keys()
        of_module = {name for names in by_line.values() for name in names} & times.keys() - of_line
        room = f"tests/{Path(mutant.file).parent.as_posix()}"
        while not any(name.startswith(room + "/") for name in times):
            room = os.path.dirname(room)
        of_room = {name for name in times if name.startswith(room + "/")} - of_line - of_module
        chosen[mutant] = [
            (name, times[name])
            for names, seconds in (
                (of_line, OF_LINE),
                (of_module, OF_MODULE if of_line else OF_LINE),
                (of_room, 0 if of_line else OF_MODULE),
            )
            for name in _fastest(names, times, seconds)
        ]
    return chosen


def _lines(mutant: Mutant) -> range:
    """Return the lines that a mutant is in: of a default of an argument, those of the function."""
    for node in ast.walk(ast.parse((ROOT / mutant.file).read_bytes())):
        if isinstance(node, ast.FunctionDef) and node.lineno <= mutant.line < node.body[0].lineno:
            return range(node.body[0].lineno, (node.end_lineno or 0) + 1)
    return range(mutant.line, mutant.line + 1)


def _apart(mutant: Mutant) -> tuple[str, ...]:
    return next((tests for files, tests in APART.items() if mutant.file.startswith(files)), ())


def _fastest(names: Collection[str], times: dict[str, float], seconds: float) -> list[str]:
    """Return the fastest tests, as many as take `seconds` together."""
    ordered = sorted(names, key=lambda name: (times[name], name))
    spent = itertools.accumulate(times[name] for name in ordered)
    return [name for name, until in zip(ordered, spent) if until < seconds]


_seconds: dict[str, float] = {}


def pytest_runtest_logreport(report: Any) -> None:
    """Note the seconds of a test, and that the next lines belong to it: this file is also a plugin
    of pytest.
    """
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0) + report.duration


def pytest_runtest_logstart(nodeid: str) -> None:
    """Tell coverage which test runs."""
    from coverage import Coverage

    if (current := Coverage.current()) is not None:
        if sys.gettrace() is None:  # a test before has set a trace function of its own
            with warnings.catch_warnings(action="ignore"):
                current.stop()
                current.start()
        current.switch_context(nodeid)


def pytest_sessionfinish() -> None:
    """Write the seconds of all tests."""
    if "TEST_TIMES" in os.environ:
        Path(os.environ["TEST_TIMES"]).write_text(json.dumps(_seconds))


def main() -> None:
    """Read the command line, try the mutants, and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int, help="number of mutants")
    parser.add_argument("--seed", type=int, default=1, help="seed of the draw (default: 1)")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("mutants.jsonl"),
        help="file of results, which is continued",
    )
    parser.add_argument("--coverage", type=Path, help="file of coverage; made if it is not there")
    options = parser.parse_args()
    known = (
        [json.loads(line) for line in options.out.read_text().splitlines()]
        if options.out.exists()
        else []
    )
    mutants = drawn(options.count, options.seed)
    with tempfile.TemporaryDirectory() as name:
        tests = Tests(Path(name).resolve())
        data = (options.coverage or Path(name) / "coverage").resolve()
        listed = Path(f"{data}.json")
        times = json.loads(listed.read_text()) if listed.exists() else tests.times(data)
        wanted = executing(data, mutants, times)
        tests.find(mutants[len(known) :], wanted, options.out)
    known = [json.loads(line) for line in options.out.read_text().splitlines()]
    results = [(mutant, bool(each["found"])) for mutant, each in zip(mutants, known)]
    counted = [(mutant, found) for mutant, found in results if not mutant.is_equivalent]
    print(
        *(f"{one.file}:{one.line}: {one.was} -> {one.now}" for one, found in counted if not found),
        sep="\n",
    )
    for group in (*GROUPS, "all"):
        of_group = [found for mutant, found in counted if group in (mutant.group, "all")]
        print(f"{group:12} {sum(of_group):4} of {len(of_group):4} found")
    print(f"{len(results) - len(counted)} others change nothing that can be seen")


if __name__ == "__main__":
    main()
