"""More reads under way at a time: which option that is, and what it would give. Pure.

In: what was measured. Out: a change, if more reads help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..measured import Measured
from .change import Change
from .model import CLOSE, UNLIMITED, step_seconds
from .under_way import enough_reads

DEFAULT_BUFFER = 500
"""Records that are read ahead, unless somebody says otherwise."""


def more_reads(measured: Measured, effect: Callable[[Measured, str, float], str] | None) -> Iterator[Change]:
    """As many as hide the reading, or as help; where the step is not known, four times as many. `effect` ends the sentence."""
    goal = CLOSE * step_seconds(measured, measured.workers, reads=UNLIMITED)
    count = enough_reads(measured, goal)
    if count <= measured.source.reads:
        return
    what, brief = _option(measured, count)
    seconds = step_seconds(measured, measured.workers, reads=count)
    yield Change(what, seconds, cure="" if effect is None else effect(measured, brief, seconds))


def _option(measured: Measured, count: int) -> tuple[str, str]:
    """What has so many reads under way in each place: to be told in a list, and in a sentence."""
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
