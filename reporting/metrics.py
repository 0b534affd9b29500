"""Metrics of loops for Prometheus.

They are computed when Prometheus requests the page `http://127.0.0.1:PORT/metrics`. Until then, they take no time.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from ..common.lazy_exports import optional_library
from ..common.messages import short_repr, shorten
from ..common.validation import whole_number
from ..errors import PortError
from ..loader.iterator import DataLoaderIterator
from ..loader.stats import IteratorStats
from ..loader.timing.listeners import listening
from ..loader.timing.snapshot import PARTS_OF_A_WAIT, Snapshot
from ..sources.facts import facts_of
from ..sources.mixed.source import MixedSource
from .loops import check_loop, host_iterator, snapshot, without_line

__all__ = ["Server", "serve"]


def serve(port: int, loops: Mapping[str, Any] | None = None, *, address: str = "127.0.0.1") -> Server:
    """Serve the metrics of this process's loops for Prometheus, at `http://address:port/metrics`.

    Every loop of a loader or device feeder that begins after this call is included, as long as it exists. Its label
    `loop` is "0", "1" and so on. Metrics are computed when the page is requested, so loops are not slowed down.

    Args:
        port: port to listen on. 0: any free port; the result's `port` is its number.
        loops: iterators or device feeders, with the names for their labels, such as `{"train": iterator}`. They may
            have begun already.
        address: address of this machine to listen on. "127.0.0.1" (default): only programs on this machine can connect.
            "0.0.0.0": everybody who can reach the machine can connect.

    Returns:
        A server on a thread. It runs until it is closed or the process ends.

    Raises:
        PortError: the port is in use or not permitted, or the address is not of this machine.
        TypeError: one of `loops` is not a loop of headrace, or `port` is not an integer.
        ValueError: `port` is not in [0, 65535].
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
    """Server of metrics, made by `headrace.metrics.serve`. Close it, or use it in a `with` statement, to free the port.

    Attributes:
        port: port on which it listens.
        url: URL of the page.
    """

    def __init__(self, port: int, address: str, loops: _Loops) -> None:
        registry = _prometheus().CollectorRegistry()
        registry.register(loops)
        try:
            self._http, self._thread = _prometheus().start_http_server(port, addr=address, registry=registry)
        except OSError as error:
            raise PortError(
                f"cannot listen on port={port} of address={short_repr(address)}: {shorten(error)}. {_REMEDY}"
            ) from error
        self.port: int = self._http.server_port
        self.url = f"http://{address}:{self.port}/metrics"
        self._listening = ExitStack()
        self._listening.enter_context(listening(loops.begins))

    def close(self) -> None:
        """Stop the server. May be called twice."""
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


_REMEDY = "Pass another port, 0 for any free one, or an address of this machine."


def _prometheus() -> Any:
    optional_library("prometheus_client.core", "metrics need prometheus_client", "metrics")
    return optional_library("prometheus_client", "metrics need prometheus_client", "metrics")


class _Seen(NamedTuple):
    """Values of a loop at the moment when Prometheus requests the page.

    Attributes:
        loop: the loop.
        counted: its counts and times; None if it has none.
        stats: statistics of its iterator; None if it has none.
        lengths: mean length of an array in the records of a part of a mix, by (part, name of the array).
    """

    loop: Any
    counted: Snapshot | None
    stats: IteratorStats | None
    lengths: dict[tuple[str, str], float]


class _Loops:
    """The loops whose metrics are served, by name. prometheus_client calls `collect`. Loops are not kept alive."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        for loop in named.values():
            check_loop(loop)
        self._known = {name: weakref.ref(without_line(loop)) for name, loop in named.items()}
        self._lengths: dict[str, dict[tuple[str, str], float]] = {}  # found once, as it may take long
        self._lock = threading.Lock()

    def begins(self, loop: Any) -> None:
        """Add a loop when it begins, unless it was added already. Called on the loop's thread."""
        with self._lock:
            known = [known() for known in self._known.values()]
            if not any(other is loop or host_iterator(other) is loop for other in known):
                number = sum(name.isdecimal() for name in self._known)
                self._known[str(number)] = weakref.ref(loop)

    def collect(self) -> Iterator[Any]:
        """Yield the metrics. Called by prometheus_client on a thread of the server."""
        with self._lock:
            alive = {name: loop for name, known in self._known.items() if (loop := known()) is not None}
        seen = {name: self._seen(name, loop) for name, loop in alive.items()}
        for name, (found, text) in _METRICS.items():
            where, _, attribute = found.partition(".")
            kind = "CounterMetricFamily" if name.endswith("_total") else "GaugeMetricFamily"
            family = getattr(_prometheus().core, kind)(
                f"headrace_{name}", text, labels=["loop", *_LABELS.get(where, ())]
            )
            for loop, each in seen.items():
                for value, *labels in _values(each, where, attribute):
                    family.add_metric([loop, *labels], value)
            if family.samples:
                yield family

    def _seen(self, name: str, loop: Any) -> _Seen:
        host = host_iterator(loop)
        if host is not None and name not in self._lengths:
            self._lengths[name] = _mean_lengths(host) if hasattr(loop, "part_records") else {}
        return _Seen(loop, snapshot(loop), None if host is None else host.stats(), self._lengths.get(name, {}))


