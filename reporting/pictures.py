"""The pictures that somebody wants of a run: a report, a timeline.

In: where they are to go, before the run; and what was found, after it. Out: files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .files import check_writable
from .loops import both_stats
from .perfetto import write_timeline
from .plots import check_matplotlib
from .recording import Recorder, Recording
from .report import write_recording
from .timeline import timeline


class Pictures:
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

    @contextmanager
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
