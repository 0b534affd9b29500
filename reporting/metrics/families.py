"""The metrics of loops and hosts, as plain data, for Prometheus, OpenTelemetry and others.

In: loops, and the statistics of hosts. Out: families of values, computed when they are asked for.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ...loader.device.stats import FeederStats
from ...loader.iterator import DataLoaderIterator
from ...loader.stats import IteratorStats
from ...loader.timing.quantiles import Quantiles
from ...loader.timing.snapshot import PARTS_OF_A_WAIT, Snapshot
from ...sources.facts import facts_of
from ...sources.mixed.source import MixedSource
from ..hosts import HostsStats, HostWatch
from ..loops import asked, both_stats, check_loop, host_iterator, snapshot, without_line

_Values: TypeAlias = list[tuple[float, tuple[str, ...]]]


class Family(NamedTuple):
    """A metric with all its values.

    Attributes:
        name: its name, such as "steps_total". Names that end with "_total" are of counts.
        text: its description.
        labels: names of the labels of each value.
        values: pairs of a value and the labels' values.
    """

    name: str
    text: str
    labels: tuple[str, ...]
    values: _Values

    @property
    def grows(self) -> bool:
        """True if the values are counts, which grow until `set_state` changes them."""
        return self.name.endswith("_total")


class _Seen(NamedTuple):
    """Values of a loop at one moment.

    Attributes:
        loop: the loop.
        counted: its counts and times; None if it has none.
        stats: statistics of its iterator; None if it has none.
        fed: statistics of its feeder; None without one.
        lengths: mean length of an array in the records of a part of a mix, by (part, name of the
            array).
    """

    loop: Any
    counted: Snapshot | None
    stats: IteratorStats | None
    fed: FeederStats | None
    lengths: dict[tuple[str, str], float]


class LoopMetrics:
    """The loops whose metrics are computed, by name. Loops are not kept alive.

    Args:
        named: the loops that are known now.
        hosts: statistics of all hosts; None: their metrics are left out.

    Raises:
        TypeError: one of the loops is not a loop of headrace.
    """

    def __init__(self, named: Mapping[str, Any], hosts: HostWatch | None = None) -> None:
        self._hosts = hosts
        for loop in named.values():
            check_loop(loop)
        self._known = {name: weakref.ref(without_line(loop)) for name, loop in named.items()}
        self._lengths: dict[
            str, dict[tuple[str, str], float]
        ] = {}  # found once, as it may take long
        self._lock = threading.Lock()

    def begins(self, loop: Any) -> None:
        """Add a loop when it begins, unless it was added already. Called on the loop's thread."""
        with self._lock:
            known = [known() for known in self._known.values()]
            if not any(other is loop or host_iterator(other) is loop for other in known):
                number = sum(name.isdecimal() for name in self._known)
                self._known[str(number)] = weakref.ref(loop)

    def families(self) -> Iterator[Family]:
        """Yield the metrics that have a value. Any thread may call this."""
        with self._lock:
            alive = {
                name: loop for name, known in self._known.items() if (loop := known()) is not None
            }
        seen = {name: self._seen(name, loop) for name, loop in alive.items()}
        for name, (found, text) in _METRICS.items():
            where, _, attribute = found.partition(".")
            values = [
                (float(value), (loop, *map(str, labels)))
                for loop, each in seen.items()
                for value, *labels in _values(each, where, attribute)
            ]
            if values:
                yield Family(name, text, ("loop", *_LABELS.get(where, ())), values)
        if self._hosts is not None:
            yield from _of_hosts(self._hosts.stats())

    def _seen(self, name: str, loop: Any) -> _Seen:
        host = host_iterator(loop)
        if host is not None and name not in self._lengths:
            self._lengths[name] = _mean_lengths(host) if hasattr(loop, "part_records") else {}
        return _Seen(loop, snapshot(loop), *both_stats(loop), self._lengths.get(name, {}))


def _mean_lengths(host: DataLoaderIterator) -> dict[tuple[str, str], float]:
    """Return the mean length of each array in the records of each source, as far as known.

    The result is {(source, array): length}.
    """
    leaves = host.pipeline.leaves
    parts = {leaf.name or str(number): leaf.source for number, leaf in enumerate(leaves)}
    means: dict[tuple[str, str], float] = {}
    for part, source in (
        leaves[0].source.parts if isinstance(leaves[0].source, MixedSource) else parts
    ).items():
        lengths = facts_of(source).lengths()
        by_name = lengths if isinstance(lengths, dict) else {} if lengths is None else {"": lengths}
        means |= {(part, str(name)): float(np.mean(each)) for name, each in by_name.items()}
    return means


