"""Detect records that were appended to a source during a run, and switch the run to them.

In: a pipeline, and the place where a run continues. Out: the position up to which its order cannot
change; and, if appended records change the order at this position, the pipeline and the state with
which the run continues.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from typing import Any

from ...common.identity.values import digest
from ...common.messages import short_repr
from ...samplers import NoSharding
from ...samplers.changing.growth import GrowthOptions
from ...samplers.changing.history import lasting
from ...samplers.history import ONLY, SavedOrder, parts_in
from ...samplers.mix.ends import saved_order
from ...sources import fingerprint_of
from ..plan.growth import (
    at_generations,
    decision_folder,
    growing_parts,
    looks_of,
    orders_of,
    source_at,
)
from ..plan.leaf import Leaf
from ..plan.pipeline import Pipeline
from .decisions import Decision, DecisionLog, Decisions
from .schema import LoaderState

_LOGGER = logging.getLogger("headrace")

# Chosen so that listing a folder takes about a hundredth of the pause.
PAUSE_SECONDS = 0.2
"""Seconds between two checks while a run waits for records."""


class WaitNotice:
    """Logs that the run waits for more records, once in a run."""

    def __init__(self) -> None:
        self._said = False

    def say(self, records: int, source: Any) -> None:
        """Log, at the first call only, that the run waits for more records of a source.

        Args:
            records: number of records of the source, all of which were read.
            source: the source. Its writer is still at work, or was killed.
        """
        if not self._said:
            _LOGGER.info(
                "waiting for more records: all %d records of %s were read, and their writer has "
                "not finished. If the writer is not running, start it again.",
                records,
                short_repr(source),
            )
        self._said = True


class OrderChangedError(Exception):
    """Raised if appended records change the order of a run at a position.

    The iterator catches the error, and switches to the new order.

    Attributes:
        position: first global position (counted over all shards) with the new order.
        leaf: index of the source among the joined sources; 0 without joins.
        news: dict from the name of each source (or part of a mix) with appended records to the
            `Decision`: which generation (version of the source's files) to read.
    """

    def __init__(self, position: int, leaf: int, news: Decisions) -> None:
        super().__init__(f"{news} of source {leaf} is read from position {position} on")
        self.position, self.leaf, self.news = position, leaf, news


def grown(
    loaders: Pipeline, state: LoaderState, change: OrderChangedError
) -> tuple[Pipeline, LoaderState]:
    """Return the pipeline and state to continue a run after appended records changed its order.

    Args:
        loaders: the current program's pipeline, before any state was applied.
        state: state after the last element that the user received.
        change: position of the change, and the generations (versions of the source's files) to read
            from there on.
    """
    from .changed_streams import LeafAlone  # not needed before records are appended

    alone = LeafAlone.of(loaders, change.leaf)
    now, of_leaf = _grown(alone.pipeline, alone.state_of(loaders, state), change)
    return alone.put_back(loaders, now), alone.put_back_state(state, of_leaf)


def _grown(
    loaders: Pipeline, state: LoaderState, change: OrderChangedError
) -> tuple[Pipeline, LoaderState]:
    saved = state.order()
    now = at_generations(loaders, {name: found.generation for name, found in change.news.items()})
    order: Any = now.leaf.sampler
    if order.facts.parts:
        order = _grown_mix(order, saved, change)
    elif change.position or saved.changes:
        order = order.with_records_from(saved, change.position, joins=change.news[ONLY].joins)
    now = now.with_leaf(sampler=order)
    return now, state.with_order(0, order.saved, now.identity.sources[0])


def _grown_mix(mix: Any, saved: SavedOrder, change: OrderChangedError) -> Any:
    """Return a mix in which some parts have appended records from the position of a change on.

    Args:
        mix: the mix over the new versions of the sources.
        saved: the run's mix before the change.
        change: position of the change, and the decisions by name of the parts with appended
            records.
    """
    former, parts = saved_order(saved), {}
    counts = dict(zip(former.names, former.counts(change.position).tolist()))
    for name, found in change.news.items():
        parts[name] = mix.parts[name].with_records_from(
            saved.part(name), counts[name], joins=found.joins
        )
    return mix.with_parts(parts).resumed(saved, change.position, False)


def lookouts_of(
    pipeline: Pipeline, state: LoaderState, notice: WaitNotice, begins: Mapping[int, int]
) -> dict[int, Lookout]:
    """Return a `Lookout`, which checks for appended records, for each source that is checked.

    A source is checked if the user's options for its loader or stream say so.

    Args:
        pipeline: pipeline of the run.
        state: state from which the run continues.
        notice: logs once in the run that the run waits for records.
        begins: by index of the source, the position of the last change of its order in this run.
            The checks before this position were made already.

    Returns:
        A dict by index of the source.
    """
    return {
        number: Lookout(pipeline, state, number, leaf.growth, notice, begins.get(number, 0))
        for number, leaf in enumerate(pipeline.leaves)
        if leaf.growth is not None
    }


class Lookout:
    """Checks a growing source for appended records at certain positions.

    Between two checks, the order cannot change.

    Args:
        pipeline: pipeline of the run.
        state: state from which the run continues.
        number: index of the source.
        growth: the user's options for growing sources.
        notice: logs once in the run that the run waits for records.
        begin: position of the last change of this source's order in this run; 0 if it did not
            change.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        state: LoaderState,
        number: int,
        growth: GrowthOptions,
        notice: WaitNotice,
        begin: int,
    ) -> None:
        leaf = pipeline.leaves[number]
        self._leaf, self._number, self._growth, self._notice = leaf, number, growth, notice
        self._sources, self._orders = growing_parts(leaf.source), orders_of(leaf)
        whole: Any = leaf.sampler.with_shard_options(NoSharding())
        self._total = len(whole)
        self._log = _log_of(leaf, growth)
        from .checks.record_checks import first_unread

        unread = first_unread(pipeline, [state], number, of_shard=state.shard[0])
        # where shards ended unevenly, they may stand beyond the end
        self._begun = min(max(unread, begin), self._total)
        self._looks = looks_of(growth, leaf, self._begun)
        self._is_final = False
        self._were_incomplete = set[str]()

    @property
    def stop(self) -> int | None:
        """Local position of the next check for appended records; None if there are no more checks.

        Before this position, the order cannot change.
        """
        look = self._looks.position
        if self._is_final or look is None:
            return None
        lineage, shard = self._leaf.lineage, self._leaf.shard
        index = max(look - lineage.dense_from[1], lineage.dense_from[0])
        return max(-(-(index - shard.shard_index) // shard.shard_count), 0)

    def advance(self, wait: bool) -> bool:
        """Make the next check for appended records, and move `stop` to the check after it.

        After the last check, `stop` is None.

        Args:
            wait: True if the user has reached the position of the check. Then, if all records were
                read and the writer of the source is still at work, the check is repeated until
                there are more records or the writer has ended. If False, this method does not wait.

        Returns:
            True if the check was made and found no change of the order. False if the check could
            not be made yet, which is possible only with `wait=False`: shards have not read up to
            the check's position; or all records were read and the writer is still at work.

        Raises:
            OrderChangedError: records were appended. The iterator catches this error, and switches
                to the new order.
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
            raise OrderChangedError(look, self._number, news)
        self._is_final = look >= self._total
        if not self._is_final:
            self._looks.advance()
        return True

    def _is_new(self, look: int, name: str, found: Decision) -> bool:
        """Return True if a decision about a source changes the order of its records.

        Args:
            look: position of the check.
            name: name of the part of a mix; "" for a single source.
            found: the decision about the generation (version of the source's files) to read.
        """
        order, index = self._orders[name], self._looks.index(name, look)
        if index == 0 and not order.history.changes:
            return found.generation != order.generation
        return found.generation > order.generation and (
            found.joins or index < len(order.with_shard_options(NoSharding()))
        )

    def _found(self, look: int, wait: bool) -> Decisions | None:
        """Return the decisions for the check at position `look`, by name of the mix's part (or "").

        If another shard has already decided, its decisions are read from the log. Otherwise the
        sources are checked, and the decisions are logged. If all records were read and a writer is
        still at work, the check is repeated until there is a decision; with `wait=False`, the
        result is None instead.

        Raises:
            CheckpointError: the log cannot be read or written.
        """
        while True:
            known = self._log.read(look) if self._log is not None else None
            if known is not None:
                return {name: found for name, found in known.items() if name in self._orders}
            looked = {
                name: self._looked(name, ends, look) for name, ends in self._looks.due.items()
            }
            found = {name: each for name, each in looked.items() if each is not None}
            if len(found) == len(looked):
                return found if self._log is None else self._log.first(look, found)
            if not wait:
                return None
            time.sleep(PAUSE_SECONDS)

    def _looked(self, name: str, ends: bool, look: int) -> Decision | None:
        """Check one source for appended records, and decide which generation of it is read next.

        A generation is a version of the source's files. The decision also says if its new records
        are read in the current epoch already, or from the next epoch on.

        Args:
            name: name of the part of a mix; "" for a single source.
            ends: True if an epoch ends at this check.
            look: position of the check.

        Returns:
            The decision. None if an epoch ends at this check, the source's writer is still at work,
            and the writer has appended nothing; a message is then logged, once in a run.
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
        """Return True if a source's writer was still at work when the ending epoch got its records.

        Records that the writer has appended since then also belong to this epoch, even if the
        writer has ended by now.

        Args:
            name: name of the part of a mix; "" for a single source.
            look: position of the check, at which the epoch ends.
        """
        source, order = self._sources[name], self._orders[name]
        if source.generation_complete(order.generation):
            return False
        last = self._looks.index(name, look) - 1
        return order.epoch_at(last) == order.epoch_at(order.history.grown_at or 0)


def as_epoch_begins(pipeline: Pipeline, epoch: int) -> Pipeline:
    """Return an epoch's pipeline over the generation that all shards read in this epoch.

    A generation is a version of the files of a growing source. This function is for loops over
    `loader.epochs()`. The shard that begins the epoch first decides on the newest generation, and
    writes it to the log; the other shards read the log. The pipeline is returned unchanged if the
    loader does not check for appended records.

    Raises:
        CheckpointError: the log cannot be read or written.
    """
    growth = pipeline.leaf.growth
    if growth is None:
        return pipeline
    log, source = (
        _log_of(pipeline.leaf, growth, "epochs"),
        growing_parts(pipeline.leaf.source)[ONLY],
    )
    found = log.read(epoch) if log is not None else None
    if found is None:
        found = {ONLY: Decision(source.newest_generation(), False)}
        found = found if log is None else log.first(epoch, found)
    return at_generations(pipeline, {ONLY: found[ONLY].generation})


def _log_of(leaf: Leaf, growth: GrowthOptions, *loop: str) -> DecisionLog | None:
    """Return the log by which shards agree when to read appended records.

    Return None if there is a single shard and the user gave no log.

    Args:
        leaf: the source, or mix of sources, with its sampler.
        growth: the user's options for growing sources, with the folder of the log, if the user gave
            one.
        *loop: "epochs" for loops over `loader.epochs()`, which have a log of their own; nothing for
            `iter(loader)`.
    """
    sampler = leaf.sampler
    if growth.log is None and leaf.shard.shard_count == 1:
        return None
    growing = growing_parts(leaf.source)
    folder = (
        growth.log
        if growth.log is not None
        else os.path.join(str(decision_folder(growing)), "decisions")
    )
    every = growth.every if growth.at == "now" else 0
    source = source_at(leaf.source, dict.fromkeys(growing, 0))
    order = lasting(sampler.fingerprint)
    order |= {key: lasting(part) for key, part in parts_in(sampler.fingerprint).items()}
    # Other weights move all later positions, so that earlier decisions are about other records.
    weights = [
        list(change) for change in sampler.saved.own_changes if change.values.keys() == {"weights"}
    ]
    values = [
        order,
        weights,
        fingerprint_of(source),
        growth.at,
        every,
        *loop,
        *([leaf.name] if leaf.name else []),
    ]
    stream = digest(values, 16)
    return DecisionLog(os.path.join(os.fspath(folder), stream))
