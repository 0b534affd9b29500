"""Changes of a run by `iterator.change`.

In: changes, each with its step. Out: the next change, when the iterator reaches its step. If an
iterator moves back to an earlier place: the pipeline without the changes that were made after this
place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...plan.pipeline import Pipeline
    from .changes import ProgramChange, WeightsChange


class ProgramChanges:
    """The changes that an iterator has made, and the changes whose step it has not reached yet.

    Attributes:
        waiting: changes whose step is not reached yet, sorted by step. Changes of the weights of a
            mix are not among them.
        of_mix: changes of the weights of a mix, which the order contains.
    """

    def __init__(self) -> None:
        self.waiting: list[ProgramChange] = []
        self.of_mix: list[WeightsChange] = []
        self._made: list[
            tuple[ProgramChange, Pipeline]
        ] = []  # each with the pipeline as its loader made it before

    def add(self, change: ProgramChange) -> None:
        """Add a change, which the iterator makes when it reaches the change's step."""
        self.waiting = sorted([*self.waiting, change], key=lambda each: each.step)

    def add_of_mix(self, change: WeightsChange) -> None:
        """Remember a change of the weights of a mix, and forget those that it replaces."""
        self.of_mix = [*(each for each in self.of_mix if not change.replaces(each)), change]

    def next_at(self, step: int) -> ProgramChange | None:
        """Remove and return the next waiting change, if the iterator has reached the change's step.

        Return None if it has not, or if no change is waiting.
        """
        return self.waiting.pop(0) if self.waiting and self.waiting[0].step <= step else None

    def made(self, change: ProgramChange, before: Pipeline) -> None:
        """Record that the iterator has made a change.

        Args:
            change: the change.
            before: the program's pipeline with all earlier changes, but without this one.
        """
        self._made.append((change, before))

    def back_at(self, step: int, loaders: Pipeline) -> Pipeline:
        """Undo the changes at `step` and at later steps, for an iterator that moves back to `step`.

        The iterator makes these changes again when it reaches their steps.

        Args:
            step: the earlier step.
            loaders: the pipeline with all changes that were made.

        Returns:
            The pipeline without the undone changes.
        """
        while self._made and self._made[-1][0].step >= step:
            change, loaders = self._made.pop()
            self.waiting.insert(0, change)
        return loaders
