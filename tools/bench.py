"""`headrace bench PROGRAM.py[:name]`: says what the step of a program waits for.

In: parsed arguments. Out: a verdict on standard output, and an exit status. What the program itself prints is left out.

With a name, batches are taken from that loader. Without one the program runs as a shell would run it, with its own steps,
until enough of them were seen: it is then interrupted as by Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path

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
from .programs import Program, told_of


def bench(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.html is not None and options.html == options.timeline:
        raise OutputError(f"{options.html} cannot be the page and the timeline, too; name two files.")
    pictures = _Pictures(options.html, options.timeline)
    with pictures.of_loops():
        diagnosis = _diagnosed(Program.parsed(options.program), options)
    files = pictures.write(str(diagnosis))
    if options.json:
        print(json.dumps(diagnosis.to_dict()))
    else:
        print(diagnosis)
        print(*(f"Written: {file}" for file in files), sep="\n", end="\n" * bool(files))
    return 0


def _diagnosed(program: Program, options: argparse.Namespace) -> Diagnosis:
    arguments, quiet = options.after_dashes, io.StringIO()
    with contextlib.ExitStack() as stack:
        for redirect in (contextlib.redirect_stdout, contextlib.redirect_stderr) if not options.show_output else ():
            stack.enter_context(redirect(quiet))
        if program.name is None:
            return diagnosed_program(program, arguments, options.steps, options.seconds, options.step_seconds)
        with program.loader(arguments) as loader, told_of(program.path):
            return diagnose(loader, steps=options.steps, step_seconds=options.step_seconds, seconds=options.seconds)


class _Pictures:
    """Those of one run. What keeps them from being written is found before it.

    Raises:
        OutputError: a file cannot be written.
        MissingExtraError: a library is not installed.
    """

    def __init__(self, report: Path | None, timeline_file: Path | None) -> None:
        self._report, self._timeline = report, timeline_file
        self._recorder: Recorder | None = None
        if report is not None:
            check_matplotlib()
        for path in (report, timeline_file):
            if path is not None:
                check_writable(path)

    @contextlib.contextmanager
    def of_loops(self) -> Iterator[None]:
        """Pictures are of the loops that begin within; where none is wanted, nothing is done."""
        if self._report is None and self._timeline is None:
            yield
            return
        with Recorder() as self._recorder:
            yield

    def write(self, verdict: str) -> list[Path]:
        found = None if self._recorder is None else self._recorder.longest()
        if found is None:
            return []
        loop, samples = found
        files = []
        if self._report is not None:
            files.append(write_recording(Recording.of(loop, samples), self._report, verdict))
        if self._timeline is not None:
            files.append(write_timeline(timeline(*both_stats(loop)), self._timeline))
        return files
