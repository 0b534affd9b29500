"""The command `headrace bench PROGRAM.py[:name]`: tell what a program's training step waits for.

The verdict goes to standard output. What the program prints is dropped, unless `--show-output` is
given. With a name, batches are taken from that loader. Without a name, the program runs as in a
shell, with its own steps, until enough of them were measured or its time is over. Then it is
interrupted as by Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json

from ..errors import OutputError
from ..reporting.files import check_writable
from ..reporting.loops import both_stats
from ..reporting.perfetto import write_timeline
from ..reporting.plots import check_matplotlib
from ..reporting.recording import Recorder, Recording
from ..reporting.report import write_recording
from ..reporting.timeline import timeline
from .diagnosis.diagnose import diagnose
from .diagnosis.diagnosis import Diagnosis
from .diagnosis.watching import diagnosed_program
from .programs import Program, program_errors


def bench(options: argparse.Namespace) -> int:
    """Run the command `headrace bench`, and return its exit status, 0.

    Before the program runs, it is checked that the output files can be written.

    Args:
        options: parsed arguments of the command line.

    Raises:
        OutputError: a file cannot be written, or is named twice.
        MissingExtraError: the page needs matplotlib, which is not installed.
        ProgramError: the program fails, has no loader or no loop, or takes too few steps in time.
    """
    if options.html is not None and options.html == options.timeline:
        raise OutputError(
            f"--html and --timeline are both {options.html}. Pass two different files."
        )
    if options.html is not None:
        check_matplotlib()
    wanted = [check_writable(path) for path in (options.html, options.timeline) if path is not None]
    with Recorder() if wanted else contextlib.nullcontext() as recorder:
        diagnosis = _diagnosed(Program.parsed(options.program), options)
    found = recorder.longest() if recorder is not None else None
    if found is not None and options.html is not None:
        write_recording(Recording.of(*found), options.html, str(diagnosis))
    if found is not None and options.timeline is not None:
        write_timeline(timeline(*both_stats(found[0])), options.timeline)
    if options.json:
        print(json.dumps(diagnosis.to_dict()))
        return 0
    print(diagnosis, *(f"Written: {file}" for file in wanted if found is not None), sep="\n")
    return 0


def _diagnosed(program: Program, options: argparse.Namespace) -> Diagnosis:
    arguments, quiet = options.after_dashes, io.StringIO()
    with contextlib.ExitStack() as stack:
        for redirect in (
            (contextlib.redirect_stdout, contextlib.redirect_stderr)
            if not options.show_output
            else ()
        ):
            stack.enter_context(redirect(quiet))
        if program.name is None:
            return diagnosed_program(
                program, arguments, options.steps, options.seconds, options.step_seconds
            )
        with program.loader(arguments) as loader, program_errors(program.path):
            return diagnose(
                loader,
                steps=options.steps,
                step_seconds=options.step_seconds,
                seconds=options.seconds,
            )
