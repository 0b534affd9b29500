"""What an adapter of the resume league is given, and what it returns. Workers import this module, too.

An adapter is given a leg, i.e. a part of a run between two events, and returns a stream of batches.
"""

from __future__ import annotations

import functools
import json
import os
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cases import Event, Leg, Pipeline


@dataclass(frozen=True)
class Touch:
    """What each pipeline does first with each record, in a worker: it takes the time, and fails, as the leg says.

    A file says how, so that the program is the same in all legs.

    Attributes:
        folder: has this file, and a folder where workers leave their process ids.
    """

    folder: str

    def __call__(self, number: int) -> int:
        """The record itself."""
        number = int(number)
        leg = _leg_in(self.folder)
        Path(self.folder, "pids", str(os.getpid())).touch()
        if number == leg["fails"]:
            raise ValueError(f"record {number} is broken")
        if leg["noise"]:
            time.sleep(random.Random(number * 7 + leg["noise"]).random() / 100)
        elif leg["slow"]:
            time.sleep(leg["slow"])
        return number


@functools.cache
def _leg_in(folder: str) -> dict[str, Any]:
    return json.loads(Path(folder, "leg.json").read_text())


@dataclass(frozen=True)
class Run:
    """What an adapter makes a stream of.

    Attributes:
        pipeline: its stages and shards.
        folder: what `write` of the adapter has written.
        touch: a function to apply to each record, first of all.
        states: of the hosts of the leg before, in their order; None begins.
        event: of which the leg is one; `alike` asks for the setting by which all hosts make the same number of batches.
    """

    pipeline: Pipeline
    folder: Path
    leg: Leg
    host: int
    touch: Touch
    states: list[Any] | None
    event: Event


class Stream(Protocol):
    """A stream of batches, each a flat list of numbers."""

    def __next__(self) -> list[int]: ...
    def state(self) -> Any:
        """Whatever can be pickled; resumes after the last batch."""


class Adapter(Protocol):
    """The functions of each file in `adapters/`."""

    def versions(self) -> dict[str, str]:
        """Packages that are measured, with their versions."""

    def unclaimed(self, pipeline: Pipeline, event: Event) -> str:
        """Why the loader does not claim a cell, in the words of its docs; empty if it does."""

    def write(self, records: list[list[list[int]]], folder: Path) -> None:
        """Writes records in the format that suits the loader: lists of numbers, by source and file."""

    def stream(self, run: Run) -> Stream:
        """Makes the pipeline with the loader's public names, and restores the state."""