def _mean_lengths(host: DataLoaderIterator) -> dict[tuple[str, str], float]:
    """Return the mean length of each array in the records of each source: {(source, array): length}, as far as known."""
    leaves = host.pipeline.leaves
    parts = {leaf.name or str(number): leaf.source for number, leaf in enumerate(leaves)}
    means: dict[tuple[str, str], float] = {}
    for part, source in (leaves[0].source.parts if isinstance(leaves[0].source, MixedSource) else parts).items():
        lengths = facts_of(source).lengths()
        by_name = lengths if isinstance(lengths, dict) else {} if lengths is None else {"": lengths}
        means |= {(part, str(name)): float(np.mean(each)) for name, each in by_name.items()}
    return means


def _values(seen: _Seen, where: str, name: str) -> Iterable[tuple[Any, ...]]:
    """Return the values of one metric of a loop, each as `(value, *labels)`. The label `loop` is not included.

    Args:
        seen: values of the loop.
        where: group of values in which the metric is found, such as "stage"; see `_METRICS`.
        name: name of the attribute there.
    """
    stages = seen.stats.stages if seen.stats else ()
    if where == "stage":
        return [(getattr(stage, name), str(stage.number)) for stage in stages]
    if where == "operation":
        return [(each.seconds, f"{each.number} {each.name}") for stage in stages for each in stage.operations]
    if where == "wait":
        fed = seen.counted.feeding if seen.counted else None
        return zip(fed[1:], PARTS_OF_A_WAIT[1:]) if fed else ()
    if where == "part":
        return [(each, part) for part, each in (getattr(seen.loop, name, None) or {}).items()]
    if where == "leaf":
        return [(seen.loop.part_records[part] * mean, part, leaf) for (part, leaf), mean in seen.lengths.items()]
    owner = {"counted": seen.counted, "loop": seen.loop, "workers": seen.stats and seen.stats.workers}[where]
    try:
        return [(float(getattr(owner, name)),)]
    except (TypeError, AttributeError):  # it has none, as something else than a loader's loop has no epoch
        return []


_LABELS = {"stage": ["stage"], "operation": ["operation"], "wait": ["part"], "part": ["part"], "leaf": ["part", "leaf"]}
"""Labels of metrics besides `loop`, by the group of values in which a metric is found."""

_METRICS = {
    "steps_total": ("counted.steps", "Elements that the program received, since the start or the last set_state."),
    "records_total": ("counted.records", "Records that were read."),
    "bytes_total": ("counted.nbytes", "Bytes of the records that were read."),
    "seconds_total": ("counted.elapsed", "Time in which the elements were received, the program's own work included."),
    "waited_seconds_total": ("counted.waited", "Time of these that the program waited for elements."),
    "skipped_total": ("loop.skipped_count", "Records or batches left out because they failed."),
    "step": ("loop.step", "Number of the element that comes next, over all runs."),
    "epoch": ("loop.epoch", "Number of the epoch, from 0."),
    "fed_waited_seconds_total": ("wait.", "Time that the program waited for a device feeder, by what it waited for."),
    "tasks_total": ("stage.tasks", "Tasks whose results were taken."),
    "busy_seconds_total": ("stage.busy", "Time of workers for these tasks."),
    "reading_seconds_total": ("stage.reading", "Time of these in which records were read or waited for."),
    "ready_tasks": ("stage.ahead", "Tasks that were finished before they were asked for, on average."),
    "operation_seconds": ("operation.", "Time of workers in an operation, by samples."),
    "workers": ("workers.count", "Workers that did any of the last tasks."),
    "workers_busy_ratio": ("workers.busy", "Share of their time, over the last tasks, in which workers did tasks."),
    "workers_started_total": ("workers.started", "Worker processes that were made."),
    "workers_ended_total": ("workers.ended", "Worker processes that ended by themselves or were killed."),
    "shared_bytes": ("workers.slab_bytes", "Memory that worker processes share with the program."),
    "part_records_total": ("part.part_records", "Records of each part of a mix, in all runs and shards."),
    "part_tokens": ("leaf.", "Tokens of these: records times the average length of the part's records."),
    "part_epoch": ("part.part_epochs", "Epoch of each part of a mix, from 0."),
}
"""Name of each metric -> where its value is found, and its description."""
