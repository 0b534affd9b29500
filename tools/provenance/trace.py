"""The records of step N: every file, record and span of tokens.

In: a loader, the number of a step, and maybe a checkpoint. Out: the records that the element was made of.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from ...common.redaction import redacted
from ...common.validation import whole_number
from ...errors import TraceError
from ...loader.state.loader_state import LoaderState
from ...samplers.changing.sampler import ChangingSampler
from ...samplers.mix.sampler import MixSampler
from ...samplers.weighted.sampler import WeightedSampler
from ...sources.provenance import FilePlace, TokenSpan
from .elements import Element, FoundRecord, Search
from .streams import Described, iterator_of, states_of


@dataclass(frozen=True)
class TracedRecord:
    """A record, or a piece of one, in an element.

    Attributes:
        shard: that delivered it.
        row: of the batch; None: the element is no batch.
        segment: of a packed row, from 1; None: the row is not packed.
        dataset: names of the datasets that it is of, as "web/books"; "" where there is one.
        key: of the record in its source.
        position: of the record, or of what it is a part of, in the sampler's order.
        file: that it lies in; None: its source has none, or does not tell it.
        record: its number in the file, from 0.
        note: what else tells it, such as its row group.
        tokens: of the document, for each leaf that is packed; none: all of it.
        file_tokens: `(start, stop)` in a file of tokens.
    """

    shard: int
    row: int | None
    segment: int | None
    dataset: str
    key: int
    position: int
    file: str | None = None
    record: int | None = None
    note: str = ""
    tokens: tuple[TokenSpan, ...] = ()
    file_tokens: tuple[int, int] | None = None


@dataclass(frozen=True)
class Trace:
    """The records of a step; `print` it for a table.

    Attributes:
        step: its number.
        shards: those that are told.
        shard_count: how many there were.
        epochs: of each dataset, by name, the epoch of its last record; what is run through has none.
        ran_from: the step from which the pipeline was run to find out, as what comes decides what is in a step; None:
            arithmetic told it.
        records: in the order in which they stand in the elements of the shards.
        weights: digests of the weights that drew them, and from which position on these held, where a `WeightedSampler` did.
        generations: of the source that has them, and from which position on each held.
    """

    step: int
    shards: tuple[int, ...]
    shard_count: int
    epochs: dict[str, int]
    ran_from: int | None
    records: tuple[TracedRecord, ...]
    weights: tuple[str, ...] = ()
    generations: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values for JSON."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        shards = f" on shard {', '.join(map(str, self.shards))} of {self.shard_count}"
        if len(self.shards) == self.shard_count:
            shards = f" on {self.shard_count} shards" if self.shard_count > 1 else ""
        files = len({record.file for record in self.records if record.file is not None})
        of_files = f" of {files:,} files" if files else ""
        yield f"Step {self.step:,}{shards}: {len(self.records):,} records{of_files}"
        if self.epochs:
            names = (f"{epoch}{f' of {name}' if name else ''}" for name, epoch in self.epochs.items())
            yield f"Epoch {', '.join(names)}"
        yield from (f"Drawn by {weights}" for weights in self.weights)
        yield from (f"Of {generation}" for generation in self.generations)
        if self.ran_from is None:
            yield "Found by arithmetic; nothing was read."
        else:
            yield f"Found by running from step {self.ran_from:,} on: what comes decides what is in a step."
        yield ""
        rows = map(_told, self.records)
        yield from columns([{**row, "shard": ""} if self.shard_count == 1 else row for row in rows])


def _told(record: TracedRecord) -> dict[str, str]:
    cells: dict[str, Any] = {
        name: getattr(record, name) for name in ("shard", "row", "segment", "dataset", "key", "position")
    }
    cells["tokens"] = ", ".join(f"[{span.start}:{span.stop}] of {span.length}" for span in record.tokens)
    cells |= {"file": record.file, "record": record.record}
    cells["tokens of the file"] = record.file_tokens and "[{}:{}]".format(*record.file_tokens)
    return {name: "" if cell is None else str(cell) for name, cell in {**cells, "": record.note}.items()}


def columns(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    r"""A line of names and one for each row, in columns; without columns that are empty.

    >>> print("\n".join(columns([{"row": "0", "note": "", "key": "17"}, {"row": "1", "note": "", "key": "3"}])))
    row  key
    0    17
    1    3
    """
    names = [name for name in (rows[0] if rows else {}) if any(row[name] for row in rows)]
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
    for row in ({name: name for name in names}, *rows):
        yield "  ".join(row[name].ljust(widths[name]) for name in names).rstrip()


def trace(
    loader: Any,
    step: int,
    checkpoint: Any = None,
    *,
    shards: int | None = None,
    epochs: bool = False,
    strict: bool = True,
) -> Trace:
    """Find what was, or will be, in a step: every record, its file, and its tokens.

    It is what is delivered, also where several datasets are mixed or packed, steps are left out, or the number of shards
    changed before the checkpoint. Costs no more at step 10^9 than at step 1, and reads no record, unless what comes decides
    what is in a step: with a filter, a flat map, a `Pack` of a stream, or where a stream that is joined with others has
    ended. Then the pipeline is run to that step in this thread, from the checkpoint, or for a step before that from the
    beginning; maps and batches after these operations are not run.

    Args:
        loader: a `DataLoader`, `MapDataset` or `IterDataset`, or a feeder's description, `loader.to_device(…)`; or an
            iterator or feeder, whose state is the checkpoint unless another one is given.
        step: the number of the element, from 0, as `iterator.step` tells it before that element is delivered.
        checkpoint: a path of a state file or of a folder of these (of several checkpoints, the last one before the step is
            taken), what `get_state()` or `state_dict()` gave, or a list of those of all shards. Each state is traced on the
            shard that it is of. None (default): a run from the beginning, on the loader's own shard.
        shards: the number of shards that go on from the states of all shards of a run; default: as many.
        epochs: whether the steps are those of `loader.epochs()`; a state tells that itself.
        strict: False goes on although source, sampler or operations are not those of the state.

    Raises:
        TraceError: the stream ends before, or the step was left out, or is one of before shards, batch size or weights
            changed.
        CheckpointError: the state cannot be read, or is that of another pipeline.
        TypeError: the loader is none, or what is passed is of another kind.

    >>> import headrace
    >>> loader = headrace.load(range(100), shuffle=True, seed=0, batch_size=4)
    >>> found = headrace.trace(loader, step=10**9)
    >>> [record.key for record in found.records] == loader.records_at(10**9).tolist()
    True
    """
    step = whole_number("step", step, 0, None, "the number of an element, from 0")
    described = Described.of(loader)
    if checkpoint is None and iterator_of(loader) is not None:
        checkpoint = loader.get_state()
    states = [] if checkpoint is None else states_of(checkpoint, step)
    told, count = shards_of(described, states, shards)
    found = []
    for index in told:
        mine = [state for state in states if state.shard == (index, count)] or states
        search = Search.at(described.on(described.shard(index, count)), mine, epochs or described.in_epochs, strict)
        found.append(search.found(step))
    ran = [one.ran_from for one in found if one.ran_from is not None]
    records = [_traced(each, index) for index, one in zip(told, found) for each in one.records]
    weights = tuple(dict.fromkeys(chain.from_iterable(map(_weights, found))))
    generations = tuple(dict.fromkeys(chain.from_iterable(map(_generations, found))))
    return Trace(step, tuple(told), count, _epochs(found), min(ran, default=None), tuple(records), weights, generations)


def _weights(element: Element) -> list[str]:
    """The weights that drew the records of an element, in words; a TraceError if others did, of a former run."""
    samplers = {number: element.leaves[number].sampler for number in {found.leaf for found in element.records}}
    weighted = {number: sampler for number, sampler in samplers.items() if isinstance(sampler, WeightedSampler)}
    for found in element.records:
        former = weighted[found.leaf].former_weights(found.position) if found.leaf in weighted else None
        if former is not None:
            raise TraceError(
                f"position {found.position:,} was drawn by other weights, {former}, in a former run; trace the step with a "
                "loader of those weights, and a state of that run."
            )
    return [sampler.weights_told for sampler in weighted.values()]


def _generations(element: Element) -> Iterator[str]:
    """The generations of the sources that the records of an element are of, in words; of a mix with the part's name."""
    for each in element.records:
        sampler, place, of = element.leaves[each.leaf].sampler, each.position, ""
        if isinstance(sampler, MixSampler):
            part, place = sampler.order.place(place)
            name = sampler.names[part]
            sampler, of = sampler.parts[name], f" of part {name!r}"
        if isinstance(sampler, ChangingSampler) and (sampler.changes or sampler.generation):
            begins = [0, *(change.position for change in sampler.changes)]
            first = begins[bisect_right(begins, place) - 1]
            yield f"generation {sampler.generation_at(place)}{of}, which holds from {'its ' if of else ''}position {first:,} on"


