"""The decision about records that fail: leave them out, raise, or ask the user's function.

In: the argument `on_error`. Out: for each failure None, to leave its records out, or the exception that ends the stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..common.messages import first_few, short_repr

OnError: TypeAlias = Callable[[Exception, list[Any]], Literal["skip", "raise"]]
"""Gets an exception and the keys of the records that would be left out; says what becomes of them."""


@dataclass(frozen=True)
class Asked:
    """The user's function decides about each failure."""

    function: OnError

    def __bool__(self) -> bool:
        return True


Skips: TypeAlias = bool | Asked
"""Whether records that fail are left out, or who decides it; false where every failure ends the stream."""


def ends_stream(skips: Skips, error: Exception, keys: Callable[[], list[Any]]) -> Exception | None:
    """None if the records are to be left out; else the exception that ends the stream.

    Args:
        skips: of the pipeline.
        error: of the records.
        keys: gives the keys of the records that would be left out.
    """
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
            f"on_error={short_repr(skips.function)} gave {short_repr(said)} for record keys {first_few(found)}; return "
            '"skip" or "raise".'
        )
    return None if said == "skip" else error
