"""Whether a loader's stream is run again that the user may take for its next epoch.

In: the beginnings and ends of runs of one loader. Out: a warning, once.
"""

from __future__ import annotations

from ..common.validation import warn
from .plan.pipeline import Pipeline


class Passes:
    """The runs of one loader. Any thread may end one: all that changes is whether something is true."""

    def __init__(self) -> None:
        self._ended = self._warned = False

    def end(self) -> None:
        """A run has come to its end."""
        self._ended = True

    def begin(self, pipeline: Pipeline) -> None:
        """A run gives its first element; a warning if that is of a random epoch which was run to its end before."""
        if self._warned or not self._ended or not _is_one_random_epoch(pipeline):
            return
        self._warned = True
        warn(
            "this loader was run to its end, and iter(loader) begins again: it gives the same epoch, in the same order with "
            "the same random numbers. For epochs that differ, leave out num_epochs= and write `for epoch in loader.epochs(n): "
            "for batch in epoch: …`; or pass num_epochs=n and loop once."
        )


def _is_one_random_epoch(pipeline: Pipeline) -> bool:
    """Whether the stream is one epoch, of which the next would differ: it is shuffled, or random operations draw in it."""
    leaf = pipeline.leaf
    one_epoch = not leaf.endless and len(leaf.sampler) <= leaf.epoch_length
    draws = any(operation.needs_seed for operation in pipeline.operations)
    return one_epoch and (bool(getattr(leaf.sampler, "shuffle", False)) or draws)
