"""What the user is told about a failure: which operation, on which record, at which position.

In: an exception, and where the work stood. Out: the same exception, with a note, and with only the user's frames in its
traceback. All of this is found out after the failure, so that work which succeeds pays nothing for it.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from .pipeline import Pipeline

_PACKAGE = str(Path(__file__).parent.parent)
_OPERATIONS = f"{_PACKAGE}/operations/"
_ROOMS = tuple(f"{_PACKAGE}/{room}/" for room in ("loader", "operations", "samplers"))

OPERATION = "_millrace_operation"
"""The argument in which each step carries the number of its operation."""


def explained(error: Exception, pipeline: Pipeline, position: int) -> Exception:
    """The exception, saying where in the pipeline it was raised.

    Args:
        error: raised while a task was run.
        pipeline: whose task.
        position: global position of the record (of a batch: its first) that was being worked on.
    """
    number = operation_of(error)
    doing = "reading" if number is None else f"operation {number}, {pipeline.operations[number]!r},"
    note = f"millrace: {doing} failed on record key {_key_at(pipeline, position)} at position {position}."
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    return error.with_traceback(_users_part(error.__traceback__))


def _key_at(pipeline: Pipeline, position: int) -> Any:
    try:
        return int(pipeline.sampler.record_keys(np.array([position], dtype=np.int64))[0])
    except Exception:  # the sampler itself may be what failed
        return "unknown"


def _frames(traceback: TracebackType | None) -> list[TracebackType]:
    frames = []
    while traceback is not None:
        frames.append(traceback)
        traceback = traceback.tb_next
    return frames


def operation_of(error: Exception) -> int | None:
    """The number that the innermost step of the chain carries; None when the error arose in no operation."""
    for entry in reversed(_frames(error.__traceback__)):
        frame = entry.tb_frame
        if frame.f_code.co_filename.startswith(_OPERATIONS) and OPERATION in frame.f_locals:
            return frame.f_locals[OPERATION]  # type: ignore[no-any-return]
    return None


def _users_part(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame that is not ours; None when there is none."""
    for entry in _frames(traceback):
        if not entry.tb_frame.f_code.co_filename.startswith(_ROOMS):
            return entry
    return None
