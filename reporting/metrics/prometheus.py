"""Metrics of loops for Prometheus.

They are computed when Prometheus requests the page `http://127.0.0.1:PORT/metrics`. Until then,
they take no time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from ...common.closing import ClosedAtExit
from ...common.lazy_exports import optional_library
from ...common.messages import short_repr, shorten
from ...common.validation import whole_number
from ...errors import PortError
from ...loader.timing.listeners import listening
from ..hosts import HostWatch
from .families import LoopMetrics


def serve(
    port: int,
    loops: Mapping[str, Any] | None = None,
    *,
    address: str = "127.0.0.1",
    hosts: HostWatch | None = None,
) -> Server:
    """Serve the metrics of this process's loops for Prometheus, at `http://address:port/metrics`.

    Every loop of a loader or device feeder that begins after this call is included, as long as it
    exists. Its label `loop` is "0", "1" and so on. Metrics are computed when the page is requested,
    so loops are not slowed down.

    Args:
        port: port to listen on. 0: any free port; the result's `port` is its number.
        loops: iterators or device feeders, with the names for their labels, such as `{"train":
            iterator}`. They may have begun already.
        address: address of this machine to listen on. "127.0.0.1" (default): only programs on this
            machine can connect. "0.0.0.0": everybody who can reach the machine can connect.
        hosts: result of `headrace.watch_hosts`: the page then has the waits of all hosts, and names
            the slowest.

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
    return Server(port, address, LoopMetrics(loops or {}, hosts))


class Server(ClosedAtExit):
    """Server of metrics, made by `headrace.metrics.serve`.

    Close it, or use it in a `with` statement, to free the port.

    Attributes:
        port: port on which it listens.
        url: URL of the page.
    """

    def __init__(self, port: int, address: str, loops: LoopMetrics) -> None:
        registry = _prometheus().CollectorRegistry()
        registry.register(_Collector(loops))
        try:
            self._http, self._thread = _prometheus().start_http_server(
                port, addr=address, registry=registry
            )
        except OSError as error:
            raise PortError(
                f"cannot listen on port={port} of address={short_repr(address)}: {shorten(error)}. "
                f"{_REMEDY}"
            ) from error
        self.port: int = self._http.server_port
        host = f"[{address}]" if ":" in address else address
        self.url = f"http://{host}:{self.port}/metrics"
        self._listening = ExitStack()
        self._listening.enter_context(listening(loops.begins))

    def close(self) -> None:
        """Stop the server. May be called twice."""
        self._listening.close()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


_REMEDY = "Pass another port, 0 for any free one, or an address of this machine."


def _prometheus() -> Any:
    optional_library("prometheus_client.core", "metrics need prometheus_client", "metrics")
    return optional_library("prometheus_client", "metrics need prometheus_client", "metrics")


class _Collector:
    """Metrics of loops for prometheus_client, which calls `collect` on a thread of the server."""

    def __init__(self, loops: LoopMetrics) -> None:
        self._loops = loops

    def collect(self) -> Iterator[Any]:
        core = _prometheus().core
        for name, text, labels, values in self._loops.families():
            kind = core.CounterMetricFamily if name.endswith("_total") else core.GaugeMetricFamily
            family = kind(f"headrace_{name}", text, labels=labels)
            for value, own in values:
                family.add_metric(own, value)
            yield family
