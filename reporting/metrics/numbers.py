"""Metrics of a loop as plain numbers by name, for programs such as Weights & Biases."""

from __future__ import annotations

from typing import Any

from ..hosts import HostWatch
from .families import LoopMetrics


def as_dict(loop: Any, hosts: HostWatch | None = None) -> dict[str, float]:
    """Return the metrics of a loop as plain numbers by name, for example for `wandb.log`.

    Names are those of Prometheus, with the labels after them: "headrace/last_seconds/next/0.99" is
    a wait for an element that 99 % of the last waits do not exceed.

    Args:
        loop: an iterator or a device feeder.
        hosts: result of `headrace.watch_hosts`: the numbers of all hosts are then added;
            "headrace/slowest_host" is the index of the slowest process, or -1.

    Raises:
        TypeError: `loop` is not a loop of headrace.

    >>> import headrace
    >>> iterator = iter(headrace.load(range(6), batch_size=2, num_epochs=1))
    >>> _ = list(iterator)
    >>> headrace.metrics.as_dict(iterator)["headrace/steps_total"]
    3.0
    """
    numbers = {}
    for name, _, labels, values in LoopMetrics({"": loop}, hosts).families():
        for value, own in values:
            shown = (
                own[1:]
                if labels[0] == "loop"
                else [text for label, text in zip(labels, own) if label != "name"]
            )
            numbers["/".join(["headrace", name, *shown])] = value
    if hosts is not None:
        slowest = hosts.stats().slowest
        numbers["headrace/slowest_host"] = -1.0 if slowest is None else float(slowest.process)
    return numbers
