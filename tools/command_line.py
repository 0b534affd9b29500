"""The commands `bench`, `plan`, `convert`, `verify`, `trace`, `diff`, and `checkpoint …`, and `millrace --version`.

In: arguments. Out: lines on standard output, and an exit status: 0; for `diff` and `verify` 1 if there are differences; 2 for
what cannot be done; 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from ..errors import MillraceError
from .bench import add_bench
from .checkpoints import compared, inspected
from .conversions import add_convert, add_verify
from .planning.command import add_plan
from .tracing.commands import add_diff, add_trace

_WITH_MORE = ("bench", "convert", "diff", "plan", "trace")
"""Commands that take arguments of somebody else's, after two dashes."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    end = given.index("--") if given and given[0] in _WITH_MORE and "--" in given else len(given)
    options = _parser().parse_args(given[:end], argparse.Namespace(after_dashes=given[end + 1 :]))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names may hold what the terminal has no letters for
    try:
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # who read it has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("millrace: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except (MillraceError, OSError) as error:
        print(f"millrace: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="millrace", description="Tools of millrace, the input pipeline for JAX.")
    parser.add_argument("--version", action="version", version=f"millrace {version('millrace')}")
    tools = parser.add_subparsers(title="commands", dest="command", required=True)
    add_bench(tools)
    add_plan(tools)
    add_convert(tools)
    add_verify(tools)
    add_trace(tools)
    add_diff(tools)
    checkpoint = tools.add_parser("checkpoint", help="inspect PATH, or diff ONE TWO: what checkpoints say")
    commands = checkpoint.add_subparsers(title="commands", dest="action", required=True)
    inspect = commands.add_parser("inspect", help="print the checkpoints under a path, in words")
    inspect.add_argument("path", type=Path, help="a process_<i>-of-<n>.json, or a folder that holds some")
    inspect.set_defaults(run=lambda options: _inspect(options.path))
    diff = commands.add_parser("diff", help="print what two checkpoints differ in; the exit status is 1 if they do")
    for name in ("one", "two"):
        diff.add_argument(name, type=Path, help="as for inspect")
    diff.set_defaults(run=lambda options: _diff(options.one, options.two))
    return parser


def _inspect(path: Path) -> int:
    for line in inspected(path):
        print(line)
    return 0


def _diff(one: Path, two: Path) -> int:
    changes = compared(one, two)
    for line in changes:
        print(line)
    return 1 if changes else 0
