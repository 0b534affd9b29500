"""What `diagnose` gives: one sentence, a table, and what would change it.

In: what was measured. Out: a frozen value, and its text.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from .changes import HELPED_BY_WORKERS, Change, changes
from .measured import Measured, Part
from .model import all_cores_work, enough_workers, share_waited
from .verdict import Finding, found

MOST_PARTS = 6
MOST_CHANGES = 5
"""Lines of a table, and of what would change it."""


@dataclass(frozen=True)
class Diagnosis:
    """What your step waits for, and what would change that; `print` it.

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
        """What is waited for, and what would hide it."""
        cure = (self.changes[0].cure if self.changes else "") or self._limit()
        return f"{self._waits()}: {self._cause()}{'; ' * bool(cure)}{cure}."

    def to_dict(self) -> dict[str, Any]:
        """All of it, as plain values for JSON."""
        return {"sentence": self.sentence, **dataclasses.asdict(self)}

    def __str__(self) -> str:
        return "\n".join([self.sentence, self._extent(), "", *self._table(), *self._list()])

    def _extent(self) -> str:
        measured = self.measured
        rate, records = 1 / measured.elapsed, measured.records
        batch = f"{measured.steps} steps of {records:,.0f} records ({told_bytes(measured.nbytes)})"
        rates = f"{told_rate(rate)} a second, {told_rate(rate * records)} records/s"
        loops = f", in the longest of {measured.loops} loops" if measured.loops > 1 else ""
        start = f" Workers took {told(measured.start)} to begin, which is left out." if measured.start > 1e-3 else ""
        return f"Measured: {batch}, {rates}{loops}; this machine has {measured.cores} cores.{start}"

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
            return f"Batches come {told_rate(1 / measured.elapsed)} a second, one every {told(measured.elapsed)}"
        return f"Your step waits {_percent(measured.share_waited)} of its time"

    def _cause(self) -> str:
        measured, finding = self.measured, self.finding
        if finding.kind == "step":
            enough = enough_workers(measured)
            fewer = f"; {enough} of the {measured.workers} workers would do" if 0 < enough < measured.workers else ""
            faster = f", and batches could come every {told(self.possible)}" if 0 < self.possible < measured.own else ""
            return f"batches are there when it asks{fewer}. It takes {told(measured.own)} itself{faster}"
        return (
            f"{_subject(measured, finding)} {_where(measured)}"
            if finding.kind not in _FED
            else _subject(measured, finding)
        )

    def _table(self) -> list[str]:
        measured = self.measured
        rows = [("your own work", measured.own), ("waited in next()", measured.waited)]
        if measured.workers and measured.feeding is None:
            rows += [("  for workers", measured.unready), ("  for the hand-over", measured.hand_over)]
        if measured.feeding is not None:
            rows += [("  for the loader", measured.unready)]
            rows += [(f"  for {_FEEDING[name]}", seconds) for name, seconds in vars(measured.feeding).items()]
        lines = [f"{'A step of ' + told(measured.elapsed):34} {'time':>10}   share"]
        lines += [_line(name, seconds, measured.elapsed) for name, seconds in rows]
        parts = sorted(measured.parts, key=lambda part: -part.seconds)[:MOST_PARTS]
        if parts:
            lines.append(f"{_who(measured) + ' for it':34} {told(measured.work):>10}   share   each")
        return lines + [_line(part.name, part.seconds, measured.work, _each(measured, part)) for part in parts]

    def _list(self) -> list[str]:
        if not self.changes:
            return []
        return ["", "What would change it:", *(self._told(change) for change in self.changes[:MOST_CHANGES])]

    def _told(self, change: Change) -> str:
        measured = self.measured
        times = f"{'up to ' * change.at_most}{measured.elapsed / change.seconds:.1f} times the steps"
        waits = f", waits {_percent(share_waited(measured, change.seconds))}" if measured.step_known else ""
        return f"  {change.what}: {times}, {told(change.seconds)} each{waits}"


def _subject(measured: Measured, finding: Finding) -> str:
    part = finding.part
    rare = measured.rare
    if finding.kind == "slow record" and part is not None and rare is not None:
        usual = part.seconds * (1 - rare.share) / part.calls
        return f"`{part.name}` takes {told(rare.seconds)} {rare.key} and others like it, else {told(usual)} a record,"
    if finding.kind == "lock" and part is not None:
        return f"threads wait for one another, as `{part.name}` holds the interpreter's lock (GIL),"
    if finding.kind == "small calls":
        calls = measured.seconds_of("record", "stacking", "between") / max(measured.records, 1)
        return f"many small calls, as of `{finding.stage}`, take {told(calls)} a record"
    if part is not None and finding.stage != "hand-over":
        name = f"`{part.name}`" if part.kind in ("record", "batch", "stacking") else part.name
        return f"{name} {_sort(measured, finding)}takes {_each(measured, part)}"
    return {**_HANDED, **_FED}[finding.kind].format(
        step=told(_handed(measured, finding)),
        records=f"{measured.records:,.0f}",
        stage=_SMALL.get(finding.stage, finding.stage),
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
        return "in your own thread"
    kind = {"process": "worker", "thread": "worker thread"}.get(measured.worker_kind, f"{measured.worker_kind} worker")
    return f"on {measured.workers} {kind}{'s' * (measured.workers > 1)}"


def _who(measured: Measured) -> str:
    if measured.workers == 0:
        return "Your thread"
    return f"{measured.workers} workers" if measured.workers > 1 else "One worker"


def _each(measured: Measured, part: Part) -> str:
    """What it takes for a record, or a batch."""
    if part.kind in ("batch", "stacking", "packing") or not measured.records:
        return f"{told(part.seconds)} a batch"
    if part.kind == "record" and part.calls:
        return f"{told(part.seconds / part.calls)} a record"
    return f"{told(part.seconds / measured.records)} a record"


def _line(name: str, seconds: float, whole: float, each: str = "") -> str:
    share = seconds / whole if whole else 0.0
    return f"  {name[:32]:32} {told(seconds):>10} {share:7.0%}   {each}".rstrip()


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def told(seconds: float) -> str:
    """Seconds with their unit.

    >>> told(0.00214), told(3.5), told(0.00003), told(0.0)
    ('2.1 ms', '3.5 s', '30 µs', '0 µs')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= 0.9995 * size:
            return f"{seconds / size:.{0 if seconds >= 99.5 * size else 1}f} {unit}"
    return f"{seconds * 1e6:.0f} µs"


def told_bytes(nbytes: float) -> str:
    """A number of bytes.

    >>> told_bytes(800), told_bytes(9_633_792)
    ('800 B', '9.6 MB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= size:
            return f"{nbytes / size:.1f} {unit}"
    return f"{nbytes:.0f} B"


def told_rate(rate: float) -> str:
    """A number of things in a second.

    >>> told_rate(1234.5), told_rate(45.67), told_rate(0.5)
    ('1,234', '46', '0.50')
    """
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}" if rate >= 1 else f"{rate:.2f}"
