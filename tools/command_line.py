"""The commands `bench`, `plan`, `convert`, `verify`, `trace`, `diff`, and `checkpoint …`, and `headrace --version`.

In: arguments. Out: lines on standard output, and an exit status: 0; for `diff` and `verify` 1 if there are differences; 2 for
what cannot be done; 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from ..common.redaction import redacted
from ..errors import HeadraceError
from .bench import add_bench
from .checkpoints import checkpoints, compared
from .conversions import add_convert, add_verify
from .plan import add_plan
from .provenance.commands import add_diff, add_trace

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
        print("headrace: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except (HeadraceError, OSError) as error:
        print(f"headrace: {redacted(str(error))}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="headrace", description="Tools of headrace, the input pipeline for JAX.")
    parser.add_argument("--version", action="version", version=f"headrace {version('headrace')}")
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
    inspect.set_defaults(run=lambda options: _inspect(options.path, options.json))
    diff = commands.add_parser("diff", help="print what two checkpoints differ in; the exit status is 1 if they do")
    for name in ("one", "two"):
        diff.add_argument(name, type=Path, help="as for inspect")
    diff.set_defaults(run=lambda options: _diff(options.one, options.two, options.json))
    for command in (inspect, diff):
        command.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _inspect(path: Path, as_json: bool) -> int:
    found = list(checkpoints(path))
    print(json.dumps([each.to_dict() for each in found]) if as_json else "\n\n".join(map(str, found)))
    sys.stdout.flush()  # what is there is told before what is not
    for each in found:
        each.check_complete()
    return 0


def _diff(one: Path, two: Path, as_json: bool) -> int:
    changes = compared(one, two)
    if as_json:
        print(json.dumps({"same": not changes, "differences": changes}))
    else:
        print(*(changes or ["The checkpoints are the same."]), sep="\n")
    return 1 if changes else 0
