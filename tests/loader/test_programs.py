"""Commands find the loader in a program of the user's, and say in one line why they do not."""

import sys

import pytest

from headrace.errors import ProgramError
from headrace.tools.programs import Program

LOADERS = """
from __future__ import annotations
import sys
from dataclasses import dataclass
import headrace

@dataclass
class Shift:
    by: int
    def __call__(self, x): return x + self.by

def make(): return headrace.load(range(6), transformations=[Shift(1)], batch_size=3, num_epochs=1, worker_count=1)
loader = same = make()
words = sys.argv[1:]
if __name__ == "__main__":
    raise SystemExit("the program ran")
"""


def _program(folder, text, name=None):
    path = folder / "train.py"
    path.write_text(text)
    return Program(path, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [None, "loader", "make"])
def test_a_program_gives_its_loader_by_name_by_function_or_as_the_only_one(name, tmp_path):
    """Workers get its classes; neither its main part runs, nor does anything of it stay in this
    process.
    """
    before = list(sys.path), sys.argv, sys.modules.get("train")
    with _program(tmp_path, LOADERS, name).loader() as loader:
        assert [batch.tolist() for batch in loader] == [[1, 2, 3], [4, 5, 6]]
    assert (sys.path, sys.argv, sys.modules.get("train")) == before


def test_a_program_gets_its_arguments(tmp_path):
    """Those that follow on the command line."""
    with _program(tmp_path, LOADERS).run("train", ["--fast"]) as names:
        assert names["words"] == ["--fast"]


BAD = {
    "a chain": (
        "import headrace\nweb = headrace.MapDataset.range(9)\nmore = web.map(abs)\n"
        "whole = more.map(abs)\nstream = whole.batch(2)",
        None,
        "Name one of its loaders, web, more, whole, stream",
    ),
    "no loader": ("x = 1", None, "has no loaders at its top level"),
    "several": (
        "import headrace\na, b = headrace.load([1]), headrace.load([2])",
        None,
        r"has 2 loaders at its top level\. Name one of its loaders, a, b",
    ),
    "no such name": (
        LOADERS,
        "lodaer",
        r"has no name lodaer at its top level\. Name one of its loaders, loader",
    ),
    "not one": ("x = 1", "x", r"an int, which is not a loader\. Name a function"),
    "fails": ("x = 1\nint('x')\n", None, "fails at line 2: ValueError: invalid literal"),
    "function fails": (
        "def make():\n    return 1 / 0",
        "make",
        "fails at line 2: ZeroDivisionError",
    ),
    "function with arguments": (
        "def make(args):\n    return 1",
        "make",
        r"needs arguments \(missing a required argument: 'args'\)\. Name a loader, or a function",
    ),
    "no Python": ("x = = 1", None, "SyntaxError"),
    "exits": ("import sys; sys.exit(3)", None, "exit status 3"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_program_without_a_usable_loader_is_one_clear_error(case, tmp_path):
    """It names the program, what is wrong, and what to pass."""
    text, name, message = BAD[case]
    with pytest.raises(ProgramError, match=message), _program(tmp_path, text, name).loader():
        pass


def test_a_program_that_is_not_there_is_told(tmp_path):
    """With what to pass."""
    with (
        pytest.raises(ProgramError, match=r"Pass the path of a program, PROGRAM\.py, or"),
        Program(tmp_path / "x.py").loader(),
    ):
        pass
    with pytest.raises(ProgramError, match="cannot be read"), Program(tmp_path).loader():
        pass
