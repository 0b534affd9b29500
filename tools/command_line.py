"""The command `headrace` with its subcommands, and `--version`.

Results go to standard output. The exit status is 0; for `diff`, `checkpoint diff`, `verify` and
`demo` 1 if there are differences, for `find` 1 if something was found; 1 if nobody reads the output
any more; 2 for errors that are printed in one message, 1 for errors with a traceback; 130 after
Ctrl-C.
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
from pkgutil import resolve_name
from typing import Any

from ..common.redaction import redacted
from ..errors import HeadraceError
from .commands import COMMANDS, FILES, WITH_MORE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command `headrace`, and return its exit status.

    Errors of headrace and of the system are printed; others are raised.

    Args:
        arguments: arguments of the command line, without the program's name; None: those of this
            process.

    Raises:
        SystemExit: the arguments are wrong, or ask for help or the version.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    end = given.index("--") if given and given[0] in WITH_MORE and "--" in given else len(given)
    options = _parser().parse_args(given[:end], argparse.Namespace(after_dashes=given[end + 1 :]))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # names may hold what the terminal has no letters for
            stream.reconfigure(errors="backslashreplace")
    try:
        status: int = resolve_name(f"{__package__}.{options.run}")(options)
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
    parser = argparse.ArgumentParser(
        prog="headrace", description="Tools of headrace, the input pipeline for JAX."
    )
    parser.add_argument("--version", action="version", version=f"headrace {version('headrace')}")
    tools = parser.add_subparsers(title="commands", dest="command", required=True)
    of_checkpoints: Any = None
    for words, command in COMMANDS.items():
        group, _, name = words.rpartition(" ")
        if group and of_checkpoints is None:
            room = tools.add_parser(
                group, help="inspect PATH: print checkpoints; diff ONE TWO: compare two"
            )
            of_checkpoints = room.add_subparsers(title="commands", dest="action", required=True)
        form = argparse.RawDescriptionHelpFormatter
        help_, run, options, epilog = command
        added = (of_checkpoints if group else tools).add_parser(
            name, help=help_, epilog=epilog, formatter_class=form
        )
        for flags, settings in options:
            argument: Any = added.add_argument(*flags, **settings)
            named = (
                not flags[0].startswith("-")
                or settings.get("metavar") == "FILE"
                or settings.get("type") is Path
            )
            if named and "choices" not in settings:
                argument.complete = FILES
        added.set_defaults(run=run)
    return parser
