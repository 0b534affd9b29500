"""Proposes changes of a loop, each with its effect. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from ..measured import Measured, PartKind, WorkPart
from .model import (
    CLOSE,
    HAND_OVER,
    UNLIMITED,
    enough_reads,
    enough_workers,
    lighter,
    share_waited,
    slowed,
    step_seconds,
)
from .verdict import Change, Finding

WORTH = 1.05
"""A change that makes less than this many times the steps is left out."""

HIDDEN = 0.1
"""Share of the time that is waited where work is said to be hidden: what is left is the hand-over."""

LARGER = 8
"""Times the records in a batch: what is proposed for batches that are too small. Chosen."""

LEAST, FASTEST = 5e-6, 20e9
"""Seconds that no step is shorter than; bytes of batches that are made in a second at most. Chosen: more than was ever seen."""

NOISE = 1.15
"""Times what the numbers give at most: "up to" is told with it, as no two runs take the same time. More where others had the
processors: the next run may have them."""

SMALL, COLD = 1 / 6, 1.6
"""Work that is less than this share of a step takes up to so many times as long as it does when nothing comes between: its code
and data are not in the caches. Measured by `benchmarks/cures.py`."""


DEFAULT_BUFFER = 500
"""Records that are read ahead, unless somebody says otherwise."""


def changes(measured: Measured, finding: Finding) -> tuple[Change, ...]:
    """The changes that are worth it; the first one is the cure."""
    now = measured.elapsed
    known = [change for change in _known(measured, finding) if change.seconds * WORTH < now]
    first = [change for change in known if change.cure][:1]
    others = sorted((change for change in known if change not in first), key=lambda change: change.seconds)
    return (*first, *others)


def _known(measured: Measured, finding: Finding) -> Iterator[Change]:
    own = _OF.get(finding.kind)
    if own is not None:
        yield from own(measured, finding)
    if finding.kind in HELPED_BY_WORKERS:
        yield from _more_workers(measured)
    if finding.kind in ("operation", "small calls", "slow record", "stacking", "lock"):
        yield from _cheaper(measured)
    if finding.kind not in ("hand-over", "start"):
        yield from _threads(measured, finding)


HELPED_BY_WORKERS = (
    "operation",
    "small calls",
    "slow record",
    "stacking",
    "reading",
    "groups",
    "small files",
    "waiting source",
    "filter",
    "sampler",
)


def _more_workers(measured: Measured) -> Iterator[Change]:
    """As many as hide the work, or as help; where the step is not known, twice as many."""
    if measured.worker_kind == "thread" and (measured.at_work > 0.5 or measured.seconds_of("sampler")):
        return
    enough = enough_workers(measured)
    count = enough if measured.step_known else min(enough, max(2 * measured.workers, 2))
    if count <= measured.workers:
        return
    seconds = step_seconds(measured, count)
    workers = f"{count} worker{'s' * (count > 1)}"
    cure = effect(measured, workers, seconds)
    yield Change(
        f"worker_count={count}{'' if _hides(measured, seconds) else _limit(measured, count)}", seconds, cure=cure
    )


def effect(measured: Measured, what: str, seconds: float) -> str:
    """The effect of a change, as the end of a sentence."""
    does = "hide it" if _hides(measured, seconds) else f"give {measured.elapsed / seconds:.1f} times the batches"
    return f"{what} would {does}"


def _hides(measured: Measured, seconds: float) -> bool:
    return measured.step_known and share_waited(measured, seconds) <= HIDDEN


def _limit(measured: Measured, count: int) -> str:
    """A note beside a number of workers that fill all cores."""
    used = measured.processor / measured.work * count if measured.work else 0.0
    return f" (all that {measured.cores} cores can)" if measured.worker_kind != "ray" and used >= measured.cores else ""


def _cheaper(measured: Measured) -> Iterator[Change]:
    """The operations that take much, made twice as fast."""
    for part in measured.parts:
        if part.kind in ("record", "batch") and part.seconds > measured.work / 4:
            faster = lighter(measured, 0.5, named=part.name)
            yield Change(f"`{part.name}` twice as fast", step_seconds(faster, measured.workers))


def _threads(measured: Measured, finding: Finding) -> Iterator[Change]:
    """Threads, where handing over from processes takes much."""
    packing = measured.seconds_of("packing")
    if measured.worker_kind == "process" and measured.workers and packing > measured.work / 5:
        what = 'worker_kind="thread", if operations release the GIL, as NumPy and image decoders do'
        cure = 'worker_kind="thread" would do without it' if finding.stage == "hand-over" else ""
        yield at_most(lighter(measured, 0.0, "packing"), what, cure)


def at_most(measured: Measured, what: str, cure: str = "") -> Change:
    """The gain, if nothing else were in the way.

    Workers and the loop never wait for each other, a read takes no longer than alone, and our own work takes no time.

    Args:
        measured: as it would be after the change.
        what: to do.
        cure: see `Change`.
    """
    smooth = lighter(measured, 0.0, "between")
    waited = measured.waited if measured.step_known else measured.elapsed
    smooth = dataclasses.replace(smooth, waited=waited, unready=waited)
    if smooth.reads_ahead:  # nobody waits for reads, so as many are under way as can be
        parts = tuple(
            dataclasses.replace(part, seconds=0.0) if part.kind == "reading" else part for part in smooth.parts
        )
        smooth = dataclasses.replace(smooth, parts=parts)
    alone = measured.records * measured.source.random
    if measured.source.singly and alone:
        smooth = dataclasses.replace(smooth, read_seconds=min(smooth.read_seconds, alone))
    least = max(LEAST, measured.nbytes / FASTEST)
    seconds = step_seconds(smooth, measured.workers) / _noise(measured)
    if seconds < SMALL * measured.elapsed:
        seconds = max(seconds / COLD, measured.own / _noise(measured) if measured.step_known else 0.0)
    return Change(what, max(seconds, least), True, cure)


def _noise(measured: Measured) -> float:
    return NOISE * (1 + measured.others / measured.cores)


def _of_small_calls(measured: Measured, finding: Finding) -> Iterator[Change]:
    names = " and ".join(f"`{part.name}`" for part in measured.parts if part.kind == "record")
    batched = lighter(measured, 0.0, "record", "between", "stacking")
    yield at_most(
        batched, f"put the Batch before {names}, and let them work on batches", "batch first, and map batches"
    )
    yield from _columns(measured)


def _columns(measured: Measured, cure: str = "") -> Iterator[Change]:
    if measured.source.in_memory and not measured.source.columns and not measured.reads_memory_slowly:
        what = "columns: pass the source as a dict of arrays, and put the Batch first"
        yield at_most(lighter(measured, 0.0, "reading", "between", "stacking"), what, cure)


def _of_stacking(measured: Measured, finding: Finding) -> Iterator[Change]:
    yield from _columns(measured, "a source of columns would do without it")
    yield at_most(lighter(measured, 0.5, "stacking"), "smaller dtypes (uint8, float16), and fewer leaves in a record")


def _of_reading(measured: Measured, finding: Finding) -> Iterator[Change]:
    faster = lighter(measured, 0.5, "reading")
    if measured.reads_memory_slowly:
        yield at_most(faster, "a sampler, or a file that is mapped to memory, twice as fast")
        return
    yield from _columns(measured)
    yield at_most(faster, "a source that reads twice as fast: `__getitems__`, fewer columns")


def _of_groups(measured: Measured, finding: Finding) -> Iterator[Change]:
    source = measured.source
    if source.together > 1:
        cure = f"group_size=1 instead of {source.together} would read one record for one"
        singly = lighter(measured, 1 / source.together, "reading")
        yield at_most(singly, "group_size=1: headrace convert … --option group_size=1", cure)
        return
    together = lighter(measured, source.consecutive / source.random, "reading")
    cure = "shuffle=BlockShuffle(…), or smaller row groups, would read less in vain"
    yield at_most(together, "shuffle=headrace.BlockShuffle(…), which reads neighbours together", cure)
    yield at_most(together, "smaller row groups: headrace convert … --option row_group_size=256")


def _of_small_files(measured: Measured, finding: Finding) -> Iterator[Change]:
    what = "few large files: headrace convert SOURCE TARGET"
    yield at_most(lighter(measured, 0.0, "reading"), what, "`headrace convert` makes few large ones")
    yield from _more_reads(measured, None)


def _of_waiting_source(measured: Measured, finding: Finding) -> Iterator[Change]:
    yield from _more_reads(measured, effect)
    yield from _nearer(measured)


def _more_reads(measured: Measured, effect: Callable[[Measured, str, float], str] | None) -> Iterator[Change]:
    """As many as hide the reading, or as help; where the step is not known, four times as many. `effect` ends the sentence."""
    goal = CLOSE * step_seconds(measured, measured.workers, reads=UNLIMITED)
    count = enough_reads(measured, goal)
    if count <= measured.source.reads:
        return
    what, brief = _reading_options(measured, count)
    seconds = step_seconds(measured, measured.workers, reads=count)
    yield Change(what, seconds, cure="" if effect is None else effect(measured, brief, seconds))


def _reading_options(measured: Measured, count: int) -> tuple[str, str]:
    """The options for `count` reads under way in each place: for a list, and for a sentence."""
    source = measured.source
    buffer = count * max(round(measured.records), 1) if source.whole_batches else count
    options = []
    if not source.in_event_loop and source.threads < count:
        options.append(f"num_threads={count}")
    if source.buffer < buffer and (source.in_event_loop or buffer > DEFAULT_BUFFER or source.buffer):
        options.append(f"prefetch_buffer_size={buffer}")
    brief = ", ".join(options)
    what = [f"read_options=ReadOptions({brief})"] if options else []
    if source.most_reads is not None and source.most_reads < count:
        allows = f"reads_ahead = {count}"
        what, brief = [f"{allows} in {source.kind}", *what], f"{allows}{', ' * bool(brief)}{brief}"
    return f"{' and '.join(what)}, instead of {source.reads} reads at a time", brief


def _nearer(measured: Measured) -> Iterator[Change]:
    yield at_most(lighter(measured, 0.0, "reading"), "files on a faster disk, or kept here: cache= of storage options")


def _of_limited_source(measured: Measured, finding: Finding) -> Iterator[Change]:
    free = dataclasses.replace(measured, read_seconds=measured.read_seconds / slowed(measured))
    what = "a source that answers more reads at a time, or many records in one read (`__getitems__`)"
    yield at_most(free, what, "more threads would not help, but a source that answers more reads at a time")
    yield from _nearer(measured)


def _of_sampler(measured: Measured, finding: Finding) -> Iterator[Change]:
    what = "a sampler whose order is an array: IndexSampler, or one that computes it once and looks it up"
    yield at_most(
        lighter(measured, 0.0, "sampler"), what, "an order that is computed once, as an array, would do without it"
    )


def _of_filter(measured: Measured, finding: Finding) -> Iterator[Change]:
    """First on what is cheap: before the operations whose work is in vain, or on keys."""
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
    yield at_most(lighter(filtered, kept, "reading"), what, "a source of the keys that it keeps would read no other")


def _of_start(measured: Measured, finding: Finding) -> Iterator[Change]:
    """Workers that begin once, or not at all."""
    once = dataclasses.replace(measured, starting=0.0, waited=measured.waited - measured.starting)
    once = dataclasses.replace(once, elapsed=measured.elapsed - measured.starting)
    seconds = step_seconds(once, measured.workers)
    cure = effect(measured, "one loop over all epochs (num_epochs=)", seconds)
    yield Change("one loop over all epochs: num_epochs= of the loader, and one iterator", seconds, cure=cure)
    yield Change("worker_count=0, where nothing has to begin", step_seconds(once, 0))


def _of_slow_record(measured: Measured, finding: Finding) -> Iterator[Change]:
    rare = measured.rare
    assert rare is not None, "it was found"
    what = f"such records repaired, or left out by a Filter: one stands {rare.key}"
    cure = "repair such records, or leave them out"
    if finding.part is not None and finding.part.kind == "reading":
        quick = lighter(measured, 0.0, named=finding.part.name)  # with reads ahead it is not waited for
        seconds = max(measured.read_seconds, finding.part.seconds) * rare.rest
        yield at_most(dataclasses.replace(quick, read_seconds=seconds), what, cure)
        return
    yield at_most(lighter(measured, rare.rest, *_KINDS), what, cure)
    if measured.workers:
        yield at_most(measured, "a larger worker_buffer_size=, so that others go on meanwhile")


_KINDS: tuple[PartKind, ...] = ("sampler", "reading", "record", "batch", "stacking", "between", "packing")


def _of_hand_over(measured: Measured, finding: Finding) -> Iterator[Change]:
    yield from _threads(measured, finding)
    shared = at_most(
        lighter(measured, 0.0, "packing"),
        "arrays of one shape, padded or packed in the workers: they are shared, not copied",
        "arrays of one shape would be shared, not copied",
    )
    yield dataclasses.replace(shared, seconds=max(shared.seconds, HAND_OVER))


def _of_small_batches(measured: Measured, finding: Finding) -> Iterator[Change]:
    """Told for as many records as a step has now. All that is not done for each record may be done for each batch."""
    rows = round(measured.batch)
    records = measured.seconds_of("record") / max(measured.workers, 1)
    seconds = (
        max(measured.elapsed / LARGER, records) / _noise(measured) / NOISE
    )  # arrays of more rows cost less each row, too
    seconds = max(seconds, measured.own / _noise(measured) if measured.step_known else 0.0)
    larger = LARGER * max(rows, 1)
    cure = "larger batches would cost less each record"
    yield Change(f"batches of {larger:,} records (the numbers are for {rows:,} of them)", seconds, True, cure)


def _of_lock(measured: Measured, finding: Finding) -> Iterator[Change]:
    share = measured.processor / measured.work if measured.work else 1.0
    parts = tuple(dataclasses.replace(part, seconds=part.seconds * share) for part in measured.parts)
    unlocked = dataclasses.replace(measured, worker_kind="process", parts=parts, at_work=1.0)
    seconds = step_seconds(unlocked, measured.workers)
    cure = 'worker_kind="process" would let all cores work'
    yield Change('worker_kind="process"', seconds, cure=cure)


def _of_turns(measured: Measured, finding: Finding) -> Iterator[Change]:
    assert finding.part is not None, "it is an operation's"
    free = lighter(measured, measured.alone / finding.part.seconds, named=finding.part.name)
    what = f"`{finding.part.name}` without what its calls wait for: a lock, a file, a connection"
    yield at_most(free, what, "more workers would not help, but a call that shares nothing with the others")


def _of_transform(measured: Measured, finding: Finding) -> Iterator[Change]:
    """The workers get that work, too; without workers the feeder's thread would still have it."""
    assert measured.feeding is not None, "it is a feeder's"
    took = measured.feeding.transforming
    parts = (*measured.parts, WorkPart("transform=", "batch", took))
    moved = dataclasses.replace(_with_feeding(measured, transforming=0.0), parts=parts)
    seconds = step_seconds(moved, max(measured.workers, 1))
    seconds = max(seconds, measured.elapsed - took) if measured.workers else seconds
    with_one = "" if measured.workers else ", with worker_count=1"
    what = f"transform= as an operation of the loader{with_one}"
    yield Change(what, seconds / _noise(measured), True, "workers could do it")


