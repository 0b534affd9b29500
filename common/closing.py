"""Base of objects that are closed at the end of a `with` block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self


def close_of(thing: Any) -> Callable[[], object]:
    """Return the method `close` of an object that may have none; then a function without effect."""
    return getattr(thing, "close", None) or _nothing


def _nothing() -> None:
    return None


class ClosedAtExit:
    """Base of context managers that call their method `close` at the end of the block."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
