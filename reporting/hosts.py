"""Watch the loops of all hosts: find the host for whose data the others wait, and the cause.

In: a loop of this process, and the statistics that the other processes publish. Out: `HostsStats`.
The processes exchange them by the store of the feeders (`loader/device/hosts/store.py`): each sets
a text of its own, and reads those of the others. Nobody waits for anybody, and no collective
operation is used.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import socket
import statistics
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ..common.closing import ClosedAtExit
from ..common.messages import short_repr, shorten
from ..common.units import format_seconds
from ..common.validation import NUMBERS
from ..errors import HostsError
from ..loader.device.hosts.folder import folder_store
from ..loader.device.hosts.store import KeyValueStore, MessageStore, jax_processes
from ..loader.device.remote.stats import RemoteStats
from ..loader.device.stats import FeederStats
from ..loader.stats import LITTLE, IteratorStats
from ..loader.timing.quantiles import Quantiles
from .loops import both_stats, check_loop, host_iterator, without_line

_LOGGER = logging.getLogger("headrace")

T = TypeVar("T")

# Chosen.
LOG_SECONDS = 60.0
"""Seconds between two lines in the log."""

RECENT = 100
"""Number of last steps whose waits decide which host is the slowest."""

CLEARLY = 1.5
"""A host is named if it waits this many times as long as the median of the others."""

_CAUSES = ("reading", "transform=", "", "the transfer", "the hand-over")
"""Causes of a wait in a feeder, in the order of `StepTimes`; "" is the wait for other hosts."""


@dataclass(frozen=True)
class HostStats:
    """Statistics of the loop of one host.

    Attributes:
        process: index of its process.
        name: name of the machine.
        steps: number of elements that the loop received.
        step_seconds: mean seconds of a step, with the program's own work.
        own_wait: mean seconds of the last 100 steps, without the first, that the loop waited for
            data of this host: the waits in `next`, without the waits for other hosts.
        cause: what it waited for, such as "MapTransform(decode)" or "reading".
        quantiles: quantiles of the last times: "next", "hand-over" and the tasks of each stage, as
            in `iterator.stats()`.
    """

    process: int
    name: str
    steps: int
    step_seconds: float
    own_wait: float
    cause: str
    quantiles: dict[str, Quantiles]

    def to_json(self) -> str:
        """Return the statistics as JSON text."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> HostStats:
        """Return the statistics from their JSON text.

        Raises TypeError, KeyError or ValueError if it is of another version.
        """
        plain = json.loads(text)
        plain["quantiles"] = {name: Quantiles(*found) for name, found in plain["quantiles"].items()}
        return cls(**plain)

    @classmethod
    def of(cls, process: int, loop: Any) -> HostStats:
        """Return the statistics of a loop of this process."""
        stats, fed = both_stats(loop)
        either = fed if fed is not None else stats
        assert either is not None
        own, cause = _waits_of_feeder(fed, stats) if fed is not None else _waits_of_iterator(stats)
        each = either.elapsed / either.steps if either.steps else 0.0
        return cls(process, socket.gethostname(), either.steps, each, own, cause, either.quantiles)


def _waits_of_feeder(fed: FeederStats, stats: IteratorStats | None) -> tuple[float, str]:
    """Return the mean seconds of a step that a feeder's user waited for data, and for what."""
    last = _recent(fed.last, fed.steps)
    if not last:
        return 0.0, ""
    means = np.mean(np.array([each[1:] for each in last]), axis=0)
    means[_CAUSES.index("")] = 0.0
    cause = _CAUSES[int(means.argmax())]
    if cause == "reading" and stats is not None:
        cause = stats.most_work() or cause
    return float(means.sum()), cause


def _waits_of_iterator(stats: IteratorStats | None) -> tuple[float, str]:
    if stats is None:
        return 0.0, ""
    waits = _recent(stats.last_waits, stats.steps)
    return (statistics.fmean(waits) if waits else 0.0), stats.most_work()


def _recent(last: Sequence[T], steps: int) -> Sequence[T]:
    """Return the last 100 items of a list with an item for each step.

    The item of the very first step is left out.
    """
    return last[-RECENT:] if steps > RECENT else last[1:]


