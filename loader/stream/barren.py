"""Detect that an endless stream has no more elements, because its operations drop every record.

In: the places in the stream before and after tasks that made no rows. Out: a failure if the stream
has no more elements, else None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...errors import NothingPassesError
from ..plan.cursor import Cursor
from ..plan.leaf import Leaf
from ..work.tasks import Failure, GroupTask
from .rows import Request

BARREN_EPOCHS = 8
"""Epochs without a row, times the number of shards, after which one shard of several stops."""

FAR = 16
"""Factor for the number of epochs before a source that gives no records any more is ignored."""

MANY = 1 << 17
"""Smallest number of records before such a source is ignored.

Of so many, a source of small weight gives some.
"""

LATER = 1 << 40
"""Number of further records after which a part of a mix is checked for having given some.

The part may have ended.
"""

MOST = 1 << 22
"""Number of records of one source without a row after which nothing more is expected.

This holds however seldom a record is drawn.
"""

MIN_BARREN_GROUPS = 100
"""Number of consecutive groups that may have no results, however few positions an epoch has."""

BARREN_RECORDS = 1000
"""Smallest number of records without a row, however few an epoch has.

Random operations draw anew for each record.
"""

BARREN_REPEATS = 1000
"""Number of times that an endless `IterDataset.repeat` may repeat its elements without a row.

