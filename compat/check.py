"""Run a program that imports Grain with headrace in Grain's place, and list the names it used.

Usage: `python -m headrace.compat.check PROGRAM.py [ARGUMENT …]`.

In: a program; its file is not changed. Out: the program's output, then each name of Grain that it
used and whether it worked. The exit status is 0 if the program succeeded, 1 if it failed, 2 if
there is no such file; a program that exits by itself keeps its own exit status.
"""

from __future__ import annotations

import argparse
import ast
import runpy
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from ..common.messages import shorten
from .replaced import grain_replaced

_PACKAGE = str(Path(__file__).parent.parent)
"""Folder of the code that stands in for Grain."""


@dataclass
class Uses:
    """Names of Grain that a program used: those that headrace has, lacks, and that raised an error.

    Attributes:
        found: names that headrace has.
        missing: names that headrace does not have, each with a text that says why.
        raised: names in the line of the program that failed, each with a text of the error.
    """

    found: set[str] = field(default_factory=set)
    missing: dict[str, str] = field(default_factory=dict)
    raised: dict[str, str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Return a text line for each name; names with errors come last."""
        went = dict.fromkeys(sorted(self.found), "ok") | self.raised | self.missing
        width = max(map(len, went), default=0)
        in_order = sorted(went, key=lambda name: went[name] != "ok")
        return [f"{name:{width}}  {went[name]}" for name in in_order]


class _Watched(ModuleType):
    """A module with Grain's name: forwards to headrace's module and records the names used.

    Args:
        name: the module's name in Grain.
        ours: headrace's module.
        uses: receives the names.
    """

    def __init__(self, name: str, ours: ModuleType, uses: Uses) -> None:
        super().__init__(name, ours.__doc__)
        self.__dict__.update(_ours=ours, _uses=uses)

    def __getattr__(self, name: str) -> Any:
        ours: ModuleType = self.__dict__["_ours"]
        uses: Uses = self.__dict__["_uses"]
        asked, is_special = f"{self.__name__}.{name}", name.startswith("__")
        try:
            value = getattr(ours, name)
        except AttributeError as error:
            if not is_special:
                uses.missing[asked] = f"not here: {shorten(error)}"
            raise
        if is_special:
            return value
        if isinstance(value, ModuleType):
            return sys.modules.get(asked, value)
        uses.found.add(asked)
        return value

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return import_module, (self.__dict__["_ours"].__name__,)  # to workers, which need not watch


def check(program: str, arguments: Sequence[str] = ()) -> tuple[Uses, BaseException | None]:
    """Run a program with headrace in Grain's place.

    Args:
        program: path of the program's file.
        arguments: the program's command-line arguments.

    Returns:
        the names that the program used, and the exception that ended it (also a SystemExit), or
        None.
    """
    uses = Uses()
    argv, path = sys.argv, sys.path
    sys.argv, sys.path = [program, *arguments], [str(Path(program).resolve().parent), *sys.path]
    try:
        with grain_replaced():
            ours = {
                name: module
                for name, module in sys.modules.items()
                if name.partition(".")[0] == "grain"
            }
            sys.modules.update(
                {name: _Watched(name, module, uses) for name, module in ours.items()}
            )
            runpy.run_path(program, run_name="__main__")
    except BaseException as failure:
        if (
            isinstance(failure, ModuleNotFoundError)
            and str(failure.name).partition(".")[0] == "grain"
        ):
            uses.missing[str(failure.name)] = "not here: headrace.compat.grain has no such module"
        elif not isinstance(failure, SystemExit):
            mentioned = _mentioned(program, failure)
            outcome = f"raised {type(failure).__name__}: {shorten(failure)}"
            uses.raised.update(
                {name: outcome for name in uses.found if name.rpartition(".")[2] in mentioned}
            )
        return uses, failure
    finally:
        sys.argv, sys.path = argv, path
    return uses, None


def _mentioned(program: str, failure: BaseException) -> set[str]:
    """Return the names in the program's statement whose call failed inside headrace.

    The set is empty if the program failed in its own code.

    Args:
        program: path of the program's file.
        failure: the exception that ended the program.
    """
    frames = traceback.extract_tb(failure.__traceback__)
    last = max(
        (place for place, frame in enumerate(frames) if frame.filename == program),
        default=len(frames),
    )
    if not any(frame.filename.startswith(_PACKAGE) for frame in frames[last + 1 : last + 2]):
        return set()
    line, tree = frames[last].lineno or 0, ast.parse(Path(program).read_text(encoding="utf-8"))
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    at_line = [
        node for node in statements if node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    inside = list(ast.walk(max(at_line, key=lambda node: node.lineno))) if at_line else []
    names = {node.id for node in inside if isinstance(node, ast.Name)}
    return names | {node.attr for node in inside if isinstance(node, ast.Attribute)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a program, print which names of Grain it used, and return the exit status.

    Args:
        arguments: the program's path and its own arguments; None: the command line's.
    """
    parser = argparse.ArgumentParser(
        prog="python -m headrace.compat.check",
        description="Run a program that imports Grain with headrace.compat.grain in its place, and "
        "tell which names it used.",
    )
    parser.add_argument("program", help="a file of Python; it is not changed")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")
    options = parser.parse_args(arguments)
    if not Path(options.program).is_file():
        parser.error(f"there is no file {options.program}")
    uses, failure = check(options.program, options.arguments)
    exits = isinstance(failure, SystemExit)
    status = failure.code if isinstance(failure, SystemExit) else None
    ended = failure is None or (exits and not status)
    if failure is not None and not exits:
        # without what called the program; all of it if the program is not in it
        at = failure.__traceback__
        while at is not None and at.tb_frame.f_code.co_filename != options.program:
            at = at.tb_next
        traceback.print_exception(failure.with_traceback(at or failure.__traceback__))
    how = "ran through" if ended else "failed"
    print(
        f"\nheadrace.compat.check: {options.program} {how}. Names of Grain that it used:",
        flush=True,
    )
    for line in uses.lines():
        print(line)
    if not (ended or uses.raised or uses.missing or exits):
        print("None of these names stands in the line that failed: see the error above.")
    return status if isinstance(status, int) else 0 if ended else 1


if __name__ == "__main__":
    sys.exit(main())
