"""The commands `headrace trace`, `find` and `diff`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from typing import Any

from ...errors import HeadraceError
from ..programs import Program, program_errors
from .diff import diff
from .omitted import find_omitted
from .trace import trace


def print_trace(options: argparse.Namespace) -> int:
    """Run the command `headrace trace`: print the records of a step. Return the exit status, 0.

    Args:
        options: parsed arguments of the command line.

    Raises:
        ProgramError: the program fails, or has no loader.
        TraceError: the stream ends before the step, or its records cannot be found.
        CheckpointError: the state cannot be read, or belongs to another pipeline.
    """
    with loader_of(Program.parsed(options.program), options) as loader:
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


def print_omitted(options: argparse.Namespace) -> int:
    """Run the command `headrace find --omitted`.

    Return its exit status: 1 if an omitted record is read, else 0.

    Args:
        options: parsed arguments of the command line.

    Raises:
        ProgramError: the program fails, or has no loader.
        TraceError: the program omits nothing, or plans batches.
        CheckpointError: the state cannot be read, or belongs to another pipeline.
        RecordKeyError, SourceError: the keys do not fit the source, or cannot be read.
    """
    with loader_of(Program.parsed(options.program), options) as loader:
        found = find_omitted(
            loader,
            options.since,
            options.checkpoint,
            keys=options.keys,
            shards=options.shards,
            strict=not options.no_strict,
        )
    print(json.dumps(found.to_dict()) if options.json else found)
    return 1 if found else 0


def print_diff(options: argparse.Namespace) -> int:
    """Run the command `headrace diff`. Return its exit status: 1 if the streams differ, else 0.

    Args:
        options: parsed arguments of the command line.

    Raises:
        ProgramError: a program fails, or has no loader.
        CheckpointError: a state cannot be read.
    """
    with _stream(options.one, options) as one, _stream(options.two, options) as two:
        found = diff(one, two)
        print(json.dumps(found.to_dict()) if options.json else found)
    return 1 if found else 0


@contextmanager
def loader_of(program: Program, options: argparse.Namespace) -> Iterator[Any]:
    """Return a context with the loader of a program or, with `--run`, its first loop's iterator.

    Output of the program goes to standard error until the loader or the loop is there.

    Raises:
        ProgramError: the program fails or has no loader; or one of its functions fails inside the
            context.
    """
    find = program.first_loop if options.runs else program.loader
    with ExitStack() as stack:
        with redirect_stdout(sys.stderr):
            loader = stack.enter_context(find(options.after_dashes))
        try:
            yield loader
        except (HeadraceError, OSError):
            raise
        except Exception:  # of a function of the program
            with program_errors(program.path):
                raise


@contextmanager
def _stream(text: str, options: argparse.Namespace) -> Iterator[Any]:
    program = Program.parsed(text)
    if program.path.suffix != ".py":
        yield text
        return
    with loader_of(program, options) as loader:
        yield loader
