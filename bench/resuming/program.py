"""The leg of a run, i.e. a part between two events, that an adapter is given."""

from __future__ import annotations

import functools
import json
import os
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resuming.cases import Event, Leg, Pipeline


@dataclass(frozen=True)
class Touch:
    """The first function that a pipeline applies to each record, in a worker.

    It takes the time, and fails, as a file says, so that the program is the same in all legs.

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
    """All that an adapter needs to make a stream.

    Attributes:
        pipeline: its stages and shards.
        folder: what `write` of the adapter has written.
        touch: a function to apply to each record, first of all.
        states: of the hosts of the leg before, in their order; None begins.
        event: of which the leg is one; `alike` asks for the setting by which all hosts make the
            same number of batches.
    """

    pipeline: Pipeline
    folder: Path
    leg: Leg
    host: int
    touch: Touch
    states: list[Any] | None
    event: Event
