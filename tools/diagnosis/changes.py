"""What would change a loop, each with the effect that it would have. Pure.

In: what was measured, and what was found. Out: changes: that which cures what was found first, then by their effect.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .measured import Measured
from .model import HAND_OVER, enough_workers, floor_seconds, share_waited, step_seconds
from .verdict import Finding

WORTH = 1.05
"""A change that makes less than this many times the steps is left out."""

HIDDEN = 0.1
"""Share of the time that is waited where work is said to be hidden: what is left is the hand-over."""

LARGER = 8
"""Times the records in a batch: what is proposed for batches that are too small. Chosen."""


@dataclass(frozen=True)
class Change:
    """Something to do.

    Attributes:
        what: to do, as it stands in a list.
        seconds: of a step after it.
        at_most: it is not known how much of the time it saves: a step takes so long where it saves all.
        cure: how it ends the sentence on what was found, "5 workers would hide it"; "" for one that does not.
    """

    what: str
    seconds: float
    at_most: bool = False
    cure: str = ""


def changes(measured: Measured, finding: Finding) -> tuple[Change, ...]:
    """What is worth doing; the first one is the cure."""
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
    if finding.kind != "hand-over":
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
)


def _more_workers(measured: Measured) -> Iterator[Change]:
    """As many as hide the work, or as help; where the step is not known, twice as many."""
    if measured.worker_kind == "thread" and measured.at_work > 0.5:
        return
    enough = enough_workers(measured)
    count = enough if measured.step_known else min(enough, max(2 * measured.workers, 2))
    if count <= measured.workers:
        return
    seconds = step_seconds(measured, count)
    workers = f"{count} worker{'s' * (count > 1)}"
    hides = measured.step_known and share_waited(measured, seconds) <= HIDDEN
    cure = f"{workers} would hide it" if hides else f"{workers} would give {_times(measured, seconds)}"
    yield Change(f"worker_count={count}{'' if hides else _limit(measured, count)}", seconds, cure=cure)


def _limit(measured: Measured, count: int) -> str:
    """What stands beside a number of workers that have no more cores."""
    used = measured.processor / measured.work * count if measured.work else 0.0
    return f" (all that {measured.cores} cores can)" if measured.worker_kind != "ray" and used >= measured.cores else ""


def _cheaper(measured: Measured) -> Iterator[Change]:
    """The operations that take much, made twice as fast."""
    for part in measured.parts:
        if part.kind in ("record", "batch") and part.seconds > measured.work / 4:
            yield _saving(measured, part.seconds / 2, f"`{part.name}` twice as fast", at_most=False)


def _threads(measured: Measured, finding: Finding) -> Iterator[Change]:
    """Threads, where handing over from processes takes much."""
    packing = measured.seconds_of("packing")
    if measured.worker_kind == "process" and measured.workers and packing > measured.work / 5:
        what = 'worker_kind="thread", if operations release the GIL, as NumPy and image decoders do'
        other = dataclasses.replace(measured, waited=max(measured.waited - measured.hand_over, 0.0))
        cure = 'worker_kind="thread" would do without it' if finding.stage == "hand-over" else ""
        yield dataclasses.replace(_saving(other, packing, what), cure=cure)


def _saving(measured: Measured, saved: float, what: str, at_most: bool = True, cure: str = "") -> Change:
    return Change(what, step_seconds(measured, measured.workers, saved=saved), at_most, cure)


def _of_small_calls(measured: Measured, finding: Finding) -> Iterator[Change]:
    names = " and ".join(f"`{part.name}`" for part in measured.parts if part.kind == "record")
    saved = measured.seconds_of("record", "between", "stacking")
    cure = "batch first, and map batches"
    yield _saving(measured, saved, f"put the Batch before {names}, and let them work on batches", cure=cure)
    yield from _columns(measured)


def _columns(measured: Measured, cure: str = "") -> Iterator[Change]:
    if measured.source.in_memory and not measured.source.columns and not measured.reads_memory_slowly:
        saved = measured.seconds_of("reading", "between", "stacking")
        what = "columns: pass the source as a dict of arrays, and put the Batch first"
        yield _saving(measured, saved, what, cure=cure)


def _of_stacking(measured: Measured, finding: Finding) -> Iterator[Change]:
    yield from _columns(measured, "a source of columns would do without it")
    each = measured.seconds_of("stacking") / 2
    yield _saving(measured, each, "smaller dtypes (uint8, float16), and fewer leaves in a record")


def _of_reading(measured: Measured, finding: Finding) -> Iterator[Change]:
    saved = measured.seconds_of("reading") / 2
    if measured.reads_memory_slowly:
        yield _saving(measured, saved, "a sampler, or a file that is mapped to memory, twice as fast")
        return
    yield from _columns(measured)
    yield _saving(measured, saved, "a source that reads twice as fast: `__getitems__`, fewer columns")


def _of_groups(measured: Measured, finding: Finding) -> Iterator[Change]:
    reading, source = measured.seconds_of("reading"), measured.source
    if source.together > 1:
        saved = reading * (1 - 1 / source.together)
        cure = f"group_size=1 instead of {source.together} would read one record for one"
        yield _saving(measured, saved, "group_size=1: millrace convert … --option group_size=1", cure=cure)
        return
    saved = reading * (1 - source.consecutive / source.random)
    cure = "shuffle=BlockShuffle(…), or smaller row groups, would read less in vain"
    yield _saving(measured, saved, "shuffle=millrace.BlockShuffle(…), which reads neighbours together", cure=cure)
    yield _saving(measured, saved, "smaller row groups: millrace convert … --option row_group_size=256")


def _of_small_files(measured: Measured, finding: Finding) -> Iterator[Change]:
    cure = "`millrace convert` makes few large ones"
    what = "few large files: millrace convert SOURCE TARGET"
    yield _saving(measured, measured.seconds_of("reading"), what, cure=cure)
    yield from _more_threads(measured)


def _of_waiting_source(measured: Measured, finding: Finding) -> Iterator[Change]:
    yield from _more_threads(measured, "more threads that read ahead would hide it")
    yield _saving(
        measured, measured.seconds_of("reading"), "files on a faster disk, or kept here: cache= of storage options"
    )


def _more_threads(measured: Measured, cure: str = "") -> Iterator[Change]:
    threads = measured.source.threads
    if threads:
        more = max(32, 4 * threads)
        what = f"read_options=ReadOptions(num_threads={more}), instead of {threads}"
        yield _saving(measured, measured.seconds_of("reading") * (1 - threads / more), what, cure=cure)


def _of_slow_record(measured: Measured, finding: Finding) -> Iterator[Change]:
    rare = measured.rare
    assert rare is not None, "it was found"
    what = f"such records repaired, or left out by a Filter: one stands {rare.key}"
    yield _saving(
        measured, measured.work * (rare.share - rare.few), what, cure="repair such records, or leave them out"
    )
    if measured.workers:
        seconds = max(floor_seconds(measured), measured.work / measured.workers)
        yield Change("a larger worker_buffer_size=, so that others go on meanwhile", seconds, at_most=True)


def _of_hand_over(measured: Measured, finding: Finding) -> Iterator[Change]:
    yield from _threads(measured, finding)
    saved = measured.hand_over
    other = dataclasses.replace(measured, waited=max(measured.waited - saved, 0.0))
    what = "arrays of one shape, padded or packed in the workers: they are shared, not copied"
    seconds = max(step_seconds(other, measured.workers, saved=measured.seconds_of("packing")), HAND_OVER)
    yield Change(what, seconds, True, "arrays of one shape would be shared, not copied")


def _of_small_batches(measured: Measured, finding: Finding) -> Iterator[Change]:
    """Told for as many records as a step has now."""
    records = round(measured.records)
    seconds = measured.own + max(measured.waited - measured.hand_over * (1 - 1 / LARGER), 0.0)
    larger = LARGER * max(records, 1)
    cure = "larger batches would cost less each record"
    yield Change(f"batches of {larger:,} records (the numbers are for {records:,} of them)", seconds, True, cure)


def _of_lock(measured: Measured, finding: Finding) -> Iterator[Change]:
    unlocked = dataclasses.replace(
        measured,
        worker_kind="process",
        parts=tuple(
            dataclasses.replace(part, seconds=part.seconds * _processor_share(measured)) for part in measured.parts
        ),
        at_work=1.0,
    )
    seconds = step_seconds(unlocked, measured.workers)
    cure = 'worker_kind="process" would let all cores work'
    yield Change('worker_kind="process"', seconds, cure=cure)


def _processor_share(measured: Measured) -> float:
    return measured.processor / measured.work if measured.work else 1.0


def _less_feeding(what: str, cure: str, part: str, share: float) -> Callable[[Measured, Finding], Iterator[Change]]:
    def of(measured: Measured, finding: Finding) -> Iterator[Change]:
        assert measured.feeding is not None, "it is a feeder's"
        seconds = measured.elapsed - share * getattr(measured.feeding, part)
        yield Change(what, seconds, True, cure)

    return of


_OF: dict[str, Callable[[Measured, Finding], Iterator[Change]]] = {
    "small calls": _of_small_calls,
    "slow record": _of_slow_record,
    "stacking": _of_stacking,
    "reading": _of_reading,
    "groups": _of_groups,
    "small files": _of_small_files,
    "waiting source": _of_waiting_source,
    "hand-over": _of_hand_over,
    "small batches": _of_small_batches,
    "lock": _of_lock,
    "transform": _less_feeding("transform= as an operation of the loader", "workers could do it", "transforming", 1.0),
    "hosts": _less_feeding("the other hosts' loaders as fast as this one", "look at their stats", "agreeing", 1.0),
    "transfer": _less_feeding(
        "half the bytes: uint8, made float on the device", "fewer bytes would shorten it", "transfer", 0.5
    ),
}


def _times(measured: Measured, seconds: float) -> str:
    return f"{measured.elapsed / seconds:.1f} times the batches"
