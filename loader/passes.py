"""Warn when a loop over a loader repeats an epoch that is random."""

from __future__ import annotations

from ..common.validation import warn
from .plan.pipeline import Pipeline


class Passes:
    """Warns if a new run of a loader repeats an epoch with the same random order or numbers.

    The object remembers whether an earlier run of the loader came to its end, and warns at most
    once. Any thread may end a run.
    """

    ended = False  # a run has come to its end
    _warned = False

    def begin(self, pipeline: Pipeline) -> None:
        """Warn if the run of a loader that begins now repeats a random epoch; at most one warning.

        A run repeats a random epoch if three things are true: an earlier run came to its end; the
        pipeline has only one epoch; and the sampler shuffles or an operation draws random numbers.
        """
        leaf = pipeline.leaf
        one_epoch = not leaf.endless and len(leaf.sampler) <= leaf.sampler.epoch_length
        draws = leaf.facts.shuffle or any(operation.needs_seed for operation in pipeline.operations)
        if self._warned or not (self.ended and one_epoch and draws):
            return
        self._warned = True
        warn(
            "this loader was run to its end, and iter(loader) begins again: it repeats the same "
            "epoch, in the same order, with the same random numbers. For epochs that differ, leave "
            "out num_epochs= and write `for epoch in loader.epochs(n): for batch in epoch: …`; or "
            "pass num_epochs=n and loop once."
        )
