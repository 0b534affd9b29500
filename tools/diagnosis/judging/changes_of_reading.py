"""Changes of reading: more reads at a time, other options, other groups of records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..measured import Measured
from .estimates import CLOSE, enough_reads, lighter, slowed, step_seconds
from .proposing import DEFAULT_BUFFER, Propose, at_most, effect
from .verdict import UNLIMITED, Change, Finding


def small_calls(measured: Measured, finding: Finding) -> Iterator[Change]:
    """Propose to batch first, so that operations work on batches."""
    names = " and ".join(f"`{part.name}`" for part in measured.parts if part.kind == "record")
    batched = lighter(measured, 0.0, "record", "between", "stacking")
    what = f"put the Batch before {names}, and let them work on batches"
    yield at_most(batched, what, "batch first, and map batches")
    yield from columns()(measured, finding)


def columns(cure: str = "") -> Propose:
    """Return a function that proposes a source of columns, if a list is in memory."""

    def propose(measured: Measured, finding: Finding) -> Iterator[Change]:
        if (
            measured.source.in_memory
            and not measured.source.columns
            and not measured.reads_memory_slowly
        ):
            what = "columns: pass the source as a dict of arrays, and put the Batch first"
            yield at_most(lighter(measured, 0.0, "reading", "between", "stacking"), what, cure)

    return propose


def reading(measured: Measured, finding: Finding) -> Iterator[Change]:
    """Propose columns, and a source that reads twice as fast."""
    yield from columns()(measured, finding)
    what = "a source that reads twice as fast: `__getitems__`, fewer columns"
    if measured.reads_memory_slowly:
        what = "a sampler, or a file that is mapped to memory, twice as fast"
    yield at_most(lighter(measured, 0.5, "reading"), what)


def groups(measured: Measured, finding: Finding) -> Iterator[Change]:
    """Propose smaller groups of records, or an order that reads records together."""
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


def more_reads(ends_sentence: bool) -> Propose:
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


def limited_source(measured: Measured, finding: Finding) -> Iterator[Change]:
    """Propose a source that answers more reads at a time."""
    free = replace(measured, read_seconds=measured.read_seconds / slowed(measured))
    what = (
        "a source that answers more reads at a time, or many records in one read (`__getitems__`)"
    )
    yield at_most(
        free, what, "more threads would not help, but a source that answers more reads at a time"
    )
