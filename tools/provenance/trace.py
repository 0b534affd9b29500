"""Find the records of a step: every file, record and range of tokens."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from ...common.redaction import redacted
from ...common.validation import whole_number
from ...errors import TraceError
from ...loader.state.schema import LoaderState
from ...sources.facts import facts_of
from ...sources.provenance import TokenSpan
from .elements import Element, FoundRecord, Search
from .streams import Described, iterator_of, states_of


@dataclass(frozen=True)
class TracedRecord:
    """A record, or a piece of a record, in an element.

    Attributes:
        shard: shard that delivered it.
        row: row of the batch; None if the element is not a batch.
        segment: segment of a packed row, from 1; None if the row is not packed.
        dataset: names of the datasets that contain it, such as "web/books"; "" if there is only
            one.
        key: key of the record in its source.
        position: position, in the sampler's order, of the record, or of the window or batch that it
            is part of.
        file: file that contains it; None if its source has no files, or does not name them.
        record: index of the record in the file, from 0.
        note: more about the place, such as its row group.
        tokens: range of tokens of the document, for each packed leaf; empty if the document is
            whole.
        file_tokens: range of tokens `(start, stop)` in a file of tokens.
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
    """The records of a step. `print` it for a table.

    Attributes:
        step: number of the step.
        shards: shards that are listed.
        shard_count: number of shards.
        epochs: for each dataset, the epoch of its last record in the step. Sources without random
            access have none.
        ran_from: step from which the pipeline was run to find the records; None if they could be
            computed.
        records: the records, in the order of the elements of the shards.
        weights: for a sampler with weights of records, digests of the weights, and the positions
            from which they are used.
        generations: for a growing source, its generations (versions of its files), and the
            positions from which they are used.
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
        """Return everything as plain values for JSON."""
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
            names = (
                f"{epoch}{f' of {name}' if name else ''}" for name, epoch in self.epochs.items()
            )
            yield f"Epoch {', '.join(names)}"
        yield from (f"Drawn by {weights}" for weights in self.weights)
        yield from (f"Of {generation}" for generation in self.generations)
        if self.ran_from is None:
            yield "Found by arithmetic; nothing was read."
        else:
            yield (
                f"Found by running from step {self.ran_from:,} on: what comes decides what is in a "
                "step."
            )
        yield ""
        rows = map(_as_texts, self.records)
        yield from columns([{**row, "shard": ""} if self.shard_count == 1 else row for row in rows])


def _as_texts(record: TracedRecord) -> dict[str, str]:
    cells: dict[str, Any] = {
        "shard": record.shard,
        "row": record.row,
        "segment": record.segment,
        "dataset": record.dataset,
        "key": record.key,
        "position": record.position,
    }
    cells["tokens"] = ", ".join(
        f"[{span.start}:{span.stop}] of {span.length}" for span in record.tokens
    )
    cells |= {"file": record.file, "record": record.record}
    cells["tokens of the file"] = record.file_tokens and "[{}:{}]".format(*record.file_tokens)
    return {
        name: "" if cell is None else str(cell) for name, cell in {**cells, "": record.note}.items()
    }


def columns(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    r"""Yield a header line and one line for each row (a dict from column name to text), aligned.

    Empty columns are left out.

    >>> rows = [{"row": "0", "note": "", "key": "17"}, {"row": "1", "note": "", "key": "3"}]
    >>> print("\n".join(columns(rows)))
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

    The result is exactly what is delivered, also if datasets are mixed or packed, steps are
    skipped, or the number of shards changed before the checkpoint. Step 10^9 costs no more than
    step 1, and no record is read, unless records decide what is in a step. They do with a filter, a
    flat map, a `Pack` of a stream, `on_error="skip"`, a source without random access, or after the
    end of a stream that is joined with others. Then the pipeline is run to that step in this
    thread: from the checkpoint, or for an earlier step from the beginning. Maps and batches after
    the last such operation are not run, except with `on_error="skip"`.

    Args:
        loader: a `DataLoader`, `MapDataset` or `IterDataset`; a feeder's description,
            `loader.to_device(…)`; or an iterator or feeder, whose state is the checkpoint unless
            another one is given.
        step: number of the element, from 0: the value of `iterator.step` before the element is
            delivered.
        checkpoint: path of a state file or of a folder of state files (of several checkpoints, the
            last one that is not after the step is used; if all are after it, the first one); the
            result of `get_state()` or `state_dict()`; or a list of these results of all shards.
            Each state is traced on its shard. None (default): a run from the beginning, on the
            loader's own shard.
        shards: number of shards that resume from the states of all shards. None (default): the same
            number as before.
        epochs: True: steps are counted as `loader.epochs()` counts them. If a state is passed, it
            contains this.
        strict: False: accept states of another source, sampler or other operations.

    Raises:
        TraceError: the stream ends before the step; or the step was skipped, or is from before a
            change of shards, batch size or weights.
        CheckpointError: `checkpoint` is not a checkpoint, cannot be read, or belongs to another
            pipeline.
        TypeError: `loader` is not a loader, or `step` or `shards` is not an integer.
        ValueError: `step` is negative, or `shards` is less than 1.

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
        search = Search.at(
            described.on(described.shard(index, count)), mine, epochs or described.in_epochs, strict
        )
        found.append(search.found(step))
    ran = [one.ran_from for one in found if one.ran_from is not None]
    records = [_traced(each, index) for index, one in zip(told, found) for each in one.records]
    weights = tuple(dict.fromkeys(chain.from_iterable(map(_weights, found))))
    generations = tuple(dict.fromkeys(chain.from_iterable(map(_generations, found))))
    return Trace(
        step,
        tuple(told),
        count,
        _epochs(found),
        min(ran, default=None),
        tuple(records),
        weights,
        generations,
    )


