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
    """Put Grain's words before ours, once."""
    ours = shorten(error, _MOST)
    if isinstance(error, JoinError):
        error.args = (_ZIP.sub(_zipped, ours),)
    elif not ours.startswith(_STRUCTURE):
        error.args = (f"{_STRUCTURE} {ours}",)


def _zipped(found: re.Match[str]) -> str:
    short, long = found.groups()
    told = f"{short} is shorter than argument {long}" if short != "1" else f"{long} is longer than argument 1"
    return f"ZipIterDataset argument {told}"
