"""Metrics of loops for OpenTelemetry, which asks for them when it exports."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any

from ...common.closing import ClosedAtExit
from ...common.lazy_exports import optional_library
from ...loader.timing.listeners import listening
from ..hosts import HostWatch
from .families import NAMES, Family, LoopMetrics

# Chosen: OpenTelemetry asks for one metric after another, within milliseconds.
FRESH_SECONDS = 0.5
"""Seconds for which values are used again."""


def export(
    loops: Mapping[str, Any] | None = None, *, hosts: HostWatch | None = None, meter: Any = None
) -> Exported:
    """Give the metrics of this process's loops to OpenTelemetry.

    The names are those of Prometheus with a point, such as "headrace.steps_total", and the labels
    are attributes. Every loop that begins after this call is included, as long as it exists.

    Args:
        loops: iterators or device feeders, with the names for their attribute `loop`, such as
            `{"train": iterator}`.
        hosts: result of `headrace.watch_hosts`: the waits of all hosts are then included.
        meter: the meter of your program. None (default):
            `opentelemetry.metrics.get_meter("headrace")`, of the meter provider that your program
            has set.

    Raises:
        TypeError: one of `loops` is not a loop of headrace.
        MissingExtraError: opentelemetry-api is not installed.

    >>> import headrace
    >>> from opentelemetry.sdk.metrics import MeterProvider
    >>> from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    >>> reader = InMemoryMetricReader()
    >>> iterator = iter(headrace.load(range(6), batch_size=2, num_epochs=1))
    >>> meter = MeterProvider([reader]).get_meter("train")
    >>> with headrace.metrics.export({"train": iterator}, meter=meter):
    ...     batches = list(iterator)
    ...     data = reader.get_metrics_data()
    >>> metrics = data.resource_metrics[0].scope_metrics[0].metrics
    >>> steps = next(each for each in metrics if each.name == "headrace.steps_total")
    >>> [point.value for point in steps.data.data_points]
    [3.0]
    """
    library = optional_library(
        "opentelemetry.metrics", "metrics for OpenTelemetry need opentelemetry-api", "otel"
    )
    return Exported(
        library, meter or library.get_meter("headrace"), LoopMetrics(loops or {}, hosts)
    )


class Exported(ClosedAtExit):
    """Metrics that OpenTelemetry exports, made by `headrace.metrics.export`.

    Close it, or use it in a `with` statement, to export no more values.
    """

    def __init__(self, library: Any, meter: Any, loops: LoopMetrics) -> None:
        self._library, self._loops = library, loops
        self._lock = threading.Lock()
        self._values: dict[str, Family] = {}
        self._until = 0.0
        self._closed = False
        self._listening = ExitStack()
        self._listening.enter_context(listening(loops.begins))
        for name, text in NAMES.items():
            grows = name.endswith("_total")
            make = meter.create_observable_counter if grows else meter.create_observable_gauge
            make(f"headrace.{name}", callbacks=[self._observer_of(name)], description=text)

    def _observer_of(self, name: str) -> Callable[[Any], Iterable[Any]]:
        def observe(options: Any) -> Iterable[Any]:
            family = self._fresh().get(name)
            if family is None:
                return []
            return [
                self._library.Observation(value, dict(zip(family.labels, labels)))
                for value, labels in family.values
            ]

        return observe

    def _fresh(self) -> dict[str, Family]:
        with self._lock:
            if self._closed:
                return {}
            if time.monotonic() >= self._until:
                self._values = {family.name: family for family in self._loops.families()}
                self._until = time.monotonic() + FRESH_SECONDS
            return self._values

    def close(self) -> None:
        """Export no more values. May be called twice."""
        with self._lock:
            self._closed = True
        self._listening.close()
