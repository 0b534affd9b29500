"""Errors of ours in the words that programs of Grain match on.

In: an error of a batch or a join. Out: the same error; Grain's words stand before ours.
"""

from __future__ import annotations

import re

from ...common.messages import shorten
from ...errors import JoinError, StructureError

_ZIP = re.compile(r"^zip: argument (\d+) is shorter than argument (\d+)")
_STRUCTURE = "Expected all input elements to have the same structure but got:"
_MOST = 400


def reword(error: StructureError | JoinError) -> None:
    """Put Grain's words before ours, once; where programs compare the whole text, ours are a note."""
    ours = shorten(error, _MOST)
    if isinstance(error, JoinError):
        if found := _ZIP.match(ours):
            error.args = (_zipped(*found.groups()),)
            error.add_note(f"headrace: {ours}")
    elif not ours.startswith(_STRUCTURE):
        error.args = (f"{_STRUCTURE} {ours}",)


def _zipped(short: str, long: str) -> str:
    number, difference = (int(short), "shorter") if short != "1" else (int(long), "longer")
    others = "argument 1" if number == 2 else f"arguments 1-{number - 1}"
    return f"ZipIterDataset argument {number} is {difference} than {others}"
