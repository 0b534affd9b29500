"""Propose changes of a loop, each with the seconds of a step after the change. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

from ....common.fields import field_values
from ..measured import Measured, PartKind, WorkPart
from .changes_of_reading import columns, groups, limited_source, more_reads, reading, small_calls
from .estimates import HAND_OVER, enough_workers, lighter, step_seconds
from .proposing import NOISE, Propose, at_most, effect, hides, noise, own
from .verdict import Change, Finding

WORTH = 1.05  # a change is proposed if it makes steps at least this many times as fast
LARGER = 8  # for batches that are too small, this many times as many records are proposed. Chosen


HELPED_BY_WORKERS = {
    *(
        "operation",
        "small calls",
        "slow record",
        "stacking",
        "reading",
        "groups",
        "small files",
        "waiting source",
    ),
    *("filter", "sampler"),
}


def changes(measured: Measured, finding: Finding) -> tuple[Change, ...]:
    """Return the changes that are worth making after a measurement with this finding.

    The first one is the remedy for the finding (it has a `cure`), if there is a remedy. The others
    follow, the most helpful first.
    """
    known = [
        change for change in _known(measured, finding) if change.seconds * WORTH < measured.elapsed
    ]
    first = [change for change in known if change.cure][:1]
    others = sorted(
        (change for change in known if change not in first), key=lambda change: change.seconds
    )
    return (*first, *others)


def _known(measured: Measured, finding: Finding) -> Iterator[Change]:
    for propose in _OF.get(finding.kind, ()):
        yield from propose(measured, finding)
    if finding.kind in HELPED_BY_WORKERS:
        yield from _more_workers(measured)
    if finding.kind in ("operation", "small calls", "slow record", "stacking", "lock"):
        for part in measured.parts:
            if part.kind in ("record", "batch") and part.seconds > measured.work / 4:
                faster = step_seconds(lighter(measured, 0.5, named=part.name), measured.workers)
                if part.pillow:
                    what = (
                        f"headrace.DecodeImage(size=…) in place of Pillow in `{part.name}`, if it "
                        "decodes images"
                    )
                    yield Change(what, faster, True)
                else:
                    yield Change(f"`{part.name}` twice as fast", faster)
    if finding.kind not in ("hand-over", "start"):
        yield from _threads(measured, finding)


def _more_workers(measured: Measured) -> Iterator[Change]:
    """Propose as many workers as hide the work or still help.

    If the user's step is unknown, propose at most twice as many, or 2.
    """
    if measured.worker_kind == "thread" and (
        measured.at_work > 0.5 or measured.seconds_of("sampler")
    ):
        return
    enough = enough_workers(measured)
    count = enough if measured.step_known else min(enough, max(2 * measured.workers, 2))
    if count <= measured.workers:
        return
    seconds = step_seconds(measured, count)
    used = measured.processor / measured.work * count if measured.work else 0.0
    full = measured.worker_kind != "ray" and used >= measured.cores and not hides(measured, seconds)
    what = f"worker_count={count}{f' (all that {measured.cores} cores can)' * full}"
    yield Change(
        what, seconds, cure=effect(measured, f"{count} worker{'s' * (count > 1)}", seconds)
    )


def _threads(measured: Measured, finding: Finding) -> Iterator[Change]:
    """Propose threads in place of worker processes.

    Do so if preparing batches for sending takes over a fifth of the work.
    """
    if (
        measured.worker_kind == "process"
        and measured.workers
        and measured.seconds_of("packing") > measured.work / 5
    ):
        what = 'worker_kind="thread", if operations release the GIL, as NumPy and image decoders do'
        cure = 'worker_kind="thread" would do without it' if finding.stage == "hand-over" else ""
        yield at_most(lighter(measured, 0.0, "packing"), what, cure)


def _less(keep: float, kind: Any, what: str, cure: str = "") -> Propose:
    """Return a function that proposes a change which makes one kind of work lighter.

    Args:
        keep: share of its time that this work still takes, from 0 to 1.
        kind: kind of the work.
        what: description of the change.
        cure: words that end the sentence about the finding (what the steps wait for), if the change
            is its remedy; else "".
    """
    return lambda measured, finding: [at_most(lighter(measured, keep, kind), what, cure)]


def _less_feeding(share: float, part: str, what: str, cure: str) -> Propose:
    """Return a function that proposes how to shorten a part of a device feeder's time.

    Args:
        share: share of its time by which it gets shorter.
        part: name of the attribute of `Feeding`.
        what: description of the change.
        cure: end of the sentence about the finding, which names this change; "": the sentence does
            not name it.
    """

    def propose(measured: Measured, finding: Finding) -> Iterator[Change]:
        took = field_values(measured.feeding)[part]
        less = _with_feeding(measured, **{part: (1 - share) * took})
        seconds = max(measured.elapsed - share * took, step_seconds(less, measured.workers))
        yield Change(what, seconds / noise(measured), True, cure)

    return propose


def _with_feeding(measured: Measured, **parts: float) -> Measured:
    assert measured.feeding is not None, "it is a feeder's"
    return replace(measured, feeding=replace(measured.feeding, **parts))


def _filter(measured: Measured, finding: Finding) -> Iterator[Change]:
    """Propose to filter earlier: before operations whose results it drops, or by keys."""
    dropped = measured.dropped
    assert dropped is not None, "it was found"
    kept, filtered = 1 - dropped.share, measured
    for name in dropped.after:
        filtered = lighter(filtered, kept, named=name)
    names = " and ".join(f"`{name}`" for name in dropped.after)
    cure = f"filter first on what is cheap: before {names}, or on keys"
    if dropped.operations > dropped.before / 2:
        yield at_most(filtered, f"a Filter before {names}, on what is known without it", cure)
    what = f"a source of the records that `{dropped.name}` keeps, whose keys are found once"
    yield at_most(
        lighter(filtered, kept, "reading"),
        what,
        "a source of the keys that it keeps would read no other",
    )


def _start(measured: Measured, finding: Finding) -> Iterator[Change]:
    """Propose to start workers only once (this is the remedy), or to use no workers."""
    starting = measured.starting
    once = replace(
        measured,
        starting=0.0,
        waited=measured.waited - starting,
        elapsed=measured.elapsed - starting,
    )
    seconds = step_seconds(once, measured.workers)
    cure = effect(measured, "one loop over all epochs (num_epochs=)", seconds)
    yield Change(
        "one loop over all epochs: num_epochs= of the loader, and one iterator", seconds, cure=cure
    )
    yield Change("worker_count=0, where nothing has to begin", step_seconds(once, 0))


def _slow_record(measured: Measured, finding: Finding) -> Iterator[Change]:
    rare, part = measured.rare, finding.part
    assert rare is not None, "it was found"
    what = f"such records repaired, or left out by a Filter: one stands {rare.key}"
    cure = "repair such records, or leave them out"
    if part is not None and part.kind == "reading":
        # with reads ahead it is not waited for
        seconds = max(measured.read_seconds, part.seconds) * rare.rest
        yield at_most(
            replace(lighter(measured, 0.0, named=part.name), read_seconds=seconds), what, cure
        )
        return
    yield at_most(lighter(measured, rare.rest, *get_args(PartKind)), what, cure)
    if measured.workers:
        yield at_most(measured, "a larger worker_buffer_size=, so that others go on meanwhile")


def _hand_over(measured: Measured, finding: Finding) -> Iterator[Change]:
    yield from _threads(measured, finding)
    what = "arrays of one shape, padded or packed in the workers: they are shared, not copied"
    shared = at_most(
        lighter(measured, 0.0, "packing"), what, "arrays of one shape would be shared, not copied"
    )
    yield replace(shared, seconds=max(shared.seconds, HAND_OVER))


def _small_batches(measured: Measured, finding: Finding) -> Iterator[Change]:
    """Propose batches of 8 times as many records.

    In the best case, work that is not done per record takes an eighth.
    """
    rows = round(measured.batch)
    records = measured.seconds_of("record") / max(measured.workers, 1)
    # arrays of more rows cost less each, too
    seconds = max(measured.elapsed / LARGER, records) / noise(measured) / NOISE
    what = f"batches of {LARGER * max(rows, 1):,} records (the numbers are for {rows:,} of them)"
    yield Change(
        what, max(seconds, own(measured)), True, "larger batches would cost less each record"
    )


def _lock(measured: Measured, finding: Finding) -> Iterator[Change]:
    share = measured.processor / measured.work if measured.work else 1.0
    parts = tuple(replace(part, seconds=part.seconds * share) for part in measured.parts)
    unlocked = replace(measured, worker_kind="process", parts=parts, at_work=1.0)
    cure = 'worker_kind="process" would let all cores work'
    yield Change('worker_kind="process"', step_seconds(unlocked, measured.workers), cure=cure)


def _turns(measured: Measured, finding: Finding) -> Iterator[Change]:
    assert finding.part is not None, "it is an operation's"
    free = lighter(measured, measured.alone / finding.part.seconds, named=finding.part.name)
    what = f"`{finding.part.name}` without what its calls wait for: a lock, a file, a connection"
    yield at_most(
        free, what, "more workers would not help, but a call that shares nothing with the others"
    )


def _transform(measured: Measured, finding: Finding) -> Iterator[Change]:
    """Propose to do the work of a feeder's `transform` in workers.

    If there are no workers, one is proposed, because otherwise the feeder's thread would still do
    the work.
    """
    assert measured.feeding is not None, "it is a feeder's"
    took, workers = measured.feeding.transforming, measured.workers
    parts = (*measured.parts, WorkPart("transform=", "batch", took))
    moved = replace(_with_feeding(measured, transforming=0.0), parts=parts)
    seconds = max(step_seconds(moved, max(workers, 1)), measured.elapsed - took if workers else 0.0)
    what = f"transform= as an operation of the loader{'' if workers else ', with worker_count=1'}"
    yield Change(what, seconds / noise(measured), True, "workers could do it")


_NEARER = _less(0.0, "reading", "files on a faster disk, or kept here: cache= of storage options")

_OF: dict[str, tuple[Propose, ...]] = {
    "start": (_start,),
    "filter": (_filter,),
    "sampler": (
        _less(
            0.0,
            "sampler",
            "a sampler whose order is an array: IndexSampler, or one that computes it once and "
            "looks it up",
            "an order that is computed once, as an array, would do without it",
        ),
    ),
    "small calls": (small_calls,),
    "slow record": (_slow_record,),
    "stacking": (
        columns("a source of columns would do without it"),
        _less(0.5, "stacking", "smaller dtypes (uint8, float16), and fewer leaves in a record"),
    ),
    "reading": (reading,),
    "groups": (groups,),
    "small files": (
        _less(
            0.0,
            "reading",
            "few large files: headrace convert SOURCE TARGET",
            "`headrace convert` makes few large ones",
        ),
        more_reads(False),
    ),
    "waiting source": (more_reads(True), _NEARER),
    "limited source": (limited_source, _NEARER),
    "hand-over": (_hand_over,),
    "small batches": (_small_batches,),
    "lock": (_lock,),
    "turns": (_turns,),
    "transform": (_transform,),
    "hosts": (
        _less_feeding(
            1.0, "agreeing", "the other hosts' loaders as fast as this one", "look at their stats"
        ),
    ),
    "transfer": (
        _less_feeding(
            0.5,
            "transfer",
            "half the bytes: uint8, made float on the device",
            "fewer bytes would shorten it",
        ),
    ),
}
"""For each kind of finding, the functions that propose changes.

The first change with a `cure` is the remedy.
"""
