"""The command `headrace plan`: measure a batch, and compute how many workers hide its work.

Batches are made and measured in one thread. No cluster is needed for the computation. Several
things work at the same time, and a step takes as long as the slowest: the user's thread, which
receives the batch and does the step; the workers, which share their work; the cores that they run
on; and the network into this machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any

from ..common.units import format_bytes, format_seconds, format_share
from .diagnosis.diagnose import work_alone
from .diagnosis.judging.estimates import worker_seconds
from .programs import Program, program_errors

# Simulations confirm it: steps whose tasks vary by half of their length become at most 5 % longer.
HEADROOM = 0.1
"""Spare share of workers and cores, because tasks differ and their results are needed in order."""

SHORTEST = 1e-6  # smallest number of seconds of a step
LISTED = 8  # largest number of lines about numbers of nodes


@dataclass(frozen=True)
class Needs:
    """Seconds that one step and its batch need, and the bytes of the batch.

    Attributes:
        work: seconds of a worker for the batch.
        processor: part of `work` in which a core is at work; in the rest, the worker waits for a
            disk or a network.
        nbytes: bytes of the batch.
        step: seconds of the user's own step.
        hand_over: seconds in which the user's thread receives the batch.
    """

    work: float
    processor: float
    nbytes: float
    step: float
    hand_over: float = 1e-4


@dataclass(frozen=True)
class Machines:
    """The machines that are available.

    Attributes:
        cores: number of this machine's cores for workers.
        cores_per_node: number of cores of each node of a cluster.
        bandwidth: bytes per second into this machine.
    """

    cores: int
    cores_per_node: int
    bandwidth: float


@dataclass(frozen=True)
class Plan:
    """The workers and nodes that hide the work of a step.

    Attributes:
        needs: needs of a step.
        machines: the available machines.
        workers: number of workers: as many as the work needs, and a tenth more (at least one).
        nodes: number of nodes of a cluster in addition to this machine; 0 if this machine is
            enough.
        seconds: seconds of a step with these workers.
        hidden: True if the step waits only for the hand-over of the batch; False if the network is
            too slow for any number of nodes.
    """

    needs: Needs
    machines: Machines
    workers: int
    nodes: int
    seconds: float
    hidden: bool

    @classmethod
    def of(cls, needs: Needs, machines: Machines) -> Plan:
        """Return a plan that hides the work with a tenth to spare.

        If the network is too slow, return the plan that comes closest.

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
        """Return everything as plain values for JSON.

        These are the fields, the sentence, and a step's time for up to 8 nodes.
        """
        keys = ("nodes", "workers", "seconds", "share_waited")
        return {
            "sentence": self.sentence,
            **dataclasses.asdict(self),
            "steps": [dict(zip(keys, step)) for step in self._steps()],
        }

    def __str__(self) -> str:
        needs, machines, step = self.needs, self.machines, self.needs.step + self.needs.hand_over
        cores = machines.cores_per_node * self.nodes or machines.cores
        rows = [
            ("", "needed", "there is"),
            ("  cores at work", f"{needs.processor / step:.1f}", f"{cores}"),
        ]
        if self.nodes:
            needed, there = (
                f"{format_bytes(rate)}/s" for rate in (needs.nbytes / step, machines.bandwidth)
            )
            rows.append(("  network, into this machine", needed, there))
        lines = [
            self.sentence,
            "",
            *(f"{name:30} {needed:>12} {there:>12}" for name, needed, there in rows),
        ]
        lines += ["", "Waits by number of workers:"]
        for nodes, workers, seconds, share in self._steps():
            where = f"on {_nodes(nodes)}" if nodes else "on this machine"
            lines.append(
                f"  {workers:4} {where:18} {format_seconds(seconds):>10} a step, waits "
                f"{format_share(share)}"
            )
        return "\n".join(lines)

    @property
    def sentence(self) -> str:
        step, s = format_seconds(self.needs.step), "s" * (self.workers == 1)
        workers, nodes = f"{self.workers} worker{'s' * (self.workers > 1)}", _nodes(self.nodes)
        if not self.hidden:
            return (
                f"The network is too slow for a step of {step}: a batch of "
                f"{format_bytes(self.needs.nbytes)} takes {format_seconds(self.seconds)}, which "
                f"{workers} on {nodes} keep{s} up with; send fewer bytes."
            )
        there = f'on {nodes} of {self.machines.cores_per_node} cores, with worker_kind="ray"'
        return (
            f"{workers} hide{s} the work of a step of {step}, "
            f"{there if self.nodes else 'on this machine'}."
        )

    def _steps(self) -> Iterator[tuple[int, int, float, float]]:
        """Yield (nodes, workers, seconds of a step, share of waiting)  per number of nodes.

        There are 0 to 8 nodes, but no more than in the plan.

        There are as many workers as keep the cores busy, but at least one, and no more than in the
        plan.
        """
        for nodes in range(min(self.nodes, LISTED) + 1):
            room = self.machines.cores_per_node * nodes or self.machines.cores
            per_core = self.needs.work / self.needs.processor if self.needs.processor else math.inf
            workers = int(min(max(room * per_core, 1), self.workers))
            seconds = step_seconds(self.needs, self.machines, workers, nodes)
            yield nodes, workers, seconds, 1 - min(self.needs.step / seconds, 1)


def step_seconds(needs: Needs, machines: Machines, workers: int, nodes: int) -> float:
    """Compute the seconds of a step on some machines.

    Args:
        needs: needs of the step.
        machines: the available machines.
        workers: number of workers.
        nodes: number of nodes that they run on; 0: this machine.
    """
    cores = machines.cores_per_node * nodes or machines.cores
    network = needs.nbytes / machines.bandwidth if nodes else 0.0
    return max(needs.step + needs.hand_over, needs.work / workers, needs.processor / cores, network)


def _count(work: float, step: float) -> int:
    return max(_ceil(work * (1 + HEADROOM) / step), 1)


def _ceil(number: float) -> int:
    return math.ceil(number - 1e-9)


def _nodes(count: int) -> str:
    return f"{count} node{'s' * (count > 1)}"


def plan(options: argparse.Namespace) -> int:
    """Run the command `headrace plan`: measure the loader of a program, and print a plan.

    Return the exit status, 0.

    Args:
        options: parsed arguments of the command line.

    Raises:
        ProgramError: the program fails, has no loader, or gives no batch.
        TypeError: its loader cannot be measured.
    """
    program = Program.parsed(options.program)
    with (
        redirect_stdout(sys.stderr),
        program.loader(options.after_dashes) as loader,
        program_errors(program.path),
    ):
        loop = work_alone(loader, options.steps, options.seconds)
    cores = options.cores or max(loop.cores - 1, 1)  # one is for the user's thread
    machines = Machines(cores, options.cores_per_node, options.bandwidth / 8 * 1e9)
    work = max(worker_seconds(loop), loop.processor)
    found = Plan.of(Needs(work, loop.processor, loop.nbytes, options.step_seconds), machines)
    if options.json:
        print(json.dumps(found.to_dict() | {"records": loop.records}))
        return 0
    first, *others = str(found).splitlines()
    batch = (
        f"{loop.records:,.0f} records ({format_bytes(loop.nbytes)}) takes {format_seconds(work)} "
        "of a worker"
    )
    reads = f", which has {loop.source.reads} reads under way" if loop.reads_ahead else ""
    print(
        first,
        f"Measured: a batch of {batch}{reads}, {format_seconds(loop.processor)} of a core.",
        *others,
        sep="\n",
    )
    return 0
