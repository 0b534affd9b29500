"""Decide about failing records: skip them, raise, or ask the user's function (`on_error`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..common.messages import first_few, short_repr
from ..errors import CheckpointError
from .interrupts import raised_by_signal_handler

OnError: TypeAlias = Callable[[Exception, list[Any]], Literal["skip", "raise"]]
"""The user's function `(error, keys)`: takes an exception and the keys of the records to skip.

It returns "skip" or "raise".
"""


@dataclass(frozen=True)
class Asked:
    """The user's function that decides about each failing record.

    Its truth value is True, so that `if skips_errors:` holds: the function may decide to skip
    records.

    Attributes:
        function: the function, called with an exception and a list of record keys.
    """

    function: OnError

    def __bool__(self) -> bool:
        return True


Skips: TypeAlias = bool | Asked
"""True: failing records are skipped. False: every failure ends the stream.

`Asked`: the user's function decides.
"""


def ends_stream(skips: Skips, error: Exception, keys: Callable[[], list[Any]]) -> Exception | None:
    """Return the exception that ends the stream; None if the failing records are skipped.

    The exception is `error`; or an exception that the user's function raised; or a ValueError if
    the user's function returned neither "skip" nor "raise". If a signal handler raised `error`, it
    always ends the stream. A CheckpointError always does, too: no record failed, but the run needs
    records that are no longer there.

    Args:
        skips: True (skip), False (raise) or the user's function.
        error: exception that the records caused.
        keys: function that returns the keys of the records that would be skipped.
    """
    if raised_by_signal_handler(error) or isinstance(error, CheckpointError):
        return error
    if not isinstance(skips, Asked):
        return None if skips else error
    found = keys()
    try:
        said = skips.function(error, found)
    except Exception as own:
        own.add_note(f"headrace: on_error= raised this about record keys {first_few(found)}.")
        return own
    if said not in ("skip", "raise"):
        return ValueError(
            f"on_error={short_repr(skips.function)} returned {short_repr(said)} for the record "
            f'keys {first_few(found)}. It must return "skip" or "raise".'
        )
    return None if said == "skip" else error
