"""`headrace plan PROGRAM.py[:name] --step-seconds S`: measures what a batch takes, and says how many workers hide it.

In: parsed arguments. Out: a plan on standard output, and an exit status.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import redirect_stdout
from typing import Any

from ..bench import positive, seconds, steps, whole
from ..programs import Program, told_of


def add_plan(tools: Any) -> None:
    """Add the command `plan`."""
    parser = tools.add_parser(
        "plan", help="PROGRAM.py[:name] --step-seconds S: how many workers and nodes hide its work"
    )
    parser.add_argument("program", help="PROGRAM.py, or PROGRAM.py:name of a loader or of a function that makes one")
    parser.add_argument(
        "--step-seconds", type=seconds, required=True, metavar="S", help="what a step on the accelerator takes"
    )
    parser.add_argument("--cores", type=whole, metavar="N", help="of this machine, for workers; default: all but one")
    parser.add_argument(
        "--cores-per-node", type=whole, default=16, metavar="N", help="of a node of a cluster (default 16)"
    )
    parser.add_argument(
        "--bandwidth", type=_gbit, default=10.0, metavar="GBIT", help="of the network, in Gbit/s (default 10)"
    )
    parser.add_argument("--steps", type=steps, default=20, metavar="N", help="batches to measure (default 20)")
    parser.add_argument("--seconds", type=seconds, default=60.0, help="to measure for at most (default 60)")
    parser.add_argument("--json", action="store_true", help="print the numbers for other programs")
    parser.set_defaults(run=_plan)


def _gbit(text: str) -> float:
    return positive(text, "Gbit/s, such as 10")


def _plan(options: argparse.Namespace) -> int:
    from ...common.units import format_bytes, format_seconds
    from ..diagnosis.diagnose import work_alone
    from ..diagnosis.judging.model import worker_seconds
    from .plan import Machines, Needs, Plan

    program = Program.parsed(options.program)
    with redirect_stdout(sys.stderr), program.loader(options.after_dashes) as loader, told_of(program.path):
        loop = work_alone(loader, options.steps, options.seconds)
    machines = Machines(
        options.cores or _default_cores(loop.cores), options.cores_per_node, options.bandwidth / 8 * 1e9
    )
    work = max(worker_seconds(loop), loop.processor)
    plan = Plan.of(Needs(work, loop.processor, loop.nbytes, options.step_seconds), machines)
    if options.json:
        print(json.dumps(plan.to_dict() | {"records": loop.records}))
        return 0
    first, *others = str(plan).splitlines()
    batch = f"{loop.records:,.0f} records ({format_bytes(loop.nbytes)}) takes {format_seconds(work)} of a worker"
    reads = f", which has {loop.source.reads} reads under way" if loop.reads_ahead else ""
    print(first, f"Measured: a batch of {batch}{reads}, {format_seconds(loop.processor)} of a core.", *others, sep="\n")
    return 0


def _default_cores(cores: int) -> int:
    """One is for the user's thread."""
    return max(cores - 1, 1)
