"""Handle records that cannot be read: raise the error, or report it and skip the record."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeAlias

from ..errors import SourceError

OnDamage: TypeAlias = Callable[[SourceError], None]
"""Type of a function that is called with the error for each damaged place that is skipped."""


def leave_out(error: SourceError, on_damage: OnDamage | None) -> None:
    """Call `on_damage` with the error, or raise the error if `on_damage` is None."""
    if on_damage is None:
        raise error
    on_damage(error)


def damaged(problem: str) -> NoReturn:
    """Raise a ValueError with a problem of a file; the caller adds the path and a remedy.

    Args:
        problem: the problem, as a part of a sentence.
    """
    raise ValueError(problem)
