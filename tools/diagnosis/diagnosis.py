"""Format a verdict as text: a line, a table, and possible changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...common.fields import field_values
from ...common.units import format_bytes, format_count, format_seconds, format_share
from .judging.changes import HELPED_BY_WORKERS, changes
from .judging.estimates import (
    all_cores_work,
    enough_workers,
    possible,
    share_waited,
    slowed,
    under_way,
)
from .judging.verdict import Change, Finding, found
from .measured import Measured, WorkPart

MOST_PARTS = 6
MOST_CHANGES = 5  # largest number of lines in the table, and of proposed changes
BUSY = 0.25
"""Share of the processors. If other programs use more, the text says that the machine was busy."""


@dataclass(frozen=True)
class Diagnosis:
    """What a step waits for, and what would change it. `print` it for a table.

    Attributes:
        finding: what the step waits for: its `kind`, and its `stage`, such as the name of an
            operation.
        changes: proposed changes. If there is a remedy for the finding, it is the first one.
        measured: the measured numbers, per step.
        possible: seconds per step if batches are only taken, without the user's own work; 0 if this
            was not measured.
    """

    finding: Finding
    changes: tuple[Change, ...]
    measured: Measured
    possible: float = 0.0

    @classmethod
    def of(cls, measured: Measured, possible: float = 0.0) -> Diagnosis:
        """Return the diagnosis of a measurement. Equal numbers give equal diagnoses.

        Args:
            measured: the measurement.
            possible: seconds per step if batches are only taken, without the user's own work; 0 if
                unknown.
        """
        finding = found(measured)
        return cls(finding, changes(measured, finding), measured, possible)

    @property
    def sentence(self) -> str:
        """What the step waits for and, if there is a remedy, the remedy, on one line."""
        measured, finding = self.measured, self.finding
        cure = self.changes[0].cure if self.changes else ""
        if not cure and finding.kind in HELPED_BY_WORKERS and all_cores_work(measured):
            cores = f"all {measured.cores} cores are" if measured.cores > 1 else "the only core is"
            cure = f"more workers would not help, as {cores} at work"
        each = format_seconds(measured.elapsed)
        waits = f"Your step waits {format_share(measured.share_waited)} of its time"
        comes = f"Batches come {format_count(1 / measured.elapsed)} a second, one every {each}"
        cause = (
            _keeps_up(measured, self.possible)
            if finding.kind == "step"
            else _cause(measured, finding)
        )
        return f"{waits if measured.step_known else comes}: {cause}{'; ' * bool(cure)}{cure}."

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        return {"sentence": self.sentence, **dataclasses.asdict(self)}

    def __str__(self) -> str:
        said = [one for one in (self.measured.hangs, self.sentence, self.measured.decision) if one]
        return "\n".join([*said, _extent(self.measured), "", *_table(self.measured), *self._list()])

    def _list(self) -> Iterator[str]:
        if self.changes:
            yield from ("", "What would change it:")
        for change in self.changes[:MOST_CHANGES]:
            times = (
                f"{'up to ' * change.at_most}{self.measured.elapsed / change.seconds:.1f} times "
                "the steps"
            )
            share = format_share(share_waited(self.measured, change.seconds))
            waits = f", waits {share}" if self.measured.step_known else ""
            yield f"  {change.what}: {times}, {format_seconds(change.seconds)} each{waits}"


def _extent(measured: Measured) -> str:
    rate, rows, records = 1 / measured.elapsed, measured.batch, measured.records
    each = f"{rows:,.0f} records"
    if measured.rows and not 0.5 < records / max(rows, 1e-9) < 2:
        each = f"{rows:,.0f} rows of {format_count(records)} records"
    text = (
        f"Measured: {measured.steps} steps of {each} ({format_bytes(measured.nbytes)}), "
        f"{format_count(rate)} a second, "
    )
    text += f"{format_count(rate * records)} records/s"
    alike, loops, cores = measured.loops_alike, measured.loops, measured.cores
    if loops > 1:
        of = "" if alike == loops else f" of {loops}"
        text += f", in {f'{alike}{of} loops' if alike > 1 else f'the longest of {loops} loops'}"
    text += f"; this machine has {cores} cores."
    if measured.start > 1e-3:
        text += f" Workers took {format_seconds(measured.start)} to begin, which is left out."
    if measured.others >= BUSY * cores:
        busy = f"other programs took {min(measured.others, cores):.1f} of these meanwhile"
        text += f" It is busy: {busy}; without them this is faster."
    return text


def _table(measured: Measured) -> Iterator[str]:
    fed, read = measured.feeding, measured.unready - measured.starting
    rows = [("your own work", measured.own), ("waited in next()", measured.waited)]
    if measured.starting:
        rows += [("  for workers to begin", measured.starting)]
    if fed is not None:
        rows += [
            ("  for the loader", read),
            *((f"  for {_FEEDING[name]}", each) for name, each in vars(fed).items()),
        ]
    elif measured.workers:
        rows += [("  for workers", read), ("  for the hand-over", measured.hand_over)]
    yield f"{'A step of ' + format_seconds(measured.elapsed):34} {'time':>10}   share"
    for name, seconds in rows:
        yield _line(name, seconds, measured.elapsed)
    parts = sorted(measured.parts, key=lambda part: -part.seconds)[:MOST_PARTS]
    if parts:
        workers = f"{measured.workers} workers" if measured.workers > 1 else "One worker"
        who = (
            workers if measured.workers else "Your thread" if fed is None else "The feeder's thread"
        )
        yield f"{who + ' for it':34} {format_seconds(measured.work):>10}   share   each"
    for part in parts:
        yield _line(part.name, part.seconds, measured.work, _each(measured, part))
    if measured.reads_ahead and measured.read_seconds:
        yield (
            f"  {'reads under way':32} {under_way(measured):10.1f}           of "
            f"{possible(measured):,} possible"
        )


def _line(name: str, seconds: float, whole: float, each: str = "") -> str:
    share = seconds / whole if whole else 0.0
    return f"  {name[:32]:32} {format_seconds(seconds):>10} {share:7.0%}   {each}".rstrip()


def _keeps_up(measured: Measured, fastest: float) -> str:
    enough, own = enough_workers(measured), measured.own
    fewer = (
        f"; {enough} of the {measured.workers} workers would do"
        if 0 < enough < measured.workers
        else ""
    )
    faster = (
        f", and batches could come every {format_seconds(fastest)}" if 0 < fastest < own else ""
    )
    return f"batches are there when it asks{fewer}. It takes {format_seconds(own)} itself{faster}"


def _cause(measured: Measured, finding: Finding) -> str:
    """Return a text that says what the step waits for, and where that is done.

    It is done in workers, a feeder or your thread.
    """
    if finding.kind in _FED:
        name, text = _FED[finding.kind]
        return text.format(format_seconds(field_values(measured.feeding)[name]))
    if finding.kind == "start":
        loops = (
            f"each of {measured.loops_alike} loops of {measured.steps / measured.loops_alike:.0f} "
            "steps"
        )
        took = format_seconds(measured.starting * measured.steps / measured.loops_alike)
        return f"its workers start again for {loops}, which takes {took}"
    workers = measured.workers
    kind = {"process": "worker", "thread": "worker thread"}.get(
        measured.worker_kind, f"{measured.worker_kind} worker"
    )
    own = "in your own thread" if measured.feeding is None else "in the feeder's thread"
    return (
        f"{_subject(measured, finding)} "
        f"{f'on {workers} {kind}' + 's' * (workers > 1) if workers else own}"
    )


def _subject(measured: Measured, finding: Finding) -> str:
    part, kind, records = finding.part, finding.kind, max(measured.records, 1e-9)
    named = part is not None and part.kind in ("record", "batch", "stacking")
    name = f"`{part.name}`" if part and named else part.name if part else ""
    if kind == "slow record" and part is not None and (rare := measured.rare) is not None:
        usual = part.seconds / max(part.calls, 1e-9)
        if part.kind == "reading":  # as long as it takes ahead of the work
            usual = max(measured.read_seconds, part.seconds) / records
        slow = f"{format_seconds(rare.seconds)} {rare.key} and others like it"
        return f"{name} takes {slow}, else {format_seconds(usual * rare.rest)} a record,"
    if kind == "filter" and (dropped := measured.dropped) is not None:
        after = [
            *(["reading"] if dropped.before > dropped.operations else []),
            *(f"`{name}`" for name in dropped.after),
        ]
        each = f"{' and '.join(after)} took {format_seconds(dropped.before / records)} for each"
        return f"`{dropped.name}` drops {format_share(dropped.share)} of the records, after {each},"
    if (
        kind in ("waiting source", "limited source")
        and measured.reads_ahead
        and measured.read_seconds
    ):
        seconds = measured.read_seconds / records
        each, alone = format_seconds(seconds), format_seconds(seconds / slowed(measured))
        many = f"{under_way(measured):,.0f} of {possible(measured):,} possible reads under way"
        if kind == "limited source":
            return (
                f"reads wait for one another, as each takes {each} with {many} and {alone} alone,"
            )
        return f"reading waits for a disk or a store, and takes {each} a record, with {many},"
    if kind == "turns" and part is not None:
        alone, among = (
            format_seconds(each / max(part.calls, 1)) for each in (measured.alone, part.seconds)
        )
        return (
            f"calls of `{part.name}` wait for one another, as each takes {alone} alone and {among} "
            "among others,"
        )
    if kind == "lock" and part is not None:
        return f"threads wait for one another, as `{part.name}` holds the interpreter's lock (GIL),"
    if kind == "small calls":
        calls = measured.seconds_of("record", "stacking", "between") / max(measured.records, 1)
        return f"many small calls, as of `{finding.stage}`, take {format_seconds(calls)} a record"
    if part is not None and finding.stage != "hand-over":
        return f"{name} {_sort(measured, kind)}takes {_each(measured, part)}"
    seconds = (
        measured.hand_over
        if finding.stage == "hand-over"
        else measured.seconds_of("between", "stacking")
    )
    if kind == "hand-over":
        return f"the hand-over of a batch takes {format_seconds(part.seconds if part else seconds)}"
    stage = "making" if finding.stage == "between operations" else finding.stage
    small = f"batches of {measured.batch:,.0f} records are small"
    return f"{small}, and the {stage} of each takes {format_seconds(seconds)}"


def _sort(measured: Measured, kind: str) -> str:
    if kind == "reading" and measured.source.evaluates:
        return "with the maps of the datasets that are mixed "
    if kind == "reading" and measured.reads_memory_slowly:
        return "with the sampler's work "
    return _SORTS.get(kind, "")


def _each(measured: Measured, part: WorkPart) -> str:
    if (
        part.kind == "reading"
        and measured.reads_ahead
        and measured.read_seconds
        and measured.records
    ):
        return f"{format_seconds(measured.read_seconds / measured.records)} a record"
    if part.kind in ("batch", "stacking", "packing") or not measured.records:
        return f"{format_seconds(part.seconds)} a batch"
    count = part.calls if part.kind == "record" and part.calls else measured.records
    return f"{format_seconds(part.seconds / count)} a record"


_SORTS = {
    "groups": "decodes a whole group of records for each one, and ",
    "small files": "opens many small files, and ",
    "limited source": "waits for a disk or a store, and ",
    "waiting source": "waits for a disk or a store, and ",
}

_FEEDING = {
    "transforming": "transform=",
    "agreeing": "other hosts",
    "transfer": "the transfer",
    "hand_over": "the hand-over",
}

_FED = {
    "transform": ("transforming", "transform= takes {} a batch, on one thread"),
    "hosts": ("agreeing", "other hosts are {} later with each batch"),
    "transfer": ("transfer", "the transfer to the devices takes {} a batch"),
}
"""For each kind of finding in a device feeder, its attribute of `Feeding` and description.

The attribute has its seconds.
"""