def _values(seen: _Seen, where: str, name: str) -> Iterable[tuple[Any, ...]]:
    """Return the values of one metric of a loop, each as `(value, *labels)`.

    The label `loop` is not included.

    Args:
        seen: values of the loop.
        where: group of values in which the metric is found, such as "stage"; see `_METRICS`.
        name: name of the attribute there.
    """
    stages = seen.stats.stages if seen.stats else ()
    if where == "stage":
        return [(getattr(stage, name), str(stage.number)) for stage in stages]
    if where == "operation":
        return [
            (each.seconds, f"{each.number} {each.name}")
            for stage in stages
            for each in stage.operations
        ]
    if where == "wait":
        fed = seen.counted.feeding if seen.counted else None
        return zip(fed[1:], PARTS_OF_A_WAIT[1:]) if fed else ()
    if where == "quantile":
        stats = seen.fed if seen.fed is not None else seen.stats
        return _of_quantiles(stats.quantiles) if stats is not None else ()
    if where == "part":
        return [(each, part) for part, each in (asked(seen.loop, name) or {}).items()]
    if where == "leaf":
        return [
            (seen.loop.part_records[part] * mean, part, leaf)
            for (part, leaf), mean in seen.lengths.items()
        ]
    owners = {"counted": seen.counted, "loader": seen.stats, "loop": seen.loop}
    owner = (seen.stats and seen.stats.workers) if where == "workers" else owners[where]
    value = asked(owner, name)  # something else than a loader's loop has no epoch
    return [] if value is None else [(float(value),)]


def _of_quantiles(quantiles: Mapping[str, Quantiles]) -> Iterator[tuple[Any, ...]]:
    for part, found in quantiles.items():
        for quantile, seconds in zip(QUANTILES, found):
            yield seconds, part, quantile


def _of_hosts(found: HostsStats) -> Iterator[Family]:
    """Yield the metrics of all hosts: their waits, and the host for which the others wait."""
    waits: _Values = [
        (seconds, (str(host.process), host.name, quantile))
        for host in found.hosts
        for quantile, seconds in zip(QUANTILES, host.quantiles.get("next", ()))
    ]
    own: _Values = [(host.own_wait, (str(host.process), host.name)) for host in found.hosts]
    slow = found.slowest
    slowest: _Values = (
        [] if slow is None else [(slow.own_wait, (str(slow.process), slow.name, slow.cause))]
    )
    every: tuple[_Values, ...] = waits, own, slowest
    for (name, (text, labels)), values in zip(_OF_HOSTS.items(), every):
        if values:
            yield Family(name, text, labels, values)


_OF_HOSTS = {
    "host_wait_seconds": (
        "Quantiles of the last waits of a host for elements.",
        ("host", "name", "quantile"),
    ),
    "host_own_wait_seconds": (
        "Mean wait of a step for the data of the host itself.",
        ("host", "name"),
    ),
    "slowest_host_wait_seconds": (
        "Mean wait of a step for the slowest host, if there is one.",
        ("host", "name", "cause"),
    ),
}
"""Name of each metric of hosts -> its description, and its labels."""


QUANTILES = ("0.5", "0.95", "0.99", "1")
"""Values of the label `quantile`, in the order of `Quantiles`. 1 is the longest time."""

_LABELS = {
    "stage": ["stage"],
    "operation": ["operation"],
    "wait": ["part"],
    "part": ["part"],
    "leaf": ["part", "leaf"],
}
_LABELS["quantile"] = ["part", "quantile"]
"""Labels of metrics besides `loop`, by the group of values in which a metric is found."""

_METRICS = {
    "steps_total": (
        "counted.steps",
        "Elements that the program received, since the start or the last set_state.",
    ),
    "records_total": ("loader.records", "Records that were read."),
    "bytes_total": ("loader.nbytes", "Bytes of the records that were read."),
    "seconds_total": (
        "counted.elapsed",
        "Time in which the elements were received, the program's own work included.",
    ),
    "waited_seconds_total": (
        "counted.waited",
        "Time of these that the program waited for elements.",
    ),
    "skipped_total": ("loop.skipped_count", "Records or batches left out because they failed."),
    "step": ("loop.step", "Number of the element that comes next, over all runs."),
    "epoch": ("loop.epoch", "Number of the epoch, from 0."),
    "fed_waited_seconds_total": (
        "wait.",
        "Time that the program waited for a device feeder, by what it waited for.",
    ),
    "last_seconds": (
        "quantile.",
        "Quantiles of the last times: waits (next), hand-overs, and tasks of each stage.",
    ),
    "tasks_total": ("stage.tasks", "Tasks whose results were taken."),
    "busy_seconds_total": ("stage.busy", "Time of workers for these tasks."),
    "reading_seconds_total": (
        "stage.reading",
        "Time of these in which records were read or waited for.",
    ),
    "ready_tasks": (
        "stage.ahead",
        "Tasks that were finished before they were asked for, on average.",
    ),
    "operation_seconds": ("operation.", "Time of workers in an operation, by samples."),
    "workers": ("workers.count", "Workers that did any of the last tasks."),
    "workers_busy_ratio": (
        "workers.busy",
        "Share of their time, over the last tasks, in which workers did tasks.",
    ),
    "workers_started_total": ("workers.started", "Worker processes that were made."),
    "workers_ended_total": (
        "workers.ended",
        "Worker processes that ended by themselves or were killed.",
    ),
    "worker_memory_bytes": ("workers.memory", "Largest memory that any worker process has had."),
    "shared_bytes": ("workers.slab_bytes", "Memory that worker processes share with the program."),
    "part_records_total": (
        "part.part_records",
        "Records of each part of a mix, in all runs and shards.",
    ),
    "part_tokens": (
        "leaf.",
        "Tokens of these: records times the average length of the part's records.",
    ),
    "part_epoch": ("part.part_epochs", "Epoch of each part of a mix, from 0."),
}
"""Name of each metric -> where its value is found, and its description."""

NAMES = {name: text for name, (_, text) in _METRICS.items()} | {
    name: text for name, (text, _) in _OF_HOSTS.items()
}
"""Name of each metric -> its description."""