def _less_feeding(what: str, cure: str, part: str, share: float) -> Callable[[Measured, Finding], Iterator[Change]]:
    def of(measured: Measured, finding: Finding) -> Iterator[Change]:
        took = getattr(measured.feeding, part)
        less = _with_feeding(measured, **{part: (1 - share) * took})
        seconds = max(measured.elapsed - share * took, step_seconds(less, measured.workers))
        yield Change(what, seconds / _noise(measured), True, cure)

    return of


def _with_feeding(measured: Measured, **parts: float) -> Measured:
    """The same with other times in the feeder."""
    assert measured.feeding is not None, "it is a feeder's"
    return dataclasses.replace(measured, feeding=dataclasses.replace(measured.feeding, **parts))


_OF: dict[str, Callable[[Measured, Finding], Iterator[Change]]] = {
    "start": _of_start,
    "filter": _of_filter,
    "sampler": _of_sampler,
    "small calls": _of_small_calls,
    "slow record": _of_slow_record,
    "stacking": _of_stacking,
    "reading": _of_reading,
    "groups": _of_groups,
    "small files": _of_small_files,
    "waiting source": _of_waiting_source,
    "limited source": _of_limited_source,
    "hand-over": _of_hand_over,
    "small batches": _of_small_batches,
    "lock": _of_lock,
    "turns": _of_turns,
    "transform": _of_transform,
    "hosts": _less_feeding("the other hosts' loaders as fast as this one", "look at their stats", "agreeing", 1.0),
    "transfer": _less_feeding(
        "half the bytes: uint8, made float on the device", "fewer bytes would shorten it", "transfer", 0.5
    ),
}
