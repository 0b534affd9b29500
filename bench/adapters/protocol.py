"""Parts of an adapter, i.e. of the one file about a library; a library that takes part in one comparison has only its parts.

`libraries.py` names adapters. They use public names of the library only, with the settings that its docs advise.

1. `resume.py`: `unclaimed`, `write`, `stream`.
2. `speed.py loaders`, each library in its own environment: `LACKS`, `write_workload`, `batches`.
3. `speed.py compare`, all in one process on the same data: functions that `libraries.SETTINGS` names, each of a
   `compare.work.Work`, a number of workers, and options. They return something whose `iter()` is a fresh endless stream of
   batches. What they import must be installed in the environments of the other parts, too, or is imported inside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from loaders.workloads import Workload
from resuming.cases import Event, Pipeline
from resuming.program import Run


class Stream(Protocol):
    """A stream of batches, each a flat list of numbers."""

    def __next__(self) -> list[int]: ...
    def state(self) -> Any:
        """Return an object that can be pickled, and resumes after the last batch."""


class Adapter(Protocol):
    """A module of this folder, or a class in one.

    Attributes:
        PACKAGES: names of distributions whose versions are told.
        LACKS: for each workload that the library has no means for, a sentence that says so.
    """

    PACKAGES: tuple[str, ...]
    LACKS: dict[str, str]

    def unclaimed(self, pipeline: Pipeline, event: Event) -> str:
        """Say why the library does not claim a cell, in the words of its docs; empty if it does."""

    def write(self, records: list[list[list[int]]], folder: Path) -> None:
        """Write records in the format that suits the library: lists of numbers, by source and file."""

    def stream(self, run: Run) -> Stream:
        """Make the pipeline, and restore the state."""

    def write_workload(self, workload: Workload, records: Iterator[Any], folder: Path) -> None:
        """Write the records of a workload in the format that suits the library."""

    def batches(self, workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
        """Make the stream of batches of arrays, or dicts of arrays."""


def missing_stage(pipeline: Pipeline, stages: dict[str, str]) -> str:
    """The sentence about the first stage that a pipeline has and a library lacks; empty if there is none."""
    return next((stages[stage] for stage in stages if pipeline.has(stage)), "")
