"""The house: imports run one way, without circles, over few floors; docs/design.md names the files of a batch's way."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BESIDE = {"tests", "examples", "benchmarks", "docs", "build"}
ROOMS = (
    ("errors",),
    ("common",),
    ("files",),
    ("formats",),
    ("samplers", "sources", "operations"),
    ("loader.options", "loader.arguments", "loader.stats", "loader.timing", "loader.interrupts"),
    ("loader.plan",),
    ("loader.work",),
    ("loader.executors",),
    ("loader.stream",),
    ("loader.state",),
    ("loader.iterator", "loader.epochs", "loader.passes"),
    ("loader.device",),
    ("loader.data_loader",),
    ("chains",),
    ("conversion",),
    ("reporting",),
    ("checkpoint", "compat", "tools"),
)
"""From the bottom to the top. No room imports from one that stands above it."""

LATE = {
    ("loader.device.description", "loader.data_loader"): "a feeder asks whether it feeds from a DataLoader",
}
"""Imports inside functions that run the other way, and why."""

MOST_FLOORS = 9


def _modules() -> dict[str, Path]:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[0] not in BESIDE and not parts[0].startswith("."):
            found[".".join(part for part in parts if part != "__init__")] = path
    return found


MODULES = _modules()


def _imported(module: str, nodes: list[ast.AST]) -> set[str]:
    """Modules of ours that these nodes import."""
    here = module.split(".") if module else []
    folder = here if MODULES[module].name == "__init__.py" else here[:-1]
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.level:
            base = folder[: len(folder) - node.level + 1] + (node.module.split(".") if node.module else [])
            for name in node.names:
                inner = ".".join([*base, name.name])
                found.add(inner if inner in MODULES else ".".join(base))
    return found - {module, ""}


@cache
def _at_import(module: str) -> frozenset[str]:
    """What a module imports when it is imported itself; not what only type checkers see."""
    return frozenset(_imported(module, ast.parse(MODULES[module].read_text()).body))


def _late(module: str) -> set[str]:
    """What it imports inside functions, and for type checkers alone."""
    tree = ast.parse(MODULES[module].read_text())
    return _imported(module, [node for node in ast.walk(tree) if node not in tree.body])


def _floor(module: str) -> int | None:
    for floor, rooms in enumerate(ROOMS):
        if any(module == room or module.startswith(room + ".") for room in rooms):
            return floor
    return None


def _room(module: str) -> str:
    return next(room for rooms in ROOMS for room in rooms if module == room or module.startswith(room + "."))


def test_every_module_of_the_loader_has_a_room():
    """But for the lists of names of packages."""
    assert not [module for module in MODULES if module.startswith("loader.") and _floor(module) is None]


@pytest.mark.parametrize("module", [module for module in MODULES if _floor(module) is not None])
def test_rooms_import_one_way(module):
    """From the top to the bottom; samplers, sources and operations do not know one another."""
    above = {
        other
        for other in _at_import(module) | _late(module)
        if (floor := _floor(other)) is not None
        and (floor > _floor(module) or (floor == _floor(module) == _floor("sources") and _room(other) != _room(module)))
    }
    assert {other for other in above if (module, other) not in LATE} == set()


def test_no_import_goes_in_a_circle_and_floors_are_few():
    """Counted by modules, along imports that are made when a module is imported, inside loader/."""

    @cache
    def floors(module: str, way: tuple[str, ...] = ()) -> int:
        assert module not in way, f"a circle: {' → '.join((*way, module))}"
        below = [floors(other, (*way, module)) for other in _at_import(module) if other.startswith("loader.")]
        return 1 + max(below, default=0)

    assert max(floors(module) for module in MODULES if module.startswith("loader.")) <= MOST_FLOORS


def test_jax_is_imported_by_what_needs_it():
    """The device feeder, Orbax and the sampler's shard by process; workers never do."""
    allowed = ("loader.device", "checkpoint.orbax", "samplers.sharding")
    for module, path in MODULES.items():
        if not module.startswith(allowed):
            assert not re.search(r"^\s*(import|from) jax\b", path.read_text(), re.MULTILINE), path


def _files_of_a_batch() -> list[list[str]]:
    text = (ROOT / "docs/design.md").read_text().partition("## How a batch flows")[2].partition("**Nodes")[0]
    return [re.findall(r"^\d+\. `([\w/.]+)`", part, re.MULTILINE) for part in text.split("In the worker's process:")]


def test_a_reader_who_follows_a_batch_opens_few_files():
    """At most 12 in the user's process and 10 in the worker's; they are there, and each is tied to another by an import."""
    users, workers = _files_of_a_batch()
    assert 5 < len(users) <= 12
    assert 5 < len(workers) <= 10
    for files in (users, workers):
        modules = [file.removesuffix(".py").replace("/", ".") for file in files]
        for module in modules:
            known = _at_import(module) | _late(module)
            knows = {other for other in modules if module in _at_import(other) | _late(other)}
            assert (known | knows) & (set(modules) - {module}), module


def test_the_design_names_every_room():
    """Whoever looks for a folder finds in docs/design.md what it is for."""
    table = (ROOT / "docs/design.md").read_text().partition("## The rooms")[2].partition("\n## ")[0]
    named = {name.rsplit("/", 2)[-2] for name in re.findall(r"`([\w/]+/)`", table)}
    packages = {path.parent.relative_to(ROOT).parts for path in MODULES.values() if path.name == "__init__.py"}
    assert {parts[-1] for parts in packages if parts} - named == set()


def test_files_that_the_design_names_are_there():
    """A file that was moved or renamed is looked for where the design says it is."""
    named = set(re.findall(r"`([\w/]+\.py)`", (ROOT / "docs/design.md").read_text()))
    files = [f"/{path.relative_to(ROOT)}" for path in [*MODULES.values(), *ROOT.glob("tests/**/*.py")]]
    assert {name for name in named if not any(path.endswith(f"/{name}") for path in files)} == set()
