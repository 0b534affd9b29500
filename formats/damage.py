"""Decides about a record that cannot be read. In: the error. Out: it is raised, or reported and the record left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ..errors import SourceError

OnDamage: TypeAlias = Callable[[SourceError], None]
"""Is told of each damaged place that is left out."""


def leave_out(error: SourceError, on_damage: OnDamage | None) -> None:
    """Tell `on_damage`; without one, raise the error."""
    if on_damage is None:
        raise error
    on_damage(error)
