"""How many workers and nodes a step needs. Arithmetic, without a cluster.

In: what a step's batch takes, and what machines there are. Out: numbers of workers and nodes, and how long a step is with them.

A step takes as long as the slowest of those who work at the same time: the user's thread, which takes the batch over and
makes the step; the workers, who share their work; the cores that they run on; and the network into this machine.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...common.units import format_bytes, format_seconds

HEADROOM = 0.1
"""Share of workers and cores beyond what the average needs: tasks differ, and their results are wanted in order. Checked by
simulation: with it, steps whose tasks vary by half of their length are at most 5 % longer."""

SHORTEST = 1e-6
"""Seconds of a step: a shorter one is none."""

LISTED = 8
"""Numbers of nodes for which the step is told, at most."""


@dataclass(frozen=True)
class Needs:
    """What the batch of one step takes.

    Attributes:
        work: seconds of workers.
        processor: seconds of these in which a core is at work; the others are waits, for a disk or a network.
        nbytes: of the batch.
        step: seconds of the user's own step.
        hand_over: seconds in which the user's thread takes the batch over.
    """

    work: float
    processor: float
    nbytes: float
    step: float
    hand_over: float = 1e-4


@dataclass(frozen=True)
class Machines:
    """What there is.

    Attributes:
        cores: of this machine, for workers.
        cores_per_node: of each node of a cluster.
        bandwidth: bytes per second into this machine.
    """

    cores: int
    cores_per_node: int
    bandwidth: float


@dataclass(frozen=True)
class Plan:
    """What hides the work of a step.

    Attributes:
        workers: how many; with fewer, the step waits.
        nodes: of a cluster, beside this machine; 0: they have room here.
        seconds: of a step with these.
        hidden: the step waits for nothing but the hand-over. If not, the network is too slow, however many nodes there are.
    """

    needs: Needs
    machines: Machines
    workers: int
    nodes: int
    seconds: float
    hidden: bool

    @classmethod
    def of(cls, needs: Needs, machines: Machines) -> Plan:
        """The smallest that hides the work.

        >>> decoding = Needs(work=0.4, processor=0.4, nbytes=10e6, step=0.05)
        >>> plan = Plan.of(decoding, Machines(cores=4, cores_per_node=8, bandwidth=1.25e9))
        >>> plan.workers, plan.nodes, plan.hidden
        (9, 2, True)
        """
        step = max(needs.step + needs.hand_over, SHORTEST)
        if _ceil(needs.processor * (1 + HEADROOM) / step) <= machines.cores:
            return cls(needs, machines, _count(needs.work, step), 0, step, True)
        possible = max(step, needs.nbytes / machines.bandwidth)
        nodes = _ceil(needs.processor * (1 + HEADROOM) / possible / machines.cores_per_node)
        return cls(needs, machines, _count(needs.work, possible), nodes, possible, possible == step)

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values for JSON: the fields, the sentence, and a step with each number of nodes."""
        keys = ("nodes", "workers", "seconds", "share_waited")
        return {
            "sentence": self.sentence,
            **dataclasses.asdict(self),
            "steps": [dict(zip(keys, step)) for step in self._steps()],
        }

    def __str__(self) -> str:
        return "\n".join([self.sentence, "", *self._table(), *self._others()])

    @property
    def sentence(self) -> str:
        """The plan in words."""
        step, many = format_seconds(self.needs.step), self.workers > 1
        workers = f"{self.workers} worker{'s' * many}"
        if not self.hidden:
            return (
                f"The network is too slow for a step of {step}: a batch of {format_bytes(self.needs.nbytes)} takes "
                f"{format_seconds(self.seconds)}, which {workers} on {_nodes(self.nodes)} keep{'s' * (not many)} up with; send "
                "fewer bytes."
            )
        where = f'on {_nodes(self.nodes)} of {self.machines.cores_per_node} cores, with worker_kind="ray"'
        return f"{workers} hide{'s' * (not many)} the work of a step of {step}, {where if self.nodes else 'on this machine'}."

    def _table(self) -> list[str]:
        needs, machines = self.needs, self.machines
        step = self.needs.step + self.needs.hand_over
        there = machines.cores_per_node * self.nodes or machines.cores
        rows = [
            ("cores at work", f"{needs.processor / step:.1f}", f"{there}"),
            (
                "network, into this machine",
                f"{format_bytes(needs.nbytes / step)}/s",
                f"{format_bytes(machines.bandwidth)}/s",
            ),
        ]
        return [f"{'':30} {'needed':>12} {'there is':>12}", *(_row(*row) for row in rows[: 2 if self.nodes else 1])]

    def _steps(self) -> Iterator[tuple[int, int, float, float]]:
        """Nodes, workers, seconds and share waited of a step, with each number of nodes up to the plan's.

        A worker is on each core, as far as they are needed.
        """
        for nodes in range(min(self.nodes, LISTED) + 1):
            room = self.machines.cores_per_node * nodes or self.machines.cores
            per_core = self.needs.work / self.needs.processor if self.needs.processor else math.inf
            workers = int(min(max(room * per_core, 1), self.workers))
            seconds = step_seconds(self.needs, self.machines, workers, nodes)
            yield nodes, workers, seconds, 1 - min(self.needs.step / seconds, 1)

    def _others(self) -> list[str]:
        """The step with each number of nodes, in words."""
        lines = ["", "With so many workers:"]
        for nodes, workers, seconds, share in self._steps():
            waits = f"{share:.0%}".replace("%", " %")
            where = f"on {_nodes(nodes)}" if nodes else "on this machine"
            lines.append(f"  {workers:4} {where:18} {format_seconds(seconds):>10} a step, waits {waits}")
        return lines


def step_seconds(needs: Needs, machines: Machines, workers: int, nodes: int) -> float:
    """Seconds of a step with so many workers, on nodes, or with none on this machine."""
    cores = machines.cores_per_node * nodes or machines.cores
    network = needs.nbytes / machines.bandwidth if nodes else 0.0
    return max(needs.step + needs.hand_over, needs.work / workers, needs.processor / cores, network)


def _count(work: float, step: float) -> int:
    """Workers that do so much work in a step."""
    return max(_ceil(work * (1 + HEADROOM) / step), 1)


def _ceil(number: float) -> int:
    return math.ceil(number - 1e-9)


def _nodes(count: int) -> str:
    return f"{count} node{'s' * (count > 1)}"


def _row(name: str, needed: str, there: str) -> str:
    return f"  {name:28} {needed:>12} {there:>12}"
