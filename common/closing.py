"""Base of objects that are closed at the end of a `with` block."""

from __future__ import annotations

from typing import Self


class ClosedAtExit:
    """Base of context managers that call their method `close` at the end of the block."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
