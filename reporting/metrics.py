"""Numbers of loops for Prometheus, for runs that take days.

In: loops that run in this process. Out: `http://127.0.0.1:PORT/metrics`. Nothing is done until somebody asks for that page.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from ..common.messages import short_repr, shorten
from ..common.validation import whole_number
from ..errors import MissingExtraError, PortError
from ..loader.iterator import DataLoaderIterator
from ..loader.stats import IteratorStats
from ..loader.timing.listeners import listening
from ..loader.timing.snapshot import PARTS_OF_A_WAIT
from ..sources.mixed.source import MixedSource
from .loops import check_loop, host_iterator, snapshot, without_line

__all__ = ["Server", "serve"]


def serve(port: int, loops: Mapping[str, Any] | None = None, *, address: str = "127.0.0.1") -> Server:
    """Serve numbers of this process's loops for Prometheus at `http://address:port/metrics`.

    Every loop of a loader or a device feeder that begins from now on is told of, as long as it is kept; its label `loop` is
    "0", "1" and so on. The numbers are found when the page is asked for; loops are not slowed down by it.

    Args:
        port: to listen at; 0 takes any free one, which `server.port` tells.
        loops: iterators or feeders by the name that their label is to have, such as `{"train": iterator}`.
        address: of this machine, to listen at. "127.0.0.1" (default): only programs of this machine can ask. "0.0.0.0": all can
            who reach the machine.

    Returns:
        What listens, on a thread, until it is closed or the process ends.

    Raises:
        PortError: the port is in use, or may not be listened at.
        TypeError: one of `loops` is no loop.
        MissingExtraError: prometheus_client is not installed.

    >>> import headrace, urllib.request
    >>> iterator = iter(headrace.load(range(6), batch_size=2, num_epochs=1))
    >>> with headrace.metrics.serve(0, {"train": iterator}) as server:
    ...     batches = list(iterator)
    ...     page = urllib.request.urlopen(server.url).read().decode()
    >>> [line for line in page.splitlines() if line.startswith("headrace_records_total")]
    ['headrace_records_total{loop="train"} 6.0']
    """
    port = whole_number("port", port, 0, 65535, "a port, such as 9464, or 0 for any free one")
    return Server(port, address, _Loops(loops or {}))


class Server:
    """A server of metrics, from `headrace.metrics.serve`. Close it, or use it as a context manager, to free the port.

    Attributes:
        port: where it listens.
        url: of the page.
    """

    def __init__(self, port: int, address: str, loops: _Loops) -> None:
        registry = _prometheus().CollectorRegistry()
        registry.register(loops)
        try:
            self._http, self._thread = _prometheus().start_http_server(port, addr=address, registry=registry)
        except OSError as error:
            raise PortError(f"port={port} of address={short_repr(address)}: {shorten(error)}; {_REMEDY}") from error
        self.port: int = self._http.server_port
        self.url = f"http://{address}:{self.port}/metrics"
        self._listening = ExitStack()
        self._listening.enter_context(listening(loops.begins))

    def close(self) -> None:
        """Serve no longer. May be called twice."""
        self._listening.close()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


_REMEDY = "pass another port, 0 for any free one, or an address of this machine."


def _prometheus() -> Any:
    try:
        import prometheus_client
        import prometheus_client.core
    except ImportError as error:
        raise MissingExtraError('metrics need prometheus_client; pip install "headrace[metrics]".') from error
    return prometheus_client


class _Number(NamedTuple):
    """A number, of the loop whose label is added later."""

    name: str
    value: float
    labels: tuple[str, ...] = ()


class _Loops:
    """Loops by name, as a collector of prometheus_client. They are not kept alive."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        for loop in named.values():
            check_loop(loop)
        self._known = {name: weakref.ref(without_line(loop)) for name, loop in named.items()}
        self._lock = threading.Lock()

    def begins(self, loop: Any) -> None:
        """A loop begins, maybe again; on its own thread."""
        with self._lock:
            known = [known() for known in self._known.values()]
            if not any(other is loop or host_iterator(other) is loop for other in known):
                number = sum(name.isdecimal() for name in self._known)
                self._known[str(number)] = weakref.ref(loop)

    def _alive(self) -> dict[str, Any]:
        with self._lock:
            return {name: loop for name, known in self._known.items() if (loop := known()) is not None}

    def collect(self) -> Iterator[Any]:
        """Called by prometheus_client, on a thread of the server."""
        samples = {name: list(_samples(loop)) for name, loop in self._alive().items()}
        for name, (text, labels) in _HELP.items():
            kind = "CounterMetricFamily" if name.endswith("_total") else "GaugeMetricFamily"
            family = getattr(_prometheus().core, kind)(f"headrace_{name}", text, labels=["loop", *labels])
            for loop, found in samples.items():
                for sample in found:
                    if sample.name == name:
                        family.add_metric([loop, *sample.labels], sample.value)
            if family.samples:
                yield family


