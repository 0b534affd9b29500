"""Sources that hold files open. In: a `with` block. Out: its end closes them."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class ClosesFiles:
    """A source whose files are closed at the end of a `with` block; it stays usable: reading opens them again."""

    def close(self) -> None:
        """Closes the open files."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
