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
from typing import Any

from ..errors import OutputError
from ..reporting.files import check_writable
from ..reporting.loops import both_stats
from ..reporting.perfetto import write_timeline
from ..reporting.plots import check_matplotlib
from ..reporting.recording import Recorder, Recording
from ..reporting.report import write_recording
from ..reporting.timeline import timeline
from .programs import Program, told_of

_EXAMPLE = """examples:
  headrace bench train.py                        run the program, with its own step, and see what that waits for
  headrace bench train.py -- --data /data        with arguments of the program
  headrace bench train.py --html report.html     with a page of pictures
  headrace bench train.py:loader                 take batches as fast as they come
  headrace bench train.py:make_loader --step-seconds 0.05"""


def add_bench(tools: Any) -> None:
    """Add the command `bench`."""
    parser = tools.add_parser(
        "bench",
        help="PROGRAM.py[:name]: say what the steps of a program wait for",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("program", help="PROGRAM.py, or PROGRAM.py:name of a loader or of a function that makes one")
    parser.add_argument("--steps", type=steps, default=100, metavar="N", help="to measure (default 100)")
    parser.add_argument("--seconds", type=seconds, default=60.0, help="to measure for at most (default 60)")
    parser.add_argument(
        "--step-seconds", type=seconds, metavar="S", help="what a step takes, where the program makes none itself"
    )
    parser.add_argument("--json", action="store_true", help="print the numbers for other programs")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with pictures, for a browser")
    parser.add_argument("--timeline", type=Path, metavar="FILE", help="write a timeline, for ui.perfetto.dev")
    parser.add_argument("--trace", dest="timeline", type=Path, help=argparse.SUPPRESS)  # its former name
    parser.add_argument("--show-output", action="store_true", help="let through what the program prints")
    parser.set_defaults(run=_bench)


def steps(text: str) -> int:
    """A number of steps to measure, of the command line."""
    return whole(text, 3)


def whole(text: str, least: int = 1) -> int:
    """A whole number of the command line, which is not below another one.

    Raises:
        ArgumentTypeError: it is none.
    """
    try:
        count = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number; pass {least} or more.") from None
    if count < least:
        raise argparse.ArgumentTypeError(f"{text} is too few; pass {least} or more.")
    return count


def seconds(text: str) -> float:
    """A positive number of seconds, of the command line."""
    return positive(text, "seconds, such as 0.05")


def positive(text: str, what: str) -> float:
    """A positive, finite number of something, of the command line.

    Raises:
        ArgumentTypeError: it is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no positive number of {what}.")
    return value


def _bench(options: argparse.Namespace) -> int:
    from .diagnosis.diagnosis import Diagnosis

    if options.html is not None and options.html == options.timeline:
        raise OutputError(f"{options.html} cannot be the page and the timeline, too; name two files.")
    pictures = _Pictures(options.html, options.timeline)
    with pictures.of_loops():
        diagnosis: Diagnosis = _diagnosed(Program.parsed(options.program), options)
    files = pictures.write(str(diagnosis))
    if options.json:
        print(json.dumps(diagnosis.to_dict()))
    else:
        print(diagnosis)
        print(*(f"Written: {file}" for file in files), sep="\n", end="\n" * bool(files))
    return 0


def _diagnosed(program: Program, options: argparse.Namespace) -> Any:
    from .diagnosis.diagnose import diagnose
    from .diagnosis.watching import diagnosed_program

    arguments = options.after_dashes
    with contextlib.nullcontext() if options.show_output else _quiet():
        if program.name is None:
            return diagnosed_program(program, arguments, options.steps, options.seconds, options.step_seconds)
        with program.loader(arguments) as loader, told_of(program.path):
            return diagnose(loader, steps=options.steps, step_seconds=options.step_seconds, seconds=options.seconds)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


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
        """Write them; the files."""
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
