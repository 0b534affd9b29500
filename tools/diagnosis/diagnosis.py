"""The verdict as text: one sentence, a table, and what would change it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from ...common.units import format_bytes, format_count, format_seconds, format_share
from .judging.changes import HELPED_BY_WORKERS, changes
from .judging.model import all_cores_work, enough_workers, possible, share_waited, slowed, under_way
from .judging.verdict import Change, Finding, found
from .measured import Dropped, Measured, WorkPart

MOST_PARTS = 6
MOST_CHANGES = 5
"""Lines of a table, and of what would change it."""

BUSY = 0.25
"""Share of the processors: if other programs take more, the numbers are not those of a quiet machine. Chosen."""


@dataclass(frozen=True)
class Diagnosis:
    """The verdict on a step, and what would change it; `print` it.

    Attributes:
        finding: what is waited for: its `kind`, and its `stage`, such as an operation's name.
        changes: what would change it; the first one is the cure of what was found.
        measured: the numbers, for one step.
        possible: seconds of a step that does nothing but take batches; 0 where that was not measured.
    """

    finding: Finding
    changes: tuple[Change, ...]
    measured: Measured
    possible: float = 0.0

    @classmethod
    def of(cls, measured: Measured, possible: float = 0.0) -> Diagnosis:
        """The verdict on what was measured: the same for the same numbers."""
        finding = found(measured)
        return cls(finding, changes(measured, finding), measured, possible)

    @property
    def sentence(self) -> str:
        """The finding, and its cure."""
        cure = (self.changes[0].cure if self.changes else "") or self._limit()
        return f"{self._waits()}: {self._cause()}{'; ' * bool(cure)}{cure}."

    def to_dict(self) -> dict[str, Any]:
        """All of it, as plain values for JSON."""
        return {"sentence": self.sentence, **dataclasses.asdict(self)}

    def __str__(self) -> str:
        return "\n".join([self.sentence, self._extent(), "", *self._table(), *self._list()])

    def _extent(self) -> str:
        measured = self.measured
        rate = 1 / measured.elapsed
        batch = f"{measured.steps} steps of {_rows(measured)} ({format_bytes(measured.nbytes)})"
        rates = f"{format_count(rate)} a second, {format_count(rate * measured.records)} records/s"
        loops = f", in {_loops(measured)}" if measured.loops > 1 else ""
        start = (
            f" Workers took {format_seconds(measured.start)} to begin, which is left out."
            if measured.start > 1e-3
            else ""
        )
        return f"Measured: {batch}, {rates}{loops}; this machine has {measured.cores} cores.{start}{self._others()}"

    def _others(self) -> str:
        """The processors that other programs took, if these were many."""
        others, cores = self.measured.others, self.measured.cores
        if others < BUSY * cores:
            return ""
        return f" It is busy: other programs took {min(others, cores):.1f} of these meanwhile; without them this is faster."

    def _limit(self) -> str:
        """Why more workers would not help, if it is for want of cores."""
        cores = self.measured.cores
        if self.finding.kind not in HELPED_BY_WORKERS or not all_cores_work(self.measured):
            return ""
        return (
            f"more workers would not help, as {f'all {cores} cores are' if cores > 1 else 'the only core is'} at work"
        )

    def _waits(self) -> str:
        measured = self.measured
        if not measured.step_known:
            return f"Batches come {format_count(1 / measured.elapsed)} a second, one every {format_seconds(measured.elapsed)}"
        return f"Your step waits {format_share(measured.share_waited)} of its time"

    def _cause(self) -> str:
        measured, finding = self.measured, self.finding
        if finding.kind == "step":
            enough = enough_workers(measured)
            fewer = f"; {enough} of the {measured.workers} workers would do" if 0 < enough < measured.workers else ""
            faster = (
                f", and batches could come every {format_seconds(self.possible)}"
                if 0 < self.possible < measured.own
                else ""
            )
            return f"batches are there when it asks{fewer}. It takes {format_seconds(measured.own)} itself{faster}"
        return (
            f"{_subject(measured, finding)} {_where(measured)}"
            if finding.kind not in (*_FED, "start")
            else _subject(measured, finding)
        )

    def _table(self) -> list[str]:
        measured = self.measured
        rows = [("your own work", measured.own), ("waited in next()", measured.waited)]
        if measured.starting:
            rows += [("  for workers to begin", measured.starting)]
        if measured.workers and measured.feeding is None:
            rows += [
                ("  for workers", measured.unready - measured.starting),
                ("  for the hand-over", measured.hand_over),
            ]
        if measured.feeding is not None:
            rows += [("  for the loader", measured.unready - measured.starting)]
            rows += [(f"  for {_FEEDING[name]}", seconds) for name, seconds in vars(measured.feeding).items()]
        lines = [f"{'A step of ' + format_seconds(measured.elapsed):34} {'time':>10}   share"]
        lines += [_line(name, seconds, measured.elapsed) for name, seconds in rows]
        parts = sorted(measured.parts, key=lambda part: -part.seconds)[:MOST_PARTS]
        if parts:
            lines.append(f"{_who(measured) + ' for it':34} {format_seconds(measured.work):>10}   share   each")
        lines += [_line(part.name, part.seconds, measured.work, _each(measured, part)) for part in parts]
        return lines + _reads(measured)

    def _list(self) -> list[str]:
        if not self.changes:
            return []
        return ["", "What would change it:", *(self._told(change) for change in self.changes[:MOST_CHANGES])]

    def _told(self, change: Change) -> str:
        measured = self.measured
        times = f"{'up to ' * change.at_most}{measured.elapsed / change.seconds:.1f} times the steps"
        waits = f", waits {format_share(share_waited(measured, change.seconds))}" if measured.step_known else ""
        return f"  {change.what}: {times}, {format_seconds(change.seconds)} each{waits}"


def _subject(measured: Measured, finding: Finding) -> str:
    part = finding.part
    rare = measured.rare
    if finding.kind == "slow record" and part is not None and rare is not None:
        usual = _seconds_each(measured, part) * rare.rest
        name = f"`{part.name}`" if part.kind != "reading" else part.name
        slow = f"{format_seconds(rare.seconds)} {rare.key} and others like it"
        return f"{name} takes {slow}, else {format_seconds(usual)} a record,"
    if finding.kind == "start":
        loops = f"each of {measured.loops_alike} loops of {measured.steps / measured.loops_alike:.0f} steps"
        return f"its workers begin anew for {loops}, which takes {format_seconds(_start(measured))}"
    if finding.kind == "filter" and measured.dropped is not None:
        return _filter(measured, measured.dropped)
    if finding.kind in ("waiting source", "limited source") and measured.reads_ahead and measured.read_seconds:
        return _waiting(measured, finding)
    if finding.kind == "turns" and part is not None:
        alone, among = (format_seconds(each / max(part.calls, 1)) for each in (measured.alone, part.seconds))
        return f"calls of `{part.name}` wait for one another, as each takes {alone} alone and {among} among others,"
    if finding.kind == "lock" and part is not None:
        return f"threads wait for one another, as `{part.name}` holds the interpreter's lock (GIL),"
    if finding.kind == "small calls":
        calls = measured.seconds_of("record", "stacking", "between") / max(measured.records, 1)
        return f"many small calls, as of `{finding.stage}`, take {format_seconds(calls)} a record"
    if part is not None and finding.stage != "hand-over":
        name = f"`{part.name}`" if part.kind in ("record", "batch", "stacking") else part.name
        return f"{name} {_sort(measured, finding)}takes {_each(measured, part)}"
    return {**_HANDED, **_FED}[finding.kind].format(
        step=format_seconds(_handed(measured, finding)),
        records=f"{measured.batch:,.0f}",
        stage=_SMALL.get(finding.stage, finding.stage),
    )


def _seconds_each(measured: Measured, part: WorkPart) -> float:
    """Seconds of a call, or of a read, as long as it takes ahead of the work."""
    if part.kind != "reading":
        return part.seconds / max(part.calls, 1e-9)
    return max(measured.read_seconds, part.seconds) / max(measured.records, 1e-9)


def _start(measured: Measured) -> float:
    """Seconds until workers begin, for a loop."""
    return measured.starting * measured.steps / measured.loops_alike


def _filter(measured: Measured, dropped: Dropped) -> str:
    work = " and ".join(
        (*(("reading",) if dropped.before > dropped.operations else ()), *(f"`{name}`" for name in dropped.after))
    )
    each = format_seconds(dropped.before / max(measured.records, 1e-9))
    return f"`{dropped.name}` drops {format_share(dropped.share)} of the records, after {work} took {each} for each,"


def _waiting(measured: Measured, finding: Finding) -> str:
    seconds = measured.read_seconds / max(measured.records, 1e-9)
    each, alone = format_seconds(seconds), format_seconds(seconds / slowed(measured))
    many = f"{under_way(measured):,.0f} of {possible(measured):,} possible reads under way"
    if finding.kind == "limited source":
        return f"reads wait for one another, as each takes {each} with {many} and {alone} alone,"
    return f"reading waits for a disk or a store, and takes {each} a record, with {many},"


def _reads(measured: Measured) -> list[str]:
    """A line on the reads under way, where records are read ahead."""
    if not measured.reads_ahead or not measured.read_seconds:
        return []
    return [f"  {'reads under way':32} {under_way(measured):10.1f}           of {possible(measured):,} possible"]


def _rows(measured: Measured) -> str:
    """The records of a step; or its rows, where they are of more or fewer records."""
    rows, records = measured.batch, measured.records
    if not measured.rows or 0.5 < records / max(rows, 1e-9) < 2:
        return f"{rows:,.0f} records"
    return f"{rows:,.0f} rows of {format_count(records)} records"


def _loops(measured: Measured) -> str:
    if measured.loops_alike == 1:
        return f"the longest of {measured.loops} loops"
    return (
        f"{measured.loops_alike} loops"
        if measured.loops_alike == measured.loops
        else f"{measured.loops_alike} of {measured.loops} loops"
    )


def _sort(measured: Measured, finding: Finding) -> str:
    if finding.kind == "reading" and measured.source.evaluates:
        return "with the maps of the datasets that are mixed "
    if finding.kind == "reading" and measured.reads_memory_slowly:
        return "with the sampler's work "
    return _SORTS.get(finding.kind, "")


_SORTS = {
    "groups": "decodes a whole group of records for each one, and ",
    "small files": "opens many small files, and ",
    "limited source": "waits for a disk or a store, and ",
    "waiting source": "waits for a disk or a store, and ",
}

_HANDED = {
    "hand-over": "the hand-over of a batch takes {step}",
    "small batches": "batches of {records} records are small, and the {stage} of each takes {step}",
}

_SMALL = {"between operations": "making"}

_FEEDING = {
    "transforming": "transform=",
    "agreeing": "other hosts",
    "transfer": "the transfer",
    "hand_over": "the hand-over",
}

_FED = {
    "transform": "transform= takes {step} a batch, on one thread",
    "hosts": "other hosts are {step} later with each batch",
    "transfer": "the transfer to the devices takes {step} a batch",
}


def _handed(measured: Measured, finding: Finding) -> float:
    fed = measured.feeding
    if fed is not None and finding.kind in ("transform", "hosts", "transfer"):
        return {"transform": fed.transforming, "hosts": fed.agreeing, "transfer": fed.transfer}[finding.kind]
    if finding.part is not None:
        return finding.part.seconds
    return measured.hand_over if finding.stage == "hand-over" else measured.seconds_of("between", "stacking")


def _where(measured: Measured) -> str:
    if measured.workers == 0:
        return "in your own thread" if measured.feeding is None else "in the feeder's thread"
    kind = {"process": "worker", "thread": "worker thread"}.get(measured.worker_kind, f"{measured.worker_kind} worker")
    return f"on {measured.workers} {kind}{'s' * (measured.workers > 1)}"


def _who(measured: Measured) -> str:
    if measured.workers == 0:
        return "Your thread" if measured.feeding is None else "The feeder's thread"
    return f"{measured.workers} workers" if measured.workers > 1 else "One worker"


def _each(measured: Measured, part: WorkPart) -> str:
    """Seconds for a record, or for a batch."""
    if part.kind == "reading" and measured.reads_ahead and measured.read_seconds and measured.records:
        return f"{format_seconds(measured.read_seconds / measured.records)} a record"
    if part.kind in ("batch", "stacking", "packing") or not measured.records:
        return f"{format_seconds(part.seconds)} a batch"
    if part.kind == "record" and part.calls:
        return f"{format_seconds(part.seconds / part.calls)} a record"
    return f"{format_seconds(part.seconds / measured.records)} a record"


def _line(name: str, seconds: float, whole: float, each: str = "") -> str:
    share = seconds / whole if whole else 0.0
    return f"  {name[:32]:32} {format_seconds(seconds):>10} {share:7.0%}   {each}".rstrip()
