"""Add Grain's error messages in front of headrace's, for programs that compare messages.

In: an error raised by a batch, or by a stream made of several. Out: the same error with Grain's
message.
"""

from __future__ import annotations

import re
from typing import Any

import cloudpickle

from ...common.messages import short_repr, shorten
from ...errors import JoinError, PicklingError, StructureError
from ...loader import DataLoaderIterator
from ...loader.plan.pipeline import Pipeline

_ZIP = re.compile(r"^zip: argument (\d+) is shorter than argument (\d+)")
_STRUCTURE = "Expected all input elements to have the same structure but got:"
_MOST = 400


def reword(error: StructureError | JoinError) -> None:
    """Change the message of an error to Grain's wording, followed by headrace's message.

    For a join of unequal lengths, Grain's wording is the whole message, and headrace's is a note;
    other errors of joins are not changed. A second call changes nothing.
    """
    ours = shorten(error, _MOST)
    if isinstance(error, JoinError):
        if found := _ZIP.match(ours):
            error.args = (_zipped(*found.groups()),)
            error.add_note(f"headrace: {ours}")
    elif not ours.startswith(_STRUCTURE):
        error.args = (f"{_STRUCTURE} {ours}",)


class NotedIterator(DataLoaderIterator):
    """An iterator that raises the exception of pickle if a pipeline cannot be pickled.

    Workers need a pickle of the pipeline. Grain's message and headrace's are added to the exception
    as notes.
    """

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except PicklingError as error:
            raise _noted(error, self.pipeline) from None

    def start_prefetch(self) -> None:
        try:
            super().start_prefetch()
        except PicklingError as error:
            raise _noted(error, self.pipeline) from None


def _noted(error: PicklingError, pipeline: Pipeline) -> BaseException:
    own = error.__cause__ or error
    parts = [*(leaf.source for leaf in pipeline.leaves), *pipeline.operations]
    culprit = next((part for part in parts if not _can_be_pickled(part)), "the pipeline")
    own.add_note(f"Dataset: {short_repr(culprit)} cannot be pickled!")
    own.add_note(f"headrace: {shorten(error, _MOST)}")
    return own


def _can_be_pickled(part: Any) -> bool:
    try:
        cloudpickle.dumps(part)
    except Exception:
        return False
    return True


def _zipped(short: str, long: str) -> str:
    number, difference = (int(short), "shorter") if short != "1" else (int(long), "longer")
    others = "argument 1" if number == 2 else f"arguments 1-{number - 1}"
    return f"ZipIterDataset argument {number} is {difference} than {others}"
