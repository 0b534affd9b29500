"""Propose changes of a loop, each with the seconds of a step after the change. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias, get_args

from ..measured import Measured, PartKind, WorkPart
from .verdict import (
    CLOSE,
    HAND_OVER,
    UNLIMITED,
    Change,
    Finding,
    enough_reads,
    enough_workers,
    lighter,
    share_waited,
    slowed,
    step_seconds,
)

WORTH = 1.05  # a change is proposed if it makes steps at least this many times as fast
# work counts as hidden if the user waits for at most this share of the time, mostly for the
# hand-over
HIDDEN = 0.1
LARGER = 8  # for batches that are too small, this many times as many records are proposed. Chosen
# Chosen: better than everything that was measured.
LEAST, FASTEST = 5e-6, 20e9
"""Smallest number of seconds of a step and most bytes per second that are promised.

The bytes are of batches. Both are for a best case.
"""
# Chosen: no two runs take the same time. If other programs use processors now, the factor is
# larger.
NOISE = 1.15
"""Largest factor between a computed and an actual step time.

Best cases ("up to") are divided by it.
"""

# Measured with the programs of docs/performance.md: the code and data of a step are no longer in
# the caches.
SMALL, COLD = 1 / 6, 1.6
"""Share, and factor of the speed of a step.

A step that takes less than this share of the current one may be faster by up to this factor.

