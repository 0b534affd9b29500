"""What the user is told about a failure: which operation, on which record, at which position.

In: an exception, and where the work stood. Out: the same exception, with a note, and with only the user's frames in its
traceback. All of this is found out after the failure, so that work which succeeds pays nothing for it.
"""

from __future__ import annotations

from pathlib import Path
from types import CodeType, TracebackType
from typing import Any

import numpy as np

from ..operations import MapTransform
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
    number = operation_of(error, pipeline)
    doing = "reading" if number is None else f"operation {number}, {pipeline.operations[number]!r},"
    note = f"millrace: {doing} failed on record key {_key_at(pipeline, position)} at position {position}."
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    return error.with_traceback(_users_part(error.__traceback__))


def told(error: Exception) -> str:
    """One line about a failure that is left out."""
    notes = " ".join(getattr(error, "__notes__", ()))
    return f"{type(error).__name__}: {error}{notes and f' ({notes})'}"


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


def operation_of(error: Exception, pipeline: Pipeline) -> int | None:
    """The number of the operation that an error arose in; None for none, or for one that cannot be told."""
    frames = [entry.tb_frame for entry in _frames(error.__traceback__)]
    steps = [
        frame.f_locals[OPERATION]
        for frame in frames
        if frame.f_code.co_filename.startswith(_OPERATIONS) and OPERATION in frame.f_locals
    ]
    if steps:
        return int(steps[-1])
    if not any(
        frame.f_code.co_name == "_push_mapped" and frame.f_code.co_filename.startswith(_ROOMS) for frame in frames
    ):
        return None
    return _map_of([frame.f_code for frame in frames], pipeline)


def _map_of(codes: list[CodeType], pipeline: Pipeline) -> int | None:
    """Which map, of those that run without a step of ours, has its code in a traceback; the only one needs none."""
    maps = pipeline.segments[0].operations
    own = {number: _code_of(one) for number, one in enumerate(maps) if isinstance(one, MapTransform)}
    found = [number for number, code in own.items() if code is not None and code in codes]
    without_code = [number for number, code in own.items() if code is None]
    candidates = found or without_code
    return candidates[0] if candidates else None


def _code_of(operation: MapTransform) -> CodeType | None:
    function = operation.function
    return getattr(getattr(function, "__func__", function), "__code__", None)


def _users_part(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame that is not ours; None when there is none."""
    for entry in _frames(traceback):
        if not entry.tb_frame.f_code.co_filename.startswith(_ROOMS):
            return entry
    return None