def _weights(element: Element) -> list[str]:
    """Return descriptions of the weights with which the records of an element were drawn.

    Raises:
        TraceError: a record was drawn with other weights, in an earlier run.
    """
    samplers = {
        number: element.leaves[number].sampler
        for number in {found.leaf for found in element.records}
    }
    for found in element.records:
        former = samplers[found.leaf].former_weights(found.position)
        if former is not None:
            raise TraceError(
                f"position {found.position:,} was drawn in an earlier run with other weights "
                f"(digest {former}). Trace the step with a loader that has those weights, and a "
                "state of that run."
            )
    return [text for sampler in samplers.values() if (text := sampler.weights_description)]


def _generations(element: Element) -> Iterator[str]:
    """Yield, for each record of an element from a growing source, a text about its generation.

    A generation is a version of the list of the source's files.
    """
    for each in element.records:
        sampler = element.leaves[each.leaf].sampler
        name, place = sampler.part_at(each.position)
        of, its = (f" of part {name!r}", "its ") if name else ("", "")
        if (found := sampler.parts[name].generation_at(place)) is not None:
            yield f"generation {found[0]}{of}, which holds from {its}position {found[1]:,} on"


def shards_of(
    described: Described, states: Sequence[LoaderState], shards: int | None
) -> tuple[Sequence[int], int]:
    """Return the shards to list, and the number of shards.

    They are the shards of the states; or, if `shards` is another number, all shards that resume
    from these states.

    Args:
        described: the stream.
        states: states of the run; without states, the loader's own shard is listed.
        shards: number of shards; None for the same number as before.
    """
    own = described.pipeline.shard
    known = [state.shard[0] for state in states] or [own.shard_index]
    before = states[0].shard[1] if states else own.shard_count
    count = (
        before
        if shards is None
        else whole_number("shards", shards, 1, None, "the number of shards that resume")
    )
    return (known, count) if count == before else (range(count), count)


def _epochs(found: Iterable[Element]) -> dict[str, int]:
    """Return, for each dataset, the latest epoch that any of these elements contains."""
    latest: dict[str, int] = {}
    for element in found:
        last: dict[int, int] = {}
        for each in element.records:
            last[each.leaf] = max(each.position, last.get(each.leaf, 0))
        epochs: dict[str, int] = {}
        for number, position in last.items():
            leaf = element.leaves[number]
            if not leaf.in_order:
                parts = leaf.sampler.part_epochs(position)
                epochs |= {
                    "/".join(filter(None, (leaf.name, name))): leaf.epoch + parts[name]
                    for name in parts
                }
        latest |= {name: max(epoch, latest.get(name, 0)) for name, epoch in epochs.items()}
    return latest


def _traced(found: FoundRecord, shard: int) -> TracedRecord:
    used = found.used
    record = TracedRecord(
        shard,
        used.row,
        used.segment,
        "/".join(used.datasets),
        used.key,
        found.position,
        tokens=used.tokens,
    )
    place = facts_of(used.source).file_place(used.key)
    if place is None:
        return record
    tokens = _tokens_of_file(place.tokens, used.tokens)
    return replace(
        record, file=redacted(place.file), record=place.record, note=place.note, file_tokens=tokens
    )


def _tokens_of_file(
    whole: tuple[int, int] | None, spans: Iterable[TokenSpan]
) -> tuple[int, int] | None:
    """Return the range of tokens, in its file, of a piece of a document.

    If the document's length was changed before packing, it is the range of the whole document. None
    if the source has no files of tokens.

    Args:
        whole: range of tokens of the whole document in the file; None if there are no files of
            tokens.
        spans: ranges of tokens of the piece in the document.
    """
    if whole is None:
        return None
    for span in spans:
        if span.length == whole[1] - whole[0]:
            return whole[0] + span.start, whole[0] + span.stop
    return whole