@dataclass(frozen=True)
class HostsStats:
    """Statistics of the loops of all hosts; `print` it for the verdict and a table.

    Attributes:
        hosts: the hosts whose statistics have come, by process.
        count: number of all hosts.
    """

    hosts: tuple[HostStats, ...]
    count: int

    @property
    def slowest(self) -> HostStats | None:
        """The host for whose data the others wait.

        It is None if none clearly waits for its own data, or fewer than two are known.

        Its own waits take over 5 % of its steps, and 1.5 times as long as the median of the others'
        waits.
        """
        if len(self.hosts) < 2:
            return None
        most = max(self.hosts, key=lambda host: host.own_wait)
        others = [host.own_wait for host in self.hosts if host is not most]
        if most.own_wait <= LITTLE * most.step_seconds or not most.step_seconds:
            return None
        return most if most.own_wait > CLEARLY * statistics.median(others) else None

    @classmethod
    def of_remote(cls, fed: RemoteStats, count: int) -> HostsStats:
        """Return the statistics of all hosts, of whose loaders one process makes batches.

        A host also waits for its loader while the program works, and this costs nothing. So of
        these waits counts the share that the program waited for the slowest host.

        Args:
            fed: statistics of the loop in the controlling process.
            count: number of hosts.
        """
        waits = [_waits_of_iterator(host.stats) for host in fed.hosts]
        longest, last = max((own for own, _ in waits), default=0.0), _recent(fed.last, fed.steps)
        waited = statistics.fmean(each.waited for each in last) if last else 0.0
        share = min(1.0, waited / longest) if longest else 0.0
        each = fed.elapsed / fed.steps if fed.steps else 0.0
        hosts = [
            HostStats(number, host.name, fed.steps, each, share * own, cause, host.stats.quantiles)
            for number, (host, (own, cause)) in enumerate(zip(fed.hosts, waits))
        ]
        return cls(tuple(hosts), count)

    def verdict(self) -> str:
        """Return a sentence on the slowest host and the cause, or that no host is clearly slower.

        >>> fast = HostStats(0, "node-0", 50, 0.1, 0.0, "", {})
        >>> slow = HostStats(1, "node-1", 50, 0.1, 0.06, "", {})
        >>> HostsStats((fast, slow), 2).verdict()
        'process 1 (node-1) is the slowest of 2: it waits 60.0 ms of each step of 100 ms'
        """
        known = (
            f"{self.count}"
            if len(self.hosts) == self.count
            else f"{len(self.hosts)} known of {self.count}"
        )
        slow = self.slowest
        if slow is None:
            most = max((host.own_wait for host in self.hosts), default=0.0)
            return (
                f"no host of {known} is clearly slower: each waits at most "
                f"{format_seconds(most)} of a step for its data"
            )
        waits = (
            f"{format_seconds(slow.own_wait)} of each step of {format_seconds(slow.step_seconds)}"
        )
        cause = f" for `{shorten(slow.cause, 40)}`" if slow.cause else ""
        return (
            f"process {slow.process} ({shorten(slow.name, 40)}) is the slowest of {known}: "
            f"it waits {waits}{cause}"
        )

    def __str__(self) -> str:
        title = (
            f"{'process':24} {'steps':>8} {'own wait':>9} {'p50':>9} {'p95':>9} {'p99':>9} "
            f"{'longest':>9}  waits for"
        )
        return "\n".join(
            [f"{self.verdict()[0].upper()}{self.verdict()[1:]}.", title, *map(_line, self.hosts)]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        slow = self.slowest
        return {
            "hosts": [json.loads(host.to_json()) for host in self.hosts],
            "count": self.count,
            "slowest": None if slow is None else slow.process,
        }


def _line(host: HostStats) -> str:
    waits = host.quantiles.get("next", Quantiles(0.0, 0.0, 0.0, 0.0, 0))
    times = " ".join(f"{format_seconds(seconds):>9}" for seconds in (host.own_wait, *waits[:4]))
    return (
        f"{host.process:>4} {shorten(host.name, 19):19} {host.steps:8,} {times}  "
        f"{shorten(host.cause, 40)}"
    )


_numbers: dict[str, int] = Counter()
"""Number of watches made so far, by their folder."""


def watch_hosts(
    loop: Any,
    *,
    folder: str | os.PathLike[str] | None = None,
    seconds: float = 10.0,
    log: bool = True,
) -> HostWatch:
    """Share this host's waiting times with all hosts, and find the slowest host.

    Call it on all hosts, in the same order, for the same loop. Every `seconds` seconds a thread
    publishes a small text, which takes at most some milliseconds. The hosts exchange it by the
    coordination service of jax, or by files in a folder, as `loader.across_hosts` does. The
    iterator of a `RemoteLoader`, which controls all hosts, asks them instead, when you ask for the
    statistics.

    Args:
        loop: an iterator, a device feeder, or the iterator of a `RemoteLoader`.
        folder: folder that all hosts share; may be that of `across_hosts`. None (default): use jax.
        seconds: seconds between two texts; default 10.
        log: True (default): the first process writes the verdict to the log, at most once a minute:
            logger "headrace", level INFO.

    Raises:
        TypeError: `loop` is not a loop of headrace, or `seconds` is not a number.
        ValueError: `seconds` is not positive.
        HostsError: there are several shards, but neither jax's coordination service nor a folder.

    >>> import headrace
    >>> iterator = iter(headrace.load(range(6), batch_size=2, num_epochs=1))
    >>> with headrace.watch_hosts(iterator) as hosts:
    ...     batches = list(iterator)
    ...     found = hosts.stats()
    >>> [(host.process, host.steps) for host in found.hosts], found.slowest
    ([(0, 3)], None)
    """
    check_loop(loop)
    if not isinstance(seconds, NUMBERS):
        raise TypeError(
            f"seconds={short_repr(seconds)} is not a number. Pass the seconds between two texts, "
            "such as 10.0."
        )
    if not seconds > 0:
        raise ValueError(
            f"seconds={seconds!r} is not positive. Pass the seconds between two texts, such as "
            "10.0."
        )
    loop = without_line(loop)
    host = host_iterator(loop)
    shard = None if host is None else host.pipeline.shard
    me, count = (0, 1) if shard is None else (shard.shard_index, shard.shard_count)
    store: MessageStore | None = None
    if hasattr(loop, "host_count"):  # this process controls all hosts
        count = loop.host_count
    elif folder is not None and count > 1:
        store = folder_store(folder, me, range(count))
    elif folder is None and (count > 1 or _is_connected()):
        me, count = jax_processes()
        store = KeyValueStore()
    name = "" if folder is None else os.path.realpath(folder)
    _numbers[name] += 1
    return HostWatch(loop, me, count, store, f"headrace/stats/{_numbers[name]}/", seconds, log)


def _is_connected() -> bool:
    with contextlib.suppress(HostsError):
        jax_processes()
        return True
    return False


class HostWatch(ClosedAtExit):
    """The statistics of the loops of all hosts, made by `headrace.watch_hosts`.

    The loop is not kept alive. Close this object, or use it in a `with` statement, to publish no
    more.
    """

    def __init__(
        self,
        loop: Any,
        me: int,
        count: int,
        store: MessageStore | None,
        key: str,
        seconds: float,
        log: bool,
    ) -> None:
        self._loop: Callable[[], Any] = weakref.ref(loop)
        self._me, self._count, self._store, self._key = me, count, store, key
        self._own = HostStats.of(me, loop)  # the last that was known, also when the loop is gone
        # Of a loop that can ask all hosts.
        self._all = HostsStats((), count) if hasattr(loop, "host_count") else None
        self._closed = threading.Event()
        self._seconds, self._log_at = (
            seconds,
            time.monotonic() + LOG_SECONDS if log and me == 0 else float("inf"),
        )
        self._thread = threading.Thread(
            target=self._publish_for_ever, name="headrace-hosts", daemon=True
        )
        self._thread.start()

    def stats(self) -> HostsStats:
        """Return the statistics of this host now, and of the others when they published them last.

        Any thread may call this.
        """
        if self._all is not None:
            loop = self._loop()
            if loop is not None:
                self._all = HostsStats.of_remote(loop.stats(), self._count)
            return self._all
        hosts = {self._me: self._publish()}
        texts = (
            self._store.there(self._key) if self._store is not None and self._store.is_open else {}
        )
        for process, text in texts.items():
            if process != str(self._me):
                # of another version of headrace
                with contextlib.suppress(TypeError, KeyError, ValueError):
                    hosts[int(process)] = HostStats.from_json(text)
        return HostsStats(tuple(hosts[process] for process in sorted(hosts)), self._count)

    def _publish(self) -> HostStats:
        loop = self._loop()
        if loop is not None:
            self._own = HostStats.of(self._me, loop)
        if self._store is not None and self._store.is_open and not self._closed.is_set():
            self._store.replace(self._key + str(self._me), self._own.to_json())
        return self._own

    def _publish_for_ever(self) -> None:
        try:
            if self._store is not None and not self._store.open(self._closed.is_set):
                return
            while not self._closed.wait(self._seconds):
                if self._all is None:
                    self._publish()
                if time.monotonic() >= self._log_at:
                    self._log_at = time.monotonic() + LOG_SECONDS
                    _LOGGER.info("%s", self.stats())
        except Exception as error:  # the program itself can go on without this
            if not self._closed.is_set():
                _LOGGER.warning(
                    "the waits of this host are no longer published: %s", shorten(error)
                )

    def close(self) -> None:
        """Publish no more. `stats` still returns what is known. May be called twice."""
        self._closed.set()
        self._thread.join()
