"""Write the timeline of a loop as trace events in JSON (Chrome's format), for ui.perfetto.dev."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .files import written
from .loops import both_stats
from .timeline import Interval, Timeline, timeline

# The ids of arrows must be above 0; a feeder's batches have numbers below 0, which are subtracted
# from this.
FEEDER_FLOWS = 1 << 40


def write_perfetto(loop: Any, path: str | os.PathLike[str]) -> Path:
    """Write a timeline of the last tasks of a loop to a file for https://ui.perfetto.dev.

    A task is a number of elements that one worker makes at a time. The timeline has a track for
    your loop, for each worker and for each thread of a device feeder. They show the last 2,000
    tasks that were timed and the waits for them, the last 1,000 steps of a feeder, and arrows from
    the reading of records to the batch that is made of them. The file has trace events in JSON,
    which `chrome://tracing` opens, too.

    Args:
        loop: an iterator or a device feeder of headrace, during or after its run.
        path: path of the file. An existing file is replaced.

    Returns:
        The path.

    Raises:
        OutputError: the file cannot be written.
        TypeError: `loop` is not a loop of headrace.

    >>> import headrace, json, tempfile
    >>> iterator = iter(headrace.load(range(100), batch_size=10, num_epochs=1))
    >>> _ = list(iterator)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trace = headrace.write_perfetto(iterator, folder + "/run.json")
    ...     sorted(json.loads(trace.read_text()))
    ['displayTimeUnit', 'traceEvents']
    """
    return write_timeline(timeline(*both_stats(loop)), path)


def write_timeline(shown: Timeline, path: str | os.PathLike[str]) -> Path:
    """Write a timeline to a file for https://ui.perfetto.dev, and return the path of the file."""
    trace = {"displayTimeUnit": "ms", "traceEvents": list(_events(shown))}
    return written(path, json.dumps(trace).encode())


def _events(shown: Timeline) -> Iterator[dict[str, Any]]:
    yield _event("M", 0, name="process_name", args={"name": "headrace"})
    flows: dict[int, list[Interval]] = defaultdict(list)
    for thread, track in enumerate(shown.tracks, 1):
        yield _event("M", thread, name="thread_name", args={"name": track.name})
        yield _event("M", thread, name="thread_sort_index", args={"sort_index": thread})
        for span in track.spans:
            for flow in span.flows:
                flows[flow].append(span)
    for spans in flows.values():
        spans.sort(key=lambda span: span.began)
    for thread, track in enumerate(shown.tracks, 1):
        for span in track.spans:
            duration = _micros(span.ended) - _micros(span.began)
            args = dict(span.details)
            yield _event(
                "X",
                thread,
                span.began,
                name=span.name,
                cat=span.kind,
                dur=round(duration, 3),
                args=args,
            )
            # right after the span: an arrow leads from or to the span that began last
            for flow in span.flows:
                kind = "s" if span is flows[flow][0] else "f" if span is flows[flow][-1] else "t"
                number = flow + 1 if flow >= 0 else FEEDER_FLOWS - flow
                yield _event(kind, thread, span.began, name="batch", cat="flow", id=number, bp="e")
    for at, count in shown.ready:
        yield _event("C", 0, at, name="finished and not yet taken", args={"blocks": count})


def _event(phase: str, thread: int, at: float = 0.0, **more: Any) -> dict[str, Any]:
    return {"ph": phase, "pid": os.getpid(), "tid": thread, "ts": _micros(at), **more}


def _micros(seconds: float) -> float:
    return round(seconds * 1e6, 3)
