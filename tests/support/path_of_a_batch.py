"""The path of one batch, found by profiling: the files that run for it, and the moves from one file
to another.

The pipeline is `[map, Batch(128)]`, after its start, with two workers and with none. Counted are
the package's files that run between two batches, in the user's process (all its threads) and in a
worker, and how often control moves from one of them to another. Calls and returns both count.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import headrace

PACKAGE = str(Path(headrace.__file__).parent)
BATCH, WARM_UP, STEPS = 128, 70, 100
RECORDS = 100_000

TASK_SECONDS = 0.03
"""A batch that takes as long is a task of its own."""


class Watch:
    """Notes the files of the package that run in the threads that it is set for."""

    def __init__(self) -> None:
        self.files: dict[str, int] = {}  # each with how often control came to it
        self._last: dict[int, str] = {}  # by thread

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Be a profile function."""
        if event == "return":
            self._note(frame.f_back)
        elif event == "call":
            self._note(frame)

    def _note(self, frame: FrameType | None) -> None:
        file = "" if frame is None else frame.f_code.co_filename
        if not file.startswith(PACKAGE) or file[len(PACKAGE) + 1 :].startswith(
            (".venv/", "bench/", "tests/")
        ):
            return
        thread = threading.get_ident()
        if self._last.get(thread) != file:
            self._last[thread] = file
            self.files[file] = self.files.get(file, 0) + 1

    def take(self) -> dict[str, int]:
        """Return what was noted since the last call."""
        taken, self.files = self.files, {}
        self._last.clear()
        return {file[len(PACKAGE) + 1 :]: count for file, count in taken.items()}


class PlainMap:
    """A user's function for one record, which notes in a worker what ran since the same record of
    the last batch.

    With `seconds`, the first record of a batch takes as long, so that a task is one batch.
    """

    def __init__(self, folder: str = "", seconds: float = 0.0) -> None:
        self.folder = folder
        self.seconds = seconds

    def __call__(self, record: int) -> dict[str, Any]:
        """One element."""
        if self.folder and record % BATCH == 0:
            self._note()
        if self.seconds and record % BATCH == 0:
            time.sleep(self.seconds)
        return {"x": np.full(8, record, np.float32), "y": record}

    def _note(self) -> None:
        watch = sys.getprofile()
        if isinstance(watch, Watch):
            sys.setprofile(None)
            with open(f"{self.folder}/{threading.get_native_id()}", "a") as file:
                file.write(json.dumps(watch.take()) + "\n")
        watch = watch or Watch()
        threading.setprofile(watch)
        sys.setprofile(watch)


def of_users_process(loader: Any) -> list[dict[str, int]]:
    """For each of some `next`s the files that run in it, and in threads of ours, with how often
    control came to each.
    """
    watch, found = Watch(), []
    threading.setprofile(watch)
    try:
        with iter(loader) as iterator:
            for _ in range(WARM_UP):
                next(iterator)
            for _ in range(STEPS):
                watch.take()
                sys.setprofile(watch)
                try:
                    next(iterator)
                finally:
                    sys.setprofile(None)
                found.append(watch.take())
    finally:
        threading.setprofile(None)  # type: ignore[arg-type]
    return found


def of_workers(seconds: float = 0.0) -> list[dict[str, int]]:
    """The same of two workers, for batches that each of them began."""
    with tempfile.TemporaryDirectory() as folder:
        with iter(mapped(PlainMap(folder, seconds), 2)) as iterator:
            for _ in range(WARM_UP + STEPS):
                next(iterator)
        return [
            json.loads(line)
            for file in Path(folder).iterdir()
            for line in file.read_text().splitlines()[40:]
        ]


def mapped(map_function: Any, worker_count: int, **options: Any) -> Any:
    """A loader of `[map, Batch(128)]`."""
    source, sizes = range(BATCH * STEPS * 20), {"batch_size": BATCH, "num_epochs": 1}
    return headrace.load(
        source, transformations=[map_function], worker_count=worker_count, **sizes, **options
    )


def columns(records: int = RECORDS) -> Any:
    """A loader of shuffled batches of a dict of arrays."""
    arrays = {"x": np.zeros((records, 16), np.float32), "y": np.arange(records)}
    return headrace.load(arrays, batch_size=BATCH, shuffle=True, seed=0)


def median_path(batches: list[dict[str, int]]) -> dict[str, int]:
    """The path of the batch that has the median of the moves."""
    return sorted(batches, key=lambda files: sum(files.values()))[len(batches) // 2]
