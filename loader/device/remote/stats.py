"""Statistics of the loaders of all hosts, for the process that controls them.

In: the statistics of each loader. Out: `RemoteStats`, in which all loaders count as one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from ....common.fields import field_values
from ...stats import LITTLE, IteratorStats
from ...timing.quantiles import Quantiles
from ...timing.snapshot import OperationStats, StageStats
from ...timing.workers import WorkerStats
from ..stats import FeederStats

Fields = TypeVar("Fields", IteratorStats, StageStats, OperationStats, WorkerStats)


class LoaderOfHost(NamedTuple):
    """Statistics of the loader of one host.

    Attributes:
        name: name of the machine.
        stats: the statistics, without single tasks and events, and with the last 100 waits.
    """

    name: str
    stats: IteratorStats


@dataclass(frozen=True)
class RemoteStats(FeederStats):
    """The result of `stats()` of a `RemoteLoader`'s iterator.

    It is a `FeederStats` whose attribute `loader` sums up the loaders of all hosts. The waiting
    time "reading" is the wait for the slowest host; `headrace.watch_hosts(iterator)` names that
    host.

    Attributes:
        hosts: statistics of the loader of each host, in the order of the hosts; empty if no host
            was asked for a batch.
    """

    hosts: tuple[LoaderOfHost, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, own: FeederStats, hosts: Sequence[LoaderOfHost]) -> RemoteStats:
        """Combine the statistics of the controlling process (`own`) with those of the hosts."""
        loader = together([host.stats for host in hosts]) if hosts else None
        return cls(own.steps, own.elapsed, own.total, own.last, own.batches, loader, tuple(hosts))

    def advice(self) -> str:
        if self.total.waited > LITTLE * self.elapsed and self.total.reading > self.total.waited / 2:
            return (
                "the loaders are slower than your steps; headrace.watch_hosts(iterator) names the "
                "slowest host and its work."
            )
        return super().advice()


def together(hosts: Sequence[IteratorStats]) -> IteratorStats:
    """Combine the statistics of the loaders of all hosts, as if they were one loader.

    Counts, and seconds of work, are added up. Workers' shares of time are means over the hosts. For
    numbers of steps, times of the loop, quantiles and the memory of a worker, the largest value of
    all hosts is taken.
    """
    numbers = sorted({stage.number for stats in hosts for stage in stats.stages})
    stages = [
        [stage for stats in hosts for stage in stats.stages if stage.number == number]
        for number in numbers
    ]
    workers = [stats.workers for stats in hosts if stats.workers is not None]
    names = dict.fromkeys(name for stats in hosts for name in stats.quantiles)
    most = max((each.memory for each in workers), default=0)
    return _sum(
        hosts,
        steps=max(one.steps for one in hosts),
        elapsed=max(one.elapsed for one in hosts),
        waited=max(one.waited for one in hosts),
        stages=tuple(map(_one_stage, stages)),
        workers=_sum(workers, memory=most, **_means(workers, "busy", "starved", "hand_over"))
        if workers
        else None,
        quantiles={
            name: _largest([stats.quantiles[name] for stats in hosts if name in stats.quantiles])
            for name in names
        },
        decision=next((stats.decision for stats in hosts if stats.decision), ""),
        last_waits=(),
    )


def _one_stage(found: list[StageStats]) -> StageStats:
    first, inputs = found[0], sum(stage.inputs for stage in found)
    tasks = sum(stage.tasks for stage in found)
    operations = []
    for same in zip(*(stage.operations for stage in found)):
        worst, seconds = (
            max(same, key=lambda each: each.slowest),
            sum(each.seconds for each in same),
        )
        operations.append(
            _sum(
                same,
                number=same[0].number,
                per_input=seconds / inputs if inputs else 0.0,
                slowest=worst.slowest,
                slowest_tag=worst.slowest_tag,
            )
        )
    return _sum(
        found,
        number=first.number,
        **_means(found, "cpu_share"),
        queued=sum(stage.queued * stage.tasks for stage in found) / tasks if tasks else 0.0,
        operations=tuple(operations),
    )


def _sum(found: Sequence[Fields], **others: Any) -> Fields:
    """Add up the numbers in the fields of several statistics of the same class.

    Args:
        found: the statistics, at least one.
        **others: values of fields that are not added up.

    Returns:
        Statistics with the sums and `others`; all other fields are those of the first item.
    """
    values = [field_values(one) for one in found]
    names = [name for name, value in values[0].items() if type(value) in (int, float)]
    sums = {name: sum(each[name] for each in values) for name in names}
    return dataclasses.replace(found[0], **{**sums, **others})


def _means(found: Sequence[Any], *names: str) -> dict[str, float]:
    values = [field_values(one) for one in found]
    return {name: sum(each[name] for each in values) / len(found) for name in names}


def _largest(found: Sequence[Quantiles]) -> Quantiles:
    return Quantiles(*map(max, zip(*found)))
