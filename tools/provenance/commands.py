"""`headrace trace` and `headrace diff`: what was in a step, and where two streams differ. In: arguments. Out: lines."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import HeadraceError

if TYPE_CHECKING:
    from ..programs import Program

_EXAMPLE = """examples:
  headrace trace checkpoints/1200/loader train.py --step 1234
  headrace trace train.py:make_loader --step 1000000000 --json          a run from the beginning
  headrace trace checkpoints/1200/loader train.py --step 1234 --shards 8    8 processes go on from the checkpoint
  headrace trace --run checkpoints/1200/loader train.py --step 1234 -- --data /data      with a loader inside its main()"""


def add_trace(tools: Any) -> None:
    """Add the command `trace`."""
    parser = tools.add_parser(
        "trace",
        help="[CHECKPOINT] PROGRAM.py[:name]: which records, of which files, were in a step",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkpoint", nargs="?", help="a state file, or a folder of these; default: from the beginning")
    parser.add_argument("program", help="a file of Python, maybe with the name of a loader or of what makes one")
    parser.add_argument("--step", type=_from(0), required=True, metavar="N", help="the number of the batch, from 0")
    parser.add_argument(
        "--shards", type=_from(1), metavar="N", help="so many go on from the checkpoint; default: as many"
    )
    parser.add_argument("--epochs", action="store_true", help="steps are those of loader.epochs()")
    parser.add_argument("--no-strict", action="store_true", help="go on with a program other than the checkpoint's")
    parser.add_argument(
        "--run", action="store_true", dest="runs", help="run the program as a shell would, up to its first loop"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_trace)


def _from(least: int) -> Callable[[str], int]:
    """A parser of a whole number that is not below another one."""

    def number(text: str) -> int:
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        return int(text)

    return number


def _trace(options: argparse.Namespace) -> int:
    from ..programs import Program
    from .trace import trace

    program = Program.parsed(options.program)
    with _loader(program, options) as loader, _told_of_operations(program.path):
        found = trace(
            loader,
            options.step,
            options.checkpoint,
            shards=options.shards,
            epochs=options.epochs,
            strict=not options.no_strict,
        )
        print(json.dumps(found.to_dict()) if options.json else found)
    return 0


@contextmanager
def _loader(program: Program, options: argparse.Namespace) -> Iterator[Any]:
    """The loader of a program, or its first loop. What the program prints goes to standard error."""
    from .first_loop import first_loop

    find = first_loop if options.runs else type(program).loader
    with ExitStack() as stack:
        with redirect_stdout(sys.stderr):
            loader = stack.enter_context(find(program, options.after_dashes))
        yield loader


def add_diff(tools: Any) -> None:
    """Add the command `diff`."""
    parser = tools.add_parser(
        "diff",
        help="ONE TWO, programs or checkpoints: the first step at which they differ, and why; the status is 1 if they do",
    )
    for name in ("one", "two"):
        parser.add_argument(name, help="PROGRAM.py[:name], or a state file or a folder of these")
    parser.add_argument(
        "--run", action="store_true", dest="runs", help="run programs as a shell would, up to their first loop"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_diff)


def _diff(options: argparse.Namespace) -> int:
    from .diff import diff

    with _stream(options.one, options) as one, _stream(options.two, options) as two:
        found = diff(one, two)
        print(json.dumps(found.to_dict()) if options.json else found)
    return 1 if found else 0


@contextmanager
def _stream(text: str, options: argparse.Namespace) -> Iterator[Any]:
    """The loader of a program, or the path of a checkpoint."""
    from ..programs import Program

    program = Program.parsed(text)
    if program.path.suffix != ".py":
        yield text
        return
    with _loader(program, options) as loader:
        yield loader


@contextmanager
def _told_of_operations(path: Path) -> Iterator[None]:
    """Turns what functions of a program raise into one error; ours stay what they are."""
    try:
        yield
    except (HeadraceError, OSError):
        raise
    except Exception as error:
        from ..programs import told_of

        with told_of(path):
            raise error
