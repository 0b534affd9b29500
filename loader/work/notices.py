"""What the user should be told of leaves, each once: on the way from where batches are made to the user's process.

In: the names of leaves, and texts. Out: those of leaves that nothing was told of before; in the user's process, warnings.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...checks import warn
from ...errors import PromotionWarning

Told = Sequence[tuple[str, str]]
"""Names of leaves, each with its text."""


class Notices:
    """Those of one worker, or of all together."""

    def __init__(self) -> None:
        self._leaves: set[str] = set()
        self._new: list[tuple[str, str]] = []

    def tell(self, leaf: str, text: str) -> None:
        """Take a text about a leaf, unless there was one."""
        if leaf not in self._leaves:
            self._leaves.add(leaf)
            self._new.append((leaf, text))

    def take(self) -> Told:
        """What was not taken yet."""
        if not self._new:
            return ()
        taken, self._new = self._new, []
        return taken

    def warn(self, told: Told) -> None:
        """Warn the user of what is new in this."""
        for leaf, text in told:
            self.tell(leaf, text)
        for _, text in self.take():
            warn(text, PromotionWarning)
