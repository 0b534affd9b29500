"""Writes what a loop did as a trace that ui.perfetto.dev shows, by Perfetto's own library.

In: a loop. Out: a file.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import MissingExtraError
from .files import written
from .loops import both_stats
from .timeline import Span, Timeline, Track, timeline

FLOWS_OF_STEPS = 1 << 40
"""Added to the numbers of a feeder's batches, which are below 0: flows have numbers above 0."""


def write_perfetto(loop: Any, path: str | os.PathLike[str]) -> Path:
    """Write what a loop did last as a trace, which https://ui.perfetto.dev shows.

    There is a track for your loop, for each worker and for each thread of a device feeder, with a span for each task, wait and
    transfer of the last 2,000 tasks; and arrows from the reading of records to the batch that they became.

    Args:
        loop: an iterator or a device feeder of headrace, while it runs or after its end.
        path: of the file, which is replaced.

    Returns:
        The path.

    Raises:
        OutputError: the file cannot be written.
        MissingExtraError: perfetto is not installed.

    >>> import headrace, tempfile
    >>> iterator = iter(headrace.load(range(100), batch_size=10, num_epochs=1))
    >>> _ = list(iterator)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trace = headrace.write_perfetto(iterator, folder + "/run.perfetto")
    ...     trace.stat().st_size > 0
    True
    """
    return write_timeline(timeline(*both_stats(loop)), path)


def write_timeline(shown: Timeline, path: str | os.PathLike[str]) -> Path:
    """Write it; see `write_perfetto`."""
    check_perfetto()
    from perfetto.trace_builder.proto_builder import TraceProtoBuilder

    builder = TraceProtoBuilder()
    for packet in _packets(shown):
        builder.add_packet().MergeFrom(packet)
    return written(path, builder.serialize())


def check_perfetto() -> None:
    """Whether a trace can be written.

    Raises:
        MissingExtraError: perfetto is not installed.
    """
    try:
        import perfetto.protos.perfetto.trace.perfetto_trace_pb2  # noqa: F401
    except ImportError as error:
        raise MissingExtraError('a trace needs perfetto; pip install "headrace[pictures]".') from error


def _packets(shown: Timeline) -> Iterator[Any]:
    numbers = itertools.count(2)
    yield _descriptor(1, "headrace", process=True)
    for track in shown.tracks:
        number = next(numbers)
        yield _descriptor(number, track.name)
        yield from _track(track, number)
    number = next(numbers)
    yield _descriptor(number, "finished and not yet taken", counter=True)
    for at, count in shown.ready:
        packet = _event(number, at, "TYPE_COUNTER")
        packet.track_event.counter_value = count
        yield packet


def _track(track: Track, number: int) -> Iterator[Any]:
    open_spans: list[Span] = []
    for span in track.spans:
        while open_spans and open_spans[-1].ended <= span.began:
            yield _event(number, open_spans.pop().ended, "TYPE_SLICE_END")
        yield _begin(span, number)
        open_spans.append(span)
    while open_spans:
        yield _event(number, open_spans.pop().ended, "TYPE_SLICE_END")


def _begin(span: Span, track: int) -> Any:
    packet = _event(track, span.began, "TYPE_SLICE_BEGIN")
    packet.track_event.name = span.name
    packet.track_event.categories.append(span.kind)
    packet.track_event.flow_ids.extend(flow + 1 if flow >= 0 else FLOWS_OF_STEPS - flow for flow in span.flows)
    for name, value in span.details:
        told = packet.track_event.debug_annotations.add()
        told.name = name
        setattr(told, _VALUES[type(value)], value)
    return packet


_VALUES = {int: "int_value", float: "double_value", str: "string_value"}


def _event(track: int, at: float, kind: str) -> Any:
    packet = _packet()
    packet.timestamp = round(at * 1e9)
    packet.trusted_packet_sequence_id = 1
    packet.track_event.track_uuid = track
    packet.track_event.type = getattr(type(packet.track_event), kind)
    return packet


def _descriptor(number: int, name: str, *, process: bool = False, counter: bool = False) -> Any:
    packet = _packet()
    track = packet.track_descriptor
    track.uuid = number
    if process:
        track.process.pid, track.process.process_name = os.getpid(), name
        track.child_ordering = type(track).EXPLICIT
    else:
        track.parent_uuid, track.name = 1, name
        track.sibling_order_rank = number
    if counter:
        track.counter.SetInParent()
    return packet


def _packet() -> Any:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket

    return TracePacket()
