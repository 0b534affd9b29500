"""Notices about leaves and operations, each once: from where batches are made to the user's process.

In: names, and texts. Out: those of names that nothing was told of before; in the user's process, warnings.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...common.validation import warn
from ...errors import PromotionWarning
from ...operations.protocol import FROM_READERS

Told = Sequence[tuple[str, str, type[Warning]]]
"""Names of leaves or operations, each with its text, and what kind of warning that is."""


class Notices:
    """Those of one worker, or of all together."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self.new: list[tuple[str, str, type[Warning]]] = []

    def tell(self, name: str, text: str, category: type[Warning] = PromotionWarning) -> None:
        """Take a text about a leaf or an operation, unless there was one."""
        if name not in self._names:
            self._names.add(name)
            self.new.append((name, text, category))

    def tell_of_draws(self, name: str, generator: str) -> None:
        """Take the name of an operation that draws from a global generator."""
        text = (
            f"{name} draws from the global generator of {generator}, so that its numbers depend on the number of workers, "
            "and differ after a resume. Draw from the generator that headrace.RandomMapTransform(function) passes: "
            "function(element, rng); or pass seed_globals=True."
        )
        self.tell(name, text, UserWarning)

    def take(self) -> Told:
        """Notices that were not taken yet."""
        for name, text in FROM_READERS.take():
            self.tell(name, text)
        if not self.new:
            return ()
        taken, self.new = self.new, []
        return taken

    def warn(self, told: Told) -> None:
        for one in told:
            self.tell(*one)
        for _, text, category in self.take():
            warn(text, category)