Each may be drawn anew.
"""


class EmptyStreamGuard:
    """Detects that an endless stream has no more elements, because operations drop every record.

    The stream has no more elements if each source has shown all of its records since the last row
    of the stream, or if a stream with an endless `repeat` was repeated many times since the last
    row.

    Args:
        leaves: the leaves (sources with their samplers) from which the records come.
        since: the cursor (place in the stream) after the last row.
        repeats: for each endless `repeat` of a stream, the index of its note in a cursor, and the
            indices of the leaves that it repeats. (A note is the saved progress of the `repeat`.)
    """

    def __init__(self, leaves: Sequence[Leaf], since: Cursor, repeats: Mapping[int, range]) -> None:
        self._once = [
            leaf
            for leaf in range(len(leaves))
            if not any(leaf in below for below in repeats.values())
        ]
        self._leaves = [leaves[leaf] for leaf in self._once]
        self._repeats = repeats
        self._first = since
        self._since = self._positions(since)
        self._groups = 0
        self._looks: list[
            tuple[int, Sequence[int]]
        ] = []  # number of records without a row, and positions

    def go_on(self, request: Request) -> Failure | None:
        """Count a task that made no rows; detect if the endless stream has no more elements.

        Args:
            request: the task with its places in the stream.

        Returns:
            a failure if the stream has no more elements, else None.
        """
        in_groups = isinstance(request.task, GroupTask)
        self._groups += in_groups
        if in_groups and self._groups < MIN_BARREN_GROUPS:
            return None
        cursor = request.origin.stop
        times = self._times_repeated(cursor)
        if times is not None and times < BARREN_REPEATS:
            return None
        now = self._positions(cursor)
        records = sum(now) - sum(self._since)
        if times is not None and not records:
            return Failure(
                NothingPassesError(
                    f"no element came out of the operations while a stream was repeated {times} "
                    "times, and its repeat() is endless: a filter, a flat map or on_error='skip' "
                    "after repeat() drops everything. Check the condition, or the errors in the "
                    "log; or pass a number to repeat() to let the stream end."
                )
            )
        if records < BARREN_RECORDS:
            return None
        # A look at a mix takes as long as a batch.
        if (self._looks and records < self._looks[-1][0] * 5 // 4) or not self._have_shown_all(
            now, records
        ):
            return None
        longest = max(leaf.sampler.epoch_length for leaf in self._leaves if leaf.endless)
        return Failure(
            NothingPassesError(
                f"no element came out of the operations for {records} records in a row of an "
                f"endless stream, and an epoch has {longest}: a Filter, a FlatMap or "
                "on_error='skip' drops everything. Check the condition, or the errors in the log; "
                "or pass num_epochs= to let the stream end."
            )
        )

    def _times_repeated(self, cursor: Cursor) -> int | None:
        """Return how often the least repeated source was repeated since the last row of the stream.

        Only sources in a stream with an endless `repeat` count. Return None if there are no such
        sources.
        """
        times = dict[int, int]()
        for note, leaves in self._repeats.items():
            # below 0 if it is in a stream that began again
            new = cursor.notes[note][1] - self._first.notes[note][1]
            times.update({leaf: max(new, times.get(leaf, 0)) for leaf in leaves})
        return min(times.values(), default=None)

    def _positions(self, cursor: Cursor) -> list[int]:
        return [cursor.positions[leaf] for leaf in self._once]

    def _have_shown_all(self, now: Sequence[int], records: int) -> bool:
        """Return True if every source has shown all its records since the last row, or has ended.

        A source is ignored if a join (such as a mix) takes no more records of it, and if the other
        sources have shown their records many times meanwhile.

        Args:
            now: for each source, the position reached, counted on this shard.
            records: number of records since the last row of the stream.
        """
        half = next(
            (at for number, at in reversed(self._looks) if 2 * number <= records), self._since
        )
        self._looks.append((records, now))
        left = [
            each
            for each in zip(self._leaves, self._since, half, now)
            if each[0].endless or each[3] < each[0].total
        ]
        read = [(leaf, since, to) for leaf, since, at_half, to in left if to != at_half]
        if not read or not all(leaf.endless for leaf, _, _ in read):
            return False
        if len(read) < len(left) and records < MANY:
            return False
        times = 1 if len(read) == len(left) else FAR
        return all(_has_shown_all(leaf, since, to, times) for leaf, since, to in read)


def _has_shown_all(leaf: Leaf, since: int, now: int, times: int) -> bool:
    """Return True if a source has almost surely shown all its records between two positions.

    The common case: an epoch that began after the first position and ended before the second
    position has shown every record. There are these exceptions:

    * If records are drawn with replacement, several epochs are needed (`epochs_for_all`).
    * A shard reads only its share of the records, another share in each epoch. So more epochs are
      needed: `BARREN_EPOCHS` times the number of shards. After these, a given record was in none of
      the shard's shares with probability exp(-BARREN_EPOCHS).
    * In a mix, each part has epochs of its own, and the rule must hold for each part. Parts that
      give no more records do not count.
    * Epochs may have different records, as in a chain that repeats a mix, or after records were
      appended. Then the shard must also have read `BARREN_EPOCHS` times as many records as the
      source has.

    Args:
        leaf: source with its sampler.
        since: the first position, counted on this shard.
        now: the second position, counted on this shard.
        times: number of times that each record must have come.
    """
    if now - since >= MOST:
        return True
    shards = leaf.shard.shard_count
    if not leaf.facts.same_records and (now - since) * shards < BARREN_EPOCHS * len(leaf.source):
        return False
    epochs = times * (1 if shards == 1 else BARREN_EPOCHS * shards)
    if not leaf.facts.parts:
        return now >= _end_of(leaf, since, epochs * leaf.facts.epochs_for_all)
    if now < _end_of(leaf, since, epochs):
        return False
    before, after = leaf.part_epochs(since), leaf.part_epochs(now)
    so_far, later = leaf.part_records(now), leaf.part_records(now + LATER)
    return all(
        after[name] - before[name] > epochs * part.facts.epochs_for_all
        or later[name] == so_far[name]
        for name, part in leaf.sampler.parts.items()
    )


def _end_of(leaf: Leaf, since: int, epochs: int) -> int:
    """Return the position, counted on this shard, at the end of several whole epochs.

    The first of these epochs is the first that begins after the position `since`.

    Args:
        leaf: source with its sampler.
        since: position, counted on this shard.
        epochs: number of epochs.
    """
    shard, epoch = leaf.shard, leaf.sampler.epoch_length
    dense_from, offset = leaf.lineage.dense_from  # before that, positions come in no order
    last = max(shard.global_position(since), dense_from) + offset
    return -(-((last // epoch + 1 + epochs) * epoch - offset) // shard.shard_count)