def shards_of(described: Described, states: Sequence[LoaderState], shards: int | None) -> tuple[Sequence[int], int]:
    """The shards that are to be told, and how many there are: those of the states, or so many that go on after these."""
    own = described.pipeline.shard
    known = [state.shard[0] for state in states] or [own.shard_index]
    before = states[0].shard[1] if states else own.shard_count
    count = before if shards is None else whole_number("shards", shards, 1, None, "how many go on")
    return (known, count) if count == before else (range(count), count)


def _epochs(found: Iterable[Element]) -> dict[str, int]:
    """The latest epoch of each dataset in all shards, as those of a `Trace`."""
    latest: dict[str, int] = {}
    for element in found:
        last: dict[int, int] = {}
        for each in element.records:
            last[each.leaf] = max(each.position, last.get(each.leaf, 0))
        epochs: dict[str, int] = {}
        for number, position in last.items():
            leaf = element.leaves[number]
            if not leaf.in_order and isinstance(leaf.sampler, MixSampler):
                parts = leaf.sampler.part_epochs(position)
                epochs |= {"/".join(filter(None, (leaf.name, name))): epoch for name, epoch in parts.items()}
            elif not leaf.in_order:
                epoch_at = getattr(leaf.sampler, "epoch_at", None)
                epochs[leaf.name] = leaf.epoch + (epoch_at(position) if epoch_at else position // leaf.epoch_stride)
        latest |= {name: max(epoch, latest.get(name, 0)) for name, epoch in epochs.items()}
    return latest


def _traced(found: FoundRecord, shard: int) -> TracedRecord:
    used = found.used
    datasets, tell = "/".join(used.datasets), getattr(used.source, "file_place", None)
    record = TracedRecord(shard, used.row, used.segment, datasets, used.key, found.position, tokens=used.tokens)
    place = None if tell is None else tell(used.key)
    if place is None:
        return record
    place = FilePlace(*place)
    tokens = _tokens_of_file(place.tokens, used.tokens)
    return replace(record, file=redacted(place.file), record=place.record, note=place.note, file_tokens=tokens)


def _tokens_of_file(whole: tuple[int, int] | None, spans: Iterable[TokenSpan]) -> tuple[int, int] | None:
    """Those of a piece of a document; of all of it, where the document was made longer or shorter before it was packed."""
    if whole is None:
        return None
    for span in spans:
        if span.length == whole[1] - whole[0]:
            return whole[0] + span.start, whole[0] + span.stop
    return whole
