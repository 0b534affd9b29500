"""Check that omitted records are not read.

The result lists the positions at which an omitted record comes; normally there are none. The
records at all positions are computed in the same way as by the loader's workers, and compared with
the omitted keys.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.messages import first_few, short_repr
from ...common.validation import whole_number
from ...errors import TraceError
from ...loader.plan.cursor import those_within
from ...loader.plan.leaf import Leaf
from ...loader.plan.omission import keys_by_part
from ...loader.plan.pipeline import Pipeline
from ...loader.state.position import StreamPosition
from ...sources.omission.keys import OmitOfParts
from .elements import StartPoint
from .streams import Described, iterator_of, states_of
from .trace import columns, shards_of

Int64s = NDArray[np.int64]

MOST_TOLD = 20
"""Largest number of records that a search lists."""


@dataclass(frozen=True)
class ReadRecord:
    """A record that should be omitted, but is read.

    Attributes:
        shard: shard that reads it.
        step: step of the element; None if it depends on operations.
        dataset: part of a mix, or stream; "" if there is only one.
        key: key of the record in its source.
        position: position in the sampler's order.
    """

    shard: int
    step: int | None
    dataset: str
    key: int
    position: int


@dataclass(frozen=True)
class OmittedSearch:
    """Result of a search for omitted records among the positions of a stream.

    `print` it for a table.

    In a condition, the result is True if the stream has an omitted record at one of the positions.

    Attributes:
        keys: number of omitted records that were searched for.
        since: first step of the search.
        positions: number of positions that were checked, on all shards together.
        whole: True if all positions until the end of the stream were checked. False if the search
            ended earlier, after the next whole epoch.
        count: number of positions that have an omitted record.
        found: the omitted records at the first of these positions, at most 20.
    """

    keys: int
    since: int
    positions: int
    whole: bool
    count: int
    found: tuple[ReadRecord, ...]

    def __bool__(self) -> bool:
        return self.count > 0

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        until = "to the end" if self.whole else "to the end of the next epoch"
        said = f"{self.count:,} are read" if self.count else "none is read"
        yield (
            f"{self.keys:,} records looked for at {self.positions:,} positions, from step "
            f"{self.since:,} {until}: {said}."
        )
        rows = (
            {name: "" if value is None else str(value) for name, value in vars(each).items()}
            for each in self.found
        )
        yield from columns(list(rows))
        if self.count > len(self.found):
            yield f"and {self.count - len(self.found):,} more"


def find_omitted(
    loader: Any,
    since: int = 0,
    checkpoint: Any = None,
    *,
    keys: OmitOfParts | None = None,
    shards: int | None = None,
    strict: bool = True,
) -> OmittedSearch:
    """Check whether a record that should be omitted was read or will be read, from a step on.

    It checks each position of the order from that step to the checkpoint (if that is later), and as
    many further ones as two epochs have, or fewer if the stream ends. So the next epoch is
    complete. It reads no record, and takes about 0.1 s per million positions. A record that an
    operation drops counts as read. Later positions are not checked: there, a sampler with weights
    of records may draw a record for the first time.

    Args:
        loader: a `DataLoader`, `MapDataset` or `IterDataset`, one of these on devices, or an
            iterator or feeder of one, whose state is the checkpoint unless another one is given.
        since: number of the first element, from 0.
        checkpoint: current position of the run: path of a state file or folder, or results of
            `get_state()`, as in `trace`. None (default): the beginning, on the loader's shard.
        keys: records to search for, as in `omit=` of a loader; for joined streams, a dict by
            stream. None (default): the records that the loader omits.
        shards: number of shards that resume from the states of all shards. None (default): the same
            number as before.
        strict: False: accept states of another source, sampler or other operations.

    Raises:
        TraceError: the loader omits nothing, plans batches, or has a source without random access;
            the step was skipped, or is from before a change of shards; or records of joined streams
            are unknown until they are read.
        CheckpointError: `checkpoint` is not a checkpoint, cannot be read, or belongs to another
            pipeline.
        TypeError: `loader` is not a loader, or `since` or `shards` is not an integer.
        ValueError: `since` is negative, or `shards` is less than 1.
        TypeError, RecordKeyError, SourceError: `keys` do not fit the source.

    >>> import headrace
    >>> loader = headrace.load(range(100), shuffle=True, seed=0, batch_size=4, omit=[17, 30])
    >>> bool(headrace.find_omitted(loader))
    False
    >>> search = headrace.find_omitted(loader, since=10, keys=[17, 31])
    >>> {record.key for record in search.found}
    {31}
    """
    since = whole_number("since", since, 0, None, "the number of an element, from 0")
    described = Described.of(loader)
    if checkpoint is None and iterator_of(loader) is not None:
        checkpoint = loader.get_state()
    states = [] if checkpoint is None else states_of(checkpoint)
    wanted = _wanted(described.pipeline, keys)
    told, count = shards_of(described, states, shards)
    looked, hits, whole = 0, list[ReadRecord](), True
    for index in told:
        mine = [state for state in states if state.shard == (index, count)] or states
        mark = described.on(described.shard(index, count)).stand(mine, strict)
        for number, of_leaf in wanted.items():
            ended, positions, found = _in_leaf(mark, since, number, of_leaf)
            whole, looked = whole and ended, looked + positions
            hits += found
    hits.sort(key=lambda hit: hit.position)
    return OmittedSearch(
        sum(map(len, wanted.values())), since, looked, whole, len(hits), tuple(hits[:MOST_TOLD])
    )


def _wanted(pipeline: Pipeline, keys: Any) -> dict[int, Int64s]:
    """Return, for each source of a pipeline by index, the sorted keys to search for.

    They are in the form that the source uses.

    Args:
        pipeline: pipeline of the loader.
        keys: the user's keys; None: the records that the loader omits.

    Raises:
        TraceError: there are no keys; or they do not fit the streams.
        TypeError, RecordKeyError, SourceError: they do not fit a source.
    """
    names = [leaf.name or str(number) for number, leaf in enumerate(pipeline.leaves)]
    if keys is not None and pipeline.joins:
        if not isinstance(keys, Mapping) or not keys.keys() <= {*names}:
            raise TraceError(
                f"keys={short_repr(keys)} must be a dict by the names of the joined datasets: "
                f"{first_few(names, 8)}. Pass keys={{{short_repr(names[0])}: […], …}} to "
                "headrace.find_omitted."
            )
        by_leaf = {number: keys.get(name, ()) for number, name in enumerate(names)}
    else:
        by_leaf = dict.fromkeys(range(len(names)), keys)
    found = {
        number: _wanted_of(pipeline.leaves[number], of_leaf) for number, of_leaf in by_leaf.items()
    }
    if not any(map(len, found.values())):
        raise TraceError(
            "there is no record to search for: the loader omits none, or keys= is empty. Pass the "
            "keys to search for, keys= (or --keys FILE)."
        )
    return {number: of_leaf for number, of_leaf in found.items() if len(of_leaf)}


def _wanted_of(leaf: Leaf, keys: OmitOfParts | None) -> Int64s:
    order = leaf.sampler
    parts = order.parts
    found = {name: part.omitted_keys for name, part in parts.items()}
    if keys is None and not any(map(len, found.values())):
        return np.empty(0, np.int64)
    if leaf.in_order or leaf.source_facts.planned:
        raise TraceError(
            "find_omitted cannot search sources without random access, or batches and packed rows "
            "that are planned from lengths. Use trace() for the records of a step."
        )
    if keys is not None:
        found = keys_by_part(order, leaf.source, keys, "keys")
    places = {name: place for place, name in enumerate(parts)}
    wanted = [
        of_part.astype(np.int64) * len(parts) + places[name] for name, of_part in found.items()
    ]
    return np.sort(np.concatenate([np.empty(0, np.int64), *wanted]))


def _in_leaf(
    mark: StreamPosition, since: int, number: int, wanted: Int64s
) -> tuple[bool, int, list[ReadRecord]]:
    """Search for records among the positions of one source that a shard reads.

    Args:
        mark: position of the shard's run.
        since: first step of the search.
        number: index of the source in the pipeline.
        wanted: sorted keys of the records, `int64[n]`.

    Returns:
        True if the end of the stream was reached; the number of checked positions; and the records
        found.

    Raises:
        TraceError: the position of the step `since` is unknown.
    """
    place = StartPoint.nearest(mark, since)
    pipeline, leaf = place.pipeline, place.pipeline.leaves[number]
    first, unit = place.cursor.positions[number], pipeline.stage_on(number).unit
    if pipeline.begins_anew(number):
        first = 0
    reached = max(first, mark.cursor.positions[number])
    stop = min(leaf.total, reached + -(-2 * leaf.sampler.epoch_length // leaf.shard.shard_count))
    hits = []
    for local, position, key in _among(leaf, first, stop, wanted):
        step = place.step + (local - first) // unit if pipeline.aligned else None
        hits.append(_read_record(leaf, step, position, key))
    for rest in those_within(place.cursor.unfinished):  # what shards of earlier runs had begun
        if pipeline.joins:
            raise TraceError(
                "the checkpoint was saved with another number of shards, while a mix or zip of "
                "streams held back some records (for a Pack, a window_shuffle, a batch that a "
                "FlatMap splits or the like). Which records these are is known only after "
                "reading. Pass a checkpoint that was saved at another step."
            )
        former, begun = (
            pipeline.every_leaf[pipeline.read_by(0, pipeline.former_of(rest))],
            rest.cursor.positions[0],
        )
        found = _among(former, begun, min(former.total, begun + unit), wanted)
        hits += [
            dataclasses.replace(
                _read_record(former, None, position, key), shard=leaf.shard.shard_index
            )
            for _, position, key in found
        ]
    return stop == leaf.total, max(stop - first, 0), hits


def _among(leaf: Leaf, start: int, stop: int, wanted: Int64s) -> Iterator[tuple[int, int, int]]:
    """Yield (position of this shard, position over all shards, key)  of wanted records.

    Their positions are in `[start, stop)`.
    """
    for first in range(start, stop, leaf.block_size):
        positions = leaf.positions(first, min(first + leaf.block_size, stop))
        keys = leaf.record_keys(positions)
        at = np.minimum(np.searchsorted(wanted, keys), len(wanted) - 1)
        for place in np.flatnonzero(wanted[at] == keys).tolist():
            yield first + place, int(positions[place]), int(keys[place])


def _read_record(leaf: Leaf, step: int | None, position: int, key: int) -> ReadRecord:
    name, own = leaf.name, key
    if leaf.has_parts:
        ((part, (own,)),) = leaf.source_facts.records_of(np.array([key])).items()
        name = "/".join(filter(None, (name, part)))
    return ReadRecord(leaf.shard.shard_index, step, name, int(own), position)
