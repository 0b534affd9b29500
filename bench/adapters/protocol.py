"""Parts of an adapter, i.e. of the one file about a library; a library that takes part in one
comparison has only its parts.

`libraries.py` names adapters. They use public names of the library only, with the settings that its
docs advise.

1. `resume.py`: `unclaimed`, `write`, `stream`.
2. `speed.py loaders`, each library in its own environment: `LACKS`, `write_workload`, `batches`.
3. `speed.py compare`, all in one process on the same data: functions that `libraries.SETTINGS`
   names, each of a `compare.work.Work`, a number of workers, and options. They return something
   whose `iter()` is a fresh endless stream of batches. What they import must be installed in the
   environments of the other parts, too, or is imported inside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from loaders.workloads import Workload
from resuming.cases import Event, Pipeline
from resuming.program import Run


def numbers_of(batch: Any) -> Any:
    """The numbers of a batch, or the tokens of packed rows without their padding."""
    return batch["tokens"][batch["tokens"] > 0] if isinstance(batch, dict) else batch


class Numbers:
    """A stream for `resume.py`: batches as flat lists of numbers.

    Args:
        batches: the library's.
        numbers: returns the numbers of a batch.
        add: is added to each number, where nothing of the library can do it.
        state: returns an object that can be pickled, and resumes after the last batch.
    """

    def __init__(
        self,
        batches: Iterable[Any],
        numbers: Callable[[Any], Any] = numbers_of,
        add: int = 0,
        state: Callable[[], Any] = lambda: None,
    ) -> None:
        self._batches, self._numbers, self._add, self.state = iter(batches), numbers, add, state
        self.close = getattr(self._batches, "close", lambda: None)

    def __next__(self) -> list[int]:
        return [int(number) + self._add for number in self._numbers(next(self._batches))]


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
        """Write records in the format that suits the library: lists of numbers, by
        source and file.
        """

    def stream(self, run: Run) -> Any:
        """Make the pipeline, and restore the state; `Numbers`, or what has its methods."""

    def write_workload(self, workload: Workload, records: Iterator[Any], folder: Path) -> None:
        """Write the records of a workload in the format that suits the library."""

    def batches(self, workload: Workload, folder: Path, workers: int, epochs: int) -> Iterator[Any]:
        """Make the stream of batches of arrays, or dicts of arrays."""


def missing_stage(pipeline: Pipeline, stages: dict[str, str]) -> str:
    """The sentence about the first stage that a pipeline has and a library lacks; empty if there is
    none.
    """
    return next((stages[stage] for stage in stages if pipeline.has(stage)), "")
