"""Carry warnings about sources and operations to the user's process, each warning once.

In: names of sources or operations, and texts. Out: in a worker, the texts not sent yet; in the
user's process, Python warnings.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...common.validation import warn
from ...errors import PromotionWarning
from ...operations.protocol import FROM_READERS

Told = Sequence[tuple[str, str, type[Warning]]]
"""Warnings: tuples of the name of a source or operation, the text, and the class of the warning."""


class Notices:
    """Warnings about sources and operations, at most one for each name.

    In a worker, this object has the warnings that the worker has collected. In the user's process,
    it has the warnings of all workers.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()
        self.new: list[tuple[str, str, type[Warning]]] = []

    def tell(self, name: str, text: str, category: type[Warning] = PromotionWarning) -> None:
        """Add a warning about a source or an operation, unless one with this name was added before.

        Args:
            name: name of the source or operation.
            text: text of the warning.
            category: class of the warning.
        """
        if name not in self._names:
            self._names.add(name)
            self.new.append((name, text, category))

    def tell_of_draws(self, name: str, generator: str) -> None:
        """Add a warning that an operation draws random numbers from a global generator.

        Args:
            name: name of the operation.
            generator: library of the global generator, such as "NumPy".
        """
        text = (
            f"{name} draws from the global generator of {generator}, so that its numbers depend on "
            "the number of workers, and differ after a resume. Draw from the generator that "
            "headrace.RandomMapTransform(function) passes: function(element, rng); or pass "
            "seed_globals=True."
        )
        self.tell(name, text, UserWarning)

    def take(self) -> Told:
        """Return the warnings added since the last call, and remove them from this object.

        Warnings of sources on reader threads are included.
        """
        for name, text in FROM_READERS.take():
            self.tell(name, text)
        if not self.new:
            return ()
        taken, self.new = self.new, []
        return taken

    def warn(self, told: Told) -> None:
        """Issue Python warnings: those of a worker, and those collected in this process.

        There is only one warning for each name of a source or operation.

        Args:
            told: warnings of the worker, from its `take`.
        """
        for one in told:
            self.tell(*one)
        for _, text, category in self.take():
            warn(text, category)
