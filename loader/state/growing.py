"""Looks for appended records, and takes a pipeline to another generation of its source.

In: a pipeline, the place where a run goes on. Out: how far its order is decided; where it changes, the pipeline and the state
that go on.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import time
from typing import Any

from ...common.identity.values import digest
from ...common.messages import short_repr
from ...samplers import NoSharding
from ...samplers.changing.growth import GrowthOptions
from ...samplers.changing.history import History
from ...samplers.changing.sampler import lasting
from ...sources import fingerprint_of
from ..plan.fingerprint import Fingerprint
from ..plan.growth import at_generation, order_of
from ..plan.pipeline import Pipeline
from .changed_mix import adapted, first_unread
from .decisions import Decision, DecisionLog
from .loader_state import LoaderState

_LOGGER = logging.getLogger("headrace")

PAUSE_SECONDS = 0.2
"""Between two looks while a run waits for records. Chosen: a listing of a folder costs a hundredth of it."""


class WaitNotice:
    """Says once in a run that it waits."""

    def __init__(self) -> None:
        self._said = False

    def say(self, records: int, source: Any) -> None:
        """All records of a source were read, and a writer is at work there, or was killed."""
        if not self._said:
            _LOGGER.info(
                "waiting for more records: all %d of %s were read, and what writes there has not come to its end; if it does "
                "not run, begin the same again",
                records,
                short_repr(source),
            )
        self._said = True


class OrderChangedError(Exception):
    """The order of a run is another one from a position on."""

    def __init__(self, position: int, found: Decision) -> None:
        super().__init__(f"generation {found.generation} of the source holds from position {position} on")
        self.position, self.found = position, found


def grown(loaders: Pipeline, state: LoaderState, change: OrderChangedError) -> tuple[Pipeline, LoaderState]:
    """The pipeline, as a loader would make it now, and the state, that go on where the order changes."""
    known = state.fingerprint
    saved: Any = known["sampler"]
    now = at_generation(loaders, change.found.generation)
    begins = change.position == 0 and not History.of(saved).changes
    order = order_of(now.leaf)
    if not begins:
        order = order.going_on(saved, change.position, joins=change.found.joins)
    now = now.with_leaf(dataclasses.replace(now.leaf, sampler=order))
    fingerprint = Fingerprint({**known, "sampler": order.fingerprint, "source": now.fingerprint["source"]})
    return now, adapted(state, known, fingerprint, len(order.with_shard_options(NoSharding())))


def lookout_of(pipeline: Pipeline, state: LoaderState, notice: WaitNotice) -> Lookout | None:
    """Decides the order of a run that goes on from a state. Returns None where it is decided to its end."""
    growth = pipeline.leaves[0].growth
    return None if growth is None else Lookout(pipeline, state, growth, notice)


class Lookout:
    """A horizon (see `stream/horizon.py`) for the order of a source that grows."""

    def __init__(self, pipeline: Pipeline, state: LoaderState, growth: GrowthOptions, notice: WaitNotice) -> None:
        self._leaf, self._growth, self._notice = pipeline.leaf, growth, notice
        self._source: Any = pipeline.leaf.source
        self._order = order_of(pipeline.leaf)
        self._total = len(self._order.with_shard_options(NoSharding()))
        self._log = _log_of(pipeline, growth)
        decided = self._order.changes[-1].position + 1 if self._order.changes else 0
        self._begun = first_unread(pipeline, [state])
        self._look = growth.next_look(self._order, max(self._begun, decided))
        self._is_final = False
        self._was_incomplete = False

    @property
    def stop(self) -> int | None:
        """The local position of the next look."""
        if self._is_final:
            return None
        lineage, shard = self._leaf.lineage, self._leaf.shard
        index = max(self._look - lineage.dense_from[1], lineage.dense_from[0])
        return max(-(-(index - shard.shard_index) // shard.shard_count), 0)

    def advance(self, wait: bool) -> bool:
        """Look, and go on to the next position at which that is done; only once the user has got there.

        Raises:
            OrderChangedError: there are more records.
            SourceError: a file is not what it was.
        """
        if not wait and self._look > self._begun:
            return False
        found = self._found(wait)
        if found is None:
            return False
        is_last = self._look >= self._total
        begins = self._look == 0 and not self._order.changes and found.generation != self._order.generation
        if begins or (found.generation > self._order.generation and (found.joins or not is_last)):
            raise OrderChangedError(self._look, found)
        self._is_final = is_last
        if not is_last:
            self._look = self._growth.next_look(self._order, self._look + 1)
        return True

    def _found(self, wait: bool) -> Decision | None:
        """The decision for the next look; None: all was read, more is to come, and `wait` is False."""
        while True:
            known = self._log.read(self._look) if self._log is not None else None
            if known is not None:
                return known
            found = self._looked()
            if found is not None:
                return found if self._log is None else self._log.first(self._look, found)
            if not wait:
                return None
            time.sleep(PAUSE_SECONDS)

    def _looked(self) -> Decision | None:
        """Look: whether the source is complete first, as its last records come before it is."""
        complete = bool(getattr(self._source, "complete", True))
        generation = int(self._source.newest_generation())
        self._was_incomplete |= not complete
        ends = self._look > 0 and self._order.begins_epoch(self._look)
        if ends and not complete and generation <= self._order.generation:
            self._notice.say(self._order.num_records, self._source)
            return None
        return Decision(generation, self._growth.at == "now" or (ends and self._was_incomplete))


def as_epoch_begins(pipeline: Pipeline, epoch: int) -> Pipeline:
    """The pipeline over the generation that all shards read in an epoch of a loop per epoch: that of who begins it first."""
    growth = pipeline.leaf.growth
    if growth is None:
        return pipeline
    log, source = _log_of(pipeline, growth, "epochs"), pipeline.leaf.source
    found = log.read(epoch) if log is not None else None
    if found is None:
        found = Decision(int(source.newest_generation()), False)
        found = found if log is None else log.first(epoch, found)
    return at_generation(pipeline, found.generation)


def _log_of(pipeline: Pipeline, growth: GrowthOptions, *loop: str) -> DecisionLog | None:
    """The log of all runs of the same stream, or of a loop over it; None: of one shard, where the user wants none."""
    leaf, order = pipeline.leaf, order_of(pipeline.leaf)
    if growth.log is None and leaf.shard.shard_count == 1:
        return None
    folder = growth.log if growth.log is not None else os.path.join(leaf.source.generation_folder, "decisions")
    every = growth.every if growth.at == "now" else 0
    values = [lasting(order.fingerprint), fingerprint_of(leaf.source.at_generation(0)), growth.at, every, *loop]
    stream = digest(values, 16)
    return DecisionLog(os.path.join(os.fspath(folder), stream))