Work is measured while other work interrupts it, and is faster without interruptions.
"""

DEFAULT_BUFFER = 500  # number of records that are read in advance by default

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

_Propose: TypeAlias = Callable[[Measured, Finding], Iterable[Change]]


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
    full = (
        measured.worker_kind != "ray" and used >= measured.cores and not _hides(measured, seconds)
    )
    what = f"worker_count={count}{f' (all that {measured.cores} cores can)' * full}"
    yield Change(
        what, seconds, cure=effect(measured, f"{count} worker{'s' * (count > 1)}", seconds)
    )


def effect(measured: Measured, what: str, seconds: float) -> str:
    """Describe the effect of a change as the end of a sentence, such as "4 workers would hide it".

    Args:
        measured: the measurement before the change.
        what: the change, such as "4 workers".
        seconds: seconds of a step after the change.
    """
    does = (
        "hide it"
        if _hides(measured, seconds)
        else f"give {measured.elapsed / seconds:.1f} times the batches"
    )
    return f"{what} would {does}"


def _hides(measured: Measured, seconds: float) -> bool:
    return measured.step_known and share_waited(measured, seconds) <= HIDDEN


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


def at_most(measured: Measured, what: str, cure: str = "") -> Change:
    """Return a change with the seconds of a step in the best case.

    In the best case workers and loop never wait for each other, reads take no longer than alone,
    and headrace's own work takes no time.

    Args:
        measured: the measurement as it would be after the change.
        what: description of the change.
        cure: words that end the sentence about the finding (what the steps wait for), if the change
            is its remedy; else "".
    """
    waited = measured.waited if measured.step_known else measured.elapsed
    smooth = replace(lighter(measured, 0.0, "between"), waited=waited, unready=waited)
    if smooth.reads_ahead:  # nobody waits for reads, so as many are under way as can be
        read = (
            replace(part, seconds=0.0) if part.kind == "reading" else part for part in smooth.parts
        )
        smooth = replace(smooth, parts=tuple(read))
    alone = measured.records * measured.source.random
    if measured.source.singly and alone:
        smooth = replace(smooth, read_seconds=min(smooth.read_seconds, alone))
    seconds = step_seconds(smooth, measured.workers) / _noise(measured)
    if seconds < SMALL * measured.elapsed:
        seconds = max(seconds / COLD, _own(measured))
    return Change(what, max(seconds, LEAST, measured.nbytes / FASTEST), True, cure)


def _noise(measured: Measured) -> float:
    return NOISE * (1 + measured.others / measured.cores)


def _own(measured: Measured) -> float:
    return measured.own / _noise(measured) if measured.step_known else 0.0


def _less(keep: float, kind: Any, what: str, cure: str = "") -> _Propose:
    """Return a function that proposes a change which makes one kind of work lighter.

    Args:
        keep: share of its time that this work still takes, from 0 to 1.
        kind: kind of the work.
        what: description of the change.
        cure: words that end the sentence about the finding (what the steps wait for), if the change
            is its remedy; else "".
    """
    return lambda measured, finding: [at_most(lighter(measured, keep, kind), what, cure)]


def _less_feeding(share: float, part: str, what: str, cure: str) -> _Propose:
    """Return a function that proposes how to shorten a part of a device feeder's time.

    Args:
        share: share of its time by which it gets shorter.
        part: name of the attribute of `Feeding`.
        what: description of the change.
        cure: end of the sentence about the finding, which names this change; "": the sentence does
            not name it.
    """

    def propose(measured: Measured, finding: Finding) -> Iterator[Change]:
        took = getattr(measured.feeding, part)
        less = _with_feeding(measured, **{part: (1 - share) * took})
        seconds = max(measured.elapsed - share * took, step_seconds(less, measured.workers))
        yield Change(what, seconds / _noise(measured), True, cure)

    return propose


def _with_feeding(measured: Measured, **parts: float) -> Measured:
    assert measured.feeding is not None, "it is a feeder's"
    return replace(measured, feeding=replace(measured.feeding, **parts))


def _small_calls(measured: Measured, finding: Finding) -> Iterator[Change]:
    names = " and ".join(f"`{part.name}`" for part in measured.parts if part.kind == "record")
    batched = lighter(measured, 0.0, "record", "between", "stacking")
    what = f"put the Batch before {names}, and let them work on batches"
    yield at_most(batched, what, "batch first, and map batches")
    yield from _columns()(measured, finding)


def _columns(cure: str = "") -> _Propose:
    def propose(measured: Measured, finding: Finding) -> Iterator[Change]:
        if (
            measured.source.in_memory
            and not measured.source.columns
            and not measured.reads_memory_slowly
        ):
            what = "columns: pass the source as a dict of arrays, and put the Batch first"
            yield at_most(lighter(measured, 0.0, "reading", "between", "stacking"), what, cure)

    return propose


def _reading(measured: Measured, finding: Finding) -> Iterator[Change]:
    yield from _columns()(measured, finding)
    what = "a source that reads twice as fast: `__getitems__`, fewer columns"
    if measured.reads_memory_slowly:
        what = "a sampler, or a file that is mapped to memory, twice as fast"
    yield at_most(lighter(measured, 0.5, "reading"), what)


def _groups(measured: Measured, finding: Finding) -> Iterator[Change]:
    source = measured.source
    if source.together > 1:
        cure = f"group_size=1 instead of {source.together} would read one record for one"
        singly = lighter(measured, 1 / source.together, "reading")
        yield at_most(singly, "group_size=1: headrace convert … --option group_size=1", cure)
        return
    together = lighter(measured, source.consecutive / source.random, "reading")
    cure = "shuffle=BlockShuffle(…), or smaller row groups, would read less in vain"
    yield at_most(
        together, "shuffle=headrace.BlockShuffle(…), which reads neighbours together", cure
    )
    yield at_most(together, "smaller row groups: headrace convert … --option row_group_size=256")


def _more_reads(ends_sentence: bool) -> _Propose:
    """Return a function that proposes as many concurrent reads as hide the reading, or still help.

    Args:
        ends_sentence: True if this is the remedy, which ends the sentence about the finding.
    """

    def propose(measured: Measured, finding: Finding) -> Iterator[Change]:
        goal = CLOSE * step_seconds(measured, measured.workers, reads=UNLIMITED)
        count = enough_reads(measured, goal)
        if count > measured.source.reads:
            what, brief = _reading_options(measured, count)
            seconds = step_seconds(measured, measured.workers, reads=count)
            yield Change(
                what, seconds, cure=effect(measured, brief, seconds) if ends_sentence else ""
            )

    return propose


def _reading_options(measured: Measured, count: int) -> tuple[str, str]:
    """Return two texts on how to get `count` concurrent reads in each process.

    One is for the list of changes, the other is shorter.
    """
    source = measured.source
    buffer = count * max(round(measured.records), 1) if source.whole_batches else count
    options = []
    if not source.in_event_loop and source.threads < count:
        options.append(f"num_threads={count}")
    if source.buffer < buffer and (
        source.in_event_loop or buffer > DEFAULT_BUFFER or source.buffer
    ):
        options.append(f"prefetch_buffer_size={buffer}")
    brief = ", ".join(options)
    what = [f"read_options=ReadOptions({brief})"] if options else []
    if source.most_reads is not None and source.most_reads < count:
        allows = f"reads_ahead={count}"
        what, brief = (
            [f"{allows} in the facts of {source.kind}", *what],
            f"{allows}{', ' * bool(brief)}{brief}",
        )
    return f"{' and '.join(what)}, instead of {source.reads} reads at a time", brief


def _limited_source(measured: Measured, finding: Finding) -> Iterator[Change]:
    free = replace(measured, read_seconds=measured.read_seconds / slowed(measured))
    what = (
        "a source that answers more reads at a time, or many records in one read (`__getitems__`)"
    )
    yield at_most(
        free, what, "more threads would not help, but a source that answers more reads at a time"
    )


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
        seconds = (
            max(measured.read_seconds, part.seconds) * rare.rest
        )  # with reads ahead it is not waited for
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
    seconds = (
        max(measured.elapsed / LARGER, records) / _noise(measured) / NOISE
    )  # arrays of more rows cost less each, too
    what = f"batches of {LARGER * max(rows, 1):,} records (the numbers are for {rows:,} of them)"
    yield Change(
        what, max(seconds, _own(measured)), True, "larger batches would cost less each record"
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
    yield Change(what, seconds / _noise(measured), True, "workers could do it")


_NEARER = _less(0.0, "reading", "files on a faster disk, or kept here: cache= of storage options")

_OF: dict[str, tuple[_Propose, ...]] = {
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
    "small calls": (_small_calls,),
    "slow record": (_slow_record,),
    "stacking": (
        _columns("a source of columns would do without it"),
        _less(0.5, "stacking", "smaller dtypes (uint8, float16), and fewer leaves in a record"),
    ),
    "reading": (_reading,),
    "groups": (_groups,),
    "small files": (
        _less(
            0.0,
            "reading",
            "few large files: headrace convert SOURCE TARGET",
            "`headrace convert` makes few large ones",
        ),
        _more_reads(False),
    ),
    "waiting source": (_more_reads(True), _NEARER),
    "limited source": (_limited_source, _NEARER),
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
