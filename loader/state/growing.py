"""Detect appended records, and switch a pipeline to the new generation (version of the source's files).

In: a pipeline, and the place where a run continues. Out: the position up to which its order is final;
if the order changes there, the pipeline and the state with which the run continues.
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
from ...samplers.changing.growth import ONLY, GrowthOptions
from ...samplers.changing.history import History
from ...samplers.changing.sampler import ChangingSampler, lasting
from ...samplers.mix.identity import lasting_mix
from ...samplers.mix.parts import part_named
from ...sources import fingerprint_of
from ..plan.growth import (
    at_generation,
    at_generations,
    decision_folder,
    growing_parts,
    looks_of,
    orders_of,
    source_at,
)
from ..plan.pipeline import Pipeline
from .decisions import Decision, DecisionLog, Decisions
from .schema import LoaderState

_LOGGER = logging.getLogger("headrace")

# Chosen: a listing of a folder costs a hundredth of it.
PAUSE_SECONDS = 0.2
"""Seconds between two checks while a run waits for records."""


class WaitNotice:
    """Logs once in a run that the run waits for records."""

    def __init__(self) -> None:
        self._said = False

    def say(self, records: int, source: Any) -> None:
        """Log, at the first call only, that the run waits for more records of a source.

        All of its `records` records were read, and its writer is still at work or was killed.
        """
        if not self._said:
            _LOGGER.info(
                "waiting for more records: all %d of %s were read, and what writes there has not come to its end; if it does "
                "not run, begin the same again",
                records,
                short_repr(source),
            )
        self._said = True


class OrderChangedError(Exception):
    """Raised when the order of a run changes at a position. The iterator catches it.

    Attributes:
        position: first global position with the new order.
        news: for each source with more records, by name, the decision which generation to read.
    """

    def __init__(self, position: int, news: Decisions) -> None:
        super().__init__(f"{news} of the source holds from position {position} on")
        self.position, self.news = position, news


def grown(loaders: Pipeline, state: LoaderState, change: OrderChangedError) -> tuple[Pipeline, LoaderState]:
    """Return the pipeline and the state with which a run continues after its order has changed.

    Args:
        loaders: pipeline as its loader made it.
        state: state of the user's position.
        change: the position of the change, and the generations (versions of the source's files) to
            read from there on.
    """
    saved = state.identity.order
    now = at_generations(loaders, {name: found.generation for name, found in change.news.items()})
    order: Any = now.leaf.sampler
    if order.facts.parts:
        order = _grown_mix(order, saved, change)
    elif change.position or History.of(saved).changes:
        order = order.going_on(saved, change.position, joins=change.news[ONLY].joins)
    now = now.with_leaf(dataclasses.replace(now.leaf, sampler=order))
    identity = state.identity.with_order(0, order.fingerprint, now.identity.sources[0])
    return now, dataclasses.replace(state, identity=identity)


def _grown_mix(mix: Any, saved: Any, change: OrderChangedError) -> Any:
    """Return a mix whose parts have more records from the position of a change on.

    `saved` is the fingerprint of the run's mix.
    """
    counts, parts = mix.going_on(saved, change.position, False).part_records(change.position), {}
    for name, found in change.news.items():
        part = mix.parts[name]
        assert isinstance(part, ChangingSampler), "parts that grow have such orders"
        parts[name] = part.going_on(saved[part_named(name)], counts[name], joins=found.joins)
    return mix.with_parts(parts).going_on(saved, change.position, False)


def lookout_of(pipeline: Pipeline, state: LoaderState, notice: WaitNotice, begin: int = 0) -> Lookout | None:
    """Return the object that checks for appended records; None if no records are added during a run.

    Args:
        pipeline: pipeline of the run.
        state: state from which the run continues.
        notice: logs once that the run waits.
        begin: position of the last change of the order in this run. Earlier checks are not repeated.
    """
    growth = pipeline.leaves[0].growth
    return None if growth is None else Lookout(pipeline, state, growth, notice, begin)


class Lookout:
    """Check a growing source for appended records at certain positions. Between checks, the order is final.

    Args:
        pipeline: pipeline of the run.
        state: state from which the run continues.
        growth: the user's options.
        notice: logs once that the run waits.
        begin: position of the last change of the order in this run.
    """

    def __init__(
        self, pipeline: Pipeline, state: LoaderState, growth: GrowthOptions, notice: WaitNotice, begin: int
    ) -> None:
        self._leaf, self._growth, self._notice = pipeline.leaf, growth, notice
        self._sources, self._orders = growing_parts(pipeline.leaf.source), orders_of(pipeline.leaf)
        whole: Any = pipeline.leaf.sampler.with_shard_options(NoSharding())
        self._total = len(whole)
        self._log = _log_of(pipeline, growth)
        from .record_checks import first_unread

        unread = first_unread(pipeline, [state], of_shard=state.shard[0])
        self._begun = min(max(unread, begin), self._total)  # where shards ended unevenly, they may stand beyond the end
        self._looks = looks_of(growth, pipeline.leaf, self._begun)
        self._is_final = False
        self._were_incomplete = set[str]()

    @property
    def stop(self) -> int | None:
        """Local position of the next check, up to which the order is final; None if there are no more checks."""
        look = self._looks.position
        if self._is_final or look is None:
            return None
        lineage, shard = self._leaf.lineage, self._leaf.shard
        index = max(look - lineage.dense_from[1], lineage.dense_from[0])
        return max(-(-(index - shard.shard_index) // shard.shard_count), 0)

    def advance(self, wait: bool) -> bool:
        """Make the next check for appended records, and move `stop` to the check after it (None after the last check).

        Args:
            wait: True: the user has reached the position of the check. If all records were read and a
                writer is still at work, the check is repeated until there are more records or the
                writer has ended. False: do not wait.

        Returns:
            True if the check was made, and the order stays as it is. If `wait` is True, the result is
            always True. If `wait` is False, the result is False in two cases: the position of the check
            comes after the position at which the run began; or all records were read, and a writer is
            still at work.

        Raises:
            OrderChangedError: records were appended. The iterator catches it, and switches to the new order.
            CheckpointError: the log of the decisions cannot be read or written.
            SourceError: a file has changed.
        """
        look = self._looks.position
        assert look is not None, "where the order is decided to its end, nobody asks"
        if not wait and look > self._begun:
            return False
        found = self._found(look, wait)
        if found is None:
            return False
        news = {name: each for name, each in found.items() if self._is_new(look, name, each)}
        if news:
            raise OrderChangedError(look, news)
        self._is_final = look >= self._total
        if not self._is_final:
            self._looks.advance()
        return True

    def _is_new(self, look: int, name: str, found: Decision) -> bool:
        """Return True if the decision about a source changes the order of its records.

        Args:
            look: position of the check.
            name: name of the part of a mix; "" for a single source.
            found: the decision.
        """
        order, index = self._orders[name], self._looks.index(name, look)
        if index == 0 and not order.changes:
            return found.generation != order.generation
        return found.generation > order.generation and (
            found.joins or index < len(order.with_shard_options(NoSharding()))
        )

    def _found(self, look: int, wait: bool) -> Decisions | None:
        """Return the decisions for the check at position `look`, by name of the source.

        If a shard has decided before, its decisions are read from the log. Otherwise the sources are
        checked, and the decisions are logged. If all records were read and a writer is still at work,
        the check is repeated until there is a decision; with `wait` = False, the result is None.

        Raises:
            CheckpointError: the log cannot be read or written.
        """
        while True:
            known = self._log.read(look) if self._log is not None else None
            if known is not None:
                return {name: found for name, found in known.items() if name in self._orders}
            looked = {name: self._looked(name, ends, look) for name, ends in self._looks.due.items()}
            found = {name: each for name, each in looked.items() if each is not None}
            if len(found) == len(looked):
                return found if self._log is None else self._log.first(look, found)
            if not wait:
                return None
            time.sleep(PAUSE_SECONDS)

    def _looked(self, name: str, ends: bool, look: int) -> Decision | None:
        """Check one source for appended records; decide which generation (version of its files) is read, and in which epoch.

        The result is None if an epoch ends at this check, the source's writer is still at work, and
        it has appended nothing. This is logged once in a run.

        Args:
            name: name of the part of a mix; "" for a single source.
            ends: True if an epoch ends at this check.
            look: position of the check.
        """
        source, order = self._sources[name], self._orders[name]
        complete = source.complete
        generation = source.newest_generation()
        if not complete:
            self._were_incomplete.add(name)
        if ends and not complete and generation <= order.generation:
            self._notice.say(order.num_records, source)
            return None
        joins = self._growth.at == "now" or (
            ends and (name in self._were_incomplete or self._began_incomplete(name, look))
        )
        return Decision(generation, joins)

    def _began_incomplete(self, name: str, look: int) -> bool:
        """Return True if records joined an epoch, which ends at position `look`, while the source's writer was at work.

        The writer may have ended since then. Its last records belong to this epoch, too.
        """
        source, order = self._sources[name], self._orders[name]
        if source.generation_complete(order.generation):
            return False
        last = self._looks.index(name, look) - 1
        return order.epoch_at(last) == order.epoch_at(order.history.grown_at or 0)


def as_epoch_begins(pipeline: Pipeline, epoch: int) -> Pipeline:
    """Return the pipeline over the generation (version of the source's files) that all shards read in an epoch.

    It is for loops per epoch. The shard that begins the epoch first decides the generation, and writes it
    to the log. If no records are appended, the pipeline is unchanged.

    Raises:
        CheckpointError: the log cannot be read or written.
    """
    growth = pipeline.leaf.growth
    if growth is None:
        return pipeline
    log, source = _log_of(pipeline, growth, "epochs"), growing_parts(pipeline.leaf.source)[ONLY]
    found = log.read(epoch) if log is not None else None
    if found is None:
        found = {ONLY: Decision(source.newest_generation(), False)}
        found = found if log is None else log.first(epoch, found)
    return at_generation(pipeline, found[ONLY].generation)


def _log_of(pipeline: Pipeline, growth: GrowthOptions, *loop: str) -> DecisionLog | None:
    """Return the log of the decisions about appended records; None for a single shard without a log.

    Args:
        pipeline: pipeline of the run.
        growth: the user's options, perhaps with the folder of the log.
        *loop: "epochs" for loops per epoch, which have a log of their own; none for `iter(loader)`.
    """
    leaf, sampler = pipeline.leaf, pipeline.leaf.sampler
    if growth.log is None and leaf.shard.shard_count == 1:
        return None
    growing = growing_parts(leaf.source)
    folder = growth.log if growth.log is not None else os.path.join(str(decision_folder(growing)), "decisions")
    every = growth.every if growth.at == "now" else 0
    source = source_at(leaf.source, dict.fromkeys(growing, 0))
    order = lasting_mix(sampler) if sampler.facts.parts else lasting(sampler.fingerprint)
    values = [order, fingerprint_of(source), growth.at, every, *loop]
    stream = digest(values, 16)
    return DecisionLog(os.path.join(os.fspath(folder), stream))