_HELP: dict[str, tuple[str, tuple[str, ...]]] = {
    "steps_total": ("Elements that the program received, since the start or the last set_state.", ()),
    "records_total": ("Records that were read.", ()),
    "bytes_total": ("Bytes of the elements.", ()),
    "seconds_total": ("Time in which the elements were received, the program's own work included.", ()),
    "waited_seconds_total": ("Time of these that the program waited for elements.", ()),
    "skipped_total": ("Records or batches left out because they failed.", ()),
    "step": ("Number of the element that comes next, over all runs.", ()),
    "epoch": ("Number of the epoch, from 0.", ()),
    "fed_waited_seconds_total": ("Time that the program waited for a device feeder, by what it waited for.", ("part",)),
    "tasks_total": ("Tasks whose results were taken.", ("stage",)),
    "busy_seconds_total": ("Time of workers for these tasks.", ("stage",)),
    "reading_seconds_total": ("Time of these in which records were read or waited for.", ("stage",)),
    "ready_tasks": ("Tasks that were finished before they were asked for, on average.", ("stage",)),
    "operation_seconds": ("Time of workers in an operation, by samples.", ("operation",)),
    "workers": ("Workers that did any of the last tasks.", ()),
    "workers_busy_ratio": ("Share of their time, over the last tasks, in which workers did tasks.", ()),
    "workers_started_total": ("Worker processes that were made.", ()),
    "workers_ended_total": ("Worker processes that ended by themselves or were killed.", ()),
    "shared_bytes": ("Memory that worker processes share with the program.", ()),
    "part_records_total": ("Records of each part of a mix, in all runs and shards.", ("part",)),
    "part_tokens": ("Tokens of these: records times the average length of the part's records.", ("part", "leaf")),
    "part_epoch": ("Epoch of each part of a mix, from 0.", ("part",)),
}
"""What each number tells, and its labels beside `loop`."""


def _samples(loop: Any) -> Iterator[_Number]:
    counted, host = snapshot(loop), host_iterator(loop)
    if counted is not None:
        yield _Number("steps_total", counted.steps)
        yield _Number("seconds_total", counted.elapsed)
        yield _Number("waited_seconds_total", counted.waited)
        yield _Number("records_total", counted.records)
        yield _Number("bytes_total", counted.nbytes)
        if counted.feeding is not None:
            parts = zip(PARTS_OF_A_WAIT[1:], counted.feeding[1:])
            yield from (_Number("fed_waited_seconds_total", seconds, (part,)) for part, seconds in parts)
    for name, ask in _PLACE:
        yield from _where_known(name, ask, loop)
    if host is not None:
        yield from _of_work(host.stats())
    if host is not None and hasattr(loop, "part_records"):
        yield from _of_parts(loop, host)


_PLACE: tuple[tuple[str, Callable[[Any], float]], ...] = (
    ("step", lambda loop: loop.step),
    ("epoch", lambda loop: loop.epoch),
    ("skipped_total", lambda loop: loop.skipped_count),
)


def _where_known(name: str, ask: Callable[[Any], float], loop: Any) -> Iterable[_Number]:
    try:
        return [_Number(name, ask(loop))]
    except (TypeError, AttributeError):  # of something else than a loader's
        return []


def _of_work(stats: IteratorStats) -> Iterator[_Number]:
    for stage in stats.stages:
        labels = (str(stage.number),)
        yield _Number("tasks_total", stage.tasks, labels)
        yield _Number("busy_seconds_total", stage.busy, labels)
        yield _Number("reading_seconds_total", stage.reading, labels)
        yield _Number("ready_tasks", stage.ahead, labels)
        for operation in stage.operations:
            yield _Number("operation_seconds", operation.seconds, (f"{operation.number} {operation.name}",))
    if (workers := stats.workers) is not None:
        yield _Number("workers", workers.count)
        yield _Number("workers_busy_ratio", workers.busy)
        yield _Number("workers_started_total", workers.started)
        yield _Number("workers_ended_total", workers.ended)
        yield _Number("shared_bytes", workers.slab_bytes)


def _of_parts(loop: Any, host: DataLoaderIterator) -> Iterator[_Number]:
    records = loop.part_records
    yield from (_Number("part_records_total", count, (part,)) for part, count in records.items())
    yield from (_Number("part_epoch", epoch, (part,)) for part, epoch in loop.part_epochs.items())
    for part, source in _sources(host).items():
        for leaf, length in _mean_lengths(source).items():
            yield _Number("part_tokens", records[part] * length, (part, leaf))


def _sources(host: DataLoaderIterator) -> dict[str, Any]:
    leaves = host.pipeline.leaves
    if isinstance(leaves[0].source, MixedSource):
        return leaves[0].source.parts
    return {leaf.name or str(number): leaf.source for number, leaf in enumerate(leaves)}


def _mean_lengths(source: Any) -> dict[str, float]:
    """Mean lengths of the arrays of records, by their names; none, where the source does not know."""
    try:
        return _MEANS[source]
    except (KeyError, TypeError):
        lengths = getattr(source, "lengths", None)
    by_name = lengths if isinstance(lengths, dict) else {} if lengths is None else {"": lengths}
    means = {str(name): float(np.mean(each)) for name, each in by_name.items()}
    try:
        _MEANS[source] = means
    except TypeError:  # it cannot be kept track of
        return means
    return means


_MEANS: weakref.WeakKeyDictionary[Any, dict[str, float]] = weakref.WeakKeyDictionary()
"""What was found, as it may take long for many records."""
